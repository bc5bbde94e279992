use std::time::Duration;

use proptest::prelude::*;
use sagehost_graph::{GraphSchema, KeyType, MemoryEdge, MemoryGraph, MemoryNode, RelationSchema, Strategy};
use sagehost_types::Key;

use super::*;

/// Node 0 has `hub` in-edges at times 1, 2, …; node 1 has three at times 10, 20, 30.
fn graph(hub: u32) -> Arc<dyn GraphView> {
    let schema = GraphSchema {
        key_type: KeyType::U64,
        features: vec![],
        relations: vec![RelationSchema {
            name: "r".into(),
            timed: true,
            columns: vec!["weight".into()],
            weight: Some("weight".into()),
        }],
    };
    let nodes: Vec<_> = (0..4).map(|key| MemoryNode { key: Key::Int(key), features: vec![] }).collect();
    let edge = |dst: u64, time: i64| MemoryEdge {
        relation: 0,
        src: Key::Int(2 + u64::from(time % 2 == 0)),
        dst: Key::Int(dst),
        time_ms: Some(time),
        columns: vec![time as f32],
    };
    let edges: Vec<_> =
        (1..=i64::from(hub)).map(|time| edge(0, time)).chain([10, 20, 30].map(|time| edge(1, time))).collect();
    Arc::new(MemoryGraph::build(schema, &nodes, &edges).unwrap())
}

fn frontier(entries: &[(u64, i64)]) -> Frontier {
    Frontier { nodes: entries.iter().map(|e| e.0).collect(), as_of_ms: entries.iter().map(|e| e.1).collect() }
}

fn access(view: &Arc<dyn GraphView>, dst: &Frontier) -> GraphAccess {
    GraphAccess::new(Arc::clone(view), Some("salt".into()), dst, 64 << 20)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn pieces_make_the_same_block_as_the_whole() {
    let hub = 150_000;
    let view = graph(hub);
    // More destinations than a piece has, some of them the hub, some with a late and some with an early view of it.
    let mut dst = frontier(&[(0, i64::from(hub)), (1, 25), (2, 5), (0, 70_000), (0, 3)]);
    for i in 0..3000 {
        dst.push(i % 2, 3 + i as i64 % 30);
    }
    let access = access(&view, &dst);
    for strategy in [Strategy::Uniform, Strategy::UniformWithReplacement, Strategy::Weighted, Strategy::Latest] {
        for fanout in [0, 3, 64, 65, 70_000, -1] {
            if strategy == Strategy::UniformWithReplacement && fanout > 65 {
                continue;
            }
            let whole = sampling::sample(&*view, "salt", 0, 1, &dst, fanout, strategy).unwrap();
            let pieces = access.sample(soon(), (0, 1), dst.clone(), fanout, strategy).unwrap();
            assert!(whole == pieces, "{strategy:?} {fanout}");
        }
    }
    assert_eq!(access.degrees(soon(), 0, &dst).unwrap(), sampling::degrees(&*view, 0, &dst).unwrap());
    let edges: Vec<u64> = (0..5000).collect();
    assert_eq!(access.edge_times(soon(), 0, &edges).unwrap(), sampling::edge_times(&*view, 0, &edges).unwrap());
    assert_eq!(
        access.edge_column(soon(), 0, "weight", &edges).unwrap(),
        sampling::edge_column(&*view, 0, "weight", &edges).unwrap()
    );
}

#[test]
fn a_call_sees_nothing_later_than_its_newest_as_of() {
    let view = graph(10);
    let seeds = frontier(&[(0, 5)]);
    let access = access(&view, &seeds);
    let late = frontier(&[(0, 5), (1, 6)]);
    assert!(is_internal(access.degrees(soon(), 0, &late)));
    assert!(is_internal(access.sample(soon(), (0, 0), late.clone(), 5, Strategy::Uniform)));
    assert!(is_internal(access.pick(soon(), (0, 0), late, &[0, 1, 1], &[0])));
    assert_eq!(access.edge_times(soon(), 0, &[4]).unwrap(), [5]);
    assert!(is_internal(access.edge_times(soon(), 0, &[4, 5])));
    assert!(is_internal(access.edge_column(soon(), 0, "weight", &[5])));
    // An edge of the future reads as one that does not exist.
    let text = |error: CallError| match error {
        CallError::Guest(error) => error.message,
        CallError::TimedOut(_) => "timed out".into(),
    };
    let hidden = text(access.edge_times(soon(), 0, &[5]).unwrap_err());
    let absent = text(access.edge_times(soon(), 0, &[1000]).unwrap_err());
    assert_eq!(hidden.replace('5', "N"), absent.replace("1000", "N"));
}

#[test]
fn arguments_that_do_not_fit_are_the_guests_error() {
    let view = graph(10);
    let dst = frontier(&[(0, 100), (1, 100)]);
    let access = access(&view, &dst);
    let uneven = Frontier { nodes: vec![0, 1], as_of_ms: vec![5] };
    assert!(is_internal(access.degrees(soon(), 0, &uneven)));
    assert!(is_internal(access.degrees(soon(), 7, &dst)));
    assert!(is_internal(access.degrees(soon(), 0, &frontier(&[(99, 1)]))));
    assert!(is_internal(access.edge_column(soon(), 0, "nothing", &[0])));
    for (offsets, positions) in [
        (vec![], vec![]),
        (vec![0, 1], vec![0]),
        (vec![0, 2, 1], vec![0]),
        (vec![1, 1, 1], vec![0]),
        (vec![0, 1, 1], vec![10]),
    ] {
        assert!(is_internal(access.pick(soon(), (0, 0), dst.clone(), &offsets, &positions)), "{offsets:?}");
    }
    let too_many = access.sample(soon(), (0, 0), dst, i32::MAX, Strategy::UniformWithReplacement);
    assert!(matches!(too_many, Err(CallError::Guest(error)) if error.kind == ErrorKind::InvalidInput));
}

#[test]
fn time_is_looked_at_before_anything_is_done() {
    let view = graph(10);
    let dst = frontier(&[(0, 100)]);
    let access = access(&view, &dst);
    let over = Instant::now();
    assert!(matches!(access.degrees(over, 0, &dst), Err(CallError::TimedOut(_))));
    assert!(matches!(access.pick(over, (0, 0), dst.clone(), &[0, 0], &[]), Err(CallError::TimedOut(_))));
    assert!(matches!(access.sample(over, (0, 0), dst, 1, Strategy::Uniform), Err(CallError::TimedOut(_))));
    assert!(matches!(access.edge_times(over, 0, &[]), Err(CallError::TimedOut(_))));
    assert!(matches!(access.edge_column(over, 0, "weight", &[]), Err(CallError::TimedOut(_))));
}

fn is_internal<T>(result: Result<T, CallError>) -> bool {
    matches!(result, Err(CallError::Guest(error)) if error.kind == ErrorKind::Internal)
}

proptest! {
    #[test]
    fn picking_in_pieces_is_picking(rows in proptest::collection::vec((0u64..2, 0usize..3), 0..2500)) {
        let view = graph(50);
        let mut dst = Frontier::default();
        let (mut offsets, mut positions) = (vec![0u32], vec![]);
        for (i, (node, count)) in rows.into_iter().enumerate() {
            dst.push(node, 30);
            positions.extend((0..count).map(|k| (i + k) as u32 % 3));
            offsets.push(positions.len() as u32);
        }
        let whole = sampling::pick(&*view, 0, 2, &dst, &offsets, &positions).unwrap();
        let pieces = access(&view, &dst).pick(soon(), (0, 2), dst.clone(), &offsets, &positions).unwrap();
        prop_assert!(whole == pieces);
    }
}
