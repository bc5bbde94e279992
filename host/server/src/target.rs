//! What a rollout acts on here: the pipeline loads releases, one atomic store publishes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sagehost_pipeline::api::Endpoint;
use sagehost_pipeline::{Live, LiveTable, LoadedRelease, Route, Runtime, Table, settings};
use sagehost_plugin::Policy;
use sagehost_release::ReleaseFolder;
use sagehost_rollout::{PolicyDoc, RouteDoc, Target, VersionChoice};
use sagehost_telemetry::{Label, LiveRelease};

use crate::retired::Retired;

/// See the module.
pub(crate) struct ServerTarget {
    runtime: Runtime,
    table: Arc<LiveTable>,
    retired: Retired,
}

impl ServerTarget {
    /// Loads releases with `runtime` and publishes them in `table`.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub(crate) fn new(runtime: Runtime, table: Arc<LiveTable>) -> anyhow::Result<Self> {
        Ok(Self { runtime, table, retired: Retired::start()? })
    }
}

impl Target for ServerTarget {
    type Loaded = LoadedRelease;

    fn load(&self, release: &ReleaseFolder) -> Result<Arc<LoadedRelease>, String> {
        let files = release.load().map_err(|e| e.to_string());
        files.and_then(|files| LoadedRelease::load(&self.runtime, files)).map(Arc::new)
    }

    fn publish(&self, table: sagehost_rollout::Table<LoadedRelease>) {
        let before = self.table.load();
        let policies = Policies { docs: &table.policies, before: &before };
        let mut models = BTreeMap::new();
        for (model, versions) in table.models {
            let mut live = BTreeMap::new();
            for (version, release) in versions {
                let known = before.models.get(&model).and_then(|versions| versions.get(&version));
                if known.is_none_or(|known| known.release.id() != release.id()) {
                    self.runtime.metrics.release_swapped(Label::from(&release.id().model));
                }
                let policy = policies.of(&model, &release);
                live.insert(version, Arc::new(Live { release, policy }));
            }
            models.insert(model, live);
        }
        let live = models.values().flat_map(BTreeMap::values).map(|live: &Arc<Live>| live.release.id());
        self.runtime.metrics.set_live(live.map(|id| LiveRelease {
            model: Label::from(&id.model),
            version: id.version,
            digest: Label::from(Arc::<str>::from(id.digest.short())),
        }));
        let routes = routes(&table.routes, &before, &models);
        self.table.store(Table { models, routes });
        let now = self.table.load();
        for live in before.models.values().flat_map(BTreeMap::values) {
            let id = live.release.id();
            let stays = now.models.get(&*id.model).and_then(|versions| versions.get(&id.version));
            if stays.is_none_or(|stays| !Arc::ptr_eq(&stays.release, &live.release)) {
                self.retired.take(Arc::clone(&live.release));
            }
        }
    }
}

/// Which policy each release gets.
struct Policies<'a> {
    docs: &'a BTreeMap<String, Arc<PolicyDoc>>,
    before: &'a Table,
}

impl Policies<'_> {
    /// The document that the release names where it is rolled out, else the release's own values. A document that the rule
    /// cannot use does not take effect: what was in force before stays.
    fn of(&self, model: &str, release: &LoadedRelease) -> Arc<Policy> {
        let Some(doc) = release.policy_name().and_then(|name| self.docs.get(name)) else {
            return Arc::clone(release.default_policy());
        };
        let versions = self.before.models.get(model);
        let in_force = |policy: &&Arc<Policy>| policy.name == doc.name;
        let same = versions.and_then(|versions| versions.get(&release.id().version));
        let same = same.filter(|live| live.release.id() == release.id()).map(|live| &live.policy);
        let wanted =
            settings(&doc.values).map(|values| Policy { name: doc.name.clone(), version: doc.version, values });
        let tried = wanted.and_then(|policy| match same {
            Some(known) if **known == policy => Ok(Arc::clone(known)),
            // The rule is asked: a moment's work, and no I/O waits for this thread meanwhile.
            _ => tokio::task::block_in_place(|| release.try_policy(&policy)).map(|()| Arc::new(policy)),
        });
        tried.unwrap_or_else(|reason| {
            let latest = versions.and_then(|versions| versions.last_key_value()).map(|(_, live)| &live.policy);
            let kept = same.or(latest).filter(in_force).unwrap_or(release.default_policy());
            tracing::error!(
                policy = %doc.name, version = doc.version, release = %release.id(), kept = kept.version, %reason,
                "the policy does not take effect"
            );
            Arc::clone(kept)
        })
    }
}

/// The documents' routes; an endpoint without one keeps the model that it has when another comes beside it.
fn routes(
    docs: &BTreeMap<String, RouteDoc>,
    before: &Table,
    models: &BTreeMap<String, BTreeMap<u64, Arc<Live>>>,
) -> BTreeMap<Endpoint, Route> {
    let route = |endpoint: Endpoint| {
        let Some(doc) = docs.get(endpoint.as_str()) else {
            if models.len() < 2 {
                return None;
            }
            let model = before.route(endpoint, None).ok()?.release.id().model.to_string();
            tracing::warn!(endpoint = endpoint.as_str(), %model, "several models are live and no route says which: it stays");
            return models.contains_key(&model).then_some((endpoint, Route { model, version: None }));
        };
        let version = match doc.version {
            VersionChoice::Latest => None,
            VersionChoice::Number(version) => Some(version),
        };
        Some((endpoint, Route { model: doc.model.clone(), version }))
    };
    [Endpoint::Predict, Endpoint::Score].into_iter().filter_map(route).collect()
}
