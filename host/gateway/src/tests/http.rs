//! The routers in process: every documented answer and every row of the error table.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use proptest::prelude::*;
use sagehost_types::Code;
use serde_json::{Value, json};

use crate::common::{Answer, Site, ask, release, request, series, site};
use crate::json::tests::any_json;
use crate::settings::Settings;

const PREDICT: &str = "/v1/graphsage/predict";
const SCORE: &str = "/v1/score";

fn small() -> Site {
    site(Settings { max_body: 4096, ..Settings::default() })
}

async fn post(site: &Site, path: &str, body: impl Into<Body>) -> Answer {
    ask(&site.public, request("POST", path, body)).await
}

fn requests(site: &Site, endpoint: &str, model: &str, code: &str) -> u64 {
    let name = format!(r#"sagehost_requests_total{{endpoint="{endpoint}",model="{model}",code="{code}"}}"#);
    series(&site.app.metrics.render(), &name)
}

#[tokio::test]
async fn predict_answers_in_full() {
    let site = small();
    let body = json!({
        "nodes": [7, "b"], "features": [[0.1, -1e-7], [3.4e38]], "as_of": 5, "timings": true,
        "return": ["scores", "embeddings", "decision"], "entities": {"ip": "::1"},
    });
    let mut asked = request("POST", PREDICT, body.to_string());
    asked.headers_mut().insert("x-request-id", "r-1".parse().unwrap());
    let answer = ask(&site.public, asked).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.header("x-request-id"), "r-1");
    let mut got = answer.json();
    assert_eq!(got["timings_us"].take()["dense"], json!(7.0));
    let row = |key: Value, values: Value, score: f64| {
        json!({
            "node": key, "scores": values, "logits": values, "embedding": values, "decision": "review", "score": score,
            "reasons": ["ip=::1"], "policy": "strict@2",
        })
    };
    let expected = json!({
        "model": "echo", "version": 3, "release": release().digest.to_string(), "graph_version": "0123456789abcdef:0",
        "numerics_id": "cpu-test", "as_of": 5, "request_id": "r-1", "timings_us": null,
        "results": [row(json!(7), json!([0.1, -1e-7]), f64::from(0.1_f32)), row(json!("b"), json!([3.4e38]), f64::from(3.4e38_f32))],
    });
    assert_eq!(got, expected);
    assert_eq!(requests(&site, "predict", "echo", "ok"), 1);
}

#[tokio::test]
async fn predict_answers_only_what_was_asked_for() {
    let answer = post(&small(), PREDICT, r#"{"nodes": [1]}"#).await.json();
    assert_eq!(answer["results"], json!([{ "node": 1, "scores": [], "logits": [] }]));
    assert!(answer.get("timings_us").is_none());
    let answer = post(&small(), PREDICT, r#"{"nodes": [1], "return": ["embeddings"]}"#).await.json();
    assert_eq!(answer["results"], json!([{ "node": 1, "embedding": [] }]));
}

#[tokio::test]
async fn score_answers_in_full() {
    let site = small();
    let body = r#"{ "user_id": "u", "features": {"amount": 0.5}, "device_id": "d-9", "card_id": 12 }"#;
    let mut got = post(&site, SCORE, body).await.json();
    assert_eq!(got["request_id"].take().as_str().map(str::len), Some(32));
    let expected = json!({
        "user_id": "u", "score": 0.5, "decision": "review", "reasons": ["device=d-9", "card=12"], "policy": "strict@2",
        "model": "echo", "version": 3, "release": release().digest.to_string(), "graph_version": "0123456789abcdef:0",
        "numerics_id": "cpu-test", "as_of": 42, "request_id": null,
    });
    assert_eq!(got, expected);
    assert_eq!(requests(&site, "score", "echo", "ok"), 1);
}

#[tokio::test]
async fn every_fault_has_its_status_and_is_counted_once() {
    let site = small();
    for code in Code::ALL {
        let answer = post(&site, SCORE, json!({ "user_id": code.as_str() }).to_string()).await;
        assert_eq!((answer.status, answer.header("content-type")), (code.http(), "application/problem+json"), "{code}");
        assert_eq!(answer.header("retry-after"), "2", "{code}");
        let problem = answer.json();
        assert_eq!(problem["type"], format!("urn:sagehost:problem:{code}"));
        assert_eq!((&problem["title"], &problem["status"]), (&json!(code.title()), &json!(code.http())));
        assert_eq!((&problem["code"], &problem["detail"]), (&json!(code.as_str()), &json!("as asked")));
        assert_eq!(problem["request_id"], answer.header("x-request-id"));
        assert_eq!(requests(&site, "score", "echo", code.as_str()), 1, "{code}");
    }
    let page = site.app.metrics.render();
    let total = series(&page, r#"sagehost_request_duration_seconds_count{endpoint="score",model="echo"}"#);
    assert_eq!(total, Code::ALL.len() as u64);
    assert_eq!(series(&page, r#"sagehost_requests_in_flight{endpoint="score"}"#), 0);
}

#[tokio::test]
async fn the_edge_refuses_with_the_field() {
    let site = small();
    let long = format!("{{\"nodes\": [\"{}\"]}}", "x".repeat(4096));
    for (path, body, status, code, field) in [
        (PREDICT, "{\"nodes\": [1,\n ]}", 400, "malformed", Value::Null),
        (PREDICT, "{\"nodes\": [NaN]}", 400, "malformed", Value::Null),
        (PREDICT, "", 400, "malformed", Value::Null),
        (PREDICT, "{\"nodes\": []}", 422, "invalid-field", json!("/nodes")),
        (PREDICT, "{\"nodes\": [1, 2, 3, true]}", 422, "invalid-field", json!("/nodes/3")),
        (PREDICT, "{\"nodes\": [1], \"asof\": 3}", 422, "invalid-field", json!("/asof")),
        (PREDICT, "{}", 422, "missing-field", json!("/nodes")),
        (SCORE, "{\"user_id\": 1, \"features\": [1e39]}", 422, "invalid-field", json!("/features/0")),
        (SCORE, "{\"user_id\": 1, \"model\": \"other\"}", 404, "not-found", json!("/model")),
        (PREDICT, &long, 413, "too-large", Value::Null),
        ("/v1/nothing", "{}", 404, "not-found", Value::Null),
    ] {
        let answer = post(&site, path, body.to_string()).await;
        let problem = answer.json();
        assert_eq!((answer.status, &problem["code"]), (status, &json!(code)), "{problem}");
        assert_eq!(problem.get("field").cloned().unwrap_or_default(), field, "{problem}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    let malformed = post(&site, PREDICT, "{\"nodes\": [1,\n ]}").await.json();
    assert_eq!(malformed["detail"], "not JSON: expected a value, at line 2, column 2");
    assert_eq!(requests(&site, "other", "", "not-found"), 1);
    // A model that is not served is no label.
    assert_eq!(requests(&site, "score", "", "not-found"), 1);
    assert_eq!(requests(&site, "predict", "echo", "too-large"), 1);
}

#[tokio::test]
async fn methods_types_and_encodings() {
    let site = small();
    for (method, path, allow) in [("GET", PREDICT, "POST"), ("DELETE", SCORE, "POST"), ("POST", "/metrics", "GET,HEAD")]
    {
        let answer = ask(&site.public, request(method, path, "")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, allow), "{method} {path}");
        assert_eq!(answer.json()["code"], "method-not-allowed");
    }
    for (name, value, good) in [
        ("content-type", "application/json", true),
        ("content-type", "Application/JSON; charset=utf-8", true),
        ("content-type", "application/x-www-form-urlencoded", false),
        ("content-type", "", false),
        ("content-encoding", "gzip", false),
        ("content-encoding", "identity", true),
    ] {
        let mut asked = request("POST", PREDICT, r#"{"nodes": [1]}"#);
        asked.headers_mut().insert(name, value.parse().unwrap());
        let status = ask(&site.public, asked).await.status;
        assert_eq!(status, if good { 200 } else { 415 }, "{name}: {value}");
    }
}

/// A body that arrives in pieces, and whose size is not announced.
fn pieces(count: usize, piece: &'static str, ends: bool) -> Body {
    struct Pieces(usize, &'static str, bool);
    impl axum::body::HttpBody for Pieces {
        type Data = axum::body::Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            match (self.0, self.2) {
                (0, true) => std::task::Poll::Ready(None),
                (0, false) => std::task::Poll::Pending,
                _ => {
                    self.0 -= 1;
                    std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(self.1.into()))))
                }
            }
        }
    }
    Body::new(Pieces(count, piece, ends))
}

#[tokio::test]
async fn bodies_are_bounded_while_they_are_read() {
    let site = site(Settings { max_body: 64, body_timeout: Duration::from_millis(20), ..Settings::default() });
    assert_eq!(post(&site, PREDICT, pieces(1, r#"{"nodes": [1]}"#, true)).await.status, 200);
    assert_eq!(post(&site, PREDICT, pieces(64, " ", true)).await.status, 400);
    // It would never end: refused as soon as it is over the limit, and when it stalls below it.
    assert_eq!(post(&site, PREDICT, pieces(65, " ", false)).await.status, 413);
    assert_eq!(post(&site, PREDICT, pieces(64, " ", false)).await.status, 408);
}

#[tokio::test]
async fn an_answer_that_never_comes_is_ended() {
    let site = site(Settings { request_timeout: Duration::from_millis(20), ..Settings::default() });
    let answer = post(&site, PREDICT, r#"{"nodes": ["wait"]}"#).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (504, Some("deadline-exceeded")));
}

#[tokio::test]
async fn numbers_that_json_cannot_carry_are_a_fault() {
    let site = small();
    for path_and_body in [
        (PREDICT, r#"{"nodes": [1], "features": [[null]]}"#),
        (PREDICT, r#"{"nodes": [1], "features": [{"a": null}], "return": ["embeddings"]}"#),
        (SCORE, r#"{"user_id": 1, "features": [null]}"#),
    ] {
        let answer = post(&site, path_and_body.0, path_and_body.1).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (422, Some("not-finite")));
    }
}

#[tokio::test]
async fn probes_follow_readiness() {
    let site = small();
    let status = async |path| ask(&site.public, request("GET", path, "")).await.status;
    assert_eq!(
        (status("/livez").await, status("/readyz").await, status("/v1/graphsage/health").await),
        (200, 200, 200)
    );
    site.echo.ready.store(false, Ordering::SeqCst);
    assert_eq!(
        (status("/livez").await, status("/readyz").await, status("/v1/graphsage/health").await),
        (200, 503, 503)
    );
    site.echo.ready.store(true, Ordering::SeqCst);
    site.app.draining.store(true, Ordering::SeqCst);
    assert_eq!((status("/livez").await, status("/readyz").await), (200, 503));
    let answer = ask(&site.management, request("GET", "/readyz", "")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    assert_eq!(requests(&site, "readyz", "", "unavailable"), 3);
    assert_eq!(requests(&site, "livez", "", "ok"), 3);
}

#[tokio::test]
async fn health_names_what_is_served() {
    let got = ask(&small().public, request("GET", "/v1/graphsage/health", "")).await.json();
    let model = json!({
        "model": "echo", "version": 3, "release": release().digest.to_string(),
        "graph_version": "0123456789abcdef:0", "backend": "cpu-test",
    });
    let mut expected = model.clone();
    expected["status"] = json!("ok");
    expected["models"] = json!([model]);
    assert_eq!(got, expected);
}

#[tokio::test]
async fn administration_is_on_the_management_listener_only() {
    let site = small();
    assert_eq!(ask(&site.public, request("GET", "/admin/releases", "")).await.status, 404);
    assert_eq!(ask(&site.management, request("POST", PREDICT, "{}")).await.status, 404);
    let answer = ask(&site.management, request("GET", "/admin/releases", "")).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "live": ["echo@3"] })));
    for router in [&site.public, &site.management] {
        let answer = ask(router, request("GET", "/metrics", "")).await;
        assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
        assert!(String::from_utf8(answer.body).unwrap().contains("sagehost_build_info{version=\"test\"} 1"));
    }
}

#[tokio::test]
async fn traces_are_echoed() {
    let site = small();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (given, echoed) in [(parent, parent), ("00-nonsense", "")] {
        let mut asked = request("GET", "/livez", "");
        asked.headers_mut().insert("traceparent", given.parse().unwrap());
        assert_eq!(ask(&site.public, asked).await.header("traceparent"), echoed);
    }
}

#[tokio::test]
async fn a_dropped_request_is_counted_as_cancelled() {
    use std::task::{Context, Poll, Waker};
    use tower::ServiceExt as _;
    let site = small();
    {
        let asked = request("POST", PREDICT, r#"{"nodes": ["wait"]}"#);
        let mut answer = std::pin::pin!(site.public.clone().oneshot(asked));
        assert!(matches!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        assert_eq!(series(&site.app.metrics.render(), r#"sagehost_requests_in_flight{endpoint="predict"}"#), 1);
    }
    assert_eq!(requests(&site, "predict", "", "cancelled"), 1);
    assert_eq!(series(&site.app.metrics.render(), r#"sagehost_requests_in_flight{endpoint="predict"}"#), 0);
}

/// Documents near the documented ones: known fields with any value.
fn near_miss() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("nodes"),
        Just("features"),
        Just("return"),
        Just("as_of"),
        Just("model"),
        Just("entities"),
        Just("graph"),
        Just("timeout_ms"),
        Just("timings"),
        Just("user_id"),
        Just("ip"),
        Just("card_id"),
    ];
    let value = prop_oneof![
        any_json(),
        Just(json!([1])),
        Just(json!("echo")),
        Just(json!(["scores", "decision"])),
        proptest::collection::vec(any_json(), 0..3)
            .prop_map(|keys| json!({ "nodes": keys, "edges": [{ "relation": "r", "src": 1 }] })),
    ];
    proptest::collection::vec((name, value), 0..6)
        .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect()))
}

proptest! {
    #[test]
    fn no_document_is_the_servers_fault(document in prop_oneof![any_json(), near_miss()], is_score in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let site = small();
        let answer = runtime.block_on(post(&site, if is_score { SCORE } else { PREDICT }, document.to_string()));
        prop_assert!(answer.status == 200 || (400..500).contains(&answer.status), "{}: {:?}", document, answer);
        prop_assert!(answer.json().is_object());
    }

    #[test]
    fn floats_keep_their_bits(values in proptest::collection::vec(any::<u32>(), 1..20)) {
        let values: Vec<f32> = values.into_iter().map(f32::from_bits).filter(|value| value.is_finite()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let features = serde_json::to_string(&[&values]).unwrap();
        let text = format!(r#"{{"nodes": [1], "return": ["embeddings"], "features": {features}}}"#);
        let answer = runtime.block_on(post(&small(), PREDICT, text));
        #[derive(serde::Deserialize)]
        struct Row { embedding: Vec<f32> }
        #[derive(serde::Deserialize)]
        struct Rows { results: Vec<Row> }
        let rows: Rows = serde_json::from_slice(&answer.body).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&rows.results[0].embedding), bits(&values));
    }
}
