//! The one place where requests and rollouts meet: an atomically swapped table of live releases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use sagehost_plugin::api::Policy;
use sagehost_types::{Code, Fault};

use crate::api::Endpoint;
use crate::release::LoadedRelease;

/// When a request that found nothing to serve it may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
    /// [`Code::Unavailable`] while nothing is live, or not what the route names; [`Code::NotFound`] for a named model that is
    /// not, or where a choice is needed.
    pub fn route(&self, endpoint: Endpoint, model: Option<&str>) -> Result<Arc<Live>, Fault> {
        if self.models.is_empty() {
            return Err(Fault::new(Code::Unavailable, "no release is live yet").retry_after(RETRY_AFTER));
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
            let detail = format!("{what} is not live");
            match model {
                Some(_) => Fault::new(Code::NotFound, detail).at("/model"),
                // The route is the operator's: the same request will do once what it names is live.
                None => Fault::new(Code::Unavailable, detail).retry_after(RETRY_AFTER),
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Toy;

    #[test]
    fn the_name_then_the_route_then_the_only_model_decide() {
        let toy = Toy::new("");
        let live = |model: &str, version| {
            let mut files = toy.files();
            files.id.model = model.into();
            files.id.version = version;
            let release = Arc::new(LoadedRelease::load(&toy.runtime, files).unwrap());
            let policy = Arc::clone(release.default_policy());
            (version, Arc::new(Live { release, policy }))
        };
        let mut table = Table::default();
        let ask = |table: &Table, endpoint, model: Option<&str>| {
            let answer = table.route(endpoint, model);
            answer.map(|live| live.release.id().to_string()).map_err(|fault| (fault.code, fault.field))
        };
        let nowhere = |code, field: Option<&str>| Err((code, field.map(String::from)));
        assert_eq!(ask(&table, Endpoint::Predict, None), nowhere(Code::Unavailable, None));

        table.models.insert("a".into(), [live("a", 1), live("a", 2)].into());
        assert_eq!(ask(&table, Endpoint::Predict, None), Ok("a@2".into()));
        assert_eq!(ask(&table, Endpoint::Predict, Some("b")), nowhere(Code::NotFound, Some("/model")));

        table.models.insert("b".into(), [live("b", 7)].into());
        assert_eq!(ask(&table, Endpoint::Predict, None), nowhere(Code::NotFound, Some("/model")));
        table.routes.insert(Endpoint::Predict, Route { model: "a".into(), version: Some(1) });
        assert_eq!(ask(&table, Endpoint::Predict, None), Ok("a@1".into()));
        assert_eq!(ask(&table, Endpoint::Predict, Some("a")), Ok("a@1".into()), "a named model follows its route");
        assert_eq!(ask(&table, Endpoint::Predict, Some("b")), Ok("b@7".into()));
        assert_eq!(ask(&table, Endpoint::Score, Some("a")), Ok("a@2".into()), "routes are per endpoint");

        table.routes.insert(Endpoint::Score, Route { model: "c".into(), version: None });
        let fault = table.route(Endpoint::Score, None).map(|_| ()).unwrap_err();
        assert_eq!((fault.code, fault.field, fault.retry_after), (Code::Unavailable, None, Some(RETRY_AFTER)));
    }
}
