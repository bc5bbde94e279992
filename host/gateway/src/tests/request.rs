use sagehost_types::{Code, Key};

use super::*;

fn asked(endpoint: Endpoint, body: &str) -> Result<Asked, Fault> {
    read(endpoint, body.as_bytes(), &"r".into(), Instant::now())
}

fn predict(body: &str) -> Result<Asked, Fault> {
    asked(Endpoint::Predict, body)
}

fn score(body: &str) -> Result<Asked, Fault> {
    asked(Endpoint::Score, body)
}

fn fault(result: Result<Asked, Fault>) -> (Code, String) {
    let fault = result.unwrap_err();
    (fault.code, fault.field.unwrap_or_default())
}

#[test]
fn a_whole_predict_request() {
    let asked = predict(
        r#"{"nodes": [7, "acc-1", 18446744073709551615], "features": [null, [1.5, null], {"age": 3, "income": null}],
            "return": ["decision", "embeddings"], "as_of": "1970-01-01T00:00:01Z", "model": "mule-risk",
            "entities": {"device": "d", "card": 12}, "timeout_ms": 250, "timings": true,
            "graph": {"nodes": [{"key": "new", "features": [1]}],
                      "edges": [{"relation": "pays", "src": 7, "dst": "new", "time": -5, "columns": {"amount": 2.5, "x": null}}]}}"#,
    )
    .unwrap();
    let request = asked.request;
    let keys: Vec<_> = request.seeds.iter().map(|seed| seed.key.clone()).collect();
    assert_eq!(keys, [Key::from(7), Key::from("acc-1"), Key::from(u64::MAX)]);
    assert_eq!(request.seeds[0].features, Features::Absent);
    assert_eq!(request.seeds[1].features, Features::List(vec![Some(1.5), None]));
    let named = [("age".to_string(), Some(3.0)), ("income".to_string(), None)].into();
    assert_eq!(request.seeds[2].features, Features::Named(named));
    assert_eq!(request.want, Want { scores: false, embeddings: true, decision: true });
    assert_eq!((request.as_of_ms, request.timeout), (Some(1000), Some(Duration::from_millis(250))));
    assert_eq!((request.model.as_deref(), asked.timings), (Some("mule-risk"), true));
    let entities: Vec<_> = request.entities.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(entities, [("device", "d"), ("card", "12")]);
    assert_eq!((request.nodes.len(), &request.nodes[0].features), (1, &Features::List(vec![Some(1.0)])));
    let edge = &request.edges[0];
    assert_eq!((edge.relation.as_str(), &edge.src, &edge.dst), ("pays", &Key::from(7), &Key::from("new")));
    assert_eq!((edge.time_ms, edge.columns.len(), edge.columns["amount"]), (Some(-5), 1, 2.5));
}

#[test]
fn defaults() {
    let asked = predict(r#"{"nodes": [1], "as_of": null, "model": null}"#).unwrap();
    assert_eq!(asked.request.want, Want { scores: true, embeddings: false, decision: false });
    assert_eq!((asked.request.as_of_ms, asked.request.model, asked.timings), (None, None, false));
    let asked = score(r#"{"user_id": "u", "device_id": "d", "ip": "::1", "card_id": 7, "shop_id": null}"#).unwrap();
    assert_eq!(asked.request.want, Want { scores: false, embeddings: false, decision: true });
    let entities: Vec<_> = asked.request.entities.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(entities, [("device", "d"), ("ip", "::1"), ("card", "7")]);
}

#[test]
fn faults_name_their_field() {
    use Code::{InvalidField, MissingField};
    let long = format!(r#"{{"nodes": ["{}"]}}"#, "x".repeat(1025));
    let many = format!(r#"{{"nodes": [{}0]}}"#, "0,".repeat(limits::MAX_SEEDS));
    for (body, code, field) in [
        ("[]", InvalidField, ""),
        ("{}", MissingField, "/nodes"),
        (r#"{"nodes": null}"#, MissingField, "/nodes"),
        (r#"{"nodes": 7}"#, InvalidField, "/nodes"),
        (r#"{"nodes": []}"#, InvalidField, "/nodes"),
        (&many, InvalidField, "/nodes"),
        (r#"{"nodes": [0, 1, 2, -1]}"#, InvalidField, "/nodes/3"),
        (r#"{"nodes": [1.0]}"#, InvalidField, "/nodes/0"),
        (r#"{"nodes": [18446744073709551616]}"#, InvalidField, "/nodes/0"),
        (r#"{"nodes": [""]}"#, InvalidField, "/nodes/0"),
        (&long, InvalidField, "/nodes/0"),
        (r#"{"nodes": [1], "node": 2}"#, InvalidField, "/node"),
        (r#"{"nodes": [1], "a/b": 2}"#, InvalidField, "/a~1b"),
        (r#"{"nodes": [1], "return": []}"#, InvalidField, "/return"),
        (r#"{"nodes": [1], "return": ["scores", "all"]}"#, InvalidField, "/return/1"),
        (r#"{"nodes": [1], "as_of": 1.5}"#, InvalidField, "/as_of"),
        (r#"{"nodes": [1], "as_of": "yesterday"}"#, InvalidField, "/as_of"),
        (r#"{"nodes": [1], "model": "../etc"}"#, InvalidField, "/model"),
        (r#"{"nodes": [1], "timeout_ms": 0}"#, InvalidField, "/timeout_ms"),
        (r#"{"nodes": [1], "timings": 1}"#, InvalidField, "/timings"),
        (r#"{"nodes": [1, 2], "features": [null]}"#, InvalidField, "/features"),
        (r#"{"nodes": [1, 2], "features": [null, [0, 1e39]]}"#, InvalidField, "/features/1/1"),
        (r#"{"nodes": [1], "features": [{"age": "3"}]}"#, InvalidField, "/features/0/age"),
        (r#"{"nodes": [1], "features": [7]}"#, InvalidField, "/features/0"),
        (r#"{"nodes": [1], "entities": {"a b": "x"}}"#, InvalidField, "/entities/a b"),
        (r#"{"nodes": [1], "graph": {"node": []}}"#, InvalidField, "/graph/node"),
        (r#"{"nodes": [1], "graph": {"nodes": [{"features": []}]}}"#, MissingField, "/graph/nodes/0/key"),
        (r#"{"nodes": [1], "graph": {"edges": [{"src": 1, "dst": 2}]}}"#, MissingField, "/graph/edges/0/relation"),
        (r#"{"nodes": [1], "graph": {"edges": [{"relation": "r", "src": 1}]}}"#, MissingField, "/graph/edges/0/dst"),
        (
            r#"{"nodes": [1], "graph": {"edges": [{"relation": "r", "src": 1, "dst": 2, "columns": {"w": -1e400}}]}}"#,
            InvalidField,
            "/graph/edges/0/columns/w",
        ),
    ] {
        assert_eq!(fault(predict(body)), (code, field.to_string()), "{}", brief(body));
    }
    for (body, code, field) in [
        ("{}", MissingField, "/user_id"),
        (r#"{"user_id": true}"#, InvalidField, "/user_id"),
        (r#"{"user_id": 1, "featurs": [1]}"#, InvalidField, "/featurs"),
        (r#"{"user_id": 1, "as_off": "x"}"#, InvalidField, "/as_off"),
        (r#"{"user_id": 1, "*_id": "x"}"#, InvalidField, "/*_id"),
        (r#"{"user_id": 1, "device_id": [1]}"#, InvalidField, "/device_id"),
        (r#"{"user_id": 1, "ip": "a", "entities": {"ip": "b"}}"#, InvalidField, "/entities/ip"),
        (r#"{"user_id": 1, "features": true}"#, InvalidField, "/features"),
    ] {
        assert_eq!(fault(score(body)), (code, field.to_string()), "{body}");
    }
    assert_eq!(fault(predict(r#"{"nodes": [NaN]}"#)), (Code::Malformed, String::new()));
}

#[test]
fn entities_are_bounded() {
    let members: Vec<_> = (0..=MAX_ENTITIES).map(|i| format!(r#""e{i}": "x""#)).collect();
    let body = format!(r#"{{"user_id": 1, "entities": {{{}}}}}"#, members.join(","));
    assert_eq!(fault(score(&body)), (Code::InvalidField, format!("/entities/e{MAX_ENTITIES}")));
}
