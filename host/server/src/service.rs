//! What the gateway asks for: inference over the live table, and the state of the rollout.

use std::sync::Arc;

use sagehost_gateway::{Admin, Health, Inference, ModelHealth};
use sagehost_pipeline::api::{Endpoint, InferRequest, InferResponse};
use sagehost_pipeline::{Live, LiveTable, infer};
use sagehost_rollout::Status;
use sagehost_types::Fault;
use tokio::sync::watch;

use crate::policies::Policies;

/// Inference over whatever is live.
pub(crate) struct Service {
    /// The one place where requests and rollouts meet.
    pub(crate) table: Arc<LiveTable>,
}

impl Inference for Service {
    async fn infer(&self, request: InferRequest) -> Result<InferResponse, Fault> {
        let live = self.table.load().route(request.endpoint, request.model.as_deref())?;
        infer(live, request).await
    }

    fn health(&self) -> Health {
        let table = self.table.load();
        let default = table.route(Endpoint::Predict, None).ok();
        let latest = table.models.values().filter_map(|versions| versions.last_key_value().map(|(_, live)| live));
        let others =
            latest.filter(|live| default.as_ref().is_none_or(|d| d.release.id().model != live.release.id().model));
        let models: Vec<_> = default.iter().chain(others).map(|live| model_health(live)).collect();
        Health { ready: !models.is_empty(), models }
    }

    fn model_for(&self, endpoint: Endpoint, named: Option<&str>) -> Option<Arc<str>> {
        let live = self.table.load().route(endpoint, named).ok()?;
        Some(Arc::clone(&live.release.id().model))
    }
}

fn model_health(live: &Live) -> ModelHealth {
    let release = &live.release;
    ModelHealth {
        release: release.id().clone(),
        graph: release.graph().version().clone(),
        backend: Arc::clone(release.numerics_id()),
    }
}

/// The rollout's state, as it last said, with the policies that really decide.
pub(crate) struct RolloutPages {
    pub(crate) status: watch::Receiver<Arc<Status>>,
    pub(crate) table: Arc<LiveTable>,
    pub(crate) policies: Arc<Policies>,
}

impl Admin for RolloutPages {
    fn releases(&self) -> serde_json::Value {
        let mut status = Status::clone(&self.status.borrow());
        // The rollout knows which documents can be read; whether a rule can use one is known here.
        status.refused_documents.extend(self.policies.refused());
        let table = self.table.load();
        let live = table.models.values().flat_map(std::collections::BTreeMap::values);
        let in_force = live.map(|live| &live.policy).filter(|policy| !policy.name.is_empty());
        status.policies = in_force.map(|policy| (policy.name.clone(), policy.version)).collect();
        // A status is plain data: it always has a JSON form.
        serde_json::to_value(status).unwrap_or_default()
    }
}
