//! What happens to every request, whatever its path: it gets its ids and a log span, and is counted exactly once.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use sagehost_telemetry::{GaugeGuard, Label, Metrics, OK};
use sagehost_types::Code;
use tracing::Instrument as _;

use crate::ids::{Ids, TRACEPARENT, X_REQUEST_ID};

/// How a request ended: a response carries it in its extensions to where it is counted.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) model: Label,
    pub(crate) code: &'static str,
}

/// The middleware around both routers.
pub(crate) async fn edge(State(metrics): State<Arc<Metrics>>, mut request: Request, next: Next) -> Response {
    let ids = Ids::of(request.headers());
    let endpoint = endpoint(request.uri().path());
    let counted = Counted::start(metrics, endpoint, ids.arrived);
    let span = tracing::info_span!("request", request_id = &*ids.request_id, trace_id = ids.trace_id(), endpoint);
    request.extensions_mut().insert(ids.clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    let outcome = response.extensions_mut().remove::<Outcome>();
    let outcome = outcome.unwrap_or_else(|| Outcome { model: "".into(), code: code_of(&response) });
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), code = outcome.code, took = ?ids.arrived.elapsed());
    });
    counted.finish(outcome);
    let headers = response.headers_mut();
    // Both were checked to be of characters that a header can carry.
    let echo = [(X_REQUEST_ID, Some(&*ids.request_id)), (TRACEPARENT, ids.traceparent.as_deref())];
    for (name, value) in echo {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// The metric label of a path: few, whatever paths are asked for.
fn endpoint(path: &str) -> &'static str {
    match path {
        "/v1/graphsage/predict" => "predict",
        "/v1/score" => "score",
        "/v1/graphsage/health" => "health",
        "/livez" => "livez",
        "/readyz" => "readyz",
        "/metrics" => "metrics",
        "/admin/releases" => "admin",
        _ => "other",
    }
}

fn code_of(response: &Response) -> &'static str {
    match response.status() {
        status if status.is_server_error() => Code::Internal.as_str(),
        status if status.is_client_error() => Code::Malformed.as_str(),
        _ => OK,
    }
}

/// A request that has no end yet. Dropping it without one is an end as well: the client went away.
struct Counted {
    metrics: Arc<Metrics>,
    endpoint: &'static str,
    started: Instant,
    outcome: Option<Outcome>,
    _in_flight: GaugeGuard,
}

impl Counted {
    fn start(metrics: Arc<Metrics>, endpoint: &'static str, started: Instant) -> Self {
        let in_flight = metrics.in_flight(endpoint.into());
        Self { metrics, endpoint, started, outcome: None, _in_flight: in_flight }
    }

    fn finish(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let gone = || Outcome { model: "".into(), code: Code::Cancelled.as_str() };
        let Outcome { model, code } = self.outcome.take().unwrap_or_else(gone);
        self.metrics.request(self.endpoint.into(), model, code.into(), self.started.elapsed());
    }
}
