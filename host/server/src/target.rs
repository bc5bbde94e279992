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
        let mut policies = Policies { docs: &table.policies, read: BTreeMap::new() };
        let mut models = BTreeMap::new();
        for (model, versions) in table.models {
            let mut live = BTreeMap::new();
            for (version, release) in versions {
                let known = before.models.get(&model).and_then(|versions| versions.get(&version));
                if known.is_none_or(|known| known.release.id() != release.id()) {
                    self.runtime.metrics.release_swapped(Label::from(&release.id().model));
                }
                let policy = policies.of(&release);
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
        self.table.store(Table { models, routes: routes(&table.routes) });
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

/// Policy documents, read once each into what plugins take.
struct Policies<'a> {
    docs: &'a BTreeMap<String, Arc<PolicyDoc>>,
    read: BTreeMap<&'a str, Arc<Policy>>,
}

impl Policies<'_> {
    /// The document that the release names where it is rolled out, else the release's own values.
    fn of(&mut self, release: &LoadedRelease) -> Arc<Policy> {
        let named = release.policy_name().and_then(|name| self.docs.get_key_value(name));
        let Some((name, doc)) = named else { return Arc::clone(release.default_policy()) };
        if let Some(policy) = self.read.get(name.as_str()) {
            return Arc::clone(policy);
        }
        let policy = match settings(&doc.values) {
            Ok(values) => Arc::new(Policy { name: name.clone(), version: doc.version, values }),
            Err(reason) => {
                // Documents are checked when they are read; this is for one that slipped through.
                tracing::error!(policy = %name, %reason, "the policy cannot be used; the release's own values serve");
                // Not kept: another release has other values of its own.
                return Arc::clone(release.default_policy());
            }
        };
        self.read.insert(name, Arc::clone(&policy));
        policy
    }
}

fn routes(docs: &BTreeMap<String, RouteDoc>) -> BTreeMap<Endpoint, Route> {
    let route = |endpoint: Endpoint| {
        let doc = docs.get(endpoint.as_str())?;
        let version = match doc.version {
            VersionChoice::Latest => None,
            VersionChoice::Number(version) => Some(version),
        };
        Some((endpoint, Route { model: doc.model.clone(), version }))
    };
    [Endpoint::Predict, Endpoint::Score].into_iter().filter_map(route).collect()
}
