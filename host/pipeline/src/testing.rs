//! A small graph, model and release for the tests of this crate.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sagehost_batcher::ComputePool;
use sagehost_engine::cpu::CpuBackend;
use sagehost_graph::{GraphSchema, GraphView, KeyType, MemoryEdge, MemoryGraph, MemoryNode, RelationSchema};
use sagehost_plugin::PluginHost;
use sagehost_release::golden::Golden;
use sagehost_release::validate::parse_spec;
use sagehost_release::{LoadedFiles, LoadedPlugin};
use sagehost_telemetry::Metrics;
use sagehost_types::{Digest, Key, ReleaseId, TimeMs};

use crate::api::{Endpoint, Features, InferRequest, Seed, Want};
use crate::live::Live;
use crate::release::{LoadedRelease, Runtime};

/// The timed and weighted relation; relation 1, `knows`, has neither times nor weights.
pub(crate) const PAID: u32 = 0;
/// Nodes of every toy graph.
pub(crate) const NODES: u64 = 12;

/// A 2-layer model over both relations. Its columns are not in the graph's order.
pub(crate) const SPEC: &str = r#"
format = 1
kind = "graphsage"
graph = "toy"
[schema]
node = [{ name = "b" }, { name = "a", fill = 0.5 }]
request = [{ name = "mode", fill = 0.0 }]
[model]
head = "head"
output = "sigmoid"
[[model.layers]]
activation = "relu"
convs = [
  { relation = "paid", aggregator = "mean", weights = "l0.paid" },
  { relation = "knows", aggregator = "mean", weights = "l0.knows", root = false },
]
[[model.layers]]
convs = [
  { relation = "paid", aggregator = "mean", weights = "l1.paid" },
  { relation = "knows", aggregator = "mean", weights = "l1.knows", root = false },
]
[sampling]
hops = [{ fanout = 3 }, { fanout = 2 }]
[limits]
deadline_ms = 600000
"#;

/// Relation, source, destination (by place), time, amount.
pub(crate) type Edge = (u32, u64, u64, TimeMs, f32);

/// The key of a node by its place.
pub(crate) fn key(place: u64) -> Key {
    Key::from(100 + place)
}

/// Repeatable numbers from 0 to 1.
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    }
}

/// Edges with times from 0 to 19.
pub(crate) fn edges() -> Vec<Edge> {
    let mut number = numbers(7);
    let mut below = move |most: f32| (number() * most) as u64;
    let edge =
        |i: u32| (i % 2, below(NODES as f32), below(NODES as f32), below(20.0) as TimeMs, below(40.0) as f32 / 8.0);
    (0..150).map(edge).collect()
}

pub(crate) fn graph(edges: &[Edge]) -> Arc<dyn GraphView> {
    let relation = |name: &str, timed: bool| RelationSchema {
        name: name.into(),
        timed,
        columns: if timed { vec!["amount".into()] } else { vec![] },
        weight: timed.then(|| "amount".into()),
    };
    let schema = GraphSchema {
        key_type: KeyType::U64,
        features: vec!["a".into(), "unused".into(), "b".into()],
        relations: vec![relation("paid", true), relation("knows", false)],
    };
    let mut number = numbers(3);
    let node = |place: u64| {
        let a = if place % 4 == 1 { f32::NAN } else { number() };
        MemoryNode { key: key(place), features: vec![a, 9.0, number()] }
    };
    let nodes: Vec<_> = (0..NODES).map(node).collect();
    let edge = |&(relation, src, dst, time, amount): &Edge| MemoryEdge {
        relation,
        src: key(src),
        dst: key(dst),
        time_ms: (relation == PAID).then_some(time),
        columns: if relation == PAID { vec![amount] } else { vec![] },
    };
    Arc::new(MemoryGraph::build(schema, &nodes, &edges.iter().map(edge).collect::<Vec<_>>()).unwrap())
}

/// A `weights.safetensors`: a header's length, the header, the numbers.
fn weights() -> Vec<u8> {
    let mut number = numbers(11);
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, shape) in [
        ("head.bias", vec![1]),
        ("head.weight", vec![1, 3]),
        ("l0.knows.lin_l.bias", vec![4]),
        ("l0.knows.lin_l.weight", vec![4, 2]),
        ("l0.paid.lin_l.bias", vec![4]),
        ("l0.paid.lin_l.weight", vec![4, 2]),
        ("l0.paid.lin_r.weight", vec![4, 2]),
        ("l1.knows.lin_l.bias", vec![3]),
        ("l1.knows.lin_l.weight", vec![3, 4]),
        ("l1.paid.lin_l.bias", vec![3]),
        ("l1.paid.lin_l.weight", vec![3, 4]),
        ("l1.paid.lin_r.weight", vec![3, 4]),
    ] {
        let start = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            data.extend((number() * 4.0 - 1.5).to_le_bytes());
        }
        let (dtype, end) = ("F32", data.len());
        header.push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#));
    }
    let header = format!("{{{}}}", header.join(","));
    let header = format!("{header:width$}", width = header.len().next_multiple_of(8));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// A runtime with one graph, and a release for it.
pub(crate) struct Toy {
    pub(crate) runtime: Runtime,
    spec: String,
}

impl Toy {
    /// The release above with more TOML at its end.
    pub(crate) fn new(more: &str) -> Self {
        Self::on(graph(&edges()), &format!("{SPEC}{more}"))
    }

    pub(crate) fn on(graph: Arc<dyn GraphView>, spec: &str) -> Self {
        let runtime = Runtime {
            compute: Arc::new(ComputePool::new("compute", 1, 64).unwrap()),
            guest_threads: 1,
            backend: Arc::new(CpuBackend::new()),
            plugins: PluginHost::new().unwrap(),
            metrics: Arc::new(Metrics::new("test")),
            graphs: [("toy".to_owned(), graph)].into(),
        };
        Self { runtime, spec: spec.into() }
    }

    /// The release's files. Plugins are those that `cargo xtask plugins` builds.
    pub(crate) fn files(&self) -> LoadedFiles {
        let spec = parse_spec("release.toml", &self.spec).unwrap();
        let plugin = |file: &str| {
            let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
            let folder = std::env::var_os("SAGEHOST_PLUGINS").map_or_else(|| built.join("plugins"), Into::into);
            let path = folder.join(file.trim_start_matches("plugins/"));
            std::fs::read(&path)
                .unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask plugins`", path.display()))
        };
        let plugins = spec.plugins.iter().map(|(role, spec)| {
            let bytes = plugin(&spec.file);
            (*role, LoadedPlugin { spec: spec.clone(), digest: Digest::of(&bytes), bytes })
        });
        LoadedFiles {
            id: ReleaseId { model: "toy".into(), version: 1, digest: Digest::of(b"toy") },
            salt: "salt".into(),
            plugins: plugins.collect(),
            weights: weights(),
            golden: Golden { format: 1, ..Golden::default() },
            spec,
        }
    }

    pub(crate) fn load(&self) -> LoadedRelease {
        LoadedRelease::load(&self.runtime, self.files()).unwrap()
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        let release = Arc::new(self.load());
        let policy = Arc::clone(release.default_policy());
        Arc::new(Live { release, policy })
    }
}

/// A predict request for scores.
pub(crate) fn ask(seeds: Vec<Seed>) -> InferRequest {
    InferRequest {
        request_id: "r-1".into(),
        endpoint: Endpoint::Predict,
        model: None,
        seeds,
        entities: vec![],
        as_of_ms: None,
        nodes: vec![],
        edges: vec![],
        want: Want { scores: true, ..Want::default() },
        arrived: Instant::now(),
        timeout: None,
    }
}

/// A seed without features.
pub(crate) fn plain(place: u64) -> Seed {
    Seed { key: key(place), features: Features::Absent }
}

/// Features by name.
pub(crate) fn named(pairs: &[(&str, f32)]) -> Features {
    Features::Named(pairs.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect())
}
