//! [`sagehost_engine::Backend`] on a Vulkan device.

use std::sync::{Arc, Mutex};

use sagehost_engine::{Backend, BatchRules, EngineError, Model, ModelPlan};

use crate::adapter::{Selector, find};
use crate::device::Gpu;
use crate::forward::WgpuModel;
use crate::kernels::Kernels;
use crate::plan::DevicePlan;

/// A device with its compiled kernels. Models that it loads keep both alive.
pub struct WgpuBackend {
    gpu: Arc<Gpu>,
    kernels: Arc<Kernels>,
    numerics_id: String,
    adapter_name: String,
}

impl WgpuBackend {
    /// Opens the adapter that `selector` asks for and compiles the kernels.
    ///
    /// # Errors
    /// [`EngineError::Device`] where no adapter fits (the message lists those there are), where it is too small for the
    /// kernels, or where the driver refuses.
    pub fn new(selector: &Selector) -> Result<Self, EngineError> {
        let (adapter, summary) = find(selector)?;
        let backend = adapter.get_info().backend;
        let gpu = Gpu::open(&adapter)?;
        let kernels = Kernels::build(&gpu)?;
        let numerics_id = summary.numerics_id(backend);
        tracing::info!(adapter = %summary.name, driver = %summary.driver, %numerics_id, "opened a wgpu device");
        Ok(Self { gpu: Arc::new(gpu), kernels: Arc::new(kernels), numerics_id, adapter_name: summary.name })
    }

    /// The adapter's name.
    #[must_use]
    pub fn adapter_name(&self) -> &str {
        &self.adapter_name
    }

    /// Buffers and bind groups that were made on the device so far, by all models: flat once the models are warm.
    #[must_use]
    pub fn objects_created(&self) -> u64 {
        self.gpu.objects_created()
    }
}

impl Backend for WgpuBackend {
    fn numerics_id(&self) -> &str {
        &self.numerics_id
    }

    fn load(&self, plan: &ModelPlan) -> Result<Box<dyn Model>, EngineError> {
        plan.validate()?;
        let rules = BatchRules::new(plan);
        let plan = self.gpu.guarded(|| DevicePlan::place(&self.gpu, plan))?;
        Ok(Box::new(WgpuModel {
            gpu: Arc::clone(&self.gpu),
            kernels: Arc::clone(&self.kernels),
            plan,
            rules,
            idle: Mutex::new(Vec::new()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_engine::plan::{Activation, Aggregator, Conv, Head, Layer, Linear, Matrix};
    use sagehost_engine::{Batch, LayerBlocks, NoHooks, RelationBlock};

    /// A lost device must cost errors, not the process. Any adapter will do.
    #[test]
    fn a_lost_device_is_an_error_ever_after() {
        let backend = match WgpuBackend::new(&Selector { name_contains: None, allow_software: true }) {
            Ok(backend) => backend,
            Err(_) if std::env::var("SAGEHOST_SKIP_GPU_TESTS").is_ok_and(|value| value == "1") => {
                eprintln!("SKIPPED: no Vulkan adapter here");
                return;
            }
            Err(error) => panic!("{error}; or set SAGEHOST_SKIP_GPU_TESTS=1"),
        };
        let neighbour = Linear { weight: Matrix { rows: 1, cols: 1, data: vec![2.0] }, bias: None };
        let conv =
            Conv { relation: 0, aggregator: Aggregator::Mean, project: None, neighbour, root: None, normalize: false };
        let layer = Layer { convs: vec![conv], activation: Activation::None, normalize_after: false };
        let plan = ModelPlan { in_dim: 1, scaler: None, layers: vec![layer], head: Head::default() };
        let model = backend.load(&plan).expect("a valid plan");
        let block = RelationBlock { offsets: vec![0, 1], indices: vec![0], coefficients: None };
        let blocks = LayerBlocks { num_src: 1, num_dst: 1, dst_rows: vec![0], relations: vec![block] };
        let batch = Batch { features: &[3.0], layers: vec![blocks] };
        assert_eq!(model.forward(&batch, &mut NoHooks).expect("runs").embeddings, [6.0]);

        backend.gpu.device.destroy();
        for _ in 0..2 {
            match model.forward(&batch, &mut NoHooks) {
                Err(EngineError::Device(_)) => {}
                other => panic!("{other:?} on a lost device"),
            }
        }
        assert!(matches!(backend.load(&plan), Err(EngineError::Device(_))));
    }
}
