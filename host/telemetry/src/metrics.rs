//! The registry and how each metric is written to.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::families::{Families, labels};
use crate::label::{Label, Labels};
use crate::process;

/// The `code` label of a request that succeeded.
pub const OK: &str = "ok";

/// The `Content-Type` of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// A stage of the request path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Routing and validation against the schema.
    Route,
    /// Pre-processor plugin.
    Preprocess,
    /// Waiting for a batch.
    Queue,
    /// Neighbour sampling of a batch.
    Sample,
    /// Reading a batch's feature rows.
    Gather,
    /// A batch's layers.
    Dense,
    /// Post-processor plugin.
    Postprocess,
}

impl Stage {
    /// Every stage, in the order of the request path.
    pub const ALL: [Self; 7] =
        [Self::Route, Self::Preprocess, Self::Queue, Self::Sample, Self::Gather, Self::Dense, Self::Postprocess];

    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Preprocess => "preprocess",
            Self::Queue => "queue",
            Self::Sample => "sample",
            Self::Gather => "gather",
            Self::Dense => "dense",
            Self::Postprocess => "postprocess",
        }
    }
}

/// A live release's labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveRelease {
    /// The model's name.
    pub model: Label,
    /// The version.
    pub version: u64,
    /// The manifest's digest.
    pub digest: Label,
}

/// All metrics of a process. Make one, share it by `Arc`.
pub struct Metrics {
    registry: Registry,
    families: Families,
    live: Mutex<HashSet<Labels<3>>>,
    readings: OnceLock<Box<dyn Fn() -> Readings + Send + Sync>>,
}

/// What others count for themselves, read when the page is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Instances of all plugins that exist now.
    pub plugin_instances: usize,
    /// Releases and documents refused since the start.
    pub rejections: u64,
    /// Times that the source of documents could not be read.
    pub source_errors: u64,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("families", &self.families).finish_non_exhaustive()
    }
}

impl Metrics {
    /// Registers every metric of [`crate::TABLE`]. `version` is the binary's.
    #[must_use]
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        families.build_info.get_or_create(&labels::build_info([version.into()])).set(1);
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started = i64::try_from(started.as_secs()).unwrap_or(i64::MAX);
        families.start_seconds.get_or_create(&labels::start_seconds([])).set(started);
        Self { registry, families, live: Mutex::default(), readings: OnceLock::new() }
    }

    /// A request ended: `code` is [`OK`] or a fault's code; `model` is empty where none was found.
    pub fn request(&self, endpoint: Label, model: Label, code: Label, took: Duration) {
        let series = labels::request_seconds([endpoint.clone(), model.clone()]);
        self.families.request_seconds.get_or_create(&series).observe(took.as_secs_f64());
        self.families.requests.get_or_create(&labels::requests([endpoint, model, code])).inc();
    }

    /// A request has begun; it is in flight until the guard is dropped.
    #[must_use]
    pub fn in_flight(&self, endpoint: Label) -> GaugeGuard {
        GaugeGuard::new(&self.families.in_flight.get_or_create(&labels::in_flight([endpoint])))
    }

    /// A connection is open until the guard is dropped.
    #[must_use]
    pub fn connection(&self, listener: Label) -> GaugeGuard {
        GaugeGuard::new(&self.families.connections.get_or_create(&labels::connections([listener])))
    }

    /// A connection was refused.
    pub fn connection_refused(&self, listener: Label) {
        self.families.connections_refused.get_or_create(&labels::connections_refused([listener])).inc();
    }

    /// A stage took this long.
    pub fn stage(&self, stage: Stage, took: Duration) {
        let series = labels::stage_seconds([stage.as_str().into()]);
        self.families.stage_seconds.get_or_create(&series).observe(took.as_secs_f64());
    }

    /// A batch of this many requests was formed.
    pub fn batch(&self, model: Label, size: usize) {
        // Exact below 2^53 requests.
        self.families.batch_size.get_or_create(&labels::batch_size([model])).observe(size as f64);
    }

    /// A request waits for a batch until the guard is dropped.
    #[must_use]
    pub fn queued(&self, model: Label) -> GaugeGuard {
        GaugeGuard::new(&self.families.queue_depth.get_or_create(&labels::queue_depth([model])))
    }

    /// A plugin was called; `error` is what happened where the call failed.
    pub fn plugin_call(&self, plugin: Label, role: Label, error: Option<Label>) {
        if let Some(kind) = error {
            let series = labels::plugin_errors([plugin.clone(), role.clone(), kind]);
            self.families.plugin_errors.get_or_create(&series).inc();
        }
        self.families.plugin_calls.get_or_create(&labels::plugin_calls([plugin, role])).inc();
    }

    /// Names who reads [`Readings`] when the page is asked for. The first that is named stays.
    pub fn read_from(&self, read: impl Fn() -> Readings + Send + Sync + 'static) {
        // A second call changes nothing, as documented.
        let _ = self.readings.set(Box::new(read));
    }

    /// A release went live.
    pub fn release_swapped(&self, model: Label) {
        self.families.release_swaps.get_or_create(&labels::release_swaps([model])).inc();
    }

    /// Says which releases are live now: all of them.
    pub fn set_live(&self, releases: impl IntoIterator<Item = LiveRelease>) {
        let now: HashSet<_> = releases
            .into_iter()
            .map(|release| {
                let version: std::sync::Arc<str> = release.version.to_string().into();
                labels::release_info([release.model, version.into(), release.digest])
            })
            .collect();
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        // The new before the old goes, so that a scrape never sees a model without a release.
        for series in now.difference(&live) {
            self.families.release_info.get_or_create(series).set(1);
        }
        for series in live.difference(&now) {
            self.families.release_info.remove(series);
        }
        *live = now;
    }

    /// All metrics in the Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        if let Some(bytes) = process::resident_bytes() {
            self.families.resident_bytes.get_or_create(&labels::resident_bytes([])).set(bytes);
        }
        if let Some(read) = self.readings.get() {
            let Readings { plugin_instances, rejections, source_errors } = read();
            let instances = self.families.plugin_instances.get_or_create(&labels::plugin_instances([]));
            instances.set(i64::try_from(plugin_instances).unwrap_or(i64::MAX));
            self.families.rejections.get_or_create(&labels::rejections([])).inner().store(rejections, Relaxed);
            self.families.source_errors.get_or_create(&labels::source_errors([])).inner().store(source_errors, Relaxed);
        }
        let mut text = String::new();
        if let Err(error) = prometheus_text::encode(&mut text, &self.registry) {
            // Writing to a String does not fail; were a metric's encoder to, what there is is still worth having.
            tracing::error!(%error, "metrics could not be written in full");
        }
        text
    }
}

/// Counts one in a gauge while it lives.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
