//! The request path: a live release takes a request through its stages — features and pre-processor, queue, sampling,
//! gathering, the model, post-processor — under one deadline. Knows neither HTTP nor where releases come from.

pub mod api;
mod binding;
mod columns;
mod core;
mod decide;
mod evidence;
mod golden;
mod infer;
mod job;
mod live;
mod plan;
mod plugins;
mod ready;
mod rehearsal;
mod release;
mod rows;
mod sampler;
#[cfg(test)]
mod testing;
mod warm_up;

pub use infer::infer;
pub use live::{Live, LiveTable, Route, Table};
pub use plugins::settings;
pub use release::{LoadedRelease, Runtime, check_without_graph};
