//! The server on a wgpu device (Mesa's llvmpipe) gives what the CPU gives, up to rounding, and says which device answered.

use sagehost_testkit::releases::{mule_risk, pack, transfers_graph};
use sagehost_testkit::server::Setup;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");

fn logits(answer: &Value) -> Vec<f64> {
    answer["results"].as_array().unwrap().iter().map(|row| row["logits"][0].as_f64().unwrap()).collect()
}

#[test]
fn llvmpipe_serves_what_the_cpu_serves() {
    if std::env::var_os("SAGEHOST_SKIP_GPU_TESTS").is_some() {
        println!("SKIPPED: SAGEHOST_SKIP_GPU_TESTS is set");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    for version in [1, 2] {
        pack(BINARY, &mule_risk(version), &folder.path().join("repository"), "mule-risk", version);
        let setup = Setup::new(BINARY, folder.path()).graph("transfers", &graph);
        let ask = json!({ "nodes": (1..=64).collect::<Vec<u64>>() });
        let cpu = setup.start();
        cpu.wait_version(1, version);
        let on_cpu = cpu.client().predict(&ask);
        drop(cpu);
        let setup = Setup::new(BINARY, folder.path()).graph("transfers", &graph);
        let device = setup.set("SAGEHOST_ENGINE_BACKEND", "wgpu").set("SAGEHOST_ENGINE_ADAPTER", "llvmpipe").start();
        device.wait_version(1, version);
        let on_device = device.client().predict(&ask);
        assert!(on_device["numerics_id"].as_str().unwrap().contains("llvmpipe"), "{}", on_device["numerics_id"]);
        assert_ne!(on_device["numerics_id"], on_cpu["numerics_id"]);
        for (a, b) in logits(&on_cpu).into_iter().zip(logits(&on_device)) {
            assert!((a - b).abs() < 1e-4, "{a} on the CPU, {b} on the device");
        }
        // Alone or among others: the same bits on one device.
        let alone = device.client().predict(&json!({ "nodes": [17] }));
        assert_eq!(alone["results"][0]["logits"], on_device["results"][16]["logits"]);
    }
}
