//! Generated cases: the corners that the libraries' models do not reach.

use super::Case;
use super::batches::{OwnedBatch, Rng, select};
use crate::backend::{Hooks, LayerBlocks, RelationBlock};
use crate::plan::{Activation, Aggregator, Conv, Head, HeadActivation, Layer, Linear, Lstm, Matrix, ModelPlan};
use crate::reference;

/// Longest neighbourhood of the generated graphs, hubs apart.
const MAX_DEGREE: usize = 9;

/// The suite's reducer plugin: the element-wise median, zeros where there is no neighbour.
pub struct Median;

impl Hooks for Median {
    fn reduce(&mut self, _: usize, _: usize, dim: usize, offsets: &[u32], rows: &[f32]) -> Result<Vec<f32>, String> {
        let rows: Vec<f64> = rows.iter().map(|&v| f64::from(v)).collect();
        Ok(median(dim, offsets, &rows).into_iter().map(|v| v as f32).collect())
    }
}

pub(super) fn median(dim: usize, offsets: &[u32], rows: &[f64]) -> Vec<f64> {
    let mut out = vec![];
    for ends in offsets.windows(2) {
        let rows = &rows[ends[0] as usize * dim..ends[1] as usize * dim];
        for k in 0..dim {
            let mut column: Vec<f64> = rows.iter().skip(k).step_by(dim).copied().collect();
            column.sort_unstable_by(f64::total_cmp);
            let mid = column.len() / 2;
            out.push(match column.len() {
                0 => 0.0,
                n if n % 2 == 1 => column[mid],
                _ => f64::midpoint(column[mid - 1], column[mid]),
            });
        }
    }
    out
}

/// The aggregators by name, for rows of `dim`.
const KINDS: [&str; 9] = ["mean", "sum", "max", "pool", "lstm", "padded-lstm", "gcn", "coefficients", "reducer"];

fn aggregator(kind: &str, dim: usize, rng: &mut Rng) -> (Aggregator, usize) {
    let hidden = if dim > 200 { 16 } else { dim.max(2) };
    let made = match kind {
        "mean" => Aggregator::Mean,
        "sum" => Aggregator::Sum,
        "max" => Aggregator::Max,
        "gcn" => Aggregator::Gcn,
        "coefficients" => Aggregator::Coefficients,
        "reducer" => Aggregator::Reducer,
        "pool" => Aggregator::Pool(linear(hidden, dim, true, rng)),
        _ => Aggregator::Lstm(Lstm {
            weight_ih: matrix(4 * hidden, dim, rng),
            weight_hh: matrix(4 * hidden, hidden, rng),
            bias_ih: rng.values(4 * hidden, 0.5),
            bias_hh: rng.values(4 * hidden, 0.5),
            pad_to: (kind == "padded-lstm").then_some(MAX_DEGREE as u32),
        }),
    };
    let out = if matches!(made, Aggregator::Pool(_) | Aggregator::Lstm(_)) { hidden } else { dim };
    (made, out)
}

fn matrix(rows: usize, cols: usize, rng: &mut Rng) -> Matrix {
    Matrix { rows, cols, data: rng.values(rows * cols, (3.0 / cols as f32).sqrt()) }
}

fn linear(rows: usize, cols: usize, bias: bool, rng: &mut Rng) -> Linear {
    Linear { weight: matrix(rows, cols, rng), bias: bias.then(|| rng.values(rows, 0.5)) }
}

fn conv(kind: &str, relation: usize, dims: (usize, usize), rng: &mut Rng) -> Conv {
    let (aggregator, width) = aggregator(kind, dims.0, rng);
    let root = (kind != "gcn").then(|| linear(dims.1, dims.0, false, rng));
    Conv { relation, aggregator, project: None, neighbour: linear(dims.1, width, true, rng), root, normalize: false }
}

/// Layers of `kind` through `dims`, ReLU between them.
fn model(kind: &str, dims: &[usize], rng: &mut Rng) -> ModelPlan {
    let last = dims.len() - 2;
    let layer = |(i, d): (usize, &[usize])| Layer {
        convs: vec![conv(kind, 0, (d[0], d[1]), rng)],
        activation: if i == last { Activation::None } else { Activation::Relu },
        normalize_after: false,
    };
    let layers = dims.windows(2).enumerate().map(layer).collect();
    ModelPlan { in_dim: dims[0], scaler: None, layers, head: Head::default() }
}

fn edges(nodes: usize, max_degree: usize, rng: &mut Rng) -> RelationBlock {
    let mut block = RelationBlock { offsets: vec![0], indices: vec![], coefficients: None };
    for _ in 0..nodes {
        let degree = rng.below(max_degree + 1);
        block.indices.extend((0..degree).map(|_| rng.below(nodes) as u32));
        block.offsets.push(block.indices.len() as u32);
    }
    block
}

/// All `nodes` in every layer; coefficients for the relations that some convolution wants them for.
fn whole(plan: &ModelPlan, nodes: usize, max_degree: usize, rng: &mut Rng) -> OwnedBatch {
    let features = rng.values(nodes * plan.in_dim, 1.0);
    let layers = plan.layers.iter().map(|layer| {
        let count = layer.convs.iter().map(|c| c.relation + 1).max().unwrap_or(0);
        let relations = (0..count).map(|r| {
            let mut block = edges(nodes, max_degree, rng);
            if layer.convs.iter().any(|c| c.relation == r && c.aggregator == Aggregator::Coefficients) {
                block.coefficients = Some(rng.values(block.indices.len(), 1.0));
            }
            block
        });
        let relations = relations.collect();
        LayerBlocks { num_src: nodes, num_dst: nodes, dst_rows: (0..nodes as u32).collect(), relations }
    });
    let layers = layers.collect();
    OwnedBatch { in_dim: plan.in_dim, features, layers }
}

fn case(name: impl Into<String>, plan: ModelPlan, batch: OwnedBatch) -> Case {
    let expected = reference::forward(&plan, &batch.borrow(), &median);
    Case { name: format!("generated/{}", name.into()), plan, batch, expected }
}

pub(super) fn cases() -> Vec<Case> {
    let mut rng = Rng(1);
    let mut cases = vec![];
    for kind in KINDS {
        for (dims, nodes) in [(&[1, 1, 1][..], 37), (&[3, 7, 2], 70), (&[128, 64, 33], 45), (&[1433, 16], 40)] {
            let plan = model(kind, dims, &mut rng);
            let all = whole(&plan, nodes, MAX_DEGREE, &mut rng);
            let mut seeds: Vec<u32> = (0..nodes as u32).collect();
            rng.shuffle(&mut seeds);
            seeds.truncate(nodes - 5);
            let batch = select(&all, &seeds, 1, &mut rng);
            cases.push(case(format!("{kind}-in{}", dims[0]), plan, batch));
        }
        let plan = model(kind, &[5, 6, 4], &mut rng);
        cases.push(case(format!("{kind}-no-edges"), plan.clone(), whole(&plan, 6, 0, &mut rng)));
        cases.push(case(format!("{kind}-single-node"), plan.clone(), whole(&plan, 1, MAX_DEGREE, &mut rng)));
        cases.push(case(format!("{kind}-empty-batch"), plan.clone(), whole(&plan, 0, 0, &mut rng)));
        let seeds = whole(&plan, 4097, 3, &mut rng);
        cases.push(case(format!("{kind}-4097-seeds"), plan, seeds));
    }
    cases.extend(hubs(&mut rng));
    cases.extend(combinations(&mut rng));
    cases.extend(values(&mut rng));
    cases.extend(heads(&mut rng));
    cases
}

/// One destination that has 5,000 neighbours, whose first two columns are of one sign: a plain f32 sum loses too much there.
fn hubs(rng: &mut Rng) -> Vec<Case> {
    let kinds = ["mean", "sum", "max", "pool", "gcn", "coefficients", "reducer"];
    let hub = |kind: &&str| {
        let plan = model(kind, &[20, 8], rng);
        let mut batch = whole(&plan, 30, 4, rng);
        let block = &mut batch.layers[0].relations[0];
        let start = block.offsets[29] as usize;
        block.indices.truncate(start);
        block.indices.extend((0..5000).map(|_| rng.below(30) as u32));
        block.offsets[30] = block.indices.len() as u32;
        if block.coefficients.is_some() {
            block.coefficients = Some(rng.values(block.indices.len(), 0.1));
        }
        for row in batch.features.chunks_mut(20) {
            (row[0], row[1]) = (0.1, row[1].abs() + 0.3);
        }
        case(format!("{kind}-hub"), plan, batch)
    };
    kinds.iter().map(hub).collect()
}

/// Several relations, projections and both places of normalisation.
fn combinations(rng: &mut Rng) -> Vec<Case> {
    let mut cases = vec![];
    for (normalize, after, project) in (0..8).map(|b: u32| (b & 1 != 0, b & 2 != 0, b & 4 != 0)) {
        let mut layers = vec![];
        for (i, dims) in [(6, 9), (9, 5)].into_iter().enumerate() {
            let kinds =
                if i == 0 { ["mean", "pool", "coefficients", "lstm"] } else { ["max", "sum", "gcn", "reducer"] };
            let mut convs: Vec<Conv> = kinds.iter().enumerate().map(|(r, kind)| conv(kind, r % 3, dims, rng)).collect();
            for conv in &mut convs {
                conv.normalize = normalize;
                if project && conv.aggregator != Aggregator::Gcn {
                    conv.project = Some(linear(dims.0, dims.0, true, rng));
                }
            }
            layers.push(Layer { convs, activation: Activation::Relu, normalize_after: after });
        }
        let plan = ModelPlan { in_dim: 6, scaler: None, layers, head: Head::default() };
        let batch = whole(&plan, 50, MAX_DEGREE, rng);
        cases.push(case(format!("relations-n{normalize}-after{after}-p{project}"), plan, batch));
    }
    cases
}

/// Negative maxima, zero vectors under normalisation, large and tiny magnitudes.
fn values(rng: &mut Rng) -> Vec<Case> {
    let mut cases = vec![];
    let mut plan = model("max", &[4, 4], rng);
    plan.layers[0].convs[0].neighbour = Linear { weight: Matrix { rows: 4, cols: 4, data: identity(4) }, bias: None };
    plan.layers[0].convs[0].root = None;
    let mut batch = whole(&plan, 20, MAX_DEGREE, rng);
    batch.features.iter_mut().for_each(|v| *v = -1.0 - v.abs());
    cases.push(case("negative-maxima", plan, batch));

    for after in [false, true] {
        let mut plan = model("sum", &[4, 5, 3], rng);
        for layer in &mut plan.layers {
            let conv = &mut layer.convs[0];
            (conv.normalize, layer.normalize_after) = (!after, after);
            conv.neighbour.bias = None;
        }
        let mut batch = whole(&plan, 20, 2, rng);
        // Half of the rows are zero, and so is what comes out where all neighbours are zero as well.
        batch.features[..40].fill(0.0);
        cases.push(case(format!("zero-vectors-after{after}"), plan.clone(), batch.clone()));
        batch.features.fill(0.0);
        cases.push(case(format!("all-zero-after{after}"), plan, batch));
    }
    for scale in [1e-6f32, 1e6] {
        let plan = model("mean", &[8, 16, 4], rng);
        let mut batch = whole(&plan, 33, MAX_DEGREE, rng);
        batch.features.iter_mut().for_each(|v| *v *= scale);
        cases.push(case(format!("scale-{scale:e}"), plan, batch));
    }
    // Gates far in saturation: exp must neither overflow nor give NaN.
    let plan = model("lstm", &[8, 4], rng);
    let mut batch = whole(&plan, 33, MAX_DEGREE, rng);
    batch.features.iter_mut().for_each(|v| *v *= 1e4);
    cases.push(case("lstm-saturated", plan, batch));
    cases
}

fn identity(n: usize) -> Vec<f32> {
    (0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }).collect()
}

fn heads(rng: &mut Rng) -> Vec<Case> {
    let mut cases = vec![];
    for (activation, name) in
        [(HeadActivation::None, "none"), (HeadActivation::Sigmoid, "sigmoid"), (HeadActivation::Softmax, "softmax")]
    {
        for out in [0, 1, 7] {
            let mut plan = model("mean", &[6, 12, 5], rng);
            plan.head.activation = activation;
            plan.head.linear = (out > 0).then(|| linear(out, 5, out > 1, rng));
            let batch = whole(&plan, 40, MAX_DEGREE, rng);
            cases.push(case(format!("head-{name}-{out}"), plan, batch));
        }
        // Scores of logits far out must be zeros and ones, not NaN. The logits are exact, as their errors would be
        // magnified here.
        let mut plan = model("mean", &[6, 5], rng);
        plan.head.activation = activation;
        let weight = Matrix { rows: 7, cols: 5, data: vec![0.0; 35] };
        plan.head.linear = Some(Linear { weight, bias: Some(vec![1e4, -1e4, 0.0, 90.0, -90.0, 1e4, -1e30]) });
        let batch = whole(&plan, 5, MAX_DEGREE, rng);
        cases.push(case(format!("head-{name}-far"), plan, batch));
    }
    cases
}

/// A small model with a batch, for [`super::refusals`] to break.
pub(super) fn sample(kind: &str, rng: &mut Rng) -> (ModelPlan, OwnedBatch) {
    let plan = model(kind, &[4, 6, 3], rng);
    let batch = whole(&plan, 12, MAX_DEGREE, rng);
    (plan, batch)
}

/// The median with something done to it.
pub(super) fn broken_hook(break_rows: fn(&mut Vec<f32>)) -> impl Hooks {
    struct Broken(fn(&mut Vec<f32>));
    impl Hooks for Broken {
        fn reduce(
            &mut self,
            layer: usize,
            relation: usize,
            dim: usize,
            offsets: &[u32],
            rows: &[f32],
        ) -> Result<Vec<f32>, String> {
            let mut out = Median.reduce(layer, relation, dim, offsets, rows)?;
            (self.0)(&mut out);
            Ok(out)
        }
    }
    Broken(break_rows)
}
