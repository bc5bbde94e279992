//! What the pipeline says to plugins and hears from them: plain types, the same for every version of the WIT contract.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sagehost_types::TimeMs;

/// What a plugin does in a release; one WIT world each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Chooses the neighbourhood.
    Sampler,
    /// Linear aggregator: one coefficient per sampled edge.
    EdgeWeigher,
    /// General aggregator: reduces each destination's neighbour rows to one row.
    Reducer,
    /// Raw features to prepared ones.
    PreProcessor,
    /// Model outputs to a decision.
    PostProcessor,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] =
        [Self::Sampler, Self::EdgeWeigher, Self::Reducer, Self::PreProcessor, Self::PostProcessor];

    /// The name of the role's WIT world, as in `release.toml` and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampler => "sampler",
            Self::EdgeWeigher => "edge-weigher",
            Self::Reducer => "reducer",
            Self::PreProcessor => "pre-processor",
            Self::PostProcessor => "post-processor",
        }
    }

    /// Whether the role reads the graph through the host's primitives.
    #[must_use]
    pub const fn reads_graph(self) -> bool {
        matches!(self, Self::Sampler | Self::EdgeWeigher)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no plugin role: sampler, edge-weigher, reducer, pre-processor or post-processor")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| UnknownRole(text.chars().take(64).collect()))
    }
}

/// A value of a plugin's settings or of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A truth value.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Numbers.
    Numbers(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

/// How a plugin is run for one release.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// The plugin's name for messages, logs and metrics: its file's stem, such as `risk-decision`.
    pub name: Arc<str>,
    /// `model@version` of the release that it serves.
    pub release: Arc<str>,
    /// What its `configure` gets.
    pub settings: Vec<(String, Setting)>,
    /// Longest time of one call; a request's deadline may be nearer.
    pub call_limit: Duration,
    /// Most bytes of one instance: linear memories and tables together.
    pub memory_limit: usize,
    /// Most instances at one time, so most calls at one time; at least 1.
    pub max_instances: usize,
}

/// What a pre- or post-processor knows of the request that it serves.
#[derive(Clone, Debug)]
pub struct Context {
    /// The request's id, as in the answer.
    pub request_id: Arc<str>,
    /// The as-of time: nothing later was visible to the model.
    pub as_of_ms: TimeMs,
}

/// A named number of a request; `None` is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// The column's name in the release's schema.
    pub name: Arc<str>,
    /// Its raw value.
    pub value: Option<f32>,
}

/// An external key and what it is a key of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// `user` for the seed; device, ip, card … for others.
    pub kind: Arc<str>,
    /// The key as text.
    pub key: String,
}

/// A validated request, as one seed of it is shown to pre- and post-processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The seed's key first, then the request's other entity keys.
    pub entities: Vec<Entity>,
    /// Every column of the release's schema, in its order.
    pub features: Vec<Feature>,
}

/// What the model said of the seed.
#[derive(Clone, Copy, Debug)]
pub struct ModelOutput<'a> {
    /// The head's raw outputs.
    pub logits: &'a [f32],
    /// After the head's activation.
    pub scores: &'a [f32],
    /// The last GraphSAGE layer's row.
    pub embedding: &'a [f32],
}

/// The sampled neighbours of the seed's first hop, in canonical order; the lists are parallel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Relation names.
    pub relations: Vec<Arc<str>>,
    /// External keys as text.
    pub keys: Vec<String>,
    /// Event times; `TimeMs::MIN` where an edge has none.
    pub times_ms: Vec<TimeMs>,
    /// The relation's weight column, 1 where it has none.
    pub weights: Vec<f32>,
    /// Visible in-degree of the seed over all relations of the first hop, sampled or not.
    pub degree: u32,
}

/// Thresholds and lists that roll out without a new model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The policy document's name.
    pub name: String,
    /// Its version; 0 for the values that came with the release.
    pub version: u64,
    /// Its values.
    pub values: Vec<(String, Setting)>,
}

/// What a post-processor decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The mapped score: finite.
    pub score: f64,
    /// Such as `approve`, `review`, `decline`.
    pub decision: String,
    /// Why, most important first.
    pub reasons: Vec<String>,
}

/// Rows for a reducer: CSR by destination.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Numbers per row.
    pub dim: u32,
    /// Row starts: destinations + 1.
    pub offsets: &'a [u32],
    /// `offsets.last() × dim` numbers, row-major.
    pub rows: &'a [f32],
}
