//! The table of metrics: name, kind, labels and meaning of each, once.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::label::{Label, Labels};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process restarts.
    Counter,
    /// A level.
    Gauge,
    /// A distribution of times from 100 µs on.
    RequestTime,
    /// A distribution of times from 1 µs on.
    StageTime,
    /// A distribution of sizes.
    Size,
}

impl Kind {
    /// The kind as Prometheus names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::RequestTime | Self::StageTime | Self::Size => "histogram",
        }
    }

    /// The upper bounds of a histogram's buckets.
    #[must_use]
    pub const fn buckets(self) -> &'static [f64] {
        match self {
            Self::Counter | Self::Gauge => &[],
            Self::RequestTime => REQUEST_BUCKETS,
            Self::StageTime => STAGE_BUCKETS,
            Self::Size => SIZE_BUCKETS,
        }
    }
}

/// Seconds, ten buckets a decade (about the R10 series of preferred numbers): neighbouring bounds are less than 30 % apart,
/// and a quantile read from them is off by no more than that.
const REQUEST_BUCKETS: &[f64] = &[
    0.0001, 0.000_125, 0.000_16, 0.0002, 0.000_25, 0.000_315, 0.0004, 0.0005, 0.000_63, 0.0008, //
    0.001, 0.001_25, 0.0016, 0.002, 0.0025, 0.003_15, 0.004, 0.005, 0.0063, 0.008, //
    0.01, 0.0125, 0.016, 0.02, 0.025, 0.0315, 0.04, 0.05, 0.063, 0.08, //
    0.1, 0.125, 0.16, 0.2, 0.25, 0.315, 0.4, 0.5, 0.63, 0.8, //
    1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0, 10.0,
];

/// Seconds, five buckets a decade: stages begin at a microsecond.
#[rustfmt::skip] // One decade a line.
const STAGE_BUCKETS: &[f64] = &[
    1e-6, 1.6e-6, 2.5e-6, 4e-6, 6.3e-6,
    1e-5, 1.6e-5, 2.5e-5, 4e-5, 6.3e-5,
    1e-4, 1.6e-4, 2.5e-4, 4e-4, 6.3e-4,
    0.001, 0.0016, 0.0025, 0.004, 0.0063,
    0.01, 0.016, 0.025, 0.04, 0.063,
    0.1, 0.16, 0.25, 0.4, 0.63,
    1.0, 1.6, 2.5, 4.0, 6.3, 10.0,
];

/// Requests in a batch.
const SIZE_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0, 512.0, 1024.0];

/// A metric, as `docs/metrics.md` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name as it is exposed.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels' names.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

macro_rules! family {
    (type Counter, $n:expr) => { Family<Labels<{ $n }>, Counter> };
    (type Gauge, $n:expr) => { Family<Labels<{ $n }>, Gauge> };
    (type $histogram:ident, $n:expr) => { Histograms<{ $n }> };
    (new Counter) => { Family::default() };
    (new Gauge) => { Family::default() };
    (new $histogram:ident) => {
        Family::new_with_constructor((|| Histogram::new(Kind::$histogram.buckets().iter().copied())) as fn() -> Histogram)
    };
}

macro_rules! table {
    ($($field:ident: $kind:ident $labels:tt = $name:literal, $help:literal;)+) => {
        /// Every metric, for documentation and tests.
        pub const TABLE: &[Row] =
            &[$(Row { name: $name, kind: Kind::$kind, labels: &$labels, help: $help },)+];

        /// The registered metrics.
        #[derive(Debug)]
        pub(crate) struct Families {
            $(pub(crate) $field: family!(type $kind, names::$field.len()),)+
        }

        impl Families {
            pub(crate) fn register(registry: &mut Registry) -> Self {
                let families = Self { $($field: family!(new $kind),)+ };
                $(
                    // The encoder adds a counter's suffix and the full stop of the help text itself.
                    let name = $name.strip_suffix("_total").unwrap_or($name);
                    registry.register(name, $help.trim_end_matches('.'), families.$field.clone());
                )+
                families
            }
        }

        /// Each metric's label names.
        #[expect(non_upper_case_globals, reason = "named as the fields of Families")]
        pub(crate) mod names {
            $(pub(crate) const $field: &[&str; { let names: &[&str] = &$labels; names.len() }] = &$labels;)+
        }

        /// Makes the label set of a metric; the number of values is checked by the compiler.
        pub(crate) mod labels {
            use super::{Label, Labels, names};
            $(pub(crate) fn $field(values: [Label; names::$field.len()]) -> Labels<{ names::$field.len() }> {
                Labels { names: names::$field, values }
            })+
        }
    };
}

table! {
    requests: Counter["endpoint", "model", "code"] = "sagehost_requests_total",
        "HTTP requests by their end: `code` is `ok` or the code of docs/http.md. Each request is counted once, cancelled ones too, so that requests = successes + failures.";
    request_seconds: RequestTime["endpoint", "model"] = "sagehost_request_duration_seconds",
        "From the request's head to the response's, whatever its end.";
    in_flight: Gauge["endpoint"] = "sagehost_requests_in_flight",
        "HTTP requests that have no response yet.";
    connections: Gauge["listener"] = "sagehost_connections",
        "Open connections.";
    connections_refused: Counter["listener"] = "sagehost_connections_refused_total",
        "Connections answered with 503 because the listener has as many as it may.";
    stage_seconds: StageTime["stage"] = "sagehost_stage_duration_seconds",
        "Where a request's time goes: `route`, `preprocess`, `queue` and `postprocess` once per request; `sample`, `gather` and `dense` once per batch.";
    batch_size: Size["model"] = "sagehost_batch_size",
        "Requests in a batch.";
    queue_depth: Gauge["model"] = "sagehost_queue_depth",
        "Requests that wait for a batch.";
    plugin_calls: Counter["plugin", "role"] = "sagehost_plugin_calls_total",
        "Calls of a plugin, failed ones too.";
    plugin_errors: Counter["plugin", "role", "kind"] = "sagehost_plugin_errors_total",
        "Calls of a plugin that failed, by what happened.";
    plugin_instances: Gauge[] = "sagehost_plugin_instances",
        "Live instances of all plugins.";
    release_swaps: Counter["model"] = "sagehost_release_swaps_total",
        "Releases that went live.";
    rejections: Counter[] = "sagehost_release_rejections_total",
        "Releases and documents that were refused, each reason of each once; what served before goes on serving.";
    source_errors: Counter[] = "sagehost_source_errors_total",
        "Times that the folder or etcd could not be read.";
    release_info: Gauge["model", "version", "digest"] = "sagehost_release_info",
        "1 for each live release.";
    build_info: Gauge["version"] = "sagehost_build_info",
        "1, with the version of the binary.";
    resident_bytes: Gauge[] = "process_resident_memory_bytes",
        "Resident memory of the process.";
    start_seconds: Gauge[] = "process_start_time_seconds",
        "When the process began to measure, in seconds since the Unix epoch.";
}
