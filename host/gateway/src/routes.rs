//! The two routers and their handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use sagehost_pipeline::api::Endpoint;
use sagehost_telemetry::{Label, Metrics, OK};
use sagehost_types::{Code, Fault};

use crate::edge::{Outcome, edge};
use crate::ids::Ids;
use crate::inference::{Admin, Inference};
use crate::json::brief;
use crate::problem::problem;
use crate::settings::Settings;
use crate::{body, request, response};

/// What the handlers share.
pub(crate) struct App<I> {
    pub(crate) inference: Arc<I>,
    pub(crate) admin: Arc<dyn Admin>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
    /// Set when the server is to end: unready from then on.
    pub(crate) draining: AtomicBool,
}

impl<I: Inference> App<I> {
    fn ready(&self) -> bool {
        !self.draining.load(Ordering::Relaxed) && self.inference.health().ready
    }
}

type Shared<I> = State<Arc<App<I>>>;

/// The listener for clients.
pub(crate) fn public<I: Inference>(app: &Arc<App<I>>) -> Router {
    let router = probes::<I>()
        .route("/v1/graphsage/predict", post(predict::<I>))
        .route("/v1/score", post(score::<I>))
        .route("/v1/graphsage/health", get(health::<I>));
    finish(router, app)
}

/// The listener for operators.
pub(crate) fn management<I: Inference>(app: &Arc<App<I>>) -> Router {
    finish(probes::<I>().route("/admin/releases", get(releases::<I>)), app)
}

fn probes<I: Inference>() -> Router<Arc<App<I>>> {
    Router::new().route("/livez", get(livez)).route("/readyz", get(readyz::<I>)).route("/metrics", get(metrics::<I>))
}

fn finish<I: Inference>(router: Router<Arc<App<I>>>, app: &Arc<App<I>>) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&app.metrics), edge))
        .with_state(Arc::clone(app))
}

async fn predict<I: Inference>(State(app): Shared<I>, request: Request) -> Response {
    answer(&app, Endpoint::Predict, request).await
}

async fn score<I: Inference>(State(app): Shared<I>, request: Request) -> Response {
    answer(&app, Endpoint::Score, request).await
}

async fn answer<I: Inference>(app: &App<I>, endpoint: Endpoint, request: Request) -> Response {
    let ids = ids(&request);
    let mut named = None;
    match infer(app, endpoint, request, &ids, &mut named).await {
        Ok((body, model)) => json(body, Outcome { model: model.into(), code: OK }),
        Err(fault) => {
            match fault.code {
                Code::Internal => tracing::error!(%fault, "request failed"),
                _ => tracing::debug!(%fault, "request failed"),
            }
            let model = app.inference.model_for(endpoint, named.as_deref());
            problem(&fault, &ids.request_id, model.map_or("".into(), Label::from))
        }
    }
}

/// The response's body and the model that answered; `named` becomes the model that the request names.
async fn infer<I: Inference>(
    app: &App<I>,
    endpoint: Endpoint,
    request: Request,
    ids: &Ids,
    named: &mut Option<String>,
) -> Result<(Vec<u8>, Arc<str>), Fault> {
    let settings = &app.settings;
    body::check_type(request.headers())?;
    let body = body::read(request.into_body(), settings.max_body, settings.body_timeout).await?;
    let request::Asked { request, timings } = request::read(endpoint, &body, &ids.request_id, ids.arrived)?;
    drop(body);
    named.clone_from(&request.model);
    let (want, seeds) = (request.want, request.seeds.len());
    let inferred = tokio::time::timeout(settings.request_timeout, app.inference.infer(request)).await;
    let inferred = inferred.unwrap_or_else(|_| {
        let detail = format!("no answer within the server's limit of {:?}", settings.request_timeout);
        Err(Fault::new(Code::DeadlineExceeded, detail))
    })?;
    let body = match endpoint {
        Endpoint::Predict => response::predict(&inferred, want, seeds, &ids.request_id, timings)?,
        Endpoint::Score => response::score(&inferred, &ids.request_id, timings)?,
    };
    Ok((body, inferred.release.model))
}

async fn health<I: Inference>(State(app): Shared<I>, request: Request) -> Response {
    let health = app.inference.health();
    let draining = app.draining.load(Ordering::Relaxed);
    let (status, word) = match (draining, health.ready) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "ending"),
        (false, true) => (StatusCode::OK, "ok"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
    };
    match response::health(&health, word) {
        Ok(body) => {
            let code = if status == StatusCode::OK { OK } else { Code::Unavailable.as_str() };
            let mut response = json(body, Outcome { model: "".into(), code });
            *response.status_mut() = status;
            response
        }
        Err(fault) => refuse(&request, &fault),
    }
}

async fn livez() -> &'static str {
    "alive\n"
}

async fn readyz<I: Inference>(State(app): Shared<I>, request: Request) -> Response {
    match app.ready() {
        true => "ready\n".into_response(),
        false => refuse(&request, &Fault::new(Code::Unavailable, "not warm yet, or about to end")),
    }
}

async fn metrics<I: Inference>(State(app): Shared<I>) -> Response {
    let mut response = Response::new(Body::from(app.metrics.render()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(sagehost_telemetry::CONTENT_TYPE));
    response
}

async fn releases<I: Inference>(State(app): Shared<I>, request: Request) -> Response {
    match response::write(&app.admin.releases()) {
        Ok(body) => json(body, Outcome { model: "".into(), code: OK }),
        Err(fault) => refuse(&request, &fault),
    }
}

async fn not_found(request: Request) -> Response {
    let detail = format!("there is nothing at `{}`", brief(request.uri().path()));
    refuse(&request, &Fault::new(Code::NotFound, detail))
}

async fn method_not_allowed(request: Request) -> Response {
    let detail = format!(
        "`{}` does not take {}; the header `allow` says what it takes",
        brief(request.uri().path()),
        brief(request.method().as_str())
    );
    refuse(&request, &Fault::new(Code::MethodNotAllowed, detail))
}

fn refuse(request: &Request, fault: &Fault) -> Response {
    problem(fault, &ids(request).request_id, "".into())
}

fn ids(request: &Request) -> Ids {
    request.extensions().get().cloned().unwrap_or_else(|| Ids::of(request.headers()))
}

fn json(body: Vec<u8>, outcome: Outcome) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(outcome);
    response
}
