use super::*;
use crate::testing::RawGraph;

fn raw() -> RawGraph {
    RawGraph {
        key_type: KeyType::String,
        nodes: 3,
        edges: vec![(0, 1, 0, 5, 1.0), (0, 2, 0, 3, 2.0), (0, 1, 0, 5, 0.5), (1, 0, 2, 0, 0.0)],
    }
}

#[test]
fn a_built_graph_answers() {
    let raw = raw();
    let graph = raw.build();
    assert_eq!((graph.num_nodes(), graph.latest_ms()), (3, 5));
    assert_eq!(graph.find(&raw.key(2)), Some(2));
    assert_eq!(graph.find(&Key::from("nobody")), None);
    assert_eq!(graph.key(1).unwrap(), raw.key(1));
    assert_eq!(graph.key_hash(1).unwrap(), raw.key(1).hash());
    let visible = graph.visible(0, 0, 5).unwrap();
    assert_eq!(visible, Visible { first: 0, degree: 3 });
    assert_eq!((0..3).map(|e| graph.source(0, e).unwrap()).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!((0..3).map(|e| graph.edge_value(0, 0, e).unwrap()).collect::<Vec<_>>(), [2.0, 1.0, 0.5]);
    assert_eq!(
        (0..3).map(|p| graph.weight_prefix(0, visible, p).unwrap()).collect::<Vec<_>>(),
        [2 << 20, 3 << 20, 7 << 19]
    );
    assert_eq!(graph.edge_time(1, 0).unwrap(), TimeMs::MIN);
    let mut rows = [0.0; 4];
    graph.gather(&[2, 0], &mut rows).unwrap();
    assert_eq!(rows, [2.5, -2.0, 0.5, 0.0]);
}

#[test]
fn what_is_not_there_is_an_error() {
    let graph = raw().build();
    assert!(matches!(graph.key(3), Err(GraphError::NoSuchNode(3))));
    assert!(matches!(graph.key_hash(u64::MAX), Err(GraphError::NoSuchNode(u64::MAX))));
    assert!(matches!(graph.visible(0, 3, 0), Err(GraphError::NoSuchNode(3))));
    assert!(matches!(graph.visible(2, 0, 0), Err(GraphError::NoSuchRelation(2))));
    assert!(matches!(graph.source(0, 3), Err(GraphError::NoSuchEdge { relation: 0, edge: 3 })));
    assert!(matches!(graph.edge_time(1, 1), Err(GraphError::NoSuchEdge { relation: 1, edge: 1 })));
    // An edge of the next column is none of this one.
    assert!(matches!(graph.edge_value(0, 0, 3), Err(GraphError::NoSuchEdge { .. })));
    assert!(matches!(graph.edge_value(0, 2, 0), Err(GraphError::NoSuchColumn { .. })));
    assert!(matches!(graph.edge_value(1, 0, 0), Err(GraphError::NoSuchColumn { .. })));
    let none = Visible { first: 0, degree: 1 };
    assert!(matches!(graph.weight_prefix(1, none, 0), Err(GraphError::NotWeighted(name)) if name == "knows"));
    assert!(matches!(graph.gather(&[0, 9], &mut [0.0; 4]), Err(GraphError::NoSuchNode(9))));
}

#[test]
fn what_does_not_fit_is_refused() {
    let raw = raw();
    let node = |key: &str, features: &[f32]| MemoryNode { key: Key::from(key), features: features.to_vec() };
    let edge = |relation, dst: &str, time_ms, columns: &[f32]| MemoryEdge {
        relation,
        src: Key::from("a"),
        dst: Key::from(dst),
        time_ms,
        columns: columns.to_vec(),
    };
    let good = node("a", &[1.0, f32::NAN]);
    let build = |nodes: &[MemoryNode], edges: &[MemoryEdge]| {
        MemoryGraph::build(raw.schema(), nodes, edges).unwrap_err().to_string()
    };
    let detail = |edge| build(std::slice::from_ref(&good), &[edge]);
    assert_eq!(build(&[good.clone(), good.clone()], &[]), "node `a` is there twice");
    assert!(build(&[node("", &[0.0, 0.0])], &[]).contains("empty"));
    assert!(build(&[node(&"x".repeat(MAX_KEY + 1), &[0.0, 0.0])], &[]).contains("1025 bytes"));
    assert!(build(&[node("a", &[0.0])], &[]).contains("1 values"));
    assert!(build(&[node("a", &[0.0, f32::INFINITY])], &[]).contains("feature `y` is inf"));
    assert!(build(&[MemoryNode { key: Key::Int(1), features: vec![0.0; 2] }], &[]).contains("keys are strings"));
    assert!(detail(edge(0, "b", Some(0), &[0.0; 2])).contains("`b`: no such node"));
    assert!(detail(edge(0, "a", None, &[0.0; 2])).contains("`paid` has event times"));
    assert!(detail(edge(1, "a", Some(0), &[])).contains("`knows` has no event times"));
    assert!(detail(edge(0, "a", Some(0), &[0.0])).contains("2 columns"));
    assert!(detail(edge(0, "a", Some(0), &[0.0, f32::NAN])).contains("`double`"));
    assert!(detail(edge(0, "a", Some(0), &[1e13, 0.0])).contains("in-edges of node `a`"));
    assert!(detail(edge(2, "a", None, &[])).contains("no relation with index 2"));
}
