//! The check of blocks from a sampler plugin, which the host does not trust.

use sagehost_types::limits::MAX_BATCH_EDGES;
use sagehost_types::{Block, Frontier, Node};

use super::{Growth, Hop, check_hops, next_frontier};
use crate::error::GraphError;
use crate::sampling::check_offsets;
use crate::view::GraphView;

/// What is wrong with blocks that a sampler returned. `block` counts from 0 in the order returned.
#[derive(Debug, thiserror::Error)]
pub enum BlockFault {
    /// Not one block per hop and relation.
    #[error("the sampler returned {got} blocks: {expected} are expected, one per hop and relation")]
    Count {
        /// Blocks expected.
        expected: usize,
        /// Blocks returned.
        got: usize,
    },
    /// A block out of order.
    #[error("block {block} is of hop {got_hop}, relation {got_relation}: hop {hop}, relation {relation} is expected")]
    Number {
        /// Which block.
        block: usize,
        /// The hop expected.
        hop: u32,
        /// The relation expected.
        relation: u32,
        /// The hop returned.
        got_hop: u32,
        /// The relation returned.
        got_relation: u32,
    },
    /// Destinations other than the rule of growth gives.
    #[error("block {block}: {detail}")]
    Destinations {
        /// Which block.
        block: usize,
        /// How they differ.
        detail: String,
    },
    /// Lists that do not fit each other.
    #[error("block {block}: {detail}")]
    Shape {
        /// Which block.
        block: usize,
        /// What does not fit.
        detail: String,
    },
    /// An edge that is not an in-edge of its destination, or later than its as-of time.
    #[error("block {block}, row {row}: edge {edge} is no visible in-edge of node {node} by relation {relation}")]
    NotVisible {
        /// Which block.
        block: usize,
        /// Which destination of it.
        row: usize,
        /// The destination's node.
        node: Node,
        /// The relation.
        relation: u32,
        /// The edge returned.
        edge: u64,
    },
    /// A source that is not the edge's.
    #[error("block {block}, row {row}: edge {edge} comes from node {expected}, not from {got}")]
    Source {
        /// Which block.
        block: usize,
        /// Which destination of it.
        row: usize,
        /// The edge returned.
        edge: u64,
        /// Where it comes from.
        expected: Node,
        /// Where the sampler said it comes from.
        got: Node,
    },
    /// A row out of canonical order.
    #[error("block {block}, row {row}: edge {edge} is out of order (event time, then ingest sequence)")]
    Order {
        /// Which block.
        block: usize,
        /// Which destination of it.
        row: usize,
        /// The edge that comes too late.
        edge: u64,
    },
    /// Too many edges, or a fault of the graph itself.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Checks blocks that an untrusted sampler returned: one per hop and relation in order, destinations exactly as
/// [`next_frontier`] gives them, rows well-formed and in canonical order (an edge may be repeated, as with replacement),
/// every edge visible to its destination and with its true source, and all together no more than [`MAX_BATCH_EDGES`]. How
/// many neighbours a sampler takes, and which, is its own affair.
///
/// # Errors
/// The first fault found.
pub fn verify_blocks(
    view: &dyn GraphView,
    seeds: &Frontier,
    hops: &[Hop],
    growth: Growth,
    blocks: &[Block],
) -> Result<(), BlockFault> {
    check_hops(hops)?;
    let expected = hops.iter().map(|hop| hop.relations.len()).sum();
    if blocks.len() != expected {
        return Err(BlockFault::Count { expected, got: blocks.len() });
    }
    // Before any work that grows with them.
    let total = blocks.iter().fold(0_usize, |total, block| total.saturating_add(block.edges.len()));
    if total > MAX_BATCH_EDGES {
        return Err(GraphError::TooManyEdges(MAX_BATCH_EDGES).into());
    }
    let mut dst = seeds.clone();
    let mut start = 0;
    for (number, hop) in (0_u32..).zip(hops) {
        let of_hop = &blocks[start..start + hop.relations.len()];
        for (index, (block, &relation)) in (start..).zip(of_hop.iter().zip(&hop.relations)) {
            if (block.hop, block.relation) != (number, relation) {
                let (got_hop, got_relation) = (block.hop, block.relation);
                return Err(BlockFault::Number { block: index, hop: number, relation, got_hop, got_relation });
            }
            check_destinations(index, &dst, &block.dst)?;
            check_rows(view, index, block)?;
        }
        start += hop.relations.len();
        if number as usize + 1 < hops.len() {
            dst = next_frontier(&dst, of_hop, growth)?;
        }
    }
    Ok(())
}

fn check_destinations(block: usize, expected: &Frontier, got: &Frontier) -> Result<(), BlockFault> {
    if got == expected {
        return Ok(());
    }
    let detail = if got.nodes.len() != got.as_of_ms.len() {
        format!("{} destinations and {} as-of times", got.nodes.len(), got.as_of_ms.len())
    } else if got.len() == expected.len() {
        let differs = got.iter().zip(expected.iter()).enumerate().find(|(_, (got, expected))| got != expected);
        differs.map_or_else(String::new, |(row, ((node, as_of), (want, want_as_of)))| {
            format!("destination {row} is node {node} as of {as_of}: node {want} as of {want_as_of} is expected")
        })
    } else {
        format!("{} destinations: {} are expected", got.len(), expected.len())
    };
    Err(BlockFault::Destinations { block, detail })
}

fn check_rows(view: &dyn GraphView, index: usize, block: &Block) -> Result<(), BlockFault> {
    let shape = |detail| BlockFault::Shape { block: index, detail };
    if block.sources.len() != block.edges.len() {
        return Err(shape(format!("{} edges and {} sources", block.edges.len(), block.sources.len())));
    }
    check_offsets(&block.offsets, block.dst.len(), block.edges.len()).map_err(shape)?;
    let relation = block.relation;
    for (row, ((node, as_of), bounds)) in block.dst.iter().zip(block.offsets.windows(2)).enumerate() {
        let range = bounds[0] as usize..bounds[1] as usize;
        if range.is_empty() {
            continue;
        }
        let visible = view.visible(relation, node, as_of)?;
        let mut newest = None;
        for (&edge, &got) in block.edges[range.clone()].iter().zip(&block.sources[range]) {
            if edge.checked_sub(visible.first).is_none_or(|position| position >= u64::from(visible.degree)) {
                return Err(BlockFault::NotVisible { block: index, row, node, relation, edge });
            }
            // Canonical order is the order of edge ids within a destination.
            if newest.is_some_and(|newest| newest > edge) {
                return Err(BlockFault::Order { block: index, row, edge });
            }
            newest = Some(edge);
            let expected = view.source(relation, edge)?;
            if expected != got {
                return Err(BlockFault::Source { block: index, row, edge, expected, got });
            }
        }
    }
    Ok(())
}
