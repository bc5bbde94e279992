//! Whether a plan's shapes fit each other.

use super::{Aggregator, Conv, Layer, Linear, Lstm, Matrix, ModelPlan};
use crate::error::EngineError;

impl ModelPlan {
    /// Checks every shape and value, so that a backend can index without further thought. All problems are reported
    /// together, each with its place.
    ///
    /// # Errors
    /// [`EngineError::Plan`].
    pub fn validate(&self) -> Result<(), EngineError> {
        let mut problems = Problems(vec![]);
        if self.in_dim == 0 {
            problems.add("", "the input width is 0");
        }
        if let Some(scaler) = &self.scaler {
            problems.vector("scaler shift", &scaler.shift, self.in_dim);
            problems.vector("scaler scale", &scaler.scale, self.in_dim);
        }
        if self.layers.is_empty() {
            problems.add("", "a model needs at least one layer");
        }
        let mut dim = self.in_dim;
        for (i, layer) in self.layers.iter().enumerate() {
            problems.layer(&format!("layer {i}"), layer, dim);
            dim = layer.out_dim();
        }
        if let Some(linear) = &self.head.linear {
            problems.linear("head", linear, dim, None);
        }
        if problems.0.is_empty() { Ok(()) } else { Err(EngineError::Plan(problems.0.join("; "))) }
    }
}

/// Bounds what a batch must bring along for one layer.
const MAX_RELATIONS: usize = 4096;

struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, place: &str, what: impl AsRef<str>) {
        let gap = if place.is_empty() { "" } else { ": " };
        self.0.push(format!("{place}{gap}{}", what.as_ref()));
    }

    fn layer(&mut self, place: &str, layer: &Layer, in_dim: usize) {
        if layer.convs.is_empty() {
            self.add(place, "a layer needs at least one convolution");
        }
        if let Some(most) = layer.convs.iter().map(|c| c.relation).max().filter(|&r| r >= MAX_RELATIONS) {
            self.add(place, format!("relation {most}: a layer reads at most {MAX_RELATIONS} relations"));
        }
        for (i, conv) in layer.convs.iter().enumerate() {
            self.conv(&format!("{place}, convolution {i}"), conv, in_dim, layer.out_dim());
        }
    }

    fn conv(&mut self, place: &str, conv: &Conv, in_dim: usize, out_dim: usize) {
        let mut dim = in_dim;
        if let Some(project) = &conv.project {
            self.linear(&format!("{place}, project"), project, in_dim, None);
            dim = project.weight.rows;
            if conv.aggregator == Aggregator::Gcn {
                self.add(place, "gcn adds a destination's own row to its neighbours' and cannot be projected");
            }
        }
        match &conv.aggregator {
            Aggregator::Pool(fc) => {
                self.linear(&format!("{place}, pool"), fc, dim, None);
                dim = fc.weight.rows;
            }
            Aggregator::Lstm(lstm) => {
                self.lstm(&format!("{place}, LSTM"), lstm, dim);
                dim = lstm.weight_hh.cols;
            }
            Aggregator::Mean
            | Aggregator::Sum
            | Aggregator::Max
            | Aggregator::Gcn
            | Aggregator::Coefficients
            | Aggregator::Reducer => {}
        }
        self.linear(&format!("{place}, neighbour"), &conv.neighbour, dim, Some(out_dim));
        if let Some(root) = &conv.root {
            self.linear(&format!("{place}, root"), root, in_dim, Some(out_dim));
        }
    }

    fn lstm(&mut self, place: &str, lstm: &Lstm, in_dim: usize) {
        let gates = 4 * lstm.weight_hh.cols;
        self.matrix(&format!("{place} weight_hh"), &lstm.weight_hh, lstm.weight_hh.cols, Some(gates));
        self.matrix(&format!("{place} weight_ih"), &lstm.weight_ih, in_dim, Some(gates));
        self.vector(&format!("{place} bias_ih"), &lstm.bias_ih, gates);
        self.vector(&format!("{place} bias_hh"), &lstm.bias_hh, gates);
    }

    fn linear(&mut self, place: &str, linear: &Linear, in_dim: usize, out_dim: Option<usize>) {
        self.matrix(&format!("{place} weight"), &linear.weight, in_dim, out_dim);
        if let Some(bias) = &linear.bias {
            self.vector(&format!("{place} bias"), bias, linear.weight.rows);
        }
    }

    fn matrix(&mut self, place: &str, matrix: &Matrix, cols: usize, rows: Option<usize>) {
        if matrix.cols != cols || rows.is_some_and(|r| r != matrix.rows) {
            let rows = rows.map_or_else(|| "any".into(), |r| r.to_string());
            self.add(place, format!("is [{}, {}], expected [{rows}, {cols}]", matrix.rows, matrix.cols));
        }
        if matrix.rows == 0 || matrix.cols == 0 {
            self.add(place, format!("is empty: [{}, {}]", matrix.rows, matrix.cols));
        }
        if matrix.rows.checked_mul(matrix.cols) != Some(matrix.data.len()) {
            self.add(place, format!("is [{}, {}] but holds {} values", matrix.rows, matrix.cols, matrix.data.len()));
        }
        self.finite(place, &matrix.data);
    }

    fn vector(&mut self, place: &str, values: &[f32], len: usize) {
        if values.len() != len {
            self.add(place, format!("has {} values, expected {len}", values.len()));
        }
        self.finite(place, values);
    }

    fn finite(&mut self, place: &str, values: &[f32]) {
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            self.add(place, format!("holds {} at flat index {at}", values[at]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Activation, Head, HeadActivation};

    fn linear(rows: usize, cols: usize) -> Linear {
        Linear { weight: Matrix { rows, cols, data: vec![0.5; rows * cols] }, bias: None }
    }

    fn plan() -> ModelPlan {
        let conv = Conv {
            relation: 0,
            aggregator: Aggregator::Mean,
            project: None,
            neighbour: linear(3, 2),
            root: Some(linear(3, 2)),
            normalize: false,
        };
        let layer = Layer { convs: vec![conv], activation: Activation::Relu, normalize_after: false };
        let head = Head { linear: Some(linear(1, 3)), activation: HeadActivation::Sigmoid };
        ModelPlan { in_dim: 2, scaler: None, layers: vec![layer], head }
    }

    #[test]
    fn all_problems_are_reported_together() {
        plan().validate().expect("consistent");
        let mut broken = plan();
        broken.layers[0].convs[0].root = Some(linear(4, 2));
        broken.layers[0].convs[0].neighbour.bias = Some(vec![0.0, f32::NAN]);
        broken.head.linear = Some(linear(1, 9));
        let text = broken.validate().expect_err("three problems").to_string();
        for part in [
            "layer 0, convolution 0, root weight: is [4, 2], expected [3, 2]",
            "layer 0, convolution 0, neighbour bias: has 2 values, expected 3",
            "neighbour bias: holds NaN at flat index 1",
            "head weight: is [1, 9], expected [any, 3]",
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
    }

    #[test]
    fn a_stray_relation_number_is_named() {
        let mut broken = plan();
        broken.layers[0].convs[0].relation = usize::MAX;
        assert!(broken.validate().expect_err("unreachable").to_string().contains("relation"));
    }
}
