//! A plugin that traps, spins or eats memory costs only its own request: an error within its deadline, while others are
//! answered and `/livez` is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sagehost_testkit::load::Load;
use sagehost_testkit::releases::{edited, mule_risk, pack, transfers_graph};
use sagehost_testkit::server::{Server, Setup};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");
/// Longest time of one plugin call in these releases.
const CALL_MS: u64 = 200;
/// What an answer may take beyond the call's limit: instantiating again, on a machine that runs other tests.
const GRACE: Duration = Duration::from_millis(1500);

/// Modes of the fixtures, by the number that a request's feature `mode` takes, and the code of the fault each gives.
const FAULTS: [(u64, &str, &str); 8] = [
    (1, "trap", "plugin-failed"),
    (2, "spin", "plugin-timeout"),
    (3, "spin-in-host-call", "plugin-timeout"),
    (4, "grow", "plugin-failed"),
    (6, "recurse", "plugin-failed"),
    (8, "nan", "plugin-failed"),
    (10, "invalid-input", "invalid-field"),
    (12, "unavailable", "unavailable"),
];

/// Version 1 of the example with a fixture in the place of `role`, and a request column `mode`.
fn serve(folder: &Path, role: &str) -> Server {
    let graph = transfers_graph(BINARY, folder);
    let source = edited(&mule_risk(1), &folder.join("source"), |text| {
        let mut release: toml::Table = text.parse().expect("release.toml");
        let column: toml::Table = "name = \"mode\"\nfill = 0.0".parse().unwrap();
        let schema = release["schema"].as_table_mut().unwrap();
        let request = schema.entry("request").or_insert_with(|| toml::Value::Array(Vec::new()));
        request.as_array_mut().unwrap().push(toml::Value::Table(column));
        let mut plugin = toml::Table::new();
        plugin.insert("file".into(), format!("plugins/fixture-{role}.wasm").into());
        plugin.insert("call_ms".into(), toml::Value::Integer(CALL_MS as i64));
        plugin.insert("memory_mib".into(), 32.into());
        release["plugins"].as_table_mut().unwrap().insert(role.into(), toml::Value::Table(plugin));
        if role == "pre-processor" {
            // Its rule would judge prepared values that the fixture does not make.
            release["plugins"].as_table_mut().unwrap().insert(
                "post-processor".into(),
                "file = \"plugins/fixture-post-processor.wasm\"".parse::<toml::Table>().unwrap().into(),
            );
        } else {
            release["plugins"].as_table_mut().unwrap().remove("pre-processor");
            fill_request_columns(&mut release);
        }
        release.to_string()
    });
    std::fs::remove_file(source.join("golden.json")).ok();
    std::fs::write(
        source.join("golden.json"),
        "{\"format\": 1, \"graph\": {\"nodes\": [], \"edges\": {}}, \"examples\": []}",
    )
    .unwrap();
    pack(BINARY, &source, &folder.join("repository"), "mule-risk", 1);
    let server = Setup::new(BINARY, folder).graph("transfers", &graph).start();
    server.wait_ready();
    server
}

/// Without a pre-processor the schema has to fill what it fills.
fn fill_request_columns(release: &mut toml::Table) {
    for columns in ["node", "request"] {
        for column in release["schema"][columns].as_array_mut().unwrap() {
            let column = column.as_table_mut().unwrap();
            if column.remove("plugin_fills").is_some() || !column.contains_key("fill") {
                column.insert("fill".into(), 0.0.into());
            }
        }
    }
}

fn ask(mode: u64) -> Value {
    json!({ "user_id": 7, "features": { "mode": mode } })
}

fn each_fault_costs_its_own_request(role: &str) {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), role);
    let client = server.client();
    let good = client.post("/v1/score", &ask(0));
    assert_eq!(good.status, 200, "{}", good.text);

    // Others ask meanwhile, and a prober probes.
    let load = Load::start(
        &server.address,
        "/v1/score",
        50.0,
        |_| ask(0),
        |_, answer| match answer.status {
            200 => Ok(()),
            status => Err(format!("{status} {}", answer.text)),
        },
    );
    let (stop, probe) = (Arc::new(AtomicBool::new(false)), server.client());
    let stopped = Arc::clone(&stop);
    let prober = std::thread::spawn(move || {
        let mut slowest = Duration::ZERO;
        while !stopped.load(Ordering::Relaxed) {
            let started = Instant::now();
            assert_eq!(probe.get("/livez").status, 200);
            slowest = slowest.max(started.elapsed());
            std::thread::sleep(Duration::from_millis(5));
        }
        slowest
    });
    for round in 0..3 {
        for (mode, name, code) in FAULTS {
            let started = Instant::now();
            let answer = client.post("/v1/score", &ask(mode));
            assert_eq!(answer.json["code"], code, "round {round}, {name}: {}", answer.text);
            assert_eq!(answer.content_type, "application/problem+json");
            assert!(
                answer.json["detail"].as_str().unwrap().contains("fixture"),
                "it names the plugin: {}",
                answer.text
            );
            let limit = Duration::from_millis(CALL_MS) + GRACE;
            assert!(started.elapsed() < limit, "{name} took {:?}", started.elapsed());
        }
    }
    let seen = load.stop();
    stop.store(true, Ordering::Relaxed);
    let slowest = prober.join().unwrap();
    assert!(seen.failed.is_empty(), "{} of {} others failed: {:?}", seen.failed.len(), seen.sent, seen.failed.first());
    assert!(slowest < GRACE, "a probe took {slowest:?}");
    assert_eq!(client.post("/v1/score", &ask(0)).json["score"], good.json["score"]);
}

#[test]
fn a_pre_processor_costs_only_its_own_request() {
    each_fault_costs_its_own_request("pre-processor");
}

#[test]
fn a_post_processor_costs_only_its_own_request() {
    each_fault_costs_its_own_request("post-processor");
}

/// A sampler that shows the future, or makes edges up, is caught before the model sees it.
#[test]
fn a_lying_sampler_is_caught() {
    for mode in ["future", "wrong-source"] {
        let folder = tempfile::tempdir().unwrap();
        let graph = transfers_graph(BINARY, folder.path());
        let source = edited(&mule_risk(1), &folder.path().join("source"), |text| {
            let mut release: toml::Table = text.parse().expect("release.toml");
            let plugin = format!("file = \"plugins/fixture-sampler.wasm\"\nsettings = {{ mode = \"{mode}\" }}");
            release["plugins"]
                .as_table_mut()
                .unwrap()
                .insert("sampler".into(), plugin.parse::<toml::Table>().unwrap().into());
            release.to_string()
        });
        pack(BINARY, &source, &folder.path().join("repository"), "mule-risk", 1);
        let server = Setup::new(BINARY, folder.path()).graph("transfers", &graph).start();
        // Warm-up runs the sampler: the release is refused before it answers anyone.
        let reason = sagehost_testkit::eventually("the rejection", Duration::from_secs(30), || {
            let page = server.admin().get("/admin/releases").json;
            let release = page["releases"].as_array()?.iter().find(|r| r["state"] == "rejected")?.clone();
            Some(release["reason"].as_str()?.to_string())
        });
        assert!(reason.contains("fixture-sampler"), "{mode}: {reason}");
    }
}
