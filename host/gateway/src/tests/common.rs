//! An inference service that echoes, and how to ask a router.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use sagehost_pipeline::api::{Decision, Endpoint, Features, InferRequest, InferResponse, SeedResult, Timings};
use sagehost_telemetry::Metrics;
use sagehost_types::{Code, Digest, Fault, GraphVersion, Key, ReleaseId};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt as _;

use crate::inference::{Admin, Health, Inference, ModelHealth};
use crate::routes::{App, management, public};
use crate::settings::Settings;

pub(crate) fn release() -> ReleaseId {
    ReleaseId { model: "echo".into(), version: 3, digest: Digest::of(b"echo") }
}

/// Answers each seed with its own features as scores, logits and embedding; a text key that is a fault's code with that
/// fault. The key `wait` waits for a permit of `gate`.
pub(crate) struct Echo {
    pub(crate) ready: AtomicBool,
    pub(crate) gate: Semaphore,
    /// Told when a request begins to wait, and when it is dropped while it waits.
    pub(crate) events: mpsc::UnboundedSender<&'static str>,
}

impl Echo {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<&'static str>) {
        let (events, seen) = mpsc::unbounded_channel();
        (Arc::new(Self { ready: true.into(), gate: Semaphore::new(0), events }), seen)
    }
}

struct Waiting<'a>(&'a Echo, bool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.1 {
            let _ = self.0.events.send("dropped");
        }
    }
}

impl Inference for Echo {
    async fn infer(&self, request: InferRequest) -> Result<InferResponse, Fault> {
        if let Some(model) = request.model.filter(|model| model != "echo") {
            return Err(Fault::new(Code::NotFound, format!("no model `{model}`")).at("/model"));
        }
        let mut results = Vec::new();
        for seed in request.seeds {
            if let Key::Text(text) = &seed.key {
                if let Some(code) = Code::ALL.iter().find(|code| code.as_str() == &**text) {
                    return Err(Fault::new(*code, "as asked").retry_after(Duration::from_millis(1500)));
                }
                if &**text == "wait" {
                    let mut waiting = Waiting(self, false);
                    let _ = self.events.send("waiting");
                    self.gate.acquire().await.expect("the gate is never closed").forget();
                    waiting.1 = true;
                }
            }
            let values: Vec<f32> = match seed.features {
                Features::Absent => Vec::new(),
                Features::List(list) => list.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect(),
                Features::Named(map) => map.into_values().map(|value| value.unwrap_or(f32::INFINITY)).collect(),
            };
            results.push(SeedResult {
                key: seed.key,
                logits: values.clone(),
                scores: values.clone(),
                embedding: request.want.embeddings.then(|| values.clone()),
                decision: request.want.decision.then(|| Decision {
                    score: values.first().copied().unwrap_or(0.25).into(),
                    decision: "review".into(),
                    reasons: request.entities.iter().map(|(name, value)| format!("{name}={value}")).collect(),
                    policy: Some("strict@2".into()),
                }),
            });
        }
        Ok(InferResponse {
            release: release(),
            graph: GraphVersion { lineage: "0123456789abcdef".into(), sequence: 0 },
            numerics_id: "cpu-test".into(),
            as_of_ms: request.as_of_ms.unwrap_or(42),
            classes: Arc::from([]),
            results,
            timings: Timings { dense: Duration::from_micros(7), ..Timings::default() },
        })
    }

    fn health(&self) -> Health {
        let graph = GraphVersion { lineage: "0123456789abcdef".into(), sequence: 0 };
        let models = vec![ModelHealth { release: release(), graph, backend: "cpu-test".into() }];
        Health { ready: self.ready.load(Ordering::SeqCst), models }
    }

    fn model_for(&self, _: Endpoint, named: Option<&str>) -> Option<Arc<str>> {
        named.is_none_or(|named| named == "echo").then(|| "echo".into())
    }
}

impl Admin for Echo {
    fn releases(&self) -> Value {
        serde_json::json!({ "live": ["echo@3"] })
    }
}

/// Both routers over one echo.
pub(crate) struct Site {
    pub(crate) echo: Arc<Echo>,
    pub(crate) app: Arc<App<Echo>>,
    pub(crate) public: Router,
    pub(crate) management: Router,
}

pub(crate) fn site(settings: Settings) -> Site {
    let (echo, _) = Echo::new();
    let admin: Arc<dyn Admin> = Arc::clone(&echo) as _;
    let metrics = Arc::new(Metrics::new("test"));
    let app = Arc::new(App { inference: Arc::clone(&echo), admin, metrics, settings, draining: false.into() });
    Site { echo, public: public(&app), management: management(&app), app }
}

/// A response, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

pub(crate) fn request(method: &str, path: &str, body: impl Into<Body>) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("content-type", "application/json");
    builder.body(body.into()).unwrap()
}

/// The value of a series in a metrics page; 0 where it is absent.
pub(crate) fn series(page: &str, series: &str) -> u64 {
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}
