//! The contract of a graph at one version: what sampling, gathering and plugins read. Implemented by the memory-mapped
//! snapshot, by the in-memory graph (golden examples, tests) and by the overlay of a request's own nodes.

use sagehost_types::{GraphVersion, Key, Node, TimeMs};

use crate::error::GraphError;
use crate::schema::GraphSchema;

/// The visible in-edges of one node by one relation: positions `0..degree` are edges `first..first + degree`, ordered by
/// (event time, ingest sequence).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The id of the edge at position 0.
    pub first: u64,
    /// How many edges are visible.
    pub degree: u32,
}

/// One graph at one version. Cheap to share; every call is bounded by the size of its arguments.
pub trait GraphView: Send + Sync {
    /// Names, columns and relations.
    fn schema(&self) -> &GraphSchema;

    /// Which lineage and sequence this is.
    fn version(&self) -> &GraphVersion;

    /// Nodes in the graph: dense ids are `0..num_nodes`.
    fn num_nodes(&self) -> u64;

    /// The newest event time of any edge: what a request without an as-of time reads at, so that its answer is a function
    /// of the graph version and not of the clock. 0 where no edge has a time.
    fn latest_ms(&self) -> TimeMs;

    /// The dense id of an external key.
    fn find(&self, key: &Key) -> Option<Node>;

    /// The external key of a node.
    ///
    /// # Errors
    /// [`GraphError::NoSuchNode`].
    fn key(&self, node: Node) -> Result<Key, GraphError>;

    /// [`Key::hash`] of the node's key.
    ///
    /// # Errors
    /// [`GraphError::NoSuchNode`].
    fn key_hash(&self, node: Node) -> Result<u64, GraphError>;

    /// The in-edges of `node` by `relation` with event time ≤ `as_of_ms` (all of them where the relation has no times).
    ///
    /// # Errors
    /// [`GraphError::NoSuchNode`], [`GraphError::NoSuchRelation`], or a damaged file.
    fn visible(&self, relation: u32, node: Node, as_of_ms: TimeMs) -> Result<Visible, GraphError>;

    /// The source node of an edge.
    ///
    /// # Errors
    /// [`GraphError::NoSuchEdge`], or a damaged file.
    fn source(&self, relation: u32, edge: u64) -> Result<Node, GraphError>;

    /// The event time of an edge; `TimeMs::MIN` where the relation has no times.
    ///
    /// # Errors
    /// [`GraphError::NoSuchEdge`].
    fn edge_time(&self, relation: u32, edge: u64) -> Result<TimeMs, GraphError>;

    /// A value of an edge column (index into the relation's columns in the schema).
    ///
    /// # Errors
    /// [`GraphError::NoSuchEdge`], [`GraphError::NoSuchColumn`].
    fn edge_value(&self, relation: u32, column: u32, edge: u64) -> Result<f32, GraphError>;

    /// For weighted sampling: the sum of the fixed-point weights of edges `first..=first + position` of one node's visible
    /// range, as an exact integer.
    ///
    /// # Errors
    /// [`GraphError::NotWeighted`] where the relation has no weight column or has negative weights.
    fn weight_prefix(&self, relation: u32, visible: Visible, position: u32) -> Result<u64, GraphError>;

    /// Copies the feature rows of `nodes` into `out` (`nodes.len() × schema().features.len()`, row-major). A missing value
    /// is NaN.
    ///
    /// # Errors
    /// [`GraphError::NoSuchNode`].
    ///
    /// # Panics
    /// If `out` has another length.
    fn gather(&self, nodes: &[Node], out: &mut [f32]) -> Result<(), GraphError>;
}
