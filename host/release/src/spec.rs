//! `release.toml`: what a release's author writes. Every key is documented here; `docs/release.md` is checked against it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A release's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseSpec {
    /// The format's number: 1.
    pub format: u32,
    /// The kind of model. This host serves `graphsage`.
    pub kind: ModelKind,
    /// The graph that it reads, by its name in the server's configuration.
    pub graph: String,
    /// The columns of a request and of the model's input.
    pub schema: Schema,
    /// The model.
    pub model: ModelSpec,
    /// The neighbourhood.
    pub sampling: Sampling,
    /// Plugins by role: `sampler`, `edge-weigher`, `reducer`, `pre-processor`, `post-processor`.
    #[serde(default)]
    pub plugins: BTreeMap<PluginRole, PluginSpec>,
    /// The queue.
    #[serde(default)]
    pub batching: Batching,
    /// Deadlines.
    #[serde(default)]
    pub limits: Limits,
    /// The decision's defaults.
    #[serde(default)]
    pub decision: Decision,
}

/// What kind of model a release holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// GraphSAGE layers and a head.
    Graphsage,
}

/// A plugin's role: one WIT world each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginRole {
    /// Chooses the neighbourhood.
    Sampler,
    /// Linear aggregator: a coefficient per edge.
    EdgeWeigher,
    /// General aggregator.
    Reducer,
    /// Raw features to prepared ones.
    PreProcessor,
    /// Model outputs to a decision.
    PostProcessor,
}

/// The columns that requests and the model know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// The model's input columns, in its order: names of the graph's feature columns. In a request they override what the
    /// graph knows of the seed; for a node that the graph does not know they are all there is.
    pub node: Vec<Column>,
    /// Columns that only the plugins see, such as the amount of the transaction.
    #[serde(default)]
    pub request: Vec<Column>,
}

/// One column and what to do when it is missing. Both `null` and absent mean missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The value to use when it is missing; without it a missing value refuses the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<f32>,
    /// With a pre-processor: hand it the missing value instead (it must fill it). Not together with `fill`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plugin_fills: bool,
}

/// The model's shape; its numbers are in `weights.safetensors`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Layers from the input on.
    pub layers: Vec<LayerSpec>,
    /// Prefix of the dense head's tensors (`<prefix>.weight`, `<prefix>.bias`); none: the last layer gives the logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Logits to scores: `none`, `sigmoid` or `softmax`.
    #[serde(default)]
    pub output: OutputKind,
    /// Names of the outputs, one per logit, for the answers. Empty: scores are a list.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Tensor names of the input standardisation, `(x - shift) · scale`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaler: Option<ScalerSpec>,
}

/// See [`ModelSpec::scaler`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalerSpec {
    /// Tensor `[in]`, subtracted first.
    pub shift: String,
    /// Tensor `[in]`, multiplied then.
    pub scale: String,
}

/// See [`ModelSpec::output`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// Scores are the logits.
    #[default]
    None,
    /// Logistic function of each logit.
    Sigmoid,
    /// Softmax over the logits.
    Softmax,
}

/// One GraphSAGE layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// One convolution for each relation that it reads; their outputs are summed.
    pub convs: Vec<ConvSpec>,
    /// After the sum: `none` or `relu`.
    #[serde(default)]
    pub activation: ActivationKind,
    /// L2 normalisation after the activation (DGL's place; PyG's is in the convolution).
    #[serde(default)]
    pub normalize_after: bool,
}

/// See [`LayerSpec::activation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivationKind {
    /// Identity.
    #[default]
    None,
    /// max(x, 0).
    Relu,
}

/// One convolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvSpec {
    /// The relation's name in the graph.
    pub relation: String,
    /// The aggregator.
    pub aggregator: AggregatorKind,
    /// Whose tensor names follow: `pyg` (`<weights>.lin_l.weight` …) or `dgl` (`<weights>.fc_neigh.weight` …).
    #[serde(default)]
    pub layout: Layout,
    /// Prefix of the tensors, such as `convs.0`.
    pub weights: String,
    /// PyG `normalize=True`.
    #[serde(default)]
    pub normalize: bool,
    /// PyG `project=True`.
    #[serde(default)]
    pub project: bool,
    /// Whether a destination's own row takes part (PyG `root_weight`).
    #[serde(default = "yes")]
    pub root: bool,
    /// For `lstm` in PyG's layout: the length that neighbourhoods are padded to; a larger degree is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad_to: Option<u32>,
}

fn yes() -> bool {
    true
}

/// See [`ConvSpec::layout`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// PyTorch Geometric `SAGEConv`.
    #[default]
    Pyg,
    /// DGL `SAGEConv`.
    Dgl,
}

/// See [`ConvSpec::aggregator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AggregatorKind {
    /// Mean.
    Mean,
    /// Sum.
    Sum,
    /// Maximum.
    Max,
    /// DGL pool.
    Pool,
    /// LSTM.
    Lstm,
    /// DGL gcn.
    Gcn,
    /// Σ coefficient · x, coefficients from the release's `edge-weigher`.
    Weigher,
    /// The release's `reducer`.
    Reducer,
}

/// The neighbourhood of a seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// One per layer, nearest the seed first.
    pub hops: Vec<HopSpec>,
    /// How the frontier grows: `resample` (as DGL) or `reuse` (as PyG).
    #[serde(default)]
    pub growth: Growth,
    /// How neighbours are chosen where no sampler plugin is named.
    #[serde(default)]
    pub strategy: Strategy,
}

/// One hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopSpec {
    /// Neighbours per destination and relation; −1 takes all.
    pub fanout: i32,
}

/// See [`Sampling::growth`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// Each layer draws anew for all of its destinations.
    Resample,
    /// What a hop drew is used by every layer.
    #[default]
    Reuse,
}

/// See [`Sampling::strategy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Uniformly, without replacement.
    #[default]
    Uniform,
    /// Uniformly, with replacement.
    UniformWithReplacement,
    /// By the weight column, without replacement.
    Weighted,
    /// The newest.
    Latest,
}

/// A plugin of the release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSpec {
    /// Path inside the release folder, such as `plugins/standardize.wasm`.
    pub file: String,
    /// Longest time of one call, in milliseconds.
    #[serde(default = "default_call_ms")]
    pub call_ms: u32,
    /// Most memory of one instance, in MiB.
    #[serde(default = "default_memory_mib")]
    pub memory_mib: u32,
    /// What the plugin's `configure` gets.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
}

fn default_call_ms() -> u32 {
    50
}

fn default_memory_mib() -> u32 {
    64
}

/// The queue of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batching {
    /// Most requests in one batch.
    pub max_batch: usize,
    /// Longest wait of the oldest request while the engine is busy, in milliseconds.
    pub max_wait_ms: u32,
    /// Most requests waiting; over it they are refused with 429.
    pub max_queue: usize,
}

impl Default for Batching {
    fn default() -> Self {
        Self { max_batch: 32, max_wait_ms: 5, max_queue: 1024 }
    }
}

/// Deadlines of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// From a request's arrival to its answer, in milliseconds; a request may ask for less.
    pub deadline_ms: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { deadline_ms: 1000 }
    }
}

/// What decides where nothing else is rolled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decision {
    /// Name of the policy document (`policies/<name>`) that the post-processor gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The values used until such a document is rolled out; its version counts as 0.
    pub values: BTreeMap<String, toml::Value>,
}
