//! The inference engine: model plans, the [`Backend`] contract, the CPU backend and the conformance suite that every
//! backend passes.

pub mod backend;
pub mod error;
pub mod plan;

pub use backend::{Backend, Batch, Hooks, LayerBlocks, Model, NoHooks, Output, RelationBlock};
pub use error::EngineError;
pub use plan::ModelPlan;
