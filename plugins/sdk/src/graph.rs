//! The graph as a plugin sees it. A trait, so that a plugin's logic runs natively in tests, against
//! [`FakeGraph`](crate::testing::FakeGraph).

use crate::{Block, Error, Frontier, Strategy};

/// Whole arrays in, whole arrays out: one call per relation and hop, never one per node.
pub trait Graph {
    /// Visible in-degrees, parallel to `dst`.
    ///
    /// # Errors
    /// An unknown relation or node.
    fn degrees(&self, relation: u32, dst: &Frontier) -> Result<Vec<u32>, Error>;

    /// The in-neighbours at the given positions: row `i` is `positions[offsets[i]..offsets[i + 1]]`, each below the node's
    /// visible degree, counted in canonical order (event time, then ingest sequence: the oldest is 0).
    ///
    /// # Errors
    /// An unknown relation or node, a position that is not visible.
    fn pick(&self, relation: u32, hop: u32, dst: &Frontier, offsets: &[u32], positions: &[u32])
    -> Result<Block, Error>;

    /// Up to `fanout` in-neighbours of each destination; below 0 means all.
    ///
    /// # Errors
    /// An unknown relation or node; `Weighted` where the relation has no weights.
    fn sample(&self, relation: u32, hop: u32, dst: &Frontier, fanout: i32, how: Strategy) -> Result<Block, Error>;

    /// Event times in milliseconds since 1970, parallel to `edges`; [`NO_TIME`](crate::NO_TIME) for an edge without one.
    ///
    /// # Errors
    /// An unknown relation or edge.
    fn edge_times(&self, relation: u32, edges: &[u64]) -> Result<Vec<i64>, Error>;

    /// A numeric column of edges, parallel to `edges`.
    ///
    /// # Errors
    /// An unknown relation, column or edge.
    fn edge_column(&self, relation: u32, column: &str, edges: &[u64]) -> Result<Vec<f32>, Error>;
}

/// The host's graph, at the version and with the as-of times of the batch. Outside of a host it panics.
#[derive(Clone, Copy, Debug)]
pub struct HostGraph;

impl Graph for HostGraph {
    fn degrees(&self, relation: u32, dst: &Frontier) -> Result<Vec<u32>, Error> {
        crate::wit::sagehost::plugin::graph::degrees(relation, dst)
    }

    fn pick(
        &self,
        relation: u32,
        hop: u32,
        dst: &Frontier,
        offsets: &[u32],
        positions: &[u32],
    ) -> Result<Block, Error> {
        crate::wit::sagehost::plugin::graph::pick(relation, hop, dst, offsets, positions)
    }

    fn sample(&self, relation: u32, hop: u32, dst: &Frontier, fanout: i32, how: Strategy) -> Result<Block, Error> {
        crate::wit::sagehost::plugin::graph::sample(relation, hop, dst, fanout, how)
    }

    fn edge_times(&self, relation: u32, edges: &[u64]) -> Result<Vec<i64>, Error> {
        crate::wit::sagehost::plugin::graph::edge_times(relation, edges)
    }

    fn edge_column(&self, relation: u32, column: &str, edges: &[u64]) -> Result<Vec<f32>, Error> {
        crate::wit::sagehost::plugin::graph::edge_column(relation, column, edges)
    }
}
