//! The HTTP API on a real server: every refusal names its field, and nodes that the graph does not know can be scored.

use sagehost_testkit::releases::{mule_risk, pack, transfers_graph};
use sagehost_testkit::server::{Server, Setup};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");
const PREDICT: &str = "/v1/graphsage/predict";

fn serve(folder: &std::path::Path) -> Server {
    let graph = transfers_graph(BINARY, folder);
    pack(BINARY, &mule_risk(1), &folder.join("repository"), "mule-risk", 1);
    let server =
        Setup::new(BINARY, folder).graph("transfers", &graph).set("SAGEHOST_SERVER_MAX_BODY_BYTES", "65536").start();
    server.wait_ready();
    server
}

#[test]
fn refusals_say_what_was_wrong_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let client = server.client();
    let rows: [(&str, Value, u16, &str, Value); 14] = [
        (PREDICT, json!({ "nodes": [1, 999_999_999_u64] }), 404, "unknown-node", json!("/nodes/1")),
        (PREDICT, json!({ "nodes": ["one"] }), 404, "unknown-node", json!("/nodes/0")),
        (PREDICT, json!({ "nodes": [] }), 422, "invalid-field", json!("/nodes")),
        (PREDICT, json!({ "nodes": [-1] }), 422, "invalid-field", json!("/nodes/0")),
        (PREDICT, json!({}), 422, "missing-field", json!("/nodes")),
        (PREDICT, json!({ "nodes": [1], "colour": 1 }), 422, "invalid-field", json!("/colour")),
        (PREDICT, json!({ "nodes": [1], "as_of": "yesterday" }), 422, "invalid-field", json!("/as_of")),
        (PREDICT, json!({ "nodes": [1], "return": ["wisdom"] }), 422, "invalid-field", json!("/return/0")),
        (PREDICT, json!({ "nodes": [1], "model": "other" }), 404, "not-found", json!("/model")),
        ("/v1/score", json!({ "user_id": 1, "features": [1.0] }), 422, "invalid-field", json!("/features")),
        (
            "/v1/score",
            json!({ "user_id": 1, "features": { "colour": 1.0 } }),
            422,
            "invalid-field",
            json!("/features/colour"),
        ),
        (
            "/v1/score",
            json!({ "user_id": 1, "features": { "amount": "much" } }),
            422,
            "invalid-field",
            json!("/features/amount"),
        ),
        (
            "/v1/score",
            json!({ "user_id": 1, "features": { "amount": 1e300 } }),
            422,
            "invalid-field",
            json!("/features/amount"),
        ),
        ("/v1/score", json!({ "features": {} }), 422, "missing-field", json!("/user_id")),
    ];
    for (path, body, status, code, field) in rows {
        let answer = client.post(path, &body);
        assert_eq!((answer.status, &answer.json["code"]), (status, &json!(code)), "{body}: {}", answer.text);
        assert_eq!(answer.json["field"], field, "{body}: {}", answer.text);
        assert_eq!(answer.content_type, "application/problem+json");
    }
    let raw: [(&str, &str, &[u8], u16, &str); 5] = [
        (PREDICT, "application/json", b"{\"nodes\": [1", 400, "malformed"),
        (PREDICT, "application/json", b"{\"nodes\": [NaN]}", 400, "malformed"),
        (PREDICT, "text/plain", b"{\"nodes\": [1]}", 415, "unsupported-media-type"),
        (PREDICT, "application/json", &[b' '; 70_000], 413, "too-large"),
        ("/v1/nothing", "application/json", b"{}", 404, "not-found"),
    ];
    for (path, content_type, body, status, code) in raw {
        let answer = client.post_raw(path, content_type, body);
        assert_eq!((answer.status, &answer.json["code"]), (status, &json!(code)), "{}", answer.text);
    }
    let answer = client.get(PREDICT);
    assert_eq!((answer.status, &answer.json["code"]), (405, &json!("method-not-allowed")), "{}", answer.text);
}

#[test]
fn repeated_seeds_give_equal_rows_and_an_as_of_hides_the_future() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let client = server.client();
    let answer = client.predict(&json!({ "nodes": [8, 8, 9] }));
    let rows = answer["results"].as_array().unwrap();
    assert_eq!(rows[0], rows[1]);
    assert_ne!(rows[0]["logits"], rows[2]["logits"]);

    // Before the first transfer every account stands alone; the newest time is what absence means.
    let then = client.predict(&json!({ "nodes": [8], "as_of": 0 }));
    let now = client.predict(&json!({ "nodes": [8], "as_of": answer["as_of"] }));
    assert_ne!(then["results"][0]["logits"], rows[0]["logits"]);
    assert_eq!(now["results"][0], rows[0]);
    let text = client.predict(&json!({ "nodes": [8], "as_of": "1970-01-01T00:00:00Z" }));
    assert_eq!(text["results"], then["results"]);
}

#[test]
fn an_unknown_node_is_scored_from_what_the_request_brings() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let client = server.client();
    let new = 999_999_999_u64;
    assert_eq!(client.post("/v1/score", &json!({ "user_id": new })).json["code"], "unknown-node");

    let as_of = client.predict(&json!({ "nodes": [1] }))["as_of"].as_i64().unwrap();
    let edge = |src: u64| json!({ "relation": "received", "src": src, "dst": new, "time": as_of - 60_000, "columns": { "amount": 900.0 } });
    let graph = |edges: Vec<Value>| json!({ "nodes": [{ "key": new, "features": { "age_days": 3.0, "kyc_level": 1.0 } }], "edges": edges });
    let predict = |edges: Vec<Value>| {
        client.predict(&json!({ "nodes": [new], "graph": graph(edges) }))["results"][0]["logits"].clone()
    };
    let alone = predict(vec![]);
    let with_edges = predict(vec![edge(1), edge(2), edge(2)]);
    assert_ne!(alone, with_edges, "its edges count");
    assert_eq!(with_edges, predict(vec![edge(1), edge(2), edge(2)]), "and give the same bits again");

    let missing = client.post("/v1/score", &json!({ "user_id": new, "features": { "age_days": 3.0 } }));
    assert_eq!((missing.status, &missing.json["field"]), (422, &json!("/features/kyc_level")), "{}", missing.text);
    let scored = client.post(
        "/v1/score",
        &json!({ "user_id": new, "features": { "age_days": 3.0, "kyc_level": 1.0, "amount": 25.0 } }),
    );
    assert_eq!(scored.status, 200, "{}", scored.text);
    assert!(scored.json["decision"].is_string() && scored.json["reasons"].is_array());

    let into_known = json!({ "nodes": [new], "graph": { "nodes": [{ "key": new, "features": { "age_days": 3.0, "kyc_level": 1.0 } }], "edges": [
        { "relation": "received", "src": 1, "dst": 2, "time": 0 }] } });
    let answer = client.post(PREDICT, &into_known);
    assert_eq!((answer.status, &answer.json["field"]), (422, &json!("/graph/edges/0/dst")), "{}", answer.text);
}

#[test]
fn null_and_absent_mean_missing_and_a_list_is_as_good_as_names() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let client = server.client();
    let score = |features: Value| {
        let answer = client.post("/v1/score", &json!({ "user_id": 5, "features": features }));
        assert_eq!(answer.status, 200, "{}", answer.text);
        (answer.json["score"].clone(), answer.json["decision"].clone())
    };
    let absent = score(json!({}));
    assert_eq!(score(json!({ "amount": null, "age_days": null })), absent);
    let release: toml::Table = std::fs::read_to_string(mule_risk(1).join("release.toml")).unwrap().parse().unwrap();
    let columns = ["node", "request"].map(|kind| release["schema"][kind].as_array().map_or(0, Vec::len));
    assert_eq!(score(json!(vec![Value::Null; columns[0] + columns[1]])), absent);
    assert_ne!(
        score(json!({ "age_days": 1.0, "kyc_level": 0.0 })).0,
        absent.0,
        "what the request gives overrides the graph"
    );
}

#[test]
fn probes_metrics_and_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let (client, admin) = (server.client(), server.admin());
    let health = client.get("/v1/graphsage/health");
    assert_eq!((health.status, &health.json["model"], &health.json["version"]), (200, &json!("mule-risk"), &json!(1)));
    for client in [&client, &admin] {
        assert_eq!(client.get("/livez").status, 200);
        assert_eq!(client.get("/readyz").status, 200);
    }
    let _ = client.predict(&json!({ "nodes": [1] }));
    let text = admin.get("/metrics").text;
    for name in
        ["sagehost_requests_total", "sagehost_request_duration_seconds_bucket", "sagehost_stage_duration_seconds_sum"]
    {
        assert!(text.contains(name), "{name} is missing from {text}");
    }
    assert_eq!(client.get("/admin/releases").status, 404, "management is not on the inference address");
    assert_eq!(server.terminate(), Some(0));
}
