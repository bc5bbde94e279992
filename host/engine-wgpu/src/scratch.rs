//! The buffers that a forward pass works in. A model keeps a set for every call that runs at the same time; buffers grow to
//! the next power of two and are never given back while the model lives, so that a warm model creates nothing.

use std::collections::HashMap;

use sagehost_engine::EngineError;
use wgpu::BufferUsages;

use crate::device::{Gpu, GpuBuffer};
use crate::kernels::{Kernel, Kernels, MAX_BUFFERS, PARAM_BYTES};

/// Smallest size of a buffer.
const SMALLEST: u64 = 4096;

/// A buffer that kernels see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Offsets, indices, destination rows, and the bits of coefficients.
    Ints,
    /// The rows between layers, by turns.
    RowsA,
    RowsB,
    /// relu(project(x)).
    Projected,
    /// relu(pool(x)), or the input half of an LSTM's gates.
    Transformed,
    /// One row per destination.
    Aggregated,
    /// A convolution's output before its normalisation.
    Convolved,
    /// A layer's sum before its normalisation.
    Summed,
    /// Hidden and cell rows of LSTMs.
    State,
    Logits,
}

impl Slot {
    pub(crate) const COUNT: usize = 10;

    const ALL: [Self; Self::COUNT] = [
        Self::Ints,
        Self::RowsA,
        Self::RowsB,
        Self::Projected,
        Self::Transformed,
        Self::Aggregated,
        Self::Convolved,
        Self::Summed,
        Self::State,
        Self::Logits,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Ints => "indices and coefficients",
            Self::RowsA | Self::RowsB => "layer rows",
            Self::Projected => "projected rows",
            Self::Transformed => "transformed rows",
            Self::Aggregated => "aggregated rows",
            Self::Convolved => "convolved rows",
            Self::Summed => "summed rows",
            Self::State => "LSTM states",
            Self::Logits => "logits",
        }
    }
}

/// A buffer that a kernel is bound to.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'s> {
    Slot(Slot),
    Weight(&'s GpuBuffer),
}

/// How many 4-byte elements each slot must hold.
pub(crate) type Sizes = [u64; Slot::COUNT];

/// A kernel with the buffers that it is bound to, by their ids.
type GroupKey = (Kernel, [u64; MAX_BUFFERS]);

/// One set of buffers.
pub(crate) struct Scratch {
    slots: [GpuBuffer; Slot::COUNT],
    /// Kernel parameters, one aligned slot per dispatch, read at dynamic offsets.
    pub(crate) params: GpuBuffer,
    /// What the CPU writes. Mapped whenever no submission runs.
    pub(crate) staging: GpuBuffer,
    /// What the CPU reads.
    pub(crate) readback: GpuBuffer,
    groups: HashMap<GroupKey, wgpu::BindGroup>,
    /// The content of [`Slot::Ints`] while it is put together; kept for its capacity.
    pub(crate) ints: Vec<u32>,
}

const SLOT: BufferUsages = BufferUsages::STORAGE.union(BufferUsages::COPY_DST).union(BufferUsages::COPY_SRC);
const PARAMS: BufferUsages = BufferUsages::UNIFORM.union(BufferUsages::COPY_DST);
const STAGING: BufferUsages = BufferUsages::MAP_WRITE.union(BufferUsages::COPY_SRC);
const READBACK: BufferUsages = BufferUsages::MAP_READ.union(BufferUsages::COPY_DST);

impl Scratch {
    pub(crate) fn new(gpu: &Gpu) -> Self {
        Self {
            slots: Slot::ALL.map(|slot| gpu.buffer(slot.name(), SMALLEST, SLOT, false)),
            params: gpu.buffer("kernel parameters", SMALLEST, PARAMS, false),
            staging: gpu.buffer("staging", SMALLEST, STAGING, true),
            readback: gpu.buffer("read-back", SMALLEST, READBACK, false),
            groups: HashMap::new(),
            ints: Vec::new(),
        }
    }

    pub(crate) fn slot(&self, slot: Slot) -> &GpuBuffer {
        &self.slots[slot as usize]
    }

    /// Makes room in the slots. Content is lost: call it before a forward pass writes anything.
    pub(crate) fn reserve(&mut self, gpu: &Gpu, sizes: &Sizes) -> Result<(), EngineError> {
        for (slot, elements) in Slot::ALL.into_iter().zip(sizes) {
            let needs = Needs { what: slot.name(), bytes: elements.saturating_mul(4), most: gpu.max_storage() };
            if grow(gpu, &mut self.slots[slot as usize], SLOT, false, &needs)? {
                self.groups.clear();
            }
        }
        Ok(())
    }

    /// Makes room for kernel parameters, for what is written and for what is read back.
    pub(crate) fn reserve_transfers(
        &mut self,
        gpu: &Gpu,
        params: u64,
        staging: u64,
        readback: u64,
    ) -> Result<(), EngineError> {
        let needs = |what, bytes| Needs { what, bytes, most: gpu.limits.max_buffer_size };
        if grow(gpu, &mut self.params, PARAMS, false, &needs("kernel parameters", params))? {
            self.groups.clear();
        }
        grow(gpu, &mut self.staging, STAGING, true, &needs("everything that is uploaded", staging))?;
        grow(gpu, &mut self.readback, READBACK, false, &needs("everything that is read back", readback))?;
        Ok(())
    }

    /// The bind group of a kernel with these buffers, made once.
    pub(crate) fn group(
        &mut self,
        gpu: &Gpu,
        kernels: &Kernels,
        kernel: Kernel,
        operands: &[Option<Operand<'_>>; MAX_BUFFERS],
    ) -> wgpu::BindGroup {
        let Self { slots, params, groups, .. } = self;
        let buffers = operands.map(|operand| {
            operand.map(|operand| match operand {
                Operand::Slot(slot) => &slots[slot as usize],
                Operand::Weight(buffer) => buffer,
            })
        });
        let key = (kernel, buffers.map(|buffer| buffer.map_or(0, |buffer| buffer.id)));
        let make =
            || {
                let params =
                    wgpu::BufferBinding { buffer: &params.raw, offset: 0, size: wgpu::BufferSize::new(PARAM_BYTES) };
                let mut entries =
                    vec![wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(params) }];
                entries.extend((1u32..).zip(buffers.iter().flatten()).map(|(binding, buffer)| wgpu::BindGroupEntry {
                    binding,
                    resource: buffer.raw.as_entire_binding(),
                }));
                let layout = &kernels.get(kernel).layout;
                gpu.count_object();
                gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
            };
        groups.entry(key).or_insert_with(make).clone()
    }
}

struct Needs {
    what: &'static str,
    bytes: u64,
    most: u64,
}

/// Replaces a buffer that is too small; whether it did.
fn grow(
    gpu: &Gpu,
    buffer: &mut GpuBuffer,
    usage: BufferUsages,
    mapped: bool,
    needs: &Needs,
) -> Result<bool, EngineError> {
    if needs.bytes <= buffer.raw.size() {
        return Ok(false);
    }
    let size = grown(needs.bytes, needs.most).ok_or_else(|| {
        EngineError::Batch(format!(
            "{} need {} bytes; one buffer of this adapter holds {}: serve smaller batches or smaller fan-outs",
            needs.what, needs.bytes, needs.most
        ))
    })?;
    *buffer = gpu.buffer(needs.what, size, usage, mapped);
    Ok(true)
}

/// The size of a buffer for `bytes`: a power of two, or as much as there can be (in whole vec4s).
fn grown(bytes: u64, most: u64) -> Option<u64> {
    let most = most & !15;
    (bytes <= most).then(|| bytes.max(SMALLEST).checked_next_power_of_two().unwrap_or(most).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_grow_by_powers_of_two_up_to_the_limit() {
        assert_eq!(grown(1, 1 << 27), Some(SMALLEST));
        assert_eq!(grown(4097, 1 << 27), Some(8192));
        assert_eq!(grown(100_000_001, (1 << 27) - 1), Some((1 << 27) - 16));
        assert_eq!(grown(1 << 27, (1 << 27) - 1), None);
        assert_eq!(grown(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn slots_are_listed_in_their_order() {
        for (i, slot) in Slot::ALL.into_iter().enumerate() {
            assert_eq!(slot as usize, i);
        }
    }
}
