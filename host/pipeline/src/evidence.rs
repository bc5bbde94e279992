//! The sampled neighbours of a seed, as a post-processor sees them.

use std::sync::Arc;

use sagehost_graph::GraphView;
use sagehost_plugin::api::Evidence;
use sagehost_types::limits::MAX_EVIDENCE;
use sagehost_types::{Block, Fault, Node, TimeMs};

use crate::binding::graph_fault;

/// Collects the first hop's neighbours of seed number `row`: all relations, each in canonical order, at most
/// [`MAX_EVIDENCE`] in all. Where there are more, the relations with the most give their newest only.
pub(crate) fn collect(
    view: &dyn GraphView,
    blocks: &[Block],
    row: usize,
    seed: (Node, TimeMs),
) -> Result<Evidence, Fault> {
    let mut evidence = Evidence::default();
    let first_hop: Vec<&Block> = blocks.iter().filter(|b| b.hop == 0).collect();
    // Blocks are checked before they come here; a row that is not there has no neighbours.
    let bounds = |block: &Block| {
        let bounds = block.offsets.get(row).zip(block.offsets.get(row + 1));
        bounds.map_or(0..0, |(&start, &end)| start as usize..end as usize)
    };
    let lengths: Vec<usize> = first_hop.iter().map(|block| bounds(block).len()).collect();
    for (block, share) in first_hop.into_iter().zip(shares(&lengths, MAX_EVIDENCE)) {
        let schema = view.schema().relations.get(block.relation as usize);
        let name: Arc<str> = schema.map(|s| s.name.as_str()).unwrap_or_default().into();
        let weight = schema.and_then(sagehost_graph::RelationSchema::weight_column);
        let visible = view.visible(block.relation, seed.0, seed.1).map_err(|e| graph_fault(&e))?;
        evidence.degree = evidence.degree.saturating_add(visible.degree);
        let bounds = bounds(block);
        for position in bounds.end.saturating_sub(share)..bounds.end {
            let (Some(&source), Some(&edge)) = (block.sources.get(position), block.edges.get(position)) else { break };
            let key = view.key(source).map_err(|e| graph_fault(&e))?;
            let time = view.edge_time(block.relation, edge).map_err(|e| graph_fault(&e))?;
            let weight = match weight {
                Some(column) => view.edge_value(block.relation, column, edge).map_err(|e| graph_fault(&e))?,
                None => 1.0,
            };
            evidence.relations.push(Arc::clone(&name));
            evidence.keys.push(key.to_string());
            evidence.times_ms.push(time);
            evidence.weights.push(weight);
        }
    }
    Ok(evidence)
}

/// How many each may give of what it has, so that all together give at most `room`: none is cut below what another gives.
fn shares(lengths: &[usize], mut room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| lengths[index]);
    let mut shares = vec![0; lengths.len()];
    for (done, index) in order.into_iter().enumerate() {
        // What the shorter ones left is shared among the rest.
        shares[index] = lengths[index].min(room / (lengths.len() - done));
        room -= shares[index];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PAID, graph, key};
    use proptest::prelude::*;
    use sagehost_graph::{Growth, Hop, Strategy, sample_hops};
    use sagehost_types::Frontier;

    proptest! {
        #[test]
        fn shares_fill_the_room_and_are_fair(lengths in proptest::collection::vec(0_usize..50, 0..8), room in 0_usize..100) {
            let shares = shares(&lengths, room);
            prop_assert_eq!(shares.iter().sum::<usize>(), room.min(lengths.iter().sum()));
            for (share, length) in shares.iter().zip(&lengths) {
                prop_assert!(share <= length);
                let most = shares.iter().max().copied().unwrap_or(0);
                prop_assert!(share == length || share + 1 >= most, "{:?} of {:?}", shares, lengths);
            }
        }
    }

    #[test]
    fn the_newest_are_shown_and_all_are_counted() {
        let mut edges: Vec<_> = (0..300).map(|time| (PAID, 1 + time as u64 % 9, 0, time, 0.5)).collect();
        edges.extend((1..4).map(|source| (1, source, 0, 0, 0.0)));
        let view = graph(&edges);
        let mut seeds = Frontier::default();
        seeds.push(0, 279);
        let hops = [Hop { relations: vec![PAID, 1], fanout: -1 }];
        let blocks = sample_hops(&*view, "s", &seeds, &hops, Growth::Reuse, Strategy::Uniform).unwrap();
        let evidence = collect(&*view, &blocks, 0, (0, 279)).unwrap();
        assert_eq!(evidence.degree, 283, "what is visible, shown or not");
        assert_eq!(evidence.keys.len(), MAX_EVIDENCE);
        assert_eq!(evidence.times_ms[..253], (27..280).collect::<Vec<TimeMs>>(), "the newest, in order, none later");
        assert_eq!(evidence.times_ms[253..], [TimeMs::MIN; 3]);
        assert_eq!(evidence.keys[0], key(1).to_string());
        assert_eq!((evidence.weights[0], evidence.weights[255]), (0.5, 1.0));
        assert_eq!((&*evidence.relations[252], &*evidence.relations[253]), ("paid", "knows"));
        assert!(collect(&*view, &blocks, 7, (0, 279)).unwrap().keys.is_empty(), "a row that is not there");
    }
}
