//! The model in plain float64, written to be read: what every backend's results are held against. It is itself held
//! against the outputs of PyTorch Geometric and DGL in `tests/ref`.

use crate::backend::{Batch, LayerBlocks, RelationBlock};
use crate::plan::{Activation, Aggregator, Conv, HeadActivation, Linear, Lstm, Matrix, ModelPlan};

/// Rows of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Width.
    pub dim: usize,
    /// Row-major values.
    pub data: Vec<f64>,
}

impl Rows {
    fn zeros(rows: usize, dim: usize) -> Self {
        Self { dim, data: vec![0.0; rows * dim] }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.dim..][..self.dim]
    }

    fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.dim..][..self.dim]
    }
}

/// What the forward pass returns, as [`crate::Output`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// The last layer's rows.
    pub embeddings: Rows,
    /// The head's rows before its activation.
    pub logits: Rows,
    /// After it.
    pub scores: Rows,
}

/// Stands for a reducer plugin: `dim`, offsets by destination, gathered rows.
pub type Reduce<'a> = &'a dyn Fn(usize, &[u32], &[f64]) -> Vec<f64>;

/// Runs a batch that is known to fit the plan.
#[must_use]
pub fn forward(plan: &ModelPlan, batch: &Batch<'_>, reduce: Reduce<'_>) -> Expected {
    let mut rows = Rows { dim: plan.in_dim, data: batch.features.iter().map(|&v| f64::from(v)).collect() };
    for (layer, blocks) in plan.layers.iter().zip(&batch.layers) {
        let mut out = Rows::zeros(blocks.num_dst, layer.out_dim());
        for conv in &layer.convs {
            let part = convolve(conv, &rows, blocks, reduce);
            out.data.iter_mut().zip(&part.data).for_each(|(o, p)| *o += p);
        }
        if layer.activation == Activation::Relu {
            out.data.iter_mut().for_each(|v| *v = v.max(0.0));
        }
        if layer.normalize_after {
            normalize(&mut out);
        }
        rows = out;
    }
    let logits = plan.head.linear.as_ref().map_or_else(|| rows.clone(), |l| linear(l, &rows));
    let scores = activate(plan.head.activation, &logits);
    Expected { embeddings: rows, logits, scores }
}

fn convolve(conv: &Conv, rows: &Rows, blocks: &LayerBlocks, reduce: Reduce<'_>) -> Rows {
    let projected = conv.project.as_ref().map(|project| {
        let mut p = linear(project, rows);
        p.data.iter_mut().for_each(|v| *v = v.max(0.0));
        p
    });
    let sources = projected.as_ref().unwrap_or(rows);
    let own = gather(rows, &blocks.dst_rows);
    let aggregated = aggregate(&conv.aggregator, sources, &own, &blocks.relations[conv.relation], reduce);
    let mut out = linear(&conv.neighbour, &aggregated);
    if let Some(root) = &conv.root {
        let part = linear(root, &own);
        out.data.iter_mut().zip(&part.data).for_each(|(o, p)| *o += p);
    }
    if conv.normalize {
        normalize(&mut out);
    }
    out
}

fn aggregate(aggregator: &Aggregator, sources: &Rows, own: &Rows, block: &RelationBlock, reduce: Reduce<'_>) -> Rows {
    let pooled;
    let sources = if let Aggregator::Pool(fc) = aggregator {
        let mut p = linear(fc, sources);
        p.data.iter_mut().for_each(|v| *v = v.max(0.0));
        pooled = p;
        &pooled
    } else {
        sources
    };
    let num_dst = block.offsets.len() - 1;
    if matches!(aggregator, Aggregator::Reducer) {
        let gathered = gather(sources, &block.indices);
        return Rows { dim: sources.dim, data: reduce(sources.dim, &block.offsets, &gathered.data) };
    }
    let dim = if let Aggregator::Lstm(lstm) = aggregator { lstm.weight_hh.cols } else { sources.dim };
    let mut out = Rows::zeros(num_dst, dim);
    for dst in 0..num_dst {
        let edges = block.offsets[dst] as usize..block.offsets[dst + 1] as usize;
        let neighbours: Vec<&[f64]> = block.indices[edges.clone()].iter().map(|&s| sources.row(s as usize)).collect();
        let degree = neighbours.len() as f64;
        let to = out.row_mut(dst);
        match aggregator {
            Aggregator::Lstm(lstm) => to.copy_from_slice(&run_lstm(lstm, &neighbours)),
            Aggregator::Max | Aggregator::Pool(_) => {
                for (k, v) in to.iter_mut().enumerate() {
                    *v = neighbours.iter().map(|n| n[k]).reduce(f64::max).unwrap_or(0.0);
                }
            }
            Aggregator::Sum | Aggregator::Mean | Aggregator::Gcn | Aggregator::Coefficients | Aggregator::Reducer => {
                let coefficients = block.coefficients.as_ref().filter(|_| *aggregator == Aggregator::Coefficients);
                for (neighbour, edge) in neighbours.iter().zip(edges) {
                    let c = coefficients.map_or(1.0, |c| f64::from(c[edge]));
                    to.iter_mut().zip(*neighbour).for_each(|(t, n)| *t += c * n);
                }
                if *aggregator == Aggregator::Gcn {
                    to.iter_mut().zip(own.row(dst)).for_each(|(t, x)| *t = (*t + x) / (degree + 1.0));
                } else if *aggregator == Aggregator::Mean && degree > 0.0 {
                    to.iter_mut().for_each(|t| *t /= degree);
                }
            }
        }
    }
    out
}

fn run_lstm(lstm: &Lstm, neighbours: &[&[f64]]) -> Vec<f64> {
    let hidden = lstm.weight_hh.cols;
    let (mut h, mut c) = (vec![0.0; hidden], vec![0.0; hidden]);
    let zero = vec![0.0; lstm.weight_ih.cols];
    // PyG pads a destination without neighbours like any other, so that its row is the LSTM's answer to zeros.
    let steps = lstm.pad_to.map_or(neighbours.len(), |p| p as usize);
    for step in 0..steps {
        let x = neighbours.get(step).copied().unwrap_or(&zero);
        let gate = |g: usize, k: usize| {
            let at = g * hidden + k;
            dot(&lstm.weight_ih, at, x)
                + dot(&lstm.weight_hh, at, &h)
                + f64::from(lstm.bias_ih[at])
                + f64::from(lstm.bias_hh[at])
        };
        let next: Vec<(f64, f64)> = (0..hidden)
            .map(|k| {
                let (i, f) = (sigmoid(gate(0, k)), sigmoid(gate(1, k)));
                let (g, o) = (gate(2, k).tanh(), sigmoid(gate(3, k)));
                let cell = f * c[k] + i * g;
                (cell, o * cell.tanh())
            })
            .collect();
        for (k, (cell, out)) in next.into_iter().enumerate() {
            (c[k], h[k]) = (cell, out);
        }
    }
    h
}

fn gather(rows: &Rows, indices: &[u32]) -> Rows {
    Rows { dim: rows.dim, data: indices.iter().flat_map(|&i| rows.row(i as usize)).copied().collect() }
}

fn dot(weight: &Matrix, row: usize, x: &[f64]) -> f64 {
    weight.data[row * weight.cols..][..weight.cols].iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum()
}

fn linear(linear: &Linear, x: &Rows) -> Rows {
    let count = x.data.len() / x.dim;
    let mut out = Rows::zeros(count, linear.weight.rows);
    for i in 0..count {
        for k in 0..linear.weight.rows {
            let bias = linear.bias.as_ref().map_or(0.0, |b| f64::from(b[k]));
            out.row_mut(i)[k] = dot(&linear.weight, k, x.row(i)) + bias;
        }
    }
    out
}

fn normalize(rows: &mut Rows) {
    for row in rows.data.chunks_mut(rows.dim) {
        let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-12);
        row.iter_mut().for_each(|v| *v /= norm);
    }
}

fn activate(activation: HeadActivation, logits: &Rows) -> Rows {
    let mut out = logits.clone();
    match activation {
        HeadActivation::None => {}
        HeadActivation::Sigmoid => out.data.iter_mut().for_each(|v| *v = sigmoid(*v)),
        HeadActivation::Softmax => {
            for row in out.data.chunks_mut(logits.dim) {
                let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                row.iter_mut().for_each(|v| *v = (*v - top).exp());
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|v| *v /= sum);
            }
        }
    }
    out
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
