//! The contract over the engines: load a plan once, run batches through it. The CPU backend is the oracle; one
//! conformance suite (`conformance`) holds every implementation to the same results.
//!
//! **Batch invariance.** A destination's output bits depend on the model, the backend's numerics id and the rows that it
//! reads — never on the other rows of the batch, their number, or the number of threads.

use crate::error::EngineError;
use crate::plan::ModelPlan;

/// An engine that can hold models.
pub trait Backend: Send + Sync {
    /// Backend, instruction set or adapter and driver, kernel generation: equal ids promise equal bits.
    fn numerics_id(&self) -> &str;

    /// Checks the plan's shapes and places its weights where this backend wants them.
    ///
    /// # Errors
    /// [`EngineError::Plan`] where shapes do not fit; [`EngineError::Device`] where the device refuses.
    fn load(&self, plan: &ModelPlan) -> Result<Box<dyn Model>, EngineError>;
}

/// A loaded model. Shared by compute threads; scratch space is the implementation's affair (pooled, never per request).
pub trait Model: Send + Sync {
    /// Runs a batch.
    ///
    /// # Errors
    /// [`EngineError::Batch`] where the batch does not fit the model, [`EngineError::Hook`] where a plugin failed,
    /// [`EngineError::Device`] where the device was lost.
    fn forward(&self, batch: &Batch<'_>, hooks: &mut dyn Hooks) -> Result<Output, EngineError>;
}

/// A sampled batch, ready to compute.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// Input rows of layer 0's sources, already standardised: `num_rows(0) × in_dim`.
    pub features: &'a [f32],
    /// One per layer of the model. `layers[l].num_src` rows come in, `layers[l].num_dst` go out, and
    /// `layers[l].num_dst == layers[l + 1].num_src`. The last layer's destinations are the batch's distinct seeds.
    pub layers: Vec<LayerBlocks>,
}

/// The edges of one layer.
#[derive(Clone, Debug, Default)]
pub struct LayerBlocks {
    /// Rows that come in.
    pub num_src: usize,
    /// Rows that go out.
    pub num_dst: usize,
    /// Where each destination's own row is among the sources: `num_dst` indices.
    pub dst_rows: Vec<u32>,
    /// One per relation of the layer, in the order that [`crate::plan::Conv::relation`] counts.
    pub relations: Vec<RelationBlock>,
}

/// The edges of one relation in one layer: compressed rows by destination.
#[derive(Clone, Debug, Default)]
pub struct RelationBlock {
    /// `num_dst + 1` row starts.
    pub offsets: Vec<u32>,
    /// Source row of each edge, in canonical order within a destination.
    pub indices: Vec<u32>,
    /// One coefficient per edge where an edge-weigher plugin gave them.
    pub coefficients: Option<Vec<f32>>,
}

/// What a forward pass asks of plugins.
pub trait Hooks {
    /// Reduces neighbour rows: `rows` holds `dim` values per edge, the result `dim` values per destination.
    ///
    /// # Errors
    /// A message where the plugin failed; the host keeps the typed cause.
    fn reduce(
        &mut self,
        layer: usize,
        relation: usize,
        dim: usize,
        offsets: &[u32],
        rows: &[f32],
    ) -> Result<Vec<f32>, String>;
}

/// Hooks for models without a reducer plugin.
pub struct NoHooks;

impl Hooks for NoHooks {
    fn reduce(&mut self, _: usize, _: usize, _: usize, _: &[u32], _: &[f32]) -> Result<Vec<f32>, String> {
        Err("the release names no reducer plugin".into())
    }
}

/// Results, one row per distinct seed, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Width of an embedding row.
    pub embedding_dim: usize,
    /// The last layer's rows.
    pub embeddings: Vec<f32>,
    /// Width of a logits row and of a scores row.
    pub out_dim: usize,
    /// The head's rows before its activation.
    pub logits: Vec<f32>,
    /// After it.
    pub scores: Vec<f32>,
}
