//! The reference models of PyTorch Geometric and DGL in `tests/ref`, with those libraries' own float64 outputs.

use std::path::{Path, PathBuf};

use super::Case;
use super::batches::OwnedBatch;
use crate::backend::{LayerBlocks, RelationBlock};
use crate::npy;
use crate::plan::{Activation, Aggregator, Conv, Head, Layer, Matrix, ModelPlan};
use crate::reference::{Expected, Rows};
use crate::weights::{AggregatorKind, ConvOptions, Weights};

const AGGREGATORS: [(&str, AggregatorKind); 6] = [
    ("mean", AggregatorKind::Mean),
    ("max", AggregatorKind::Max),
    ("sum", AggregatorKind::Sum),
    ("lstm", AggregatorKind::Lstm),
    ("gcn", AggregatorKind::Gcn),
    ("pool", AggregatorKind::Pool),
];

fn folder(library: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ref").join(library)
}

/// Every model of the set that a plan can express (no jumping knowledge, no min or multi aggregation).
pub(super) fn cases() -> Vec<Case> {
    let graph = Graph::read();
    let mut cases = vec![];
    for (name, kind) in &AGGREGATORS[..4] {
        for (normalize, project, layers) in
            (0..8).map(|bits: usize| (bits & 1 != 0, bits & 2 != 0, if bits & 4 != 0 { 3 } else { 2 }))
        {
            let file = format!("sage_{name}_n{}_p{}_jknone_L{layers}", u8::from(normalize), u8::from(project));
            let options = ConvOptions { normalize, project, ..ConvOptions::new(*kind) };
            cases.push(graph.case("pyg", &file, layers, options, |i| format!("convs.{i}")));
        }
        cases.push(graph.case("pyg", &format!("conv_{name}"), 1, ConvOptions::new(*kind), |_| String::new()));
        cases.push(bipartite(&format!("bip_{name}"), *kind));
    }
    let mean = ConvOptions::new(AggregatorKind::Mean);
    cases.push(graph.case("pyg", "conv_noroot", 1, ConvOptions { root: false, ..mean }, |_| String::new()));
    cases.push(graph.case("pyg", "conv_nobias", 1, mean, |_| String::new()));
    for name in ["mean", "gcn", "pool", "lstm"] {
        let kind = AGGREGATORS.iter().find(|a| a.0 == name).expect("listed above").1;
        for (tag, layers) in [("up1", 1), ("down1", 1), ("nobias1", 1), ("L2", 2), ("L3", 3)] {
            let file = format!("sage_{name}_{tag}");
            cases.push(graph.case("dgl", &file, layers, ConvOptions::new(kind), |i| format!("layers.{i}")));
        }
    }
    cases
}

/// The set's graph with all nodes as sources and destinations.
struct Graph {
    features: npy::Array,
    block: LayerBlocks,
}

impl Graph {
    fn read() -> Self {
        let features = npy::read(&folder("pyg").join("x.npy"));
        let nodes = features.shape[0];
        let relation = relation(&npy::read(&folder("pyg").join("edge_index.npy")), nodes);
        let dst_rows = (0..nodes as u32).collect();
        Self { features, block: LayerBlocks { num_src: nodes, num_dst: nodes, dst_rows, relations: vec![relation] } }
    }

    fn case(
        &self,
        library: &str,
        file: &str,
        layers: usize,
        options: ConvOptions,
        prefix: impl Fn(usize) -> String,
    ) -> Case {
        let bytes = read(&folder(library).join(format!("{file}.safetensors")));
        let mut weights = Weights::open(&bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
        let convs = (0..layers).map(|i| {
            let conv = match library {
                "pyg" => {
                    let padded = options.aggregator == AggregatorKind::Lstm;
                    let pad_to = padded.then(|| largest_degree(&self.block.relations[0]));
                    weights.pyg_conv(&prefix(i), ConvOptions { pad_to, ..options })
                }
                _ => weights.dgl_conv(&prefix(i), options),
            };
            conv.unwrap_or_else(|e| panic!("{file}: {e}"))
        });
        let plan = stack(self.features.shape[1], convs.collect());
        assert!(weights.unused().is_empty(), "{file}: {:?} not used", weights.unused());
        let batch = OwnedBatch {
            in_dim: plan.in_dim,
            features: self.features.data.iter().map(|&v| v as f32).collect(),
            layers: vec![self.block.clone(); layers],
        };
        Case { name: format!("{library}/{file}"), plan, batch, expected: expected(library, file) }
    }
}

/// `SAGEConv((8, 5), 4)`: sources and destinations of different widths. A plan has one kind of row, so sources become
/// `[x, 0]` and destinations `[0, x]`, and the weights get zero columns in the other's place.
fn bipartite(file: &str, kind: AggregatorKind) -> Case {
    let (xs, xt) = (npy::read(&folder("pyg").join("bip_xs.npy")), npy::read(&folder("pyg").join("bip_xt.npy")));
    let (ns, nt, ws, wt) = (xs.shape[0], xt.shape[0], xs.shape[1], xt.shape[1]);
    let mut features = vec![];
    for row in xs.data.chunks(ws) {
        features.extend(row.iter().map(|&v| v as f32));
        features.extend(vec![0.0; wt]);
    }
    for row in xt.data.chunks(wt) {
        features.extend(vec![0.0; ws]);
        features.extend(row.iter().map(|&v| v as f32));
    }
    let relation = relation(&npy::read(&folder("pyg").join("bip_edge_index.npy")), nt);
    let pad_to = (kind == AggregatorKind::Lstm).then(|| largest_degree(&relation));
    let bytes = read(&folder("pyg").join(format!("{file}.safetensors")));
    let mut weights = Weights::open(&bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut conv = weights
        .pyg_conv("", ConvOptions { pad_to, ..ConvOptions::new(kind) })
        .unwrap_or_else(|e| panic!("{file}: {e}"));
    match &mut conv.aggregator {
        Aggregator::Lstm(lstm) => widen(&mut lstm.weight_ih, 0, wt),
        _ => widen(&mut conv.neighbour.weight, 0, wt),
    }
    widen(&mut conv.root.as_mut().expect("the set's bipartite convolutions have a root").weight, ws, 0);
    let block = LayerBlocks {
        num_src: ns + nt,
        num_dst: nt,
        dst_rows: (ns as u32..(ns + nt) as u32).collect(),
        relations: vec![relation],
    };
    Case {
        name: format!("pyg/{file}"),
        plan: stack(ws + wt, vec![conv]),
        batch: OwnedBatch { in_dim: ws + wt, features, layers: vec![block] },
        expected: expected("pyg", file),
    }
}

fn widen(matrix: &mut Matrix, before: usize, after: usize) {
    let rows = matrix.data.chunks(matrix.cols).flat_map(|row| {
        std::iter::repeat_n(0.0, before).chain(row.iter().copied()).chain(std::iter::repeat_n(0.0, after))
    });
    *matrix = Matrix { rows: matrix.rows, cols: matrix.cols + before + after, data: rows.collect() };
}

/// ReLU between layers, as both of the set's scripts have it.
fn stack(in_dim: usize, convs: Vec<Conv>) -> ModelPlan {
    let last = convs.len() - 1;
    let layer = |(i, conv)| Layer {
        convs: vec![conv],
        activation: if i == last { Activation::None } else { Activation::Relu },
        normalize_after: false,
    };
    ModelPlan {
        in_dim,
        scaler: None,
        layers: convs.into_iter().enumerate().map(layer).collect(),
        head: Head::default(),
    }
}

fn expected(library: &str, file: &str) -> Expected {
    let array = npy::read(&folder(library).join(format!("{file}.f64.npy")));
    let rows = Rows { dim: array.shape[1], data: array.data };
    Expected { embeddings: rows.clone(), logits: rows.clone(), scores: rows }
}

/// Compressed rows from a `[2, edges]` array that is sorted by destination.
fn relation(edge_index: &npy::Array, num_dst: usize) -> RelationBlock {
    let (sources, destinations) = edge_index.data.split_at(edge_index.shape[1]);
    let ends = (0..=num_dst).map(|d| destinations.partition_point(|&v| v < d as f64) as u32);
    RelationBlock { offsets: ends.collect(), indices: sources.iter().map(|&s| s as u32).collect(), coefficients: None }
}

fn largest_degree(relation: &RelationBlock) -> u32 {
    relation.offsets.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
