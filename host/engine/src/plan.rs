//! A model, planned: what a backend loads. Weights are row-major `[out, in]` as PyTorch writes them, f32.
//!
//! Source of the maths: PyTorch Geometric `SAGEConv`, DGL `SAGEConv`; see `docs/engine.md`.

mod validate;

/// A row-major matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// Rows: the output width of a weight.
    pub rows: usize,
    /// Columns: the input width of a weight.
    pub cols: usize,
    /// `rows × cols` values.
    pub data: Vec<f32>,
}

/// `y = x · weightᵀ + bias`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Matrix,
    /// `[out]`.
    pub bias: Option<Vec<f32>>,
}

/// Element-wise activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Identity.
    #[default]
    None,
    /// max(x, 0).
    Relu,
}

/// Weights of a one-layer, one-direction LSTM, gates in PyTorch's order (input, forget, cell, output).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lstm {
    /// `[4·hidden, in]`.
    pub weight_ih: Matrix,
    /// `[4·hidden, hidden]`.
    pub weight_hh: Matrix,
    /// `[4·hidden]`: the sum of both biases is what counts; kept apart as the libraries add them.
    pub bias_ih: Vec<f32>,
    /// `[4·hidden]`.
    pub bias_hh: Vec<f32>,
    /// PyG pads every neighbourhood with zero rows to this length and takes the last *padded* step; a larger degree is
    /// refused. `None` (DGL): no padding, the last real step.
    pub pad_to: Option<u32>,
}

/// How a destination's neighbour rows become one row. No neighbours give zeros, but for a padded LSTM, which then runs
/// over padding alone, and for [`Aggregator::Gcn`].
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregator {
    /// Arithmetic mean.
    Mean,
    /// Sum.
    Sum,
    /// Element-wise maximum; negative maxima stay negative.
    Max,
    /// DGL pool: element-wise maximum of relu(fc(x)).
    Pool(Linear),
    /// LSTM over the neighbours in canonical order.
    Lstm(Lstm),
    /// (Σ neighbours + self) / (degree + 1), DGL's `gcn`.
    Gcn,
    /// Σ coefficient · x with one coefficient per edge from an edge-weigher plugin.
    Coefficients,
    /// Whatever a reducer plugin returns.
    Reducer,
}

/// One relation's convolution into a layer: `neighbour(aggregate(x_src)) + root(x_dst)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Relation index in the batch's blocks of this layer (not in the graph's schema).
    pub relation: usize,
    /// The aggregator.
    pub aggregator: Aggregator,
    /// PyG `project=True`: x_src ← relu(project(x_src)) before aggregation; x_dst is not projected.
    pub project: Option<Linear>,
    /// Applied to the aggregated row (`lin_l`, `fc_neigh`).
    pub neighbour: Linear,
    /// Applied to the destination's own row (`lin_r`, `fc_self`); absent with `root_weight=False` and for gcn.
    pub root: Option<Linear>,
    /// L2 normalisation of this convolution's output before relations are summed: x / max(‖x‖₂, 1e-12), as PyG.
    pub normalize: bool,
}

/// A GraphSAGE layer: the sum of its convolutions, then the activation, then (DGL's order) normalisation.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// One convolution a relation.
    pub convs: Vec<Conv>,
    /// After the sum.
    pub activation: Activation,
    /// L2 normalisation after the activation, x / max(‖x‖₂, 1e-12).
    pub normalize_after: bool,
}

impl Layer {
    /// The layer's output width.
    #[must_use]
    pub fn out_dim(&self) -> usize {
        self.convs.first().map_or(0, |c| c.neighbour.weight.rows)
    }
}

/// What turns logits into scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadActivation {
    /// Scores are the logits.
    #[default]
    None,
    /// Element-wise logistic function.
    Sigmoid,
    /// Softmax over the row.
    Softmax,
}

/// The layers after GraphSAGE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Optional dense layer on the embedding; without it the embedding is the logits.
    pub linear: Option<Linear>,
    /// Logits to scores.
    pub activation: HeadActivation,
}

/// A whole GraphSAGE model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPlan {
    /// Width of an input row.
    pub in_dim: usize,
    /// Input standardisation, applied once to gathered rows: `(x - shift) · scale`, each `[in_dim]`.
    pub scaler: Option<Scaler>,
    /// Layer 0 reads the input features; the last layer's rows are the embeddings.
    pub layers: Vec<Layer>,
    /// After the last layer.
    pub head: Head,
}

/// See [`ModelPlan::scaler`].
#[derive(Clone, Debug, PartialEq)]
pub struct Scaler {
    /// Subtracted first.
    pub shift: Vec<f32>,
    /// Multiplied then.
    pub scale: Vec<f32>,
}

impl Scaler {
    /// Standardises rows in place. Engines do not: the pipeline does it once, as it gathers a batch's features.
    pub fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_mut(self.shift.len().max(1)) {
            for ((value, shift), scale) in row.iter_mut().zip(&self.shift).zip(&self.scale) {
                *value = (*value - shift) * scale;
            }
        }
    }
}
