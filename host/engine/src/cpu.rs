//! The CPU backend: the oracle, and what serves where there is no GPU.
//!
//! Matrix products are the crate `gemm`'s, called with one fixed tile of rows, so that a row's bits do not depend on how
//! many there are; everything else is here, with sequential adds in canonical order. A forward pass runs on the calling
//! thread. See `docs/engine.md`.

mod aggregate;
mod conv;
mod dense;
mod finish;
mod lstm;
mod math;
mod scratch;
mod simd;

use crate::backend::{Backend, Batch, Hooks, Model, Output};
use crate::error::EngineError;
use crate::plan::{Activation, HeadActivation, ModelPlan};
use crate::rules::BatchRules;
use conv::{CpuConv, Stage};
use dense::Dense;
use scratch::{Pool, grown};
use simd::Level;

/// Generation of the kernels: raised whenever a change here changes any bit of any result.
const GENERATION: u32 = 1;

/// The CPU backend.
#[derive(Clone, Debug)]
pub struct CpuBackend {
    level: Level,
    numerics_id: String,
}

impl CpuBackend {
    /// For this machine's instruction set.
    #[must_use]
    pub fn new() -> Self {
        let level = Level::detect();
        Self { level, numerics_id: format!("cpu/{}{}/{GENERATION}", arch(), level.suffix()) }
    }
}

impl Default for CpuBackend {
    fn default() -> Self {
        Self::new()
    }
}

fn arch() -> &'static str {
    if cfg!(target_arch = "x86_64") { "x86-64" } else { std::env::consts::ARCH }
}

impl Backend for CpuBackend {
    fn numerics_id(&self) -> &str {
        &self.numerics_id
    }

    fn load(&self, plan: &ModelPlan) -> Result<Box<dyn Model>, EngineError> {
        plan.validate()?;
        let layers = plan.layers.iter().map(|layer| CpuLayer {
            convs: layer.convs.iter().map(CpuConv::new).collect(),
            out_dim: layer.out_dim(),
            relu: layer.activation == Activation::Relu,
            normalize_after: layer.normalize_after,
        });
        Ok(Box::new(CpuModel {
            level: self.level,
            rules: BatchRules::new(plan),
            in_dim: plan.in_dim,
            layers: layers.collect(),
            head: plan.head.linear.as_ref().map(Dense::new),
            head_activation: plan.head.activation,
            pool: Pool::default(),
        }))
    }
}

struct CpuLayer {
    convs: Vec<CpuConv>,
    out_dim: usize,
    relu: bool,
    normalize_after: bool,
}

struct CpuModel {
    level: Level,
    rules: BatchRules,
    in_dim: usize,
    layers: Vec<CpuLayer>,
    head: Option<Dense>,
    head_activation: HeadActivation,
    pool: Pool,
}

impl Model for CpuModel {
    fn forward(&self, batch: &Batch<'_>, hooks: &mut dyn Hooks) -> Result<Output, EngineError> {
        self.rules.check(batch)?;
        let mut scratch = self.pool.take();
        let (mut input, mut output) = (std::mem::take(&mut scratch.rows[0]), std::mem::take(&mut scratch.rows[1]));
        let mut embeddings = vec![];
        let mut in_dim = self.in_dim;
        let mut result = Ok(());
        for (l, (layer, blocks)) in self.layers.iter().zip(&batch.layers).enumerate() {
            let rows = if l == 0 { batch.features } else { &input[..blocks.num_src * in_dim] };
            let to = if l + 1 == self.layers.len() { &mut embeddings } else { &mut output };
            let out = grown(to, blocks.num_dst * layer.out_dim);
            let last = layer.convs.len() - 1;
            for (c, conv) in layer.convs.iter().enumerate() {
                let stage = Stage {
                    level: self.level,
                    layer: l,
                    first: c == 0,
                    relu: c == last && layer.relu,
                    normalize_after: c == last && layer.normalize_after,
                };
                result = conv.forward(stage, (rows, in_dim), blocks, out, &mut scratch, hooks);
                if result.is_err() {
                    break;
                }
            }
            if result.is_err() {
                break;
            }
            std::mem::swap(&mut input, &mut output);
            in_dim = layer.out_dim;
        }
        scratch.rows = [input, output];
        let done = result.map(|()| self.score(embeddings, in_dim, &mut scratch));
        self.pool.put(scratch);
        done
    }
}

impl CpuModel {
    fn score(&self, embeddings: Vec<f32>, dim: usize, scratch: &mut scratch::Scratch) -> Output {
        let (logits, out_dim) = match &self.head {
            Some(head) => {
                let rows = embeddings.len() / dim;
                let mut logits = vec![0.0; rows * head.out_dim()];
                head.run(self.level, (&embeddings, dim), false, &mut logits, &mut scratch.tile);
                (logits, head.out_dim())
            }
            None => (embeddings.clone(), dim),
        };
        let mut scores = logits.clone();
        activate(self.head_activation, out_dim, &mut scores);
        Output { embedding_dim: dim, embeddings, out_dim, logits, scores }
    }
}

/// Turns rows of `dim` logits into scores in place, with the engine's own exp, so with the same bits on every machine. For
/// backends that leave the head's activation to the CPU.
pub fn activate(activation: HeadActivation, dim: usize, scores: &mut [f32]) {
    let level = Level::detect();
    match activation {
        HeadActivation::None => {}
        HeadActivation::Sigmoid => math::sigmoid_all(level, scores),
        HeadActivation::Softmax => {
            scores.chunks_mut(dim.max(1)).for_each(|row| math::softmax(level, row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn conforms() {
        let report = conformance::check(&CpuBackend::new());
        report.assert_passed();
        // Far inside the suite's tolerance: a loss of accuracy should be seen before it is a fault.
        assert!(report.worst.0 < 3e-6, "worst error {:e} in {}", report.worst.0, report.worst.1);
    }

    #[test]
    fn every_instruction_set_of_this_machine_conforms() {
        for level in Level::available() {
            let backend = CpuBackend { level, numerics_id: "test".into() };
            conformance::check(&backend).assert_passed();
        }
    }

    #[test]
    fn the_numerics_id_names_the_instruction_set() {
        let backend = CpuBackend::new();
        let id = backend.numerics_id();
        assert!(id.starts_with("cpu/") && id.ends_with("/1"), "{id}");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(id.contains("avx512f"), is_x86_feature_detected!("avx512f"), "{id}");
    }
}
