//! A put into a real etcd swaps model and plugin versions; etcd going away changes nothing that serves, and a start
//! without it serves the last good state.

use std::time::Duration;

use sagehost_testkit::eventually;
use sagehost_testkit::releases::{mule_risk, pack, transfers_graph};
use sagehost_testkit::server::Setup;
use sagehost_testkit::service::Etcd;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");

fn release(version: u64) -> String {
    json!({ "path": format!("mule-risk/{version}") }).to_string()
}

#[test]
fn puts_swap_and_an_etcd_that_is_gone_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    for version in [1, 2] {
        pack(BINARY, &mule_risk(version), &folder.path().join("repository"), "mule-risk", version);
    }
    let etcd = Etcd::start(folder.path());
    let setup =
        Setup::new(BINARY, folder.path()).graph("transfers", &graph).set("SAGEHOST_ETCD_ENDPOINTS", &etcd.endpoint);
    let server = setup.start();
    let client = server.client();
    assert_eq!(client.get("/readyz").status, 503, "nothing is named in etcd yet, whatever lies in the folder");

    etcd.put("/sagehost/releases/mule-risk/1", &release(1));
    server.wait_version(1, 1);
    etcd.put("/sagehost/releases/mule-risk/2", &release(2));
    server.wait_version(1, 2);
    etcd.put("/sagehost/routes/predict", &json!({ "model": "mule-risk", "version": 1 }).to_string());
    server.wait_version(1, 1);
    etcd.delete("/sagehost/routes/predict");
    server.wait_version(1, 2);

    // A policy is a document of its own: the rule changes, the release does not.
    let ask = json!({ "user_id": 1, "features": { "amount": 10.0 } });
    let policy = |version: u64| json!({ "version": version, "values": { "review": 0.5, "decline": 1.0 } }).to_string();
    assert_ne!(client.post("/v1/score", &ask).json["decision"], "decline");
    etcd.put("/sagehost/policies/mule-policy", &policy(7));
    let blocked = eventually("the policy", Duration::from_secs(30), || {
        let answer = client.post("/v1/score", &ask).json;
        (answer["policy"] == "mule-policy@7").then_some(answer)
    });
    assert_eq!(blocked["decision"], "decline", "{blocked}");
    assert_eq!(blocked["version"], 2);

    // Documents that make no sense are refused and say so; what serves goes on.
    etcd.put("/sagehost/routes/predict", "{ not json");
    eventually("the refusal", Duration::from_secs(30), || server.log().contains("routes/predict").then_some(()));
    server.wait_version(1, 2);
    etcd.delete("/sagehost/routes/predict");

    let port = etcd.port();
    drop(etcd);
    for _ in 0..20 {
        assert_eq!(client.post("/v1/score", &ask).json["decision"], "decline");
    }
    drop(server);

    // Without etcd: the last good state.
    let server = setup.start();
    server.wait_version(1, 2);
    assert_eq!(server.client().post("/v1/score", &ask).json["policy"], "mule-policy@7");

    // It comes back, on the same data, and is followed again.
    let etcd = Etcd::start_on(folder.path(), port, sagehost_testkit::free_port());
    etcd.put("/sagehost/routes/predict", &json!({ "model": "mule-risk", "version": 1 }).to_string());
    server.wait_version(1, 1);
    let healthy = |page: &Value| page["source"].to_string().contains("etcd");
    assert!(healthy(&server.admin().get("/admin/releases").json));
}
