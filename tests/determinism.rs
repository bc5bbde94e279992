//! The same request gives the same bits: alone and in random batches, on 1 and 2 compute threads, before and after the
//! server and its snapshot are reopened.

use std::path::Path;
use std::sync::Arc;

use sagehost_testkit::releases::{edited, mule_risk, pack, transfers_graph};
use sagehost_testkit::server::{Server, Setup};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");
const NODES: u64 = 64;

fn serve(folder: &Path, graph: &Path, threads: &str) -> Server {
    let server = Setup::new(BINARY, folder).graph("transfers", graph).set("SAGEHOST_ENGINE_THREADS", threads).start();
    server.wait_ready();
    server
}

fn ask(nodes: &[u64]) -> Value {
    json!({ "nodes": nodes, "return": ["scores", "embeddings"] })
}

/// Logits, scores and embedding as the server printed them: shortest text that reads back as the same bits.
fn rows(answer: &Value) -> Vec<String> {
    answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| format!("{} {} {}", r["logits"], r["scores"], r["embedding"]))
        .collect()
}

/// A repeatable shuffle (Fisher–Yates on a linear congruential generator).
fn shuffled(seed: u64) -> Vec<u64> {
    let mut nodes: Vec<u64> = (1..=NODES).collect();
    let mut state = seed;
    for i in (1..nodes.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        nodes.swap(i, (state >> 33) as usize % (i + 1));
    }
    nodes
}

#[test]
fn same_bits_alone_in_batches_on_any_threads_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    // Small fan-outs, so that sampling really chooses.
    let source = edited(&mule_risk(1), &folder.path().join("source"), |text| {
        let start = text.find("[sampling]").expect("[sampling]");
        let end = text[start + 1..].find("\n[").map_or(text.len(), |i| start + 1 + i);
        let growth = "\n[sampling]\nhops = [{ fanout = 5 }, { fanout = 3 }]\ngrowth = \"reuse\"\n";
        format!("{}{growth}{}", &text[..start], &text[end..])
    });
    pack(BINARY, &source, &folder.path().join("repository"), "mule-risk", 1);

    let server = serve(folder.path(), &graph, "1");
    let client = server.client();
    let alone: Vec<String> = (1..=NODES).flat_map(|node| rows(&client.predict(&ask(&[node])))).collect();
    assert!(alone.iter().collect::<std::collections::HashSet<_>>().len() > NODES as usize / 2, "answers must differ");
    check(&server, &alone);
    drop(server);
    check(&serve(folder.path(), &graph, "2"), &alone);
    drop(graph);

    // The same tables, imported again.
    let again = tempfile::tempdir().unwrap();
    let rebuilt = transfers_graph(BINARY, again.path());
    check(&serve(folder.path(), &rebuilt, "2"), &alone);
}

/// In one request of many seeds, with repeats, and in batches of concurrent requests.
fn check(server: &Server, alone: &[String]) {
    let client = server.client();
    for seed in 0..4 {
        let mut nodes = shuffled(seed);
        nodes.extend_from_within(..5);
        for (node, row) in nodes.iter().zip(rows(&client.predict(&ask(&nodes)))) {
            assert_eq!(row, alone[*node as usize - 1], "node {node} among {} others", nodes.len() - 1);
        }
    }
    let address = Arc::new(server.address.clone());
    let alone: Arc<[String]> = alone.into();
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let (address, alone) = (Arc::clone(&address), Arc::clone(&alone));
            std::thread::spawn(move || {
                let client = sagehost_testkit::client::Client::new(&address);
                for node in shuffled(100 + seed) {
                    assert_eq!(rows(&client.predict(&ask(&[node]))), [alone[node as usize - 1].clone()], "node {node}");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
