//! The examples, through HTTP: what the training scripts computed with full neighbourhoods is what the server answers,
//! score by score, and so the same AUC and accuracy.

use std::path::Path;

use sagehost_examples::data::Finder;
use sagehost_examples::expected::{Expected, Metric, accuracy, auc};
use sagehost_examples::{ExampleError, bitcoin, cora};
use sagehost_testkit::releases::{build_graph, pack, transfers_graph};
use sagehost_testkit::root;
use sagehost_testkit::server::{Server, Setup};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");
/// Largest difference of a score from the training framework's.
const TOLERANCE: f64 = 1e-4;
/// Nodes asked about in one request.
const CHUNK: usize = 128;

fn serve(folder: &Path, example: &str, graph: &Path, model: &str, version: u64) -> Server {
    let source = root().join(format!("examples/{example}/releases/{model}/{version}"));
    pack(BINARY, &source, &folder.join("repository"), model, version);
    let server = Setup::new(BINARY, folder).graph(example, graph).start();
    server.wait_ready();
    server
}

/// Asks about every test node and compares. Scores are kept by class name; `class(i)` is the i-th.
fn compare(server: &Server, expected: &Expected) {
    let client = server.client();
    let (mut scores, mut classes) = (Vec::new(), Vec::new());
    for nodes in expected.nodes.chunks(CHUNK) {
        let mut body = json!({ "nodes": nodes, "return": ["scores"] });
        if let Some(as_of) = expected.as_of_ms {
            body["as_of"] = json!(as_of);
        }
        let answer = client.predict(&body);
        assert_eq!(answer["model"], expected.model.as_str());
        for row in answer["results"].as_array().unwrap() {
            let logits: Vec<f64> = row["logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
            classes.push(u32::try_from(best).unwrap());
            scores.push(first_score(&row["scores"]));
        }
    }
    let value = match expected.metric {
        Metric::Auc => {
            for ((node, got), want) in expected.nodes.iter().zip(&scores).zip(&expected.scores) {
                assert!((got - want).abs() <= TOLERANCE, "node {node}: {got}, the training script has {want}");
            }
            auc(&expected.labels, &scores).unwrap()
        }
        Metric::Accuracy => {
            assert_eq!(classes, expected.classes);
            accuracy(&expected.labels, &classes).unwrap()
        }
    };
    println!(
        "{} version {}: {value:.4} through HTTP, {:.4} by the training script",
        expected.model, expected.version, expected.value
    );
    assert!((value - expected.value).abs() <= TOLERANCE);
}

fn first_score(scores: &Value) -> f64 {
    let first = match scores {
        Value::Array(list) => list.first(),
        Value::Object(map) => map.values().next(),
        _ => None,
    };
    first.and_then(Value::as_f64).unwrap_or_else(|| panic!("no score in {scores}"))
}

fn expected(example: &str, version: u64) -> Expected {
    Expected::read(&root().join(format!("examples/{example}/expected/{version}.json"))).unwrap()
}

/// Whether the data are there; says so when a test is skipped. Anything else than their absence is a failure.
fn found<T>(result: Result<T, ExampleError>) -> bool {
    match result {
        Ok(_) => true,
        Err(missing @ ExampleError::Missing { .. }) => {
            println!("SKIPPED: {missing}");
            false
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn transfers_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(folder.path(), "transfers", &graph, "mule-risk", version);
        compare(&server, &expected("transfers", version));
    }
}

#[test]
fn bitcoin_otc() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    if !found(bitcoin::convert(&Finder::offline(&root()), &tables)) {
        return;
    }
    let graph = build_graph(BINARY, &tables, &folder.path().join("graph"));
    let server = serve(folder.path(), "bitcoin-otc", &graph, "trust-risk", 1);
    let expected = expected("bitcoin-otc", 1);
    compare(&server, &expected);
    // And decisions with reasons.
    let answer =
        server.client().post("/v1/score", &json!({ "user_id": expected.nodes[0], "as_of": expected.as_of_ms }));
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.json["decision"].is_string());
    assert!(!answer.json["reasons"].as_array().unwrap().is_empty());
}

#[test]
fn cora_accuracy() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    if !found(cora::convert(&Finder::offline(&root()), &tables)) {
        return;
    }
    let graph = build_graph(BINARY, &tables, &folder.path().join("graph"));
    let server = serve(folder.path(), "cora", &graph, "cora", 1);
    let expected = expected("cora", 1);
    assert!((0.79..0.84).contains(&expected.value), "about the published 0.81");
    compare(&server, &expected);
}
