//! What a rollout acts on here: the pipeline loads releases, one atomic store publishes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sagehost_pipeline::api::Endpoint;
use sagehost_pipeline::{Live, LiveTable, LoadedRelease, Route, Runtime, Table};
use sagehost_release::ReleaseFolder;
use sagehost_rollout::{RouteDoc, Target, VersionChoice};
use sagehost_telemetry::{Label, LiveRelease};

use crate::policies::{Policies, Wanted};
use crate::retired::Retired;

/// See the module.
pub(crate) struct ServerTarget {
    runtime: Runtime,
    table: Arc<LiveTable>,
    retired: Retired,
    policies: Arc<Policies>,
}

impl ServerTarget {
    /// Loads releases with `runtime` and publishes them in `table`, with their policies.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub(crate) fn new(runtime: Runtime, table: Arc<LiveTable>, policies: Arc<Policies>) -> anyhow::Result<Self> {
        Ok(Self { runtime, table, retired: Retired::start()?, policies })
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
        let wanted = Wanted { docs: &table.policies, refused: &table.refused, before: &before };
        self.policies.begin();
        let mut models = BTreeMap::new();
        for (model, versions) in table.models {
            let mut live = BTreeMap::new();
            for (version, release) in versions {
                let known = before.models.get(&model).and_then(|versions| versions.get(&version));
                if known.is_none_or(|known| known.release.id() != release.id()) {
                    self.runtime.metrics.release_swapped(Label::from(&release.id().model));
                }
                // Rules are asked: no I/O waits for this thread meanwhile.
                let policy = tokio::task::block_in_place(|| self.policies.of(&release, &wanted));
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
