//! From sampled blocks to what a layered model computes: which rows go into each layer, and which come out.
//!
//! Layer 0 is the input side: it reads feature rows. With `L` hops there are `L` layers, and the rows that leave layer
//! `l` are those that enter layer `l + 1`; the last layer's are the seeds'.
//!
//! * `resample`: layer `l` computes the destinations of hop `L - 1 - l` from that hop's blocks alone.
//! * `reuse`: a row is an entry (node, as-of, depth); depth 0 are the seeds, depth `d + 1` the sources of hop `d`. At layer
//!   `l` every entry of depth ≤ `L - 1 - l` is a destination and aggregates what hop = its depth drew, so that a layer's
//!   edges are the blocks of hops `0..=L - 1 - l`, one after another.

use std::ops::Range;

use sagehost_types::limits::MAX_BATCH_EDGES;
use sagehost_types::{Block, Frontier, Node, TimeMs};

use crate::error::GraphError;
use crate::neighbourhood::{Grown, Growth, Hop, check_block, check_hops, for_each_edge};

/// A batch's layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The rows of layer 0, each once: whose features to gather. (For `reuse` a node may be there at several depths.)
    pub inputs: Vec<(Node, TimeMs)>,
    /// One per hop, input side first; empty without hops.
    pub layers: Vec<AssembledLayer>,
}

/// One layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssembledLayer {
    /// Rows that come in.
    pub num_src: usize,
    /// Rows that go out: the next layer's `num_src`.
    pub num_dst: usize,
    /// Where each destination's own row is among the sources.
    pub dst_rows: Vec<u32>,
    /// One per relation of hop `L - 1 - l`, in that hop's order.
    pub relations: Vec<AssembledRelation>,
}

/// The edges of one relation in one layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssembledRelation {
    /// The relation's index in the graph's schema.
    pub relation: u32,
    /// `num_dst + 1` row starts.
    pub offsets: Vec<u32>,
    /// Source row of each edge, in canonical order within a destination.
    pub indices: Vec<u32>,
    /// Where the edges come from, in order and without gaps.
    pub parts: Vec<Part>,
}

/// A run of a layer's edges that is one whole block, edge for edge: coefficients of the block go there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block's index in the list given.
    pub block: usize,
    /// Its edges' places in the layer.
    pub edges: Range<usize>,
}

/// Assembles the layers. `blocks` are those of [`crate::sample_hops`] or have passed [`crate::verify_blocks`], for the
/// same seeds, hops and growth.
///
/// # Errors
/// [`GraphError::BadArgument`] for blocks that do not fit each other, or (for `reuse`) a hop that lacks a relation of a
/// later hop: a layer needs its relations at every depth.
pub fn assemble(seeds: &Frontier, hops: &[Hop], growth: Growth, blocks: &[Block]) -> Result<Assembled, GraphError> {
    check_hops(hops)?;
    let numbered = number_blocks(seeds, hops, blocks)?;
    // The destinations of each hop, then the last hop's sources.
    let mut depths: Vec<Grown> = Vec::with_capacity(hops.len());
    for of_hop in &numbered {
        let dst = depths.last().map_or(seeds, |grown| &grown.frontier);
        let blocks_of_hop = &blocks[of_hop.clone()];
        if let Some(block) = blocks_of_hop.iter().find(|block| block.dst != *dst) {
            let detail = format!("the destinations of hop {} do not follow from the hop before it", block.hop);
            return Err(GraphError::BadArgument(detail));
        }
        let grown = Grown::new(dst, blocks_of_hop, growth)?;
        depths.push(grown);
    }
    let parts = Parts { seeds, hops, blocks, numbered, depths };
    let layers = (0..hops.len()).rev().map(|deepest| match growth {
        Growth::Resample => parts.resample_layer(deepest),
        Growth::Reuse => parts.reuse_layer(deepest),
    });
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    let inputs = match growth {
        Growth::Resample => parts.destinations(hops.len()).iter().collect(),
        Growth::Reuse => (0..=hops.len()).flat_map(|depth| parts.destinations(depth).iter()).collect(),
    };
    Ok(Assembled { inputs, layers })
}

/// Which blocks are each hop's; checks their number, numbers and form.
fn number_blocks(seeds: &Frontier, hops: &[Hop], blocks: &[Block]) -> Result<Vec<Range<usize>>, GraphError> {
    crate::sampling::check_frontier(seeds)?;
    let mut start = 0;
    let mut numbered = Vec::with_capacity(hops.len());
    for (number, hop) in (0_u32..).zip(hops) {
        let end = start + hop.relations.len();
        let of_hop = blocks.get(start..end).unwrap_or_default();
        let fits = of_hop.iter().zip(&hop.relations).all(|(b, &relation)| (b.hop, b.relation) == (number, relation));
        if of_hop.len() != hop.relations.len() || !fits {
            return Err(GraphError::BadArgument(format!(
                "the blocks of hop {number} are not one per relation in order"
            )));
        }
        of_hop.iter().try_for_each(check_block)?;
        numbered.push(start..end);
        start = end;
    }
    if start != blocks.len() {
        return Err(GraphError::BadArgument(format!("{} blocks: {start} are expected", blocks.len())));
    }
    Ok(numbered)
}

/// What the layers are made from.
struct Parts<'a> {
    seeds: &'a Frontier,
    hops: &'a [Hop],
    blocks: &'a [Block],
    numbered: Vec<Range<usize>>,
    /// `depths[d]` grew from hop `d`: the destinations of hop `d + 1`, or the last hop's sources.
    depths: Vec<Grown>,
}

impl Parts<'_> {
    /// The entries at a depth (for `resample`: the rows that enter the layers of the hop before).
    fn destinations(&self, depth: usize) -> &Frontier {
        depth.checked_sub(1).map_or(self.seeds, |before| &self.depths[before].frontier)
    }

    /// Layer `L - 1 - hop` where each layer draws anew.
    fn resample_layer(&self, hop: usize) -> Result<AssembledLayer, GraphError> {
        let (dst, sources) = (self.destinations(hop), &self.depths[hop]);
        let dst_rows = dst.iter().map(|(node, as_of)| sources.place(node, as_of).ok_or_else(lost));
        let relations = self.numbered[hop].clone().map(|index| {
            let mut relation = AssembledRelation::new(self.blocks[index].relation);
            relation.append(index, &self.blocks[index], 0, sources)?;
            Ok(relation)
        });
        Ok(AssembledLayer {
            num_src: sources.frontier.len(),
            num_dst: dst.len(),
            dst_rows: dst_rows.collect::<Result<_, _>>()?,
            relations: relations.collect::<Result<_, GraphError>>()?,
        })
    }

    /// Layer `L - 1 - deepest` where what was drawn is used by every layer.
    fn reuse_layer(&self, deepest: usize) -> Result<AssembledLayer, GraphError> {
        // starts[d]: the row of the first entry of depth d.
        let mut starts = vec![0_usize];
        for depth in 0..=deepest + 1 {
            starts.push(starts[depth] + self.destinations(depth).len());
        }
        let (num_dst, num_src) = (starts[deepest + 1], starts[deepest + 2]);
        let num_rows = u32::try_from(num_dst).map_err(|_| GraphError::TooManyEdges(MAX_BATCH_EDGES))?;
        let mut relations = Vec::with_capacity(self.hops[deepest].relations.len());
        for &number in &self.hops[deepest].relations {
            let mut relation = AssembledRelation::new(number);
            for depth in 0..=deepest {
                let place = self.hops[depth].relations.iter().position(|&r| r == number).ok_or_else(|| {
                    GraphError::BadArgument(format!(
                        "hop {depth} does not sample relation {number}, which hop {deepest} does: with growth `reuse` a \
                         layer needs its relations at every depth"
                    ))
                })?;
                let index = self.numbered[depth].start + place;
                relation.append(index, &self.blocks[index], starts[depth + 1], &self.depths[depth])?;
            }
            relations.push(relation);
        }
        Ok(AssembledLayer { num_src, num_dst, dst_rows: (0..num_rows).collect(), relations })
    }
}

impl AssembledRelation {
    fn new(relation: u32) -> Self {
        Self { relation, offsets: vec![0], indices: Vec::new(), parts: Vec::new() }
    }

    /// Appends a whole block whose sources' rows begin at `first_row`.
    fn append(&mut self, index: usize, block: &Block, first_row: usize, sources: &Grown) -> Result<(), GraphError> {
        let too_many = || GraphError::TooManyEdges(MAX_BATCH_EDGES);
        let start = self.indices.len();
        let first_row = u32::try_from(first_row).map_err(|_| too_many())?;
        let base = u32::try_from(start).map_err(|_| too_many())?;
        self.indices.reserve(block.num_edges());
        for_each_edge(block, |node, as_of| {
            let place = sources.place(node, as_of).ok_or_else(lost)?;
            self.indices.push(first_row.checked_add(place).ok_or_else(too_many)?);
            Ok(())
        })?;
        self.offsets.reserve(block.dst.len());
        for &offset in block.offsets.iter().skip(1) {
            self.offsets.push(base.checked_add(offset).ok_or_else(too_many)?);
        }
        self.parts.push(Part { block: index, edges: start..self.indices.len() });
        Ok(())
    }
}

/// Cannot happen: the frontier was grown from these very blocks. An error, so that a fault here costs a batch only.
fn lost() -> GraphError {
    GraphError::BadArgument("a sampled row is not in the frontier that grew from it".into())
}

#[cfg(test)]
mod tests;
