//! Graphs: the snapshot on disk, the in-memory graph, the overlay of a request's own nodes, and sampling over any of them.

pub mod error;
pub mod schema;
pub mod view;

pub use error::GraphError;
pub use schema::{GraphSchema, KeyType, RelationSchema};
pub use view::{GraphView, Visible};
