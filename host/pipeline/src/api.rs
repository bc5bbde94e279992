//! What goes into the pipeline and what comes out: protocol-neutral. The gateway translates HTTP to and from these.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_types::{GraphVersion, Key, ReleaseId, TimeMs};

/// A validated-in-form inference request: its fields exist and have the right types; whether nodes and columns exist is
/// the pipeline's to say.
#[derive(Clone, Debug)]
pub struct InferRequest {
    /// The request's id: the client's `x-request-id`, or a generated one.
    pub request_id: Arc<str>,
    /// Which endpoint took it: `predict` or `score`. Routes are kept per endpoint.
    pub endpoint: Endpoint,
    /// The model, where the request names one; else the endpoint's route decides.
    pub model: Option<String>,
    /// The nodes asked about, in the request's order; repeats are answered each and computed once.
    pub seeds: Vec<Seed>,
    /// Other entity keys of the request (device, ip, card …), for the post-processor.
    pub entities: Vec<(String, String)>,
    /// As-of time; absent: the newest event time of the graph version and of the request's own edges.
    pub as_of_ms: Option<TimeMs>,
    /// Nodes that the request brings along.
    pub nodes: Vec<RequestNode>,
    /// Edges that the request brings along; each must end in a node that the request brings along.
    pub edges: Vec<RequestEdge>,
    /// What to answer.
    pub want: Want,
    /// When the request arrived.
    pub arrived: Instant,
    /// The client's own limit, if any; the release's applies as well.
    pub timeout: Option<Duration>,
}

/// See [`InferRequest::endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// `POST /v1/graphsage/predict`.
    Predict,
    /// `POST /v1/score`.
    Score,
}

impl Endpoint {
    /// The name in route documents and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Predict => "predict",
            Self::Score => "score",
        }
    }

    /// Where a request to it names its seed of this number, as a JSON pointer.
    pub(crate) fn node_pointer(self, number: usize) -> String {
        match self {
            Self::Predict => format!("/nodes/{number}"),
            Self::Score => "/user_id".into(),
        }
    }
}

/// A node asked about.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Its external key.
    pub key: Key,
    /// Features that the request gives for it: overrides of node columns, and request columns.
    pub features: Features,
}

/// Features of a seed as the request gave them. `None` is `null`: missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// None given.
    Absent,
    /// By position: all columns of the release's schema, node columns first, then request columns.
    List(Vec<Option<f32>>),
    /// By name; an unknown name is refused.
    Named(BTreeMap<String, Option<f32>>),
}

/// A node that the request brings along.
#[derive(Clone, Debug)]
pub struct RequestNode {
    /// Its external key; must not be in the graph.
    pub key: Key,
    /// Raw node features.
    pub features: Features,
}

/// An edge that the request brings along, from `src` into `dst`.
#[derive(Clone, Debug)]
pub struct RequestEdge {
    /// The relation's name.
    pub relation: String,
    /// Source key: a node of the graph or of the request.
    pub src: Key,
    /// Destination key: a node of the request.
    pub dst: Key,
    /// Event time; required where the relation has times.
    pub time_ms: Option<TimeMs>,
    /// Edge columns by name; a missing one is 0, a missing weight 1.
    pub columns: BTreeMap<String, f32>,
}

/// What to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Scores (and logits).
    pub scores: bool,
    /// Embeddings.
    pub embeddings: bool,
    /// Decisions of the post-processor.
    pub decision: bool,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct InferResponse {
    /// Which release answered: wholly.
    pub release: ReleaseId,
    /// Which graph version was read.
    pub graph: GraphVersion,
    /// Equal ids promise equal bits.
    pub numerics_id: Arc<str>,
    /// The as-of time that was used.
    pub as_of_ms: TimeMs,
    /// Names of the scores, one per output; empty where the release names none.
    pub classes: Arc<[String]>,
    /// One per seed, in the request's order.
    pub results: Vec<SeedResult>,
    /// Where the time went, by stage.
    pub timings: Timings,
}

/// The answer for one seed.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// Its key.
    pub key: Key,
    /// The head's outputs before activation.
    pub logits: Vec<f32>,
    /// After it.
    pub scores: Vec<f32>,
    /// The last layer's row, where asked for.
    pub embedding: Option<Vec<f32>>,
    /// The post-processor's decision, where asked for.
    pub decision: Option<Decision>,
}

/// What a post-processor decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The mapped score.
    pub score: f64,
    /// Such as `approve`, `review`, `decline`.
    pub decision: String,
    /// Why, most important first.
    pub reasons: Vec<String>,
    /// The policy that was used, `name@version`, where there is one.
    pub policy: Option<String>,
}

/// Time spent by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Routing and validation against the schema.
    pub route: Duration,
    /// Pre-processor plugin.
    pub preprocess: Duration,
    /// Waiting in the queue.
    pub queue: Duration,
    /// Neighbour sampling of the batch.
    pub sample: Duration,
    /// Reading feature rows of the batch.
    pub gather: Duration,
    /// The layers, aggregation included.
    pub dense: Duration,
    /// Post-processor plugin.
    pub postprocess: Duration,
}
