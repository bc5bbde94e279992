//! Neighbourhoods of several hops: the native sampler, the rule by which a frontier grows, and the check of blocks that a
//! sampler plugin returned.

mod verify;

use std::collections::hash_map::Entry;

use sagehost_types::limits::{MAX_BATCH_EDGES, MAX_HOPS};
use sagehost_types::{Block, Frontier, Node, TimeMs};

use crate::error::GraphError;
use crate::hash::IdMap;
use crate::sampling::{Strategy, check_frontier, check_offsets, sample_within};
use crate::view::GraphView;

pub use verify::{BlockFault, verify_blocks};

/// How the frontier grows from one hop to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Destinations of the next hop: those of this hop, then its new sources (DGL: each layer draws anew).
    Resample,
    /// Destinations of the next hop: this hop's sources only (PyG: what was drawn is used by every layer).
    #[default]
    Reuse,
}

/// One hop, nearest the seeds first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Indices of the relations to sample, in the order of the hop's blocks; each once.
    pub relations: Vec<u32>,
    /// In-edges of each destination by each relation; below 0 means all.
    pub fanout: i32,
}

/// Samples every hop for every seed: one block per hop and relation, hop by hop, relations in the order given.
///
/// # Errors
/// [`GraphError::TooManyEdges`] where all blocks together have over [`MAX_BATCH_EDGES`] edges; otherwise as
/// [`crate::sampling::sample`].
pub fn sample_hops(
    view: &dyn GraphView,
    salt: &str,
    seeds: &Frontier,
    hops: &[Hop],
    growth: Growth,
    strategy: Strategy,
) -> Result<Vec<Block>, GraphError> {
    check_frontier(seeds)?;
    check_hops(hops)?;
    let mut blocks: Vec<Block> = Vec::with_capacity(hops.iter().map(|hop| hop.relations.len()).sum());
    let mut dst = seeds.clone();
    let mut budget = MAX_BATCH_EDGES;
    for (number, hop) in (0_u32..).zip(hops) {
        let start = blocks.len();
        for &relation in &hop.relations {
            let block = sample_within(view, salt, relation, number, &dst, hop.fanout, strategy, budget)?;
            budget = budget.saturating_sub(block.num_edges());
            blocks.push(block);
        }
        if number as usize + 1 < hops.len() {
            dst = next_frontier(&dst, &blocks[start..], growth)?;
        }
    }
    Ok(blocks)
}

/// The destinations of the next hop, each (node, as-of) once, in order of first appearance: for `resample` this hop's
/// destinations and then the sources of its blocks in order, for `reuse` the sources alone. A source inherits the as-of
/// time of its destination.
///
/// # Errors
/// [`GraphError::BadArgument`] for a block that is not well-formed.
pub fn next_frontier(dst: &Frontier, blocks_of_hop: &[Block], growth: Growth) -> Result<Frontier, GraphError> {
    Ok(Grown::new(dst, blocks_of_hop, growth)?.frontier)
}

/// A grown frontier with the place of each of its entries.
pub(crate) struct Grown {
    /// The entries.
    pub(crate) frontier: Frontier,
    places: IdMap<(Node, TimeMs), u32>,
}

impl Grown {
    /// See [`next_frontier`].
    pub(crate) fn new(dst: &Frontier, blocks_of_hop: &[Block], growth: Growth) -> Result<Self, GraphError> {
        check_frontier(dst)?;
        let mut grown = Self { frontier: Frontier::default(), places: IdMap::default() };
        if growth == Growth::Resample {
            for (node, as_of) in dst.iter() {
                grown.insert(node, as_of)?;
            }
        }
        for block in blocks_of_hop {
            check_block(block)?;
            for_each_edge(block, |node, as_of| grown.insert(node, as_of))?;
        }
        Ok(grown)
    }

    fn insert(&mut self, node: Node, as_of: TimeMs) -> Result<(), GraphError> {
        let next = self.frontier.len();
        if let Entry::Vacant(place) = self.places.entry((node, as_of)) {
            place.insert(u32::try_from(next).map_err(|_| GraphError::TooManyEdges(MAX_BATCH_EDGES))?);
            self.frontier.push(node, as_of);
        }
        Ok(())
    }

    /// Where an entry is.
    pub(crate) fn place(&self, node: Node, as_of: TimeMs) -> Option<u32> {
        self.places.get(&(node, as_of)).copied()
    }
}

/// Calls `each` with every edge's source and the as-of time that it inherits, in order. The block must be well-formed.
pub(crate) fn for_each_edge(
    block: &Block,
    mut each: impl FnMut(Node, TimeMs) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    for (bounds, &as_of) in block.offsets.windows(2).zip(&block.dst.as_of_ms) {
        for &source in &block.sources[bounds[0] as usize..bounds[1] as usize] {
            each(source, as_of)?;
        }
    }
    Ok(())
}

/// That a block's lists fit each other.
pub(crate) fn check_block(block: &Block) -> Result<(), GraphError> {
    check_frontier(&block.dst)?;
    let place = |detail| format!("block of hop {}, relation {}: {detail}", block.hop, block.relation);
    if block.edges.len() != block.sources.len() {
        let detail = format!("{} edges and {} sources", block.edges.len(), block.sources.len());
        return Err(GraphError::BadArgument(place(detail)));
    }
    check_offsets(&block.offsets, block.dst.len(), block.sources.len())
        .map_err(|detail| GraphError::BadArgument(place(detail)))
}

/// That there are not too many hops, and no relation twice in one.
pub(crate) fn check_hops(hops: &[Hop]) -> Result<(), GraphError> {
    if hops.len() > MAX_HOPS {
        return Err(GraphError::BadArgument(format!("{} hops: at most {MAX_HOPS} are allowed", hops.len())));
    }
    for (number, hop) in hops.iter().enumerate() {
        if let Some((_, twice)) = hop.relations.iter().enumerate().find(|(i, r)| hop.relations[..*i].contains(r)) {
            return Err(GraphError::BadArgument(format!("hop {number} names relation {twice} twice")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
