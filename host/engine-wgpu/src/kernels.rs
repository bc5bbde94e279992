//! The compute pipelines, built once when the device is opened.

use sagehost_engine::EngineError;

use crate::device::Gpu;

/// Bytes of a kernel's parameters in the uniform ring; the widest has seven words.
pub(crate) const PARAM_BYTES: u64 = 32;
/// Most storage buffers of a kernel.
pub(crate) const MAX_BUFFERS: usize = 6;

/// Flags of `gemm.wgsl` and `normalize.wgsl`.
pub(crate) mod flags {
    pub(crate) const GATHER: u32 = 1;
    pub(crate) const ACCUMULATE: u32 = 2;
    pub(crate) const BIAS: u32 = 4;
    pub(crate) const RELU: u32 = 8;
}

/// Modes of `segment_sum`.
pub(crate) mod segment {
    pub(crate) const SUM: u32 = 0;
    pub(crate) const MEAN: u32 = 1;
    pub(crate) const GCN: u32 = 2;
}

/// Tile of `gemm.wgsl`.
pub(crate) const GEMM_TILE: [u64; 2] = [32, 64];
/// Elements that a workgroup of `segment.wgsl` computes.
pub(crate) const SEGMENT_WIDTH: u64 = 64;

/// A kernel: an entry point of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    Gemm,
    SegmentSum,
    SegmentWeighted,
    SegmentMax,
    Normalize,
    Lstm,
}

struct Spec {
    source: &'static str,
    entry: &'static str,
    /// Storage buffers that are read (bindings 1…), then those that are written.
    reads: u32,
    writes: u32,
}

const GEMM: &str = include_str!("../../../shaders/gemm.wgsl");
const SEGMENT: &str = include_str!("../../../shaders/segment.wgsl");
const NORMALIZE: &str = include_str!("../../../shaders/normalize.wgsl");
const LSTM: &str = include_str!("../../../shaders/lstm.wgsl");

/// By [`Kernel`].
const SPECS: [Spec; 6] = [
    Spec { source: GEMM, entry: "gemm", reads: 4, writes: 1 },
    Spec { source: SEGMENT, entry: "segment_sum", reads: 2, writes: 1 },
    Spec { source: SEGMENT, entry: "segment_weighted", reads: 2, writes: 1 },
    Spec { source: SEGMENT, entry: "segment_max", reads: 2, writes: 1 },
    Spec { source: NORMALIZE, entry: "normalize_rows", reads: 1, writes: 1 },
    Spec { source: LSTM, entry: "lstm", reads: 4, writes: 2 },
];

/// A built pipeline with the layout of its bind group.
pub(crate) struct Pipeline {
    pub(crate) raw: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// Every pipeline.
pub(crate) struct Kernels([Pipeline; SPECS.len()]);

impl Kernels {
    /// Compiles the shaders for a device.
    pub(crate) fn build(gpu: &Gpu) -> Result<Self, EngineError> {
        gpu.guarded(|| Ok(Self(SPECS.map(|spec| build(&gpu.device, &spec)))))
    }

    pub(crate) fn get(&self, kernel: Kernel) -> &Pipeline {
        &self.0[kernel as usize]
    }
}

fn build(device: &wgpu::Device, spec: &Spec) -> Pipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(spec.entry),
        source: wgpu::ShaderSource::Wgsl(spec.source.into()),
    });
    let params = wgpu::BindingType::Buffer {
        ty: wgpu::BufferBindingType::Uniform,
        has_dynamic_offset: true,
        min_binding_size: wgpu::BufferSize::new(PARAM_BYTES),
    };
    let storage = |binding: u32| wgpu::BindingType::Buffer {
        ty: wgpu::BufferBindingType::Storage { read_only: binding <= spec.reads },
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    let entries: Vec<_> = (0..=spec.reads + spec.writes)
        .map(|binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: if binding == 0 { params } else { storage(binding) },
            count: None,
        })
        .collect();
    let layout = device
        .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: Some(spec.entry), entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some(spec.entry),
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let raw = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(spec.entry),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some(spec.entry),
        compilation_options: wgpu::PipelineCompilationOptions {
            // Every shader writes its shared memory before it reads it.
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: None,
    });
    Pipeline { raw, layout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    /// Smallest limits that the shaders must keep to: SwiftShader's.
    const MAX_INVOCATIONS: u32 = 256;
    const MAX_WORKGROUP_BYTES: u32 = 16_384;

    #[test]
    fn kernels_are_listed_in_their_order() {
        let order = [
            (Kernel::Gemm, "gemm"),
            (Kernel::SegmentSum, "segment_sum"),
            (Kernel::SegmentWeighted, "segment_weighted"),
            (Kernel::SegmentMax, "segment_max"),
            (Kernel::Normalize, "normalize_rows"),
            (Kernel::Lstm, "lstm"),
        ];
        assert_eq!(order.len(), SPECS.len());
        for (kernel, entry) in order {
            let spec = &SPECS[kernel as usize];
            assert_eq!(spec.entry, entry);
            assert!((spec.reads + spec.writes) as usize <= MAX_BUFFERS);
        }
    }

    #[test]
    fn every_shader_of_the_folder_is_valid_and_used() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shaders");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let source = std::fs::read_to_string(&path).unwrap();
            assert!(SPECS.iter().any(|s| s.source == source), "{} is not compiled in", path.display());
            seen += 1;
        }
        assert_eq!(seen, 4);
        for spec in &SPECS {
            let module = naga::front::wgsl::parse_str(spec.source)
                .unwrap_or_else(|e| panic!("{}: {}", spec.entry, e.emit_to_string(spec.source)));
            // No capability beyond the core: every Vulkan device takes these shaders.
            Validator::new(ValidationFlags::all(), Capabilities::empty())
                .validate(&module)
                .unwrap_or_else(|e| panic!("{}: {}", spec.entry, e.emit_to_string(spec.source)));

            let entry = module.entry_points.iter().find(|e| e.name == spec.entry).expect("the entry point exists");
            assert!(entry.workgroup_size.iter().product::<u32>() <= MAX_INVOCATIONS, "{}", spec.entry);
            let mut layouter = naga::proc::Layouter::default();
            layouter.update(module.to_ctx()).unwrap();
            let (mut shared, mut bindings, mut params) = (0, 0, 0);
            for (_, variable) in module.global_variables.iter() {
                let bytes = layouter[variable.ty].size;
                match variable.space {
                    naga::AddressSpace::WorkGroup => shared += bytes,
                    naga::AddressSpace::Uniform => params += bytes,
                    _ => bindings += 1,
                }
            }
            assert!(shared <= MAX_WORKGROUP_BYTES, "{}: {shared} bytes of shared memory", spec.entry);
            assert_eq!(bindings, spec.reads + spec.writes, "{}", spec.entry);
            assert!(u64::from(params) <= PARAM_BYTES, "{}", spec.entry);
        }
    }
}
