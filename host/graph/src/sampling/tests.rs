use proptest::prelude::*;
use proptest::strategy::Strategy;
use sagehost_types::Node;

use super::Strategy as How;
use super::*;
use crate::testing::{RawGraph, graphs_and_frontiers};

const STRATEGIES: [How; 4] = [How::Uniform, How::UniformWithReplacement, How::Weighted, How::Latest];

fn frontier(list: &[(Node, TimeMs)]) -> Frontier {
    let mut frontier = Frontier::default();
    list.iter().for_each(|&(node, as_of)| frontier.push(node, as_of));
    frontier
}

/// A star: `degree` edges into node 0, weight `i + 1`.
fn star(degree: u64) -> RawGraph {
    RawGraph {
        key_type: crate::KeyType::U64,
        nodes: degree + 1,
        edges: (0..degree).map(|i| (0, i + 1, 0, 0, i as f32 + 1.0)).collect(),
    }
}

/// Row `row` as positions among the destination's visible edges.
fn positions(view: &dyn GraphView, block: &Block, row: usize) -> Vec<u64> {
    let visible = view.visible(block.relation, block.dst.nodes[row], block.dst.as_of_ms[row]).unwrap();
    let range = block.offsets[row] as usize..block.offsets[row + 1] as usize;
    block.edges[range].iter().map(|edge| edge - visible.first).collect()
}

proptest! {
    #[test]
    fn samples_are_canonical_subsets_of_what_is_visible(
        (raw, dst) in graphs_and_frontiers(),
        fanout in -1_i32..8,
        hop in 0_u32..3,
    ) {
        let graph = raw.build();
        for relation in 0..2 {
            for strategy in STRATEGIES {
                let block = sample(&graph, "salt", relation, hop, &dst, fanout, strategy);
                if strategy == How::Weighted && relation == 1 {
                    prop_assert!(matches!(block, Err(GraphError::NotWeighted(_))));
                    continue;
                }
                let block = block.unwrap();
                prop_assert_eq!((block.relation, block.hop, &block.dst), (relation, hop, &dst));
                prop_assert!(check_offsets(&block.offsets, dst.len(), block.sources.len()).is_ok());
                for (row, (node, as_of)) in dst.iter().enumerate() {
                    let expected = raw.in_edges(relation, node, as_of);
                    let got = positions(&graph, &block, row);
                    let degree = expected.len() as u64;
                    prop_assert!(got.is_sorted());
                    prop_assert!(got.iter().all(|&p| p < degree));
                    let sources = &block.sources[block.offsets[row] as usize..block.offsets[row + 1] as usize];
                    let naive: Vec<_> = got.iter().map(|&p| expected[p as usize].1).collect();
                    prop_assert_eq!(sources, naive);
                    let with = strategy == How::UniformWithReplacement;
                    let limit = u64::try_from(fanout).unwrap_or(degree);
                    prop_assert_eq!(got.len() as u64, if with && degree > 0 { limit } else { limit.min(degree) });
                    prop_assert!(with || got.windows(2).all(|w| w[0] < w[1]));
                    if strategy == How::Latest {
                        prop_assert!(got.iter().all(|&p| p >= degree - limit.min(degree)));
                    }
                    if strategy == How::Weighted && (got.len() as u64) < degree {
                        // Weightless edges only once all others are taken.
                        let weightless = got.iter().any(|&p| expected[p as usize].4 == 0.0);
                        let positive = (0..degree).filter(|&p| expected[p as usize].4 > 0.0);
                        prop_assert!(!weightless || positive.into_iter().all(|p| got.contains(&p)));
                    }
                }
                // A row does not depend on the others, nor on duplicates of itself.
                for (row, (node, as_of)) in dst.iter().enumerate() {
                    let twice = frontier(&[(node, as_of), (node, as_of)]);
                    let alone = sample(&graph, "salt", relation, hop, &twice, fanout, strategy).unwrap();
                    prop_assert_eq!(positions(&graph, &alone, 0), positions(&graph, &block, row));
                    prop_assert_eq!(positions(&graph, &alone, 1), positions(&graph, &block, row));
                }
            }
        }
    }

    #[test]
    fn degrees_times_and_columns_agree_with_the_list((raw, dst) in graphs_and_frontiers()) {
        let graph = raw.build();
        for relation in 0..2 {
            let lists: Vec<_> = dst.iter().map(|(node, as_of)| raw.in_edges(relation, node, as_of)).collect();
            let expected: Vec<_> = lists.iter().map(|list| list.len() as u32).collect();
            prop_assert_eq!(degrees(&graph, relation, &dst).unwrap(), expected);
            let all = sample(&graph, "", relation, 0, &dst, -1, How::Uniform).unwrap();
            let flat: Vec<_> = lists.into_iter().flatten().collect();
            let times: Vec<_> = flat.iter().map(|e| if relation == 0 { e.3 } else { TimeMs::MIN }).collect();
            prop_assert_eq!(edge_times(&graph, relation, &all.edges).unwrap(), times);
            let amounts = edge_column(&graph, relation, "double", &all.edges);
            if relation == 0 {
                prop_assert_eq!(amounts.unwrap(), flat.iter().map(|e| e.4 * 2.0).collect::<Vec<_>>());
            } else {
                let missing = matches!(amounts, Err(GraphError::NoSuchColumn { relation: 1, .. }));
                prop_assert!(missing);
            }
        }
    }

    #[test]
    fn picked_positions_are_the_edges_there((raw, dst) in graphs_and_frontiers(), salt in any::<u64>()) {
        let graph = raw.build();
        let (mut offsets, mut picked) = (vec![0], Vec::new());
        for (row, (node, as_of)) in dst.iter().enumerate() {
            let degree = raw.in_edges(0, node, as_of).len() as u64;
            // Backwards, and with a repeat.
            picked.extend((0..degree).rev().filter(|p| (salt >> ((p + row as u64) % 64)) & 1 == 1).map(|p| p as u32));
            if degree > 0 {
                picked.push(0);
            }
            offsets.push(picked.len() as u32);
        }
        let block = pick(&graph, 0, 2, &dst, &offsets, &picked).unwrap();
        prop_assert_eq!(block.hop, 2);
        for row in 0..dst.len() {
            let mut expected: Vec<_> =
                picked[offsets[row] as usize..offsets[row + 1] as usize].iter().map(|&p| u64::from(p)).collect();
            expected.sort_unstable();
            prop_assert_eq!(positions(&graph, &block, row), expected);
        }
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let graph = star(3).build();
    let one = frontier(&[(0, 9)]);
    let bad = |result: Result<Block, GraphError>| matches!(result, Err(GraphError::BadArgument(_)));
    assert!(bad(pick(&graph, 0, 0, &one, &[0, 1], &[3])));
    assert!(bad(pick(&graph, 0, 0, &one, &[0], &[])));
    assert!(bad(pick(&graph, 0, 0, &one, &[1, 1], &[0])));
    assert!(bad(pick(&graph, 0, 0, &one, &[0, 2], &[0])));
    assert!(bad(pick(&graph, 0, 0, &frontier(&[(0, 9), (1, 9)]), &[0, 1, 0], &[])));
    let crooked = Frontier { nodes: vec![0], as_of_ms: vec![] };
    assert!(bad(sample(&graph, "", 0, 0, &crooked, 1, How::Uniform)));
    assert!(matches!(degrees(&graph, 2, &one), Err(GraphError::NoSuchRelation(2))));
    assert!(matches!(degrees(&graph, 0, &frontier(&[(4, 0)])), Err(GraphError::NoSuchNode(4))));
    assert!(matches!(edge_times(&graph, 0, &[3]), Err(GraphError::NoSuchEdge { edge: 3, .. })));
    assert!(matches!(edge_times(&graph, 2, &[]), Err(GraphError::NoSuchRelation(2))));
    let many = sample(&graph, "", 0, 0, &frontier(&[(0, 9); 40]), i32::MAX, How::UniformWithReplacement);
    assert!(matches!(many, Err(GraphError::TooManyEdges(MAX_BATCH_EDGES))));
    assert!(matches!(
        sample_within(&graph, "", 0, 0, &one, -1, How::Uniform, 2),
        Err(GraphError::TooManyEdges(MAX_BATCH_EDGES))
    ));
}

/// How often each position of a star is taken, over many hops: each is a fresh draw.
fn counts(degree: u64, fanout: i32, strategy: How, hops: u32) -> Vec<f64> {
    let graph = star(degree).build();
    let dst = frontier(&[(0, 0)]);
    let mut counts = vec![0.0; degree as usize];
    for hop in 0..hops {
        let block = sample(&graph, "chi", 0, hop, &dst, fanout, strategy).unwrap();
        for position in positions(&graph, &block, 0) {
            counts[position as usize] += 1.0;
        }
    }
    counts
}

fn chi_square(counts: &[f64], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(c, e)| (c - e).powi(2) / e).sum()
}

#[test]
fn uniform_draws_are_even() {
    // 0.1 % point of chi-square with 39 degrees of freedom: 72.1. (Without replacement the statistic is smaller yet.)
    // A fan-out of 5 takes the scan, 30 the table.
    for (fanout, strategy) in [(5, How::Uniform), (30, How::Uniform), (5, How::UniformWithReplacement)] {
        let counts = counts(40, fanout, strategy, 4000);
        let expected = vec![4000.0 * f64::from(fanout) / 40.0; 40];
        let chi = chi_square(&counts, &expected);
        assert!(chi < 72.1, "{strategy:?} {fanout}: {chi}");
        assert!(chi > 3.0, "too even to be random: {chi}");
    }
}

#[test]
fn weighted_draws_follow_the_weights() {
    // One draw: proportional to the weight.
    let n = 20_000;
    let expected: Vec<_> = (1..=10).map(|w| f64::from(n) * f64::from(w) / 55.0).collect();
    let chi = chi_square(&counts(10, 1, How::Weighted, n), &expected);
    assert!(chi < 27.9, "9 degrees of freedom: {chi}");

    // Two draws of four: P(i) = p_i + Σ_{j≠i} p_j · p_i / (1 - p_j), for weights 1 to 4.
    let p = [0.1, 0.2, 0.3, 0.4];
    let taken = |i: usize| p[i] + (0..4).filter(|&j| j != i).map(|j| p[j] * p[i] / (1.0 - p[j])).sum::<f64>();
    let expected: Vec<_> = (0..4).map(|i| f64::from(n) * taken(i)).collect();
    let chi = chi_square(&counts(4, 2, How::Weighted, n), &expected);
    assert!(chi < 16.3, "3 degrees of freedom: {chi}");
}

#[test]
fn weightless_edges_come_last_and_evenly() {
    let raw = RawGraph {
        key_type: crate::KeyType::U64,
        nodes: 1,
        edges: (0..6).map(|i| (0, 0, 0, i, if i == 2 { 5.0 } else { 0.0 })).collect(),
    };
    let graph = raw.build();
    let mut counts = [0.0; 6];
    for hop in 0..5000 {
        let block = sample(&graph, "", 0, hop, &frontier(&[(0, 9)]), 2, How::Weighted).unwrap();
        positions(&graph, &block, 0).iter().for_each(|&p| counts[p as usize] += 1.0);
    }
    assert_eq!(counts[2], 5000.0);
    let rest: Vec<_> = [0, 1, 3, 4, 5].map(|i| counts[i]).to_vec();
    let chi = chi_square(&rest, &[1000.0; 5]);
    assert!(chi < 18.5, "4 degrees of freedom: {chi}");
}

#[test]
fn a_draw_depends_on_salt_relation_hop_and_key_only() {
    let graph = star(50).build();
    let dst = frontier(&[(0, 0)]);
    let draw = |salt: &str, hop| sample(&graph, salt, 0, hop, &dst, 5, How::Uniform).unwrap().edges;
    assert_eq!(draw("a", 0), draw("a", 0));
    assert_ne!(draw("a", 0), draw("b", 0));
    assert_ne!(draw("a", 0), draw("a", 1));
    // Another dense id, the same key: nodes listed backwards.
    let schema = star(50).schema();
    let raw = star(50);
    let nodes: Vec<_> = (0..=50)
        .rev()
        .map(|node| crate::MemoryNode { key: raw.key(node), features: RawGraph::features(node).to_vec() })
        .collect();
    let edges: Vec<_> = raw
        .edges
        .iter()
        .map(|e| crate::MemoryEdge {
            relation: 0,
            src: raw.key(e.1),
            dst: raw.key(e.2),
            time_ms: Some(e.3),
            columns: vec![e.4, 0.0],
        })
        .collect();
    let turned = crate::MemoryGraph::build(schema, &nodes, &edges).unwrap();
    let block = sample(&turned, "a", 0, 0, &frontier(&[(50, 0)]), 5, How::Uniform).unwrap();
    assert_eq!(block.edges, draw("a", 0));
}

#[test]
fn damaged_prefix_sums_give_an_error_not_a_panic() {
    let mut tree = weighted::Tree::default();
    for sums in [[5, 3, 9, 1], [0, 0, 7, 7], [u64::MAX, 0, u64::MAX, 3], [9, 9, 9, 8]] {
        for hop in 0..50 {
            let mut out = Vec::new();
            let mut draws = DrawKey::new("", "").draws(1, hop);
            let result = tree.draw(|position| Ok(sums[position as usize]), 4, 3, &mut draws, &mut out);
            assert!(out.iter().all(|&position| position < 4));
            if result.is_ok() {
                out.sort_unstable();
                out.dedup();
                assert_eq!(out.len(), 3);
            }
        }
    }
}

proptest! {
    #[test]
    fn weighted_draws_are_those_of_the_definition(
        weights in prop::collection::vec(prop_oneof![Just(0_u64), 1..9_u64, any::<u32>().prop_map(u64::from)], 2..40),
        count in 1_u32..12,
        key_hash in any::<u64>(),
    ) {
        let degree = weights.len() as u32;
        let count = count.min(degree - 1);
        let mut sums = weights.clone();
        (1..sums.len()).for_each(|i| sums[i] += sums[i - 1]);
        let mut got = Vec::new();
        let mut draws = DrawKey::new("s", "r").draws(key_hash, 0);
        let mut naive_draws = draws.clone();
        weighted::Tree::default().draw(|p| Ok(sums[p as usize]), degree, count, &mut draws, &mut got).unwrap();
        // The weights left, laid end to end.
        let mut left: Vec<(u32, u64)> = (0..degree).zip(weights).collect();
        let mut expected = Vec::new();
        for _ in 0..count {
            let total: u64 = left.iter().map(|(_, weight)| weight).sum();
            let index = if total == 0 {
                naive_draws.below_u32(left.len() as u32) as usize
            } else {
                let mut r = naive_draws.below_u64(total);
                left.iter()
                    .position(|(_, weight)| {
                        let here = r < *weight;
                        r = r.saturating_sub(*weight);
                        here
                    })
                    .unwrap()
            };
            expected.push(left.remove(index).0);
        }
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn uniform_draws_are_those_of_the_definition(degree in 2_u32..200, share in 0.0_f64..1.0, key_hash in any::<u64>()) {
        let count = (f64::from(degree - 1) * share) as u32;
        let mut draws = DrawKey::new("s", "r").draws(key_hash, 0);
        let mut naive_draws = draws.clone();
        let mut got = vec![7];
        uniform::floyd(degree, count, &mut draws, &mut uniform::Table::default(), &mut got);
        let mut expected = vec![];
        for j in degree - count..degree {
            let t = naive_draws.below_u32(j + 1);
            expected.push(if expected.contains(&t) { j } else { t });
        }
        prop_assert_eq!(&got[1..], expected);
    }
}
