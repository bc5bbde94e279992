//! Write sagehost plugins in Rust.
//!
//! A plugin is a type that implements the trait of one role ([`Sampler`], [`EdgeWeigher`], [`Reducer`], [`PreProcessor`] or
//! [`PostProcessor`]) and is exported with that role's macro:
//!
//! ```
//! use sagehost_plugin_sdk::{BatchContext, Error, Reducer, Settings, export_reducer};
//!
//! /// Keeps each destination's first neighbour.
//! pub struct First;
//!
//! impl Reducer for First {
//!     fn configure(settings: &mut Settings) -> Result<Self, String> {
//!         settings.finish()?; // takes no settings: any is refused
//!         Ok(Self)
//!     }
//!
//!     fn reduce(&self, _: &BatchContext, _layer: u32, dim: usize, offsets: &[u32], rows: &[f32]) -> Result<Vec<f32>, Error> {
//!         let mut out = vec![0.0; offsets.len().saturating_sub(1) * dim];
//!         for (row, ends) in out.chunks_exact_mut(dim).zip(offsets.windows(2)) {
//!             if ends[0] < ends[1] {
//!                 let first = ends[0] as usize * dim;
//!                 row.copy_from_slice(&rows[first..first + dim]);
//!             }
//!         }
//!         Ok(out)
//!     }
//! }
//!
//! export_reducer!(First);
//! ```
//!
//! The crate that holds it is a `cdylib`; `cargo xtask plugins` makes the component. The export exists on wasm32 only, so
//! `cargo test` runs the same code natively, with [`testing::FakeGraph`] in the host's place.
//!
//! The host makes an instance, calls `configure` once, then the role's function for as long as nothing traps. A panic is a
//! trap: it costs the request that was served, and its message is in the host's log. State kept between calls must not
//! change answers: instances are many and short-lived.

pub mod decision;
mod export;
mod frontier;
mod graph;
pub mod log;
mod request;
mod roles;
mod settings;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
#[doc(hidden)]
pub mod wit;

#[doc(hidden)]
pub use export::glue;
pub use frontier::{next_frontier, sample_hops};
pub use graph::{Graph, HostGraph};
pub use roles::{EdgeWeigher, PostProcessor, PreProcessor, Reducer, Sampler};
pub use settings::Settings;
pub use wit::exports::sagehost::plugin::deciding::{Decision, Evidence, ModelOutput, Policy};
pub use wit::exports::sagehost::plugin::sampling::{Growth, Hop};
pub use wit::sagehost::plugin::graph::Strategy;
pub use wit::sagehost::plugin::types::{
    BatchContext, Block, Context, Entity, Error, Feature, Frontier, NamedSetting, Node, Request, Setting,
};

/// What `edge-times` answers for an edge without a time.
pub const NO_TIME: i64 = i64::MIN;
