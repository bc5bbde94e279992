//! WebAssembly plugins: the only crate that uses wasmtime.
//!
//! A [`PluginHost`] compiles components and keeps time; a [`Plugin`] is one compiled component with one release's settings
//! and a bounded pool of instances. Calls are synchronous and belong on compute or guest threads, never on I/O threads; the
//! calling thread needs 1 MiB of stack. Everything that a guest can use up is limited: time (epochs), memory (all memories
//! and tables of an instance together), stack, the size of what it returns, and log lines. A failed call costs its caller
//! only: the instance is thrown away and the next call gets a new one.

mod abi;
pub mod api;
pub mod error;
mod host;
mod inspect;
mod limits;
mod plugin;
mod pool;
mod primitives;
mod state;
mod stats;

pub use api::{
    Context, Decision, Entity, Evidence, Feature, ModelOutput, PluginConfig, Policy, Request, Role, Rows, Setting,
};
pub use error::{ErrorKind, LoadError, PluginError};
pub use host::{Compiled, HostError, PluginHost};
pub use inspect::{Inspection, inspect};
pub use limits::MAX_COMPONENT;
pub use plugin::Plugin;
pub use stats::Stats;
