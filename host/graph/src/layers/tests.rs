use proptest::prelude::*;

use super::*;
use crate::GraphView;
use crate::memory::MemoryGraph;
use crate::neighbourhood::sample_hops;
use crate::sampling::{self, sample};
use crate::testing::{RawGraph, graphs_and_frontiers};

/// The weight of relation `r`'s mean and of the own row in every layer.
const OWN: f64 = 0.75;
const MEAN: [f64; 2] = [0.5, -0.25];

fn input(node: Node) -> f64 {
    f64::from(RawGraph::features(node)[0])
}

/// A destination's row from its own row and its neighbours' rows by relation.
fn combine(own: f64, neighbours: &[(u32, Vec<f64>)], layer: usize) -> f64 {
    let means = neighbours.iter().filter(|(_, rows)| !rows.is_empty());
    let sum: f64 = means.map(|(r, rows)| MEAN[*r as usize] * rows.iter().sum::<f64>() / rows.len() as f64).sum();
    OWN * own + sum + layer as f64
}

/// Evaluates the assembled layers.
fn evaluate(assembled: &Assembled) -> Vec<f64> {
    let mut rows: Vec<f64> = assembled.inputs.iter().map(|&(node, _)| input(node)).collect();
    for (number, layer) in assembled.layers.iter().enumerate() {
        assert_eq!(layer.num_src, rows.len());
        assert_eq!(layer.dst_rows.len(), layer.num_dst);
        rows = (0..layer.num_dst)
            .map(|dst| {
                let neighbours: Vec<_> = layer
                    .relations
                    .iter()
                    .map(|r| {
                        let range = r.offsets[dst] as usize..r.offsets[dst + 1] as usize;
                        (r.relation, r.indices[range].iter().map(|&i| rows[i as usize]).collect())
                    })
                    .collect();
                combine(rows[layer.dst_rows[dst] as usize], &neighbours, number)
            })
            .collect();
    }
    rows
}

/// The same by recursion, sampling each node for itself: layer `layer` of `node`, whose draws are of hop `hop`.
struct Recursion<'a> {
    graph: &'a MemoryGraph,
    hops: &'a [Hop],
    growth: Growth,
}

impl Recursion<'_> {
    /// The row of (node, as-of) that comes out of layer `layer - 1`, at this depth.
    fn row(&self, node: Node, as_of: TimeMs, layer: usize, depth: usize) -> f64 {
        let Some(below) = layer.checked_sub(1) else { return input(node) };
        // Which hop's draw: this layer's for `resample`, that of the entry's own depth for `reuse`.
        let deepest = self.hops.len() - layer;
        let hop = match self.growth {
            Growth::Resample => deepest,
            Growth::Reuse => depth,
        };
        let mut dst = Frontier::default();
        dst.push(node, as_of);
        let neighbours: Vec<_> = self.hops[deepest]
            .relations
            .iter()
            .map(|&relation| {
                let fanout = self.hops[hop].fanout;
                let strategy = sampling::Strategy::Uniform;
                let block = sample(self.graph, "s", relation, hop as u32, &dst, fanout, strategy).unwrap();
                (relation, block.sources.iter().map(|&s| self.row(s, as_of, below, depth + 1)).collect())
            })
            .collect();
        combine(self.row(node, as_of, below, depth), &neighbours, below)
    }
}

proptest! {
    #[test]
    fn layers_compute_what_recursion_does(
        (raw, seeds) in graphs_and_frontiers(),
        fanouts in prop::collection::vec(prop_oneof![Just(-1), 0..4_i32], 1..4),
        reuse in any::<bool>(),
        fewer in any::<bool>(),
    ) {
        // Degrees of up to 60 over three full hops are too many for the recursion.
        prop_assume!(raw.edges.len() < 25);
        let growth = if reuse { Growth::Reuse } else { Growth::Resample };
        // The deepest hop may sample fewer relations than the others.
        let last = fanouts.len() - 1;
        let hops: Vec<_> = fanouts
            .iter()
            .enumerate()
            .map(|(i, &fanout)| Hop { relations: if fewer && i == last { vec![1] } else { vec![0, 1] }, fanout })
            .collect();
        let graph = raw.build();
        let blocks = sample_hops(&graph, "s", &seeds, &hops, growth, sampling::Strategy::Uniform).unwrap();
        let assembled = assemble(&seeds, &hops, growth, &blocks).unwrap();
        let got = evaluate(&assembled);
        let recursion = Recursion { graph: &graph, hops: &hops, growth };
        for ((node, as_of), got) in seeds.iter().zip(got) {
            let expected = recursion.row(node, as_of, hops.len(), 0);
            prop_assert!((expected - got).abs() <= 1e-9 * expected.abs().max(1.0), "{} {}", expected, got);
        }
        // Every part is its block, edge for edge: the columns of the block can be carried over.
        for (number, layer) in assembled.layers.iter().enumerate() {
            if let Some(next) = assembled.layers.get(number + 1) {
                prop_assert_eq!(layer.num_dst, next.num_src);
            }
            for relation in &layer.relations {
                let mut end = 0;
                for part in &relation.parts {
                    prop_assert_eq!(part.edges.start, end);
                    prop_assert_eq!(part.edges.len(), blocks[part.block].num_edges());
                    prop_assert_eq!(blocks[part.block].relation, relation.relation);
                    end = part.edges.end;
                }
                prop_assert_eq!(end, relation.indices.len());
            }
        }
        prop_assert_eq!(assembled.layers.last().unwrap().num_dst, seeds.len());
        prop_assert!(assembled.inputs.iter().all(|&(node, _)| node < graph.num_nodes()));
    }
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let raw = RawGraph { key_type: crate::KeyType::U64, nodes: 2, edges: vec![(0, 1, 0, 0, 1.0), (1, 0, 1, 0, 1.0)] };
    let graph = raw.build();
    let mut seeds = Frontier::default();
    seeds.push(0, 5);
    let hop = |relations: &[u32]| Hop { relations: relations.to_vec(), fanout: -1 };
    let draw =
        |hops: &[Hop]| sample_hops(&graph, "", &seeds, hops, Growth::Reuse, sampling::Strategy::Uniform).unwrap();
    let hops = [hop(&[0]), hop(&[1])];
    let blocks = draw(&hops);
    // Layer 0 needs relation 1 for the seed as well.
    let error = assemble(&seeds, &hops, Growth::Reuse, &blocks).unwrap_err();
    assert!(error.to_string().contains("hop 0 does not sample relation 1"), "{error}");
    assert!(assemble(&seeds, &hops, Growth::Reuse, &blocks[..1]).is_err());
    assert!(assemble(&seeds, &hops[..1], Growth::Reuse, &blocks).is_err());
    let hops = [hop(&[0, 1]), hop(&[1])];
    let mut blocks = draw(&hops);
    assert_eq!(assemble(&seeds, &hops, Growth::Reuse, &blocks).unwrap().layers.len(), 2);
    blocks[2].dst.nodes[0] = 0;
    assert!(assemble(&seeds, &hops, Growth::Reuse, &blocks).is_err());
    blocks[0].offsets[1] = 7;
    assert!(assemble(&seeds, &hops, Growth::Reuse, &blocks).is_err());
}

#[test]
fn a_seed_without_hops_or_named_twice_is_a_row() {
    let raw = RawGraph { key_type: crate::KeyType::U64, nodes: 2, edges: vec![(0, 1, 0, 0, 1.0)] };
    let mut seeds = Frontier::default();
    [0, 0, 1].into_iter().for_each(|node| seeds.push(node, 5));
    let none = assemble(&seeds, &[], Growth::Resample, &[]).unwrap();
    assert_eq!((none.inputs.len(), none.layers.len()), (3, 0));
    let hops = [Hop { relations: vec![0], fanout: 5 }];
    for growth in [Growth::Reuse, Growth::Resample] {
        let graph = raw.build();
        let blocks = sample_hops(&graph, "", &seeds, &hops, growth, sampling::Strategy::Uniform).unwrap();
        let rows = evaluate(&assemble(&seeds, &hops, growth, &blocks).unwrap());
        assert_eq!(rows[0].to_bits(), rows[1].to_bits());
        assert_eq!(rows.len(), 3);
    }
}
