//! The standard plugins of the batched roles, served: what a sampler plugin draws is what the host draws itself, and
//! aggregator plugins do not depend on the batch.

use std::path::Path;

use sagehost_testkit::releases::{edited, mule_risk, pack, transfers_graph};
use sagehost_testkit::server::{Server, Setup};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");

/// Version 1 of the example, edited, without the golden examples that hold its own weights to PyTorch's numbers.
fn serve(folder: &Path, graph: &Path, edit: impl FnOnce(&mut toml::Table)) -> Server {
    let source = edited(&mule_risk(1), &folder.join("source"), |text| {
        let mut release: toml::Table = text.parse().expect("release.toml");
        edit(&mut release);
        release.to_string()
    });
    let empty = json!({ "format": 1, "graph": { "nodes": [], "edges": {} }, "examples": [] });
    std::fs::write(source.join("golden.json"), empty.to_string()).unwrap();
    pack(BINARY, &source, &folder.join("repository"), "mule-risk", 1);
    let server = Setup::new(BINARY, folder).graph("transfers", graph).start();
    server.wait_ready();
    server
}

fn sampling(release: &mut toml::Table, text: &str) {
    release.insert("sampling".into(), toml::Value::Table(text.parse().unwrap()));
}

fn plugin(release: &mut toml::Table, role: &str, name: &str) {
    let plugin: toml::Table = format!("file = \"plugins/{name}.wasm\"\ncall_ms = 500").parse().unwrap();
    release["plugins"].as_table_mut().unwrap().insert(role.into(), toml::Value::Table(plugin));
}

fn aggregators(release: &mut toml::Table, kind: &str) {
    for layer in release["model"]["layers"].as_array_mut().unwrap() {
        for conv in layer["convs"].as_array_mut().unwrap() {
            conv.as_table_mut().unwrap().insert("aggregator".into(), kind.into());
        }
    }
}

fn logits(server: &Server, nodes: &[u64]) -> Vec<Value> {
    let answer = server.client().predict(&json!({ "nodes": nodes }));
    answer["results"].as_array().unwrap().iter().map(|row| row["logits"].clone()).collect()
}

#[test]
fn sampler_plugins_draw_what_the_host_draws() {
    let nodes: Vec<u64> = (1..=60).collect();
    for (name, strategy) in [("uniform-sampler", "uniform"), ("latest-sampler", "latest")] {
        for growth in ["reuse", "resample"] {
            let shape = format!("hops = [{{ fanout = 4 }}, {{ fanout = 3 }}]\ngrowth = \"{growth}\"");
            let by = |edit: &dyn Fn(&mut toml::Table)| {
                let folder = tempfile::tempdir().unwrap();
                let graph = transfers_graph(BINARY, folder.path());
                let server = serve(folder.path(), &graph, edit);
                logits(&server, &nodes)
            };
            let native = by(&|release| sampling(release, &format!("{shape}\nstrategy = \"{strategy}\"")));
            let plugged = by(&|release| {
                sampling(release, &shape);
                plugin(release, "sampler", name);
            });
            assert_eq!(plugged, native, "{name}, {growth}");
        }
    }
}

#[test]
fn aggregator_plugins_do_not_depend_on_the_batch() {
    let graph_folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, graph_folder.path());
    for (role, name, kind) in [("reducer", "median-reducer", "reducer"), ("edge-weigher", "trust-weigher", "weigher")] {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(folder.path(), &graph, |release| {
            sampling(release, "hops = [{ fanout = 6 }, { fanout = 4 }]");
            plugin(release, role, name);
            if role == "edge-weigher" {
                let settings: toml::Table = "half_life_days = 30.0".parse().unwrap();
                release["plugins"][role].as_table_mut().unwrap().insert("settings".into(), settings.into());
            }
            aggregators(release, kind);
        });
        let together = logits(&server, &(1..=40).collect::<Vec<_>>());
        for node in [1, 7, 40] {
            assert_eq!(logits(&server, &[node])[0], together[node as usize - 1], "{name}, node {node}");
        }
        let distinct: std::collections::HashSet<String> = together.iter().map(Value::to_string).collect();
        assert!(distinct.len() > 20, "{name}: {distinct:?}");
    }
}
