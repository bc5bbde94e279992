//! Releases are swapped 200 times under open-loop load: no request fails, each answer is wholly of one version, and memory
//! stays flat.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sagehost_testkit::load::Load;
use sagehost_testkit::releases::{mule_risk, pack, transfers_graph};
use sagehost_testkit::server::Setup;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");
const SWAPS: u64 = 200;
/// Requests a second: far below capacity, also of a machine that is doing something else, so that a failure is a fault.
const RATE: f64 = 100.0;
/// Nodes that the load asks about.
const NODES: u64 = 20;
/// What memory may grow by over the swaps after the first tenth, when allocators and caches have found their sizes. One
/// release that stayed alive would hold its weights, plugin instances and buffers: megabytes each.
const SLACK_KIB: u64 = 32 << 10;

fn body(number: usize) -> Value {
    json!({ "nodes": [1 + number as u64 % NODES], "return": ["scores", "decision"] })
}

/// What must not mix: odd versions hold version 1's weights and rule, even ones version 2's.
fn essence(answer: &Value) -> (Value, Value, Value) {
    let row = &answer["results"][0];
    (row["scores"].clone(), row["decision"].clone(), row["reasons"].clone())
}

#[test]
fn two_hundred_swaps_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    let repository = folder.path().join("repository");
    for version in [1, 2] {
        pack(BINARY, &mule_risk(version), &repository, "mule-risk", version);
    }
    let server = Setup::new(BINARY, folder.path()).graph("transfers", &graph).start();
    server.wait_ready();
    server.wait_version(1, 2);

    // What each kind of release answers, learnt while it stands still.
    let mut expected = BTreeMap::new();
    for parity in [0, 1] {
        if parity == 1 {
            pack(BINARY, &mule_risk(1), &repository, "mule-risk", 3);
            server.wait_version(1, 3);
        }
        let client = server.client();
        for node in 1..=NODES {
            let answer = client.predict(&body(node as usize - 1));
            assert_eq!(answer["version"].as_u64().unwrap() % 2, parity);
            expected.insert((node, parity), essence(&answer));
        }
    }
    assert_ne!(expected[&(1, 0)], expected[&(1, 1)], "the two releases must differ for a mix to show");

    let versions = Arc::new(Mutex::new(BTreeMap::<u64, usize>::new()));
    let seen_versions = Arc::clone(&versions);
    let load = Load::start(&server.address, "/v1/graphsage/predict", RATE, body, move |number, answer| {
        if answer.status != 200 {
            return Err(format!("{} {}", answer.status, answer.text));
        }
        let version = answer.json["version"].as_u64().ok_or("no version")?;
        *seen_versions.lock().unwrap().entry(version).or_default() += 1;
        let wanted = &expected[&(1 + number as u64 % NODES, version % 2)];
        let got = essence(&answer.json);
        if got == *wanted { Ok(()) } else { Err(format!("version {version} answered {got:?}, not {wanted:?}")) }
    });
    let mut settled = 0;
    for swap in 1..=SWAPS {
        let version = 3 + swap;
        pack(BINARY, &mule_risk(2 - version % 2), &repository, "mule-risk", version);
        server.wait_version(1, version);
        if swap == SWAPS / 10 {
            settled = server.resident_kib();
        }
    }
    let resident = server.resident_kib();
    let seen = load.stop();
    assert!(seen.failed.is_empty(), "{} of {} failed, such as: {:?}", seen.failed.len(), seen.sent, &seen.failed[..1]);
    let versions = versions.lock().unwrap().len();
    println!("{} requests, 0 failed, {versions} versions seen, {settled} KiB then, {resident} KiB now", seen.sent);
    assert!(versions as u64 > SWAPS / 2, "only {versions} versions were seen: the load did not meet the swaps");
    assert!(resident < settled + SLACK_KIB, "memory grew from {settled} to {resident} KiB");

    let releases = server.admin().get("/admin/releases").json;
    let live = releases["releases"].as_array().unwrap().iter().filter(|r| r["state"] == "live").count();
    assert_eq!(live, 1, "older versions were retired: {releases}");
    let metrics = server.admin().get("/metrics").text;
    assert!(metrics.lines().any(|l| l.starts_with("sagehost_requests_in_flight") && l.ends_with(" 0")), "{metrics}");
    assert_eq!(server.terminate(), Some(0));
}
