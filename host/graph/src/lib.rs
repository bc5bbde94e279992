//! Graphs: the snapshot on disk, the in-memory graph, the overlay of a request's own nodes, and sampling over any of them.

pub mod error;
mod hash;
pub mod import;
pub mod layers;
pub mod memory;
pub mod neighbourhood;
pub mod overlay;
pub mod rng;
pub mod sampling;
pub mod schema;
pub mod snapshot;
mod tables;
pub mod view;
pub mod weight;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;

pub use error::GraphError;
pub use layers::{Assembled, AssembledLayer, AssembledRelation, Part, assemble};
pub use memory::{MemoryEdge, MemoryGraph, MemoryNode};
pub use neighbourhood::{BlockFault, Growth, Hop, next_frontier, sample_hops, verify_blocks};
pub use overlay::{Overlay, OverlayBuilder};
pub use sampling::{Strategy, degrees, edge_column, edge_times, pick, sample};
pub use schema::{GraphSchema, KeyType, RelationSchema};
pub use snapshot::Snapshot;
pub use view::{GraphView, Visible};
