//! Rollouts that must not take anything down: a second model, a rule or a policy that fails on every request, a route to
//! something that is not there, a plugin of another model that spins.

use std::path::Path;
use std::time::Duration;

use sagehost_testkit::eventually;
use sagehost_testkit::load::Load;
use sagehost_testkit::releases::{edited, mule_risk, pack, transfers_graph};
use sagehost_testkit::server::{Server, Setup};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");

fn serve(folder: &Path) -> Server {
    let graph = transfers_graph(BINARY, folder);
    pack(BINARY, &mule_risk(1), &folder.join("repository"), "mule-risk", 1);
    let server = Setup::new(BINARY, folder).graph("transfers", &graph).start();
    server.wait_ready();
    server
}

/// Version 1 with another plugin in a role.
fn with_plugin(folder: &Path, role: &str, plugin: &str) -> std::path::PathBuf {
    edited(&mule_risk(1), &folder.join(plugin.len().to_string()), |text| {
        let mut release: toml::Table = text.parse().unwrap();
        let plugin: toml::Table = plugin.parse().unwrap();
        release["plugins"].as_table_mut().unwrap().insert(role.into(), plugin.into());
        release.to_string()
    })
}

fn state(server: &Server, model: &str, version: u64, wanted: &str) -> Value {
    eventually(&format!("{model}@{version} {wanted}"), Duration::from_secs(30), || {
        let page = server.admin().get("/admin/releases").json;
        let releases = page["releases"].as_array()?;
        releases.iter().find(|r| r["model"] == model && r["version"] == version && r["state"] == wanted).cloned()
    })
}

/// Every unnamed request is answered by version 1 of `mule-risk` while `change` is made and until it is seen.
fn nothing_breaks(server: &Server, change: impl FnOnce()) {
    let load = Load::start(
        &server.address,
        "/v1/score",
        100.0,
        |_| json!({ "user_id": 7 }),
        |_, answer| match (answer.status, &answer.json["model"], answer.json["version"].as_u64()) {
            (200, model, Some(1)) if model == "mule-risk" => Ok(()),
            _ => Err(format!("{} {}", answer.status, answer.text)),
        },
    );
    change();
    let seen = load.stop();
    assert!(seen.failed.is_empty(), "{} of {} failed: {:?}", seen.failed.len(), seen.sent, seen.failed.first());
}

#[test]
fn a_second_model_leaves_unnamed_requests_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    nothing_breaks(&server, || {
        pack(BINARY, &mule_risk(2), &folder.path().join("repository"), "another", 1);
        state(&server, "another", 1, "live");
    });
    let named = server.client().post("/v1/score", &json!({ "user_id": 7, "model": "another" }));
    assert_eq!((named.status, &named.json["model"]), (200, &json!("another")), "{}", named.text);
}

#[test]
fn a_rule_that_fails_on_everything_does_not_go_live() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let fixture = "file = \"plugins/fixture-post-processor.wasm\"\nsettings = { mode = \"trap\" }";
    let source = with_plugin(folder.path(), "post-processor", fixture);
    nothing_breaks(&server, || {
        pack(BINARY, &source, &folder.path().join("repository"), "mule-risk", 2);
        let reason = state(&server, "mule-risk", 2, "rejected")["reason"].to_string();
        assert!(reason.contains("fixture-post-processor"), "{reason}");
    });
}

#[test]
fn a_policy_that_the_rule_cannot_use_does_not_take_effect() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let policies = folder.path().join("repository/_policies");
    std::fs::create_dir_all(&policies).unwrap();
    let roll_out = |text: &str| {
        std::fs::write(policies.join("new"), text).unwrap();
        std::fs::rename(policies.join("new"), policies.join("mule-policy.toml")).unwrap();
    };
    let in_force = || server.client().post("/v1/score", &json!({ "user_id": 7 })).json["policy"].clone();
    roll_out("version = 2\n[values]\nreview = 400\ndecline = 700\n");
    eventually("policy 2", Duration::from_secs(30), || (in_force() == "mule-policy@2").then_some(()));
    nothing_breaks(&server, || {
        roll_out("version = 3\n[values]\nreview = \"banana\"\n");
        eventually("the refusal", Duration::from_secs(30), || {
            server.log().contains("the policy does not take effect").then_some(())
        });
    });
    assert_eq!(in_force(), "mule-policy@2");
    roll_out("version = 4\n[values]\nreview = 300\ndecline = 600\n");
    eventually("policy 4", Duration::from_secs(30), || (in_force() == "mule-policy@4").then_some(()));
}

/// A restart beside a document that no rule can use, or that cannot be read at all, goes on with the last one that worked.
#[test]
fn a_restart_keeps_the_last_policy_that_worked() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    pack(BINARY, &mule_risk(1), &folder.path().join("repository"), "mule-risk", 1);
    let policies = folder.path().join("repository/_policies");
    std::fs::create_dir_all(&policies).unwrap();
    std::fs::write(policies.join("mule-policy.toml"), "version = 7\n[values]\nreview = 400\ndecline = 700\n").unwrap();
    let start = || {
        let server = Setup::new(BINARY, folder.path()).graph("transfers", &graph).start();
        server.wait_ready();
        server
    };
    let in_force = |server: &Server| server.client().post("/v1/score", &json!({ "user_id": 7 })).json["policy"].clone();
    assert_eq!(in_force(&start()), "mule-policy@7");
    for broken in ["version = 8\n[values]\nreview = \"banana\"\n", "version = = 9"] {
        std::fs::write(policies.join("mule-policy.toml"), broken).unwrap();
        let server = start();
        assert_eq!(in_force(&server), "mule-policy@7", "beside {broken:?}");
        let page = server.admin().get("/admin/releases").json;
        assert_eq!(page["policies"]["mule-policy"], 7, "{page}");
        assert!(page["refused_documents"]["policies/mule-policy"].is_string(), "{page}");
    }
    // No document at all is a wish too: the release's own values.
    std::fs::remove_file(policies.join("mule-policy.toml")).unwrap();
    assert_eq!(in_force(&start()), "mule-policy@0");
}

#[test]
fn a_route_to_what_is_not_there_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let routes = folder.path().join("repository/_routes");
    std::fs::create_dir_all(&routes).unwrap();
    nothing_breaks(&server, || {
        std::fs::write(routes.join("score.toml"), "model = \"mule-risk\"\nversion = 99\n").unwrap();
        eventually("its pending state", Duration::from_secs(30), || {
            server.admin().get("/admin/releases").text.contains("mule-risk@99").then_some(())
        });
    });
}

#[test]
fn a_model_whose_rule_spins_does_not_slow_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let source = edited(&mule_risk(1), &folder.path().join("spinning"), |text| {
        let mut release: toml::Table = text.parse().unwrap();
        let column: toml::Table = "name = \"mode\"\nfill = 0.0".parse().unwrap();
        release["schema"]["request"].as_array_mut().unwrap().push(column.into());
        let plugin: toml::Table = "file = \"plugins/fixture-post-processor.wasm\"\ncall_ms = 300".parse().unwrap();
        release["plugins"].as_table_mut().unwrap().insert("post-processor".into(), plugin.into());
        release["plugins"].as_table_mut().unwrap().remove("pre-processor");
        for column in release["schema"]["request"].as_array_mut().unwrap() {
            let column = column.as_table_mut().unwrap();
            column.remove("plugin_fills");
            column.insert("fill".into(), 0.0.into());
        }
        release.to_string()
    });
    pack(BINARY, &source, &folder.path().join("repository"), "spinning", 1);
    state(&server, "spinning", 1, "live");
    // More than the threads of a pool, so that a shared one would be full of them for as long as this lasts.
    let spinners: Vec<_> = (0..8)
        .map(|_| {
            let client = server.client();
            std::thread::spawn(move || {
                for _ in 0..4 {
                    let body = json!({ "user_id": 7, "model": "spinning", "features": { "mode": 2 } });
                    assert_ne!(client.post("/v1/score", &body).status, 200);
                }
            })
        })
        .collect();
    nothing_breaks(&server, || spinners.into_iter().for_each(|spinner| spinner.join().unwrap()));
}
