//! The one place where requests and rollouts meet: an atomically swapped table of live releases.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sagehost_plugin::api::Policy;
use sagehost_types::{Code, Fault};

use crate::api::Endpoint;
use crate::release::LoadedRelease;

/// What a request pins when it is routed and keeps to its answer: a release and the policy that goes with it.
pub struct Live {
    /// The release.
    pub release: Arc<LoadedRelease>,
    /// Thresholds and lists for its post-processor.
    pub policy: Arc<Policy>,
}

/// Where an endpoint's requests go when they name no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The model.
    pub model: String,
    /// A version; `None` is the latest.
    pub version: Option<u64>,
}

/// Every live release, by model and version, and the routes.
#[derive(Default)]
pub struct Table {
    /// Models; of each the live versions.
    pub models: BTreeMap<String, BTreeMap<u64, Arc<Live>>>,
    /// Routes by endpoint. An endpoint without one goes to the only model there is.
    pub routes: BTreeMap<Endpoint, Route>,
}

impl Table {
    /// Chooses the release for a request: the model that it names, else the endpoint's route, else the only model.
    ///
    /// # Errors
    /// [`Code::Unavailable`] while nothing is live; [`Code::NotFound`] for a model that is not, or where a choice is needed.
    pub fn route(&self, endpoint: Endpoint, model: Option<&str>) -> Result<Arc<Live>, Fault> {
        if self.models.is_empty() {
            return Err(
                Fault::new(Code::Unavailable, "no release is live yet").retry_after(std::time::Duration::from_secs(1))
            );
        }
        let route = self.routes.get(&endpoint);
        let (name, version) = match (model, route) {
            // A model that is named and routed follows the route's version.
            (Some(name), Some(route)) if route.model == name => (name, route.version),
            (Some(name), _) => (name, None),
            (None, Some(route)) => (route.model.as_str(), route.version),
            (None, None) => match self.models.keys().next() {
                Some(only) if self.models.len() == 1 => (only.as_str(), None),
                _ => {
                    let names = self.models.keys().cloned().collect::<Vec<_>>().join(", ");
                    let detail = format!("several models are live ({names}) and no route says which: name one");
                    return Err(Fault::new(Code::NotFound, detail).at("/model"));
                }
            },
        };
        let versions = self.models.get(name);
        let live = versions.and_then(|versions| match version {
            Some(version) => versions.get(&version),
            None => versions.last_key_value().map(|(_, live)| live),
        });
        live.cloned().ok_or_else(|| {
            let what = version.map_or_else(|| format!("model `{name}`"), |v| format!("version {v} of model `{name}`"));
            Fault::new(Code::NotFound, format!("{what} is not live")).at("/model")
        })
    }
}

/// The table, swapped by one atomic store. A request that routed before a swap finishes on what it pinned.
#[derive(Default)]
pub struct LiveTable(ArcSwap<Table>);

impl LiveTable {
    /// The table as it is now.
    #[must_use]
    pub fn load(&self) -> Arc<Table> {
        self.0.load_full()
    }

    /// Puts another table in its place.
    pub fn store(&self, table: Table) {
        self.0.store(Arc::new(table));
    }
}
