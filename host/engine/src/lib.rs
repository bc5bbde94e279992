//! The inference engine: model plans, the [`Backend`] contract, the CPU backend and the conformance suite that every
//! backend passes. See `docs/engine.md`.

pub mod backend;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod cpu;
pub mod error;
#[cfg(any(test, feature = "conformance"))]
mod npy;
pub mod plan;
#[cfg(any(test, feature = "conformance"))]
pub mod reference;
pub mod rules;
pub mod weights;

pub use backend::{Backend, Batch, Hooks, LayerBlocks, Model, NoHooks, Output, RelationBlock};
pub use cpu::CpuBackend;
pub use error::EngineError;
pub use plan::ModelPlan;
pub use rules::BatchRules;
