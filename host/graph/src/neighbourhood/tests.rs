use proptest::prelude::*;
use proptest::strategy::Strategy;

use super::*;
use crate::testing::{graphs, graphs_and_frontiers};

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    prop::collection::vec((0..3_usize, -1_i32..4), 1..4).prop_map(|hops| {
        let relations = [vec![0], vec![1], vec![1, 0]];
        hops.into_iter().map(|(i, fanout)| Hop { relations: relations[i].clone(), fanout }).collect()
    })
}

type Draw = crate::sampling::Strategy;

proptest! {
    #[test]
    fn frontiers_grow_by_the_rule((raw, seeds) in graphs_and_frontiers(), hops in hops(), reuse in any::<bool>()) {
        let growth = if reuse { Growth::Reuse } else { Growth::Resample };
        let graph = raw.build();
        let blocks = sample_hops(&graph, "s", &seeds, &hops, growth, Draw::Uniform).unwrap();
        let mut expected: Vec<(Node, TimeMs)> = seeds.iter().collect();
        let mut blocks_left = blocks.iter();
        for (number, hop) in (0_u32..).zip(&hops) {
            let mut next = if reuse { Vec::new() } else { expected.clone() };
            for &relation in &hop.relations {
                let block = blocks_left.next().unwrap();
                prop_assert_eq!((block.hop, block.relation), (number, relation));
                prop_assert_eq!(block.dst.iter().collect::<Vec<_>>(), expected.clone());
                for (row, &(_, as_of)) in expected.iter().enumerate() {
                    for &source in &block.sources[block.offsets[row] as usize..block.offsets[row + 1] as usize] {
                        if !next.contains(&(source, as_of)) {
                            next.push((source, as_of));
                        }
                    }
                }
            }
            expected = next;
        }
        prop_assert!(blocks_left.next().is_none());
        verify_blocks(&graph, &seeds, &hops, growth, &blocks).unwrap();
    }

    #[test]
    fn any_change_of_a_block_is_found(
        (raw, seeds) in graphs_and_frontiers(),
        hops in hops(),
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        kind in 0..9,
    ) {
        let graph = raw.build();
        let good = sample_hops(&graph, "s", &seeds, &hops, Growth::Reuse, Draw::Latest).unwrap();
        let mut bad = good.clone();
        let at = which.index(bad.len());
        let block = &mut bad[at];
        let edge = (!block.edges.is_empty()).then(|| place.index(block.edges.len()));
        match (kind, edge) {
            (0, _) => block.hop += 1,
            (1, _) => block.relation ^= 1,
            (2, _) => block.dst.push(0, 0),
            (3, _) if !block.dst.is_empty() => block.dst.as_of_ms[0] += 1,
            (4, _) => block.offsets.push(0),
            (5, _) => { block.edges.push(0); }
            (6, Some(edge)) => block.sources[edge] ^= 1,
            (7, Some(edge)) => block.edges[edge] = 1 << 40,
            _ => { bad.pop(); }
        }
        prop_assert!(verify_blocks(&graph, &seeds, &hops, Growth::Reuse, &bad).is_err());
    }

    #[test]
    fn the_future_is_found(raw in graphs(), as_of in 0_i64..5) {
        let graph = raw.build();
        let mut seeds = Frontier::default();
        (0..raw.nodes).for_each(|node| seeds.push(node, as_of));
        let hops = [Hop { relations: vec![0], fanout: -1 }];
        let mut later = seeds.clone();
        later.as_of_ms.fill(as_of + 1);
        let mut blocks = sample_hops(&graph, "", &later, &hops, Growth::Reuse, Draw::Uniform).unwrap();
        let leaks = raw.edges.iter().any(|e| e.0 == 0 && e.3 == as_of + 1);
        blocks[0].dst = seeds.clone();
        let found = verify_blocks(&graph, &seeds, &hops, Growth::Reuse, &blocks);
        prop_assert_eq!(matches!(found, Err(BlockFault::NotVisible { .. })), leaks);
        prop_assert_eq!(found.is_ok(), !leaks);
    }
}

#[test]
fn faults_name_what_is_wrong() {
    let raw = crate::testing::RawGraph {
        key_type: crate::KeyType::U64,
        nodes: 2,
        edges: vec![(0, 1, 0, 1, 1.0), (0, 0, 0, 2, 1.0)],
    };
    let graph = raw.build();
    let mut seeds = Frontier::default();
    seeds.push(0, 9);
    let hops = [Hop { relations: vec![0], fanout: -1 }];
    let good = sample_hops(&graph, "", &seeds, &hops, Growth::Reuse, Draw::Uniform).unwrap();
    let fault = |change: fn(&mut Block)| {
        let mut blocks = good.clone();
        change(&mut blocks[0]);
        verify_blocks(&graph, &seeds, &hops, Growth::Reuse, &blocks).unwrap_err().to_string()
    };
    assert_eq!(fault(|b| b.sources[1] = 1), "block 0, row 0: edge 1 comes from node 0, not from 1");
    assert_eq!(fault(|b| b.edges[1] = 7), "block 0, row 0: edge 7 is no visible in-edge of node 0 by relation 0");
    assert_eq!(
        fault(|b| {
            b.edges.swap(0, 1);
            b.sources.swap(0, 1);
        }),
        "block 0, row 0: edge 0 is out of order (event time, then ingest sequence)"
    );
    assert_eq!(fault(|b| b.hop = 3), "block 0 is of hop 3, relation 0: hop 0, relation 0 is expected");
    assert_eq!(
        fault(|b| b.dst.as_of_ms[0] = 8),
        "block 0: destination 0 is node 0 as of 8: node 0 as of 9 is expected"
    );
    assert_eq!(fault(|b| b.offsets = vec![0, 1]), "block 0: the last offset is 1, but there are 2 values");
    // An edge taken twice is a draw with replacement.
    let mut twice = good.clone();
    twice[0].edges[1] = 0;
    twice[0].sources[1] = 1;
    verify_blocks(&graph, &seeds, &hops, Growth::Reuse, &twice).unwrap();
    assert!(verify_blocks(&graph, &seeds, &hops, Growth::Reuse, &[]).unwrap_err().to_string().contains("0 blocks"));
    let twice = [Hop { relations: vec![0, 0], fanout: 1 }];
    assert!(matches!(
        sample_hops(&graph, "", &seeds, &twice, Growth::Reuse, Draw::Uniform),
        Err(GraphError::BadArgument(_))
    ));
    assert!(matches!(
        sample_hops(&graph, "", &seeds, &vec![Hop::default(); 9], Growth::Reuse, Draw::Uniform),
        Err(GraphError::BadArgument(_))
    ));
}
