//! Weighted sampling without replacement: successive draws, each among the edges not drawn yet with probability
//! proportional to weight. A draw is a number below the weight left; it falls on the edge whose interval holds it, counting
//! in canonical order and leaving the drawn intervals out.
//!
//! What is left of any range of positions is a difference of two prefix sums less what was drawn from it, which a sparse
//! binary tree over the positions remembers: O(log degree) steps and tree nodes a draw, nothing proportional to the degree.

use std::path::Path;

use crate::error::GraphError;
use crate::rng::Draws;

const NONE: u32 = 0;

/// What was drawn from the range of positions that a tree node stands for.
#[derive(Clone, Copy, Default)]
struct Drawn {
    left: u32,
    right: u32,
    /// How many edges.
    count: u32,
    /// Their weight in units.
    weight: u64,
}

/// The tree; `nodes[1]` is the root, 0 stands for a range that nothing was drawn from.
#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<Drawn>,
    path: Vec<u32>,
}

impl Tree {
    /// Appends `count` distinct positions below `degree` in the order of drawing (`count < degree`). Once only edges of
    /// weight 0 are left, each of them is as likely as the other: the limit of equal small weights.
    pub(super) fn draw(
        &mut self,
        prefix: impl Fn(u32) -> Result<u64, GraphError>,
        degree: u32,
        count: u32,
        draws: &mut Draws,
        out: &mut Vec<u32>,
    ) -> Result<(), GraphError> {
        self.nodes.clear();
        self.nodes.resize(2, Drawn::default());
        let Some(last) = degree.checked_sub(1) else { return Ok(()) };
        let total = prefix(last)?;
        for _ in 0..count.min(degree) {
            let root = self.nodes[1];
            let left = total.checked_sub(root.weight).ok_or_else(inconsistent)?;
            let position = if left > 0 {
                let target = draws.below_u64(left);
                self.take(degree, target, |low, high, drawn| {
                    let before = if low == 0 { 0 } else { prefix(low - 1)? };
                    let range = prefix(high - 1)?.checked_sub(before);
                    range.and_then(|range| range.checked_sub(drawn.weight)).ok_or_else(inconsistent)
                })?
            } else {
                let target = u64::from(draws.below_u32(degree - root.count));
                self.take(degree, target, |low, high, drawn| Ok(u64::from(high - low - drawn.count)))?
            };
            let before = if position == 0 { 0 } else { prefix(position - 1)? };
            let weight = prefix(position)?.checked_sub(before).ok_or_else(inconsistent)?;
            for &node in &self.path {
                let node = &mut self.nodes[node as usize];
                node.count += 1;
                node.weight = node.weight.checked_add(weight).ok_or_else(inconsistent)?;
            }
            out.push(position);
        }
        Ok(())
    }

    /// Finds the position that `target` falls on, where `left(low, high, drawn)` says how much of `low..high` is left, and
    /// keeps the path to it, made where it was missing.
    fn take(
        &mut self,
        degree: u32,
        mut target: u64,
        left: impl Fn(u32, u32, Drawn) -> Result<u64, GraphError>,
    ) -> Result<u32, GraphError> {
        let (mut low, mut high, mut at) = (0, degree, 1_u32);
        self.path.clear();
        self.path.push(at);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let node = self.nodes[at as usize];
            let drawn = if node.left == NONE { Drawn::default() } else { self.nodes[node.left as usize] };
            let there = left(low, middle, drawn)?;
            let goes_left = target < there;
            let child = if goes_left { node.left } else { node.right };
            if goes_left {
                high = middle;
            } else {
                target -= there;
                low = middle;
            }
            at = if child == NONE { self.grow(at, goes_left)? } else { child };
            self.path.push(at);
        }
        // Sound prefix sums never lead to an edge that is already drawn; those of an altered file may.
        if self.nodes[at as usize].count > 0 { Err(inconsistent()) } else { Ok(low) }
    }

    /// Adds a child.
    fn grow(&mut self, parent: u32, left: bool) -> Result<u32, GraphError> {
        let child = u32::try_from(self.nodes.len())
            .map_err(|_| GraphError::BadArgument("the fan-out of a weighted draw is too large".into()))?;
        self.nodes.push(Drawn::default());
        let parent = &mut self.nodes[parent as usize];
        *(if left { &mut parent.left } else { &mut parent.right }) = child;
        Ok(child)
    }
}

/// The graph's fault, not the caller's. The view does not say which of its files it is.
fn inconsistent() -> GraphError {
    GraphError::damaged(Path::new("edge weights"), "the prefix sums contradict each other: verify the snapshot")
}
