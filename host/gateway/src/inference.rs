//! What the gateway needs of the rest of the server.

use std::sync::Arc;

use sagehost_pipeline::api::{Endpoint, InferRequest, InferResponse};
use sagehost_types::{Fault, GraphVersion, ReleaseId};

/// Answers inference requests.
pub trait Inference: Send + Sync + 'static {
    /// Answers one request. The future is dropped when the client goes away: what has not begun must then not be computed.
    fn infer(&self, request: InferRequest) -> impl Future<Output = Result<InferResponse, Fault>> + Send;

    /// What is served now. Called for every probe, so it must be cheap and must not wait.
    fn health(&self) -> Health;

    /// The model that a request goes to, as a metric label: `named` where it is being served, else the route's. `None`
    /// where there is none, so that callers cannot invent label values.
    fn model_for(&self, endpoint: Endpoint, named: Option<&str>) -> Option<Arc<str>>;
}

/// The state of the rollout, for people.
pub trait Admin: Send + Sync + 'static {
    /// Live releases, and what was rejected and why: the answer of `GET /admin/releases`.
    fn releases(&self) -> serde_json::Value;
}

/// What is served.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Whether any model is live: warm, and its golden examples passed.
    pub ready: bool,
    /// The live models; the one that answers `predict` by default first.
    pub models: Vec<ModelHealth>,
}

/// A live model.
#[derive(Clone, Debug)]
pub struct ModelHealth {
    /// Its release.
    pub release: ReleaseId,
    /// The graph version that it reads now.
    pub graph: GraphVersion,
    /// The backend's numerics id.
    pub backend: Arc<str>,
}
