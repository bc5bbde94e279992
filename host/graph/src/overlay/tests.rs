use proptest::prelude::*;
use sagehost_types::Frontier;

use super::*;
use crate::sampling::{self, sample};
use crate::testing::{RawGraph, graphs, graphs_and_frontiers};

fn base() -> (RawGraph, Arc<dyn GraphView>) {
    let raw = RawGraph {
        key_type: crate::KeyType::U64,
        nodes: 3,
        edges: vec![(0, 1, 0, 5, 1.0), (0, 2, 0, 3, 2.0), (1, 0, 2, 0, 0.0)],
    };
    let graph = Arc::new(raw.build());
    (raw, graph)
}

#[test]
fn requests_share_an_overlay_and_see_only_their_own() {
    let (raw, graph) = base();
    let mut builder = OverlayBuilder::new(graph.clone());
    let alias = builder.alias(0, &[7.0, 8.0]).unwrap();
    builder.next_request();
    let first = builder.node(Key::Int(99), &[1.0, f32::NAN]).unwrap();
    builder.edge(0, 2, first, Some(9), &[1.0, 0.0]).unwrap();
    builder.edge(0, first, first, Some(4), &[3.0, 0.0]).unwrap();
    builder.edge(0, 1, first, Some(4), &[2.0, 0.0]).unwrap();
    builder.next_request();
    let second = builder.node(Key::Int(99), &[2.0, 2.0]).unwrap();
    assert_eq!([alias, first, second], [3, 4, 5]);
    // Another request's node, an alias, a base node and no node at all take no edges; no edge comes from another request.
    for (src, dst) in [(0, first), (0, alias), (0, 0), (0, 6), (first, second), (6, second)] {
        assert!(
            matches!(builder.edge(0, src, dst, Some(0), &[0.0; 2]), Err(GraphError::BadArgument(_))),
            "{src} {dst}"
        );
    }
    assert!(builder.edge(0, 0, second, None, &[0.0; 2]).is_err());
    assert!(builder.edge(7, 0, second, None, &[0.0; 2]).is_err());
    assert!(builder.node(Key::from("x"), &[0.0; 2]).is_err());
    assert!(builder.node(Key::Int(5), &[0.0]).is_err());
    assert!(builder.alias(3, &[0.0; 2]).is_err());
    let overlay = builder.finish().unwrap();

    assert_eq!(overlay.num_nodes(), 6);
    assert_eq!(overlay.latest_ms(), 5);
    assert_eq!(overlay.find(&Key::Int(99)), None);
    assert_eq!(overlay.find(&raw.key(1)), Some(1));
    assert_eq!([overlay.key(first).unwrap(), overlay.key(second).unwrap()], [Key::Int(99), Key::Int(99)]);
    assert_eq!(overlay.key_hash(first).unwrap(), Key::Int(99).hash());
    assert_eq!((overlay.key(alias).unwrap(), overlay.key_hash(alias).unwrap()), (raw.key(0), raw.key(0).hash()));
    assert!(matches!(overlay.key(6), Err(GraphError::NoSuchNode(6))));

    let mut rows = [0.0; 10];
    overlay.gather(&[second, 1, alias, 0, 2], &mut rows).unwrap();
    assert_eq!(rows[..2], [2.0, 2.0]);
    assert_eq!(rows[4..7], [7.0, 8.0, 0.5]);
    assert!(matches!(overlay.gather(&[6], &mut [0.0; 2]), Err(GraphError::NoSuchNode(6))));

    assert_eq!(overlay.visible(0, alias, 4).unwrap(), graph.visible(0, 0, 4).unwrap());
    let seen = overlay.visible(0, first, 9).unwrap();
    assert_eq!(seen, Visible { first: EXTRA_EDGE, degree: 3 });
    assert_eq!(overlay.visible(0, first, 8).unwrap().degree, 2);
    assert_eq!(overlay.visible(0, first, 3).unwrap().degree, 0);
    assert_eq!(overlay.visible(1, second, 9).unwrap().degree, 0);
    let edges: Vec<_> = (0..3).map(|p| seen.first + p).collect();
    // By time, then as given.
    assert_eq!(edges.iter().map(|&e| overlay.source(0, e).unwrap()).collect::<Vec<_>>(), [first, 1, 2]);
    assert_eq!(sampling::edge_times(&overlay, 0, &edges).unwrap(), [4, 4, 9]);
    assert_eq!(sampling::edge_column(&overlay, 0, "amount", &edges).unwrap(), [3.0, 2.0, 1.0]);
    let sums: Vec<_> = (0..3).map(|p| overlay.weight_prefix(0, seen, p).unwrap() >> 20).collect();
    assert_eq!(sums, [3, 5, 6]);
    for edge in [EXTRA_EDGE + 3, u64::MAX] {
        assert!(matches!(overlay.source(0, edge), Err(GraphError::NoSuchEdge { .. })));
        assert!(matches!(overlay.edge_time(0, edge), Err(GraphError::NoSuchEdge { .. })));
        assert!(matches!(overlay.edge_value(0, 0, edge), Err(GraphError::NoSuchEdge { .. })));
    }
    assert!(matches!(overlay.source(9, EXTRA_EDGE), Err(GraphError::NoSuchRelation(9))));
    assert!(matches!(overlay.edge_value(0, 5, EXTRA_EDGE), Err(GraphError::NoSuchColumn { .. })));
}

proptest! {
    #[test]
    fn a_node_in_the_overlay_samples_as_one_in_the_graph(raw in graphs(), as_of in -1_i64..7, fanout in -1_i32..6) {
        // Node 0 with its in-edges moves from the graph to the request, but for its self-loops.
        let raw = RawGraph { edges: raw.edges.iter().copied().filter(|e| e.1 != e.2).collect(), ..raw };
        let rest = RawGraph { edges: raw.edges.iter().copied().filter(|e| e.2 != 0).collect(), ..raw.clone() };
        let whole = raw.build();
        let mut builder = OverlayBuilder::new(Arc::new(rest.build()));
        let id = builder.node(raw.key(0), &RawGraph::features(0)).unwrap();
        for &(relation, src, _, time, value) in raw.edges.iter().filter(|e| e.2 == 0) {
            let columns: &[f32] = if relation == 0 { &[value, value * 2.0] } else { &[] };
            builder.edge(relation, src, id, (relation == 0).then_some(time), columns).unwrap();
        }
        let overlay = builder.finish().unwrap();
        let frontier = |node| Frontier { nodes: vec![node], as_of_ms: vec![as_of] };
        for relation in 0..2 {
            for strategy in [sampling::Strategy::Uniform, sampling::Strategy::Weighted] {
                if relation == 1 && strategy == sampling::Strategy::Weighted {
                    continue;
                }
                let expected = sample(&whole, "s", relation, 1, &frontier(0), fanout, strategy).unwrap();
                let got = sample(&overlay, "s", relation, 1, &frontier(id), fanout, strategy).unwrap();
                prop_assert_eq!(expected.sources, got.sources);
                prop_assert!(got.edges.iter().all(|edge| edge & EXTRA_EDGE != 0));
            }
        }
    }

    #[test]
    fn an_empty_overlay_and_an_alias_change_no_sample((raw, dst) in graphs_and_frontiers(), fanout in -1_i32..6) {
        let graph = Arc::new(raw.build());
        let mut builder = OverlayBuilder::new(graph.clone());
        for &node in &dst.nodes {
            builder.alias(node, &[0.0, 1.0]).unwrap();
        }
        let overlay = builder.finish().unwrap();
        let expected = sample(&*graph, "s", 0, 0, &dst, fanout, sampling::Strategy::Weighted).unwrap();
        prop_assert_eq!(&sample(&overlay, "s", 0, 0, &dst, fanout, sampling::Strategy::Weighted).unwrap(), &expected);
        let nodes = (raw.nodes..overlay.num_nodes()).collect();
        let aliases = Frontier { nodes, as_of_ms: dst.as_of_ms.clone() };
        let got = sample(&overlay, "s", 0, 0, &aliases, fanout, sampling::Strategy::Weighted).unwrap();
        prop_assert_eq!((got.sources, got.edges), (expected.sources, expected.edges));
    }
}

#[test]
fn weights_that_cannot_be_summed_are_the_requests_fault() {
    let (_, graph) = base();
    let mut builder = OverlayBuilder::new(graph);
    let node = builder.node(Key::Int(42), &[0.0; 2]).unwrap();
    builder.edge(0, 0, node, Some(0), &[1e13, 0.0]).unwrap();
    assert!(builder.finish().is_err_and(|error| error.to_string().contains("node `42`")));
}
