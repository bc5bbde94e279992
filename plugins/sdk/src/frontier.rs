//! How a neighbourhood grows from hop to hop.

use std::collections::HashSet;

use crate::{Block, Error, Frontier, Growth, Hop};

/// The destinations of the hop after the one with destinations `dst` and the given blocks: each (node, as-of) once, in
/// order of first appearance. A source is read at its destination's as-of time. With `Resample` the destinations come
/// first and stay; with `Reuse` only the sources go on.
#[must_use]
pub fn next_frontier(dst: &Frontier, blocks: &[Block], growth: Growth) -> Frontier {
    let mut next = Frontier { nodes: Vec::new(), as_of_ms: Vec::new() };
    let mut seen = HashSet::new();
    let mut add = |node: u64, as_of_ms: i64| {
        if seen.insert((node, as_of_ms)) {
            next.nodes.push(node);
            next.as_of_ms.push(as_of_ms);
        }
    };
    if growth == Growth::Resample {
        for (&node, &as_of_ms) in dst.nodes.iter().zip(&dst.as_of_ms) {
            add(node, as_of_ms);
        }
    }
    for block in blocks {
        for (ends, &as_of_ms) in block.offsets.windows(2).zip(&block.dst.as_of_ms) {
            for &source in block.sources.get(ends[0] as usize..ends[1] as usize).unwrap_or_default() {
                add(source, as_of_ms);
            }
        }
    }
    next
}

/// Calls `one` for every hop and relation and does the frontiers in between: `one(relation, hop, destinations, fanout)`
/// returns one block. What most samplers are made of.
///
/// # Errors
/// The first error of `one`.
pub fn sample_hops(
    seeds: Frontier,
    hops: &[Hop],
    growth: Growth,
    mut one: impl FnMut(u32, u32, &Frontier, i32) -> Result<Block, Error>,
) -> Result<Vec<Block>, Error> {
    let mut blocks = Vec::new();
    let mut dst = seeds;
    for (number, hop) in (0_u32..).zip(hops) {
        let first = blocks.len();
        for &relation in &hop.relations {
            blocks.push(one(relation, number, &dst, hop.fanout)?);
        }
        if (number as usize) + 1 < hops.len() {
            dst = next_frontier(&dst, &blocks[first..], growth);
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frontier(rows: &[(u64, i64)]) -> Frontier {
        Frontier { nodes: rows.iter().map(|row| row.0).collect(), as_of_ms: rows.iter().map(|row| row.1).collect() }
    }

    fn block(dst: &Frontier, rows: &[&[u64]]) -> Block {
        let mut offsets = vec![0];
        let mut sources = Vec::new();
        for row in rows {
            sources.extend_from_slice(row);
            offsets.push(sources.len() as u32);
        }
        let edges = (0..sources.len() as u64).collect();
        Block { relation: 0, hop: 0, dst: dst.clone(), offsets, sources, edges }
    }

    #[test]
    fn reuse_goes_on_with_the_sources_only() {
        let dst = frontier(&[(1, 10), (2, 20)]);
        let blocks = [block(&dst, &[&[5, 1], &[5]]), block(&dst, &[&[1, 6], &[]])];
        assert_eq!(next_frontier(&dst, &blocks, Growth::Reuse), frontier(&[(5, 10), (1, 10), (5, 20), (6, 10)]));
    }

    #[test]
    fn resample_keeps_the_destinations_in_front() {
        let dst = frontier(&[(1, 10), (2, 20), (1, 10)]);
        let blocks = [block(&dst, &[&[2, 1], &[2], &[7]])];
        assert_eq!(next_frontier(&dst, &blocks, Growth::Resample), frontier(&[(1, 10), (2, 20), (2, 10), (7, 10)]));
    }

    #[test]
    fn the_same_node_at_two_times_is_two_destinations() {
        let dst = frontier(&[(1, 10), (1, 20)]);
        let next = next_frontier(&dst, &[block(&dst, &[&[3], &[3]])], Growth::Reuse);
        assert_eq!(next, frontier(&[(3, 10), (3, 20)]));
    }

    #[test]
    fn hops_see_their_number_relation_and_frontier() {
        let mut calls = Vec::new();
        let hops = [Hop { relations: vec![4, 7], fanout: 2 }, Hop { relations: vec![4], fanout: -1 }];
        let blocks = sample_hops(frontier(&[(1, 10)]), &hops, Growth::Reuse, |relation, hop, dst, fanout| {
            calls.push((relation, hop, dst.nodes.clone(), fanout));
            let row: Vec<u64> = dst.nodes.iter().map(|node| node * 10 + u64::from(relation)).collect();
            Ok(block(dst, &row.chunks(1).collect::<Vec<_>>()))
        });
        assert_eq!(blocks.map(|blocks| blocks.len()), Ok(3));
        assert_eq!(calls, [(4, 0, vec![1], 2), (7, 0, vec![1], 2), (4, 1, vec![14, 17], -1)]);
    }

    #[test]
    fn an_error_ends_it() {
        let hops = [Hop { relations: vec![0], fanout: 2 }];
        let error = Error::Missing("no such relation".into());
        let result = sample_hops(frontier(&[(1, 1)]), &hops, Growth::Reuse, |_, _, _, _| Err(error.clone()));
        assert_eq!(result, Err(error));
    }
}
