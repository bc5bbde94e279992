//! Each role's data arrive as they were sent, and samplers see no edge of the future.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_graph::{
    GraphSchema, GraphView, Growth, Hop, KeyType, MemoryEdge, MemoryGraph, MemoryNode, RelationSchema, Strategy, sample,
};
use sagehost_plugin::{
    Context, Decision, ErrorKind, Evidence, ModelOutput, Plugin, PluginError, PluginHost, Policy, Role, Rows, Setting,
};
use sagehost_types::{Block, Frontier, Key};

use crate::components::{self, peek};
use crate::{config, context, load, request, soon};

fn plugin(host: &Arc<PluginHost>, bytes: &[u8], role: Role) -> Plugin {
    Plugin::new(host, load(host, bytes, role), config("fixture")).unwrap()
}

/// Node 0 has in-edges from 1, 2 and 3 at times 10, 20 and 30 (edges 0, 1 and 2).
pub(crate) fn graph() -> Arc<dyn GraphView> {
    let relation =
        RelationSchema { name: "r".into(), timed: true, columns: vec!["weight".into()], weight: Some("weight".into()) };
    let schema = GraphSchema { key_type: KeyType::U64, features: vec![], relations: vec![relation] };
    let nodes: Vec<_> = (0..4).map(|key| MemoryNode { key: Key::Int(key), features: vec![] }).collect();
    let edges: Vec<_> = (1..4)
        .map(|i| MemoryEdge {
            relation: 0,
            src: Key::Int(i),
            dst: Key::Int(0),
            time_ms: Some(10 * i as i64),
            columns: vec![i as f32 / 2.0],
        })
        .collect();
    Arc::new(MemoryGraph::build(schema, &nodes, &edges).unwrap())
}

fn seed(as_of_ms: i64) -> Frontier {
    Frontier { nodes: vec![0], as_of_ms: vec![as_of_ms] }
}

fn run_sampler(plugin: &Plugin, seeds: &Frontier, fanout: i32) -> Result<Vec<Block>, PluginError> {
    let hops = [Hop { relations: vec![0], fanout }];
    plugin.sample(&graph(), &"salt".into(), seeds, &hops, Growth::Reuse, soon())
}

pub(crate) fn decide(plugin: &Plugin, score: f32, policy: &str, keys: &[&str]) -> Result<Decision, PluginError> {
    decide_until(plugin, score, policy, keys, soon())
}

pub(crate) fn decide_until(
    plugin: &Plugin,
    score: f32,
    policy: &str,
    keys: &[&str],
    deadline: Instant,
) -> Result<Decision, PluginError> {
    let evidence = Evidence {
        relations: vec!["r".into(); keys.len()],
        keys: keys.iter().map(|&key| key.into()).collect(),
        times_ms: vec![1; keys.len()],
        weights: vec![1.0; keys.len()],
        degree: 9,
    };
    let values = vec![("list".into(), Setting::Texts(vec!["a".into()])), ("cut".into(), Setting::Number(0.5))];
    let policy = Policy { name: policy.into(), version: 3, values };
    let output = ModelOutput { logits: &[1.0, 2.0], scores: &[score], embedding: &[0.0; 4] };
    let context = Context { request_id: "r".into(), as_of_ms: 7 };
    plugin.decide(&context, &request(&[Some(1.0)]), &[1.0], output, &evidence, &policy, deadline)
}

#[test]
fn a_post_processor_gets_everything_and_its_decision_is_checked() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::post_processor(), Role::PostProcessor);
    let decision = decide(&plugin, 0.25, "review", &["käse", "b"]).unwrap();
    assert_eq!(decision, Decision { score: 0.25, decision: "review".into(), reasons: vec!["käse".into(), "b".into()] });
    let long = "x".repeat(513);
    let many = vec!["k"; 33];
    for (score, policy, keys) in [
        (f32::NAN, "p", &["k"][..]),
        (0.5, &long[..65], &["k"]),
        (0.5, "", &["k"]),
        (0.5, "p", &[&long]),
        (0.5, "p", &many),
    ] {
        assert_eq!(decide(&plugin, score, policy, keys).unwrap_err().kind, ErrorKind::BadOutput);
    }
    decide(&plugin, 0.5, &long[..64], &[&long[..512]]).unwrap();
    assert_eq!(plugin.stats().created, 1);
}

#[test]
fn a_sampler_has_the_hosts_sample() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::sampler(), Role::Sampler);
    for (as_of, fanout) in [(100, 2), (100, -1), (25, 5), (5, 5)] {
        let seeds = seed(as_of);
        let expected = sample(&*graph(), "salt", 0, 0, &seeds, fanout, Strategy::Uniform).unwrap();
        assert_eq!(run_sampler(&plugin, &seeds, fanout).unwrap(), [expected], "{as_of} {fanout}");
    }
    assert_eq!(run_sampler(&plugin, &seed(1), peek::NOTHING).unwrap_err().kind, ErrorKind::BadOutput);
}

#[test]
fn a_sampler_cannot_see_the_future() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::sampler(), Role::Sampler);
    // At 15 one edge is visible: edge 2 and position 1 are the future.
    for (how, text) in [
        (peek::LATER, "later than this call may see"),
        (peek::PICK, "position 1"),
        (peek::TIME, "no edge 2"),
        (peek::COLUMN, "no edge 2"),
        (peek::UNEVEN, "as-of"),
    ] {
        let error = run_sampler(&plugin, &seed(15), how).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal, "{error}");
        assert!(error.message.contains(text), "{error}");
    }
    // At 30 it is the present: the same questions are answered (for times and values the fixture then gives no block).
    assert_eq!(run_sampler(&plugin, &seed(30), peek::PICK).unwrap()[0].edges, [1]);
    for how in [peek::TIME, peek::COLUMN] {
        assert_eq!(run_sampler(&plugin, &seed(30), how).unwrap_err().kind, ErrorKind::BadOutput);
    }
    assert_eq!(plugin.stats().created, 1, "an error that the guest passes on does not harm the instance");
}

#[test]
fn a_sampler_that_calls_the_host_for_ever_is_stopped() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::sampler(), Role::Sampler);
    let deadline = Instant::now() + Duration::from_millis(200);
    let hops = [Hop { relations: vec![0], fanout: peek::FOR_EVER }];
    let view = graph();
    let error = plugin.sample(&view, &"salt".into(), &seed(30), &hops, Growth::Reuse, deadline).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert_eq!(Arc::strong_count(&view), 1, "a call that ended holds no graph version");
    assert_eq!(run_sampler(&plugin, &seed(100), 2).unwrap()[0].num_edges(), 2);
}

#[test]
fn a_weigher_reads_edge_columns_and_draws_no_samples() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::edge_weigher(), Role::EdgeWeigher);
    let view = graph();
    let block = sample(&*view, "salt", 0, 0, &seed(100), -1, Strategy::Uniform).unwrap();
    assert_eq!(plugin.weigh(&view, 0, &block, soon()).unwrap(), [0.5, 1.0, 1.5]);
    let error = plugin.weigh(&view, 9, &block, soon()).unwrap_err();
    assert!(error.kind == ErrorKind::Internal && error.message.contains("only a sampler"), "{error}");
    assert_eq!(Arc::strong_count(&view), 1, "an idle instance holds no graph version");
}

#[test]
fn a_reducer_returns_one_row_per_destination() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::reducer(), Role::Reducer);
    let rows = Rows { dim: 2, offsets: &[0, 2, 3], rows: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    assert_eq!(plugin.reduce(0, rows, soon()).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(plugin.reduce(1, rows, soon()).unwrap_err().kind, ErrorKind::BadOutput);
    let nan = Rows { rows: &[1.0, f32::NAN, 3.0, 4.0, 5.0, 6.0], ..rows };
    assert_eq!(plugin.reduce(0, nan, soon()).unwrap_err().kind, ErrorKind::BadOutput);
}

#[test]
fn missing_values_arrive_as_missing() {
    let host = PluginHost::new().unwrap();
    let plugin = plugin(&host, &components::pre_processor(), Role::PreProcessor);
    let values = plugin.prepare(&context(), &request(&[Some(0.5), None, Some(-3.0)]), soon()).unwrap();
    assert_eq!(values, [0.5, 0.0, -3.0]);
    assert_eq!(plugin.prepare(&context(), &request(&[]), soon()).unwrap(), [0.0f32; 0]);
}
