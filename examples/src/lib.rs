//! The example graphs, as files that `sagehost graph build` imports: CSV tables and the `graph.toml` that names their
//! columns (see `docs/examples.md`). [`transfers`] is generated and needs nothing from outside; [`bitcoin`] and [`cora`]
//! convert other people's data, which [`data`] finds or downloads. [`expected`] reads what the training scripts computed.

pub mod bitcoin;
pub mod cora;
pub mod data;
pub mod error;
pub mod expected;
pub mod rng;
pub mod tables;
pub mod transfers;

pub use error::ExampleError;
