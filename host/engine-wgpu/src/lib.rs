//! The wgpu backend: GraphSAGE forward passes as compute shaders (`shaders/*.wgsl`) on any Vulkan device. The only crate
//! that uses wgpu; whether it is used is decided elsewhere.
//!
//! A batch is one submission: indices and features are written into one mapped staging buffer, the layers' kernels run
//! one after the other, and the last rows and the logits are read back. Only a reducer plugin above layer 0 (or behind a
//! projection) forces a read-back in the middle. The head's activation runs on the CPU with the engine's own exp.
//!
//! **Batch invariance.** One workgroup shape per kernel, chosen here and never by the size of a batch; each output element
//! is computed in an order that the model and the element's own neighbourhood fix. Pipelines live as long as the device,
//! buffers and bind groups as long as the model.

mod adapter;
mod backend;
mod device;
mod forward;
mod kernels;
mod loops;
mod plan;
mod scratch;
mod session;

pub use adapter::{AdapterSummary, Selector, adapters};
pub use backend::WgpuBackend;

/// Counted up whenever a kernel changes bits: part of the numerics id.
pub const KERNEL_GENERATION: &str = "k2";
