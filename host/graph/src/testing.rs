//! Random graphs and a naive reference for the tests.

use proptest::prelude::*;
use sagehost_types::{Frontier, Key, Node, TimeMs};

use crate::memory::{MemoryEdge, MemoryGraph, MemoryNode};
use crate::schema::{GraphSchema, KeyType, RelationSchema};

/// An edge as given: relation, source, destination (by place), time, value.
pub(crate) type RawEdge = (u32, Node, Node, TimeMs, f32);

/// A graph as given: relation 0 (`paid`) is timed and weighted by `amount`, relation 1 (`knows`) has neither.
#[derive(Clone, Debug)]
pub(crate) struct RawGraph {
    pub(crate) key_type: KeyType,
    pub(crate) nodes: u64,
    pub(crate) edges: Vec<RawEdge>,
}

impl RawGraph {
    pub(crate) fn schema(&self) -> GraphSchema {
        GraphSchema {
            key_type: self.key_type,
            features: vec!["x".into(), "y".into()],
            relations: vec![
                RelationSchema {
                    name: "paid".into(),
                    timed: true,
                    columns: vec!["amount".into(), "double".into()],
                    weight: Some("amount".into()),
                },
                RelationSchema { name: "knows".into(), timed: false, columns: vec![], weight: None },
            ],
        }
    }

    pub(crate) fn key(&self, node: Node) -> Key {
        match self.key_type {
            KeyType::U64 => Key::Int(node * 1000 + 7),
            KeyType::String => Key::from(format!("node {node}").as_str()),
        }
    }

    pub(crate) fn features(node: Node) -> [f32; 2] {
        [node as f32 + 0.5, if node % 3 == 1 { f32::NAN } else { -(node as f32) }]
    }

    pub(crate) fn build(&self) -> MemoryGraph {
        let nodes: Vec<_> = (0..self.nodes)
            .map(|node| MemoryNode { key: self.key(node), features: Self::features(node).to_vec() })
            .collect();
        let edges: Vec<_> = self
            .edges
            .iter()
            .map(|&(relation, src, dst, time, value)| MemoryEdge {
                relation,
                src: self.key(src),
                dst: self.key(dst),
                time_ms: (relation == 0).then_some(time),
                columns: if relation == 0 { vec![value, value * 2.0] } else { vec![] },
            })
            .collect();
        MemoryGraph::build(self.schema(), &nodes, &edges).unwrap()
    }

    /// The in-edges that a node sees, by filtering and sorting the list.
    pub(crate) fn in_edges(&self, relation: u32, node: Node, as_of: TimeMs) -> Vec<RawEdge> {
        let mut edges: Vec<_> = self
            .edges
            .iter()
            .copied()
            .filter(|e| e.0 == relation && e.2 == node && (relation == 1 || e.3 <= as_of))
            .collect();
        if relation == 0 {
            edges.sort_by_key(|edge| edge.3);
        }
        edges
    }
}

/// Graphs with isolated nodes, parallel edges, self-loops and ties in time; weights with many zeros.
pub(crate) fn graphs() -> impl Strategy<Value = RawGraph> {
    (1_u64..7, any::<bool>()).prop_flat_map(|(nodes, text)| {
        let edge = (0_u32..2, 0..nodes, 0..nodes, 0_i64..6, prop_oneof![Just(0.0_f32), 0.0_f32..4.0]);
        let key_type = if text { KeyType::String } else { KeyType::U64 };
        prop::collection::vec(edge, 0..60).prop_map(move |edges| RawGraph { key_type, nodes, edges })
    })
}

/// Distinct destinations of such a graph with as-of times around its times.
pub(crate) fn frontiers(nodes: u64) -> impl Strategy<Value = Frontier> {
    prop::collection::btree_set((0..nodes, -1_i64..7), 1..6).prop_map(|set| {
        let mut frontier = Frontier::default();
        set.into_iter().for_each(|(node, as_of)| frontier.push(node, as_of));
        frontier
    })
}

/// A graph and a frontier of it.
pub(crate) fn graphs_and_frontiers() -> impl Strategy<Value = (RawGraph, Frontier)> {
    graphs().prop_flat_map(|graph| {
        let nodes = graph.nodes;
        (Just(graph), frontiers(nodes))
    })
}
