//! The etcd source, against a real etcd.

use std::time::Duration;

use etcd_client::{Client, Permission, PermissionType, Txn, TxnOp};
use sagehost_rollout::{EtcdOptions, EtcdUser, ReleaseState, SourceOptions};

use crate::etcd_server::{Etcd, Proxy};
use crate::toy::Fixture;

fn options(port: u16) -> EtcdOptions {
    EtcdOptions {
        endpoints: vec![format!("http://127.0.0.1:{port}")],
        prefix: "sagehost".into(),
        timeout: Duration::from_secs(2),
        keep_alive: (Duration::from_millis(200), Duration::from_millis(500)),
        backoff: (Duration::from_millis(20), Duration::from_millis(200)),
        ..EtcdOptions::default()
    }
}

async fn put(client: &mut Client, name: &str, value: &str) -> i64 {
    let answer = client.put(format!("sagehost/{name}"), value, None).await.unwrap();
    answer.header().unwrap().revision()
}

async fn delete(client: &mut Client, name: &str) {
    assert_eq!(client.delete(format!("sagehost/{name}"), None).await.unwrap().deleted(), 1);
}

#[tokio::test]
async fn a_put_swaps_and_a_delete_goes_back() {
    let etcd = Etcd::start();
    let mut client = etcd.client().await;
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    let second = fixture.pack("m", 2, "second");
    put(&mut client, "releases/m/1", "{}").await;
    // Neighbours of the prefix are none of ours.
    client.put("sagehost", "junk", None).await.unwrap();
    client.put("sagehost0", "junk", None).await.unwrap();
    fixture.start(SourceOptions::Etcd(options(etcd.port)));
    fixture.until_live(&["m@1"]).await;
    fixture.until("healthy", |s| s.source.healthy && s.source.kind == "etcd").await;
    assert!(fixture.status().refused_documents.is_empty());

    let document = format!(r#"{{"path":"m/2","digest":"{second}","author":"ann","reason":"better recall"}}"#);
    let revision = put(&mut client, "releases/m/2", &document).await;
    fixture.until_live(&["m@2"]).await;
    let status = fixture.until("applied", |s| s.applied_revision == Some(revision)).await;
    let release = status.releases.iter().find(|r| r.version == 2).unwrap();
    assert_eq!((release.author.as_deref(), release.note.as_deref()), (Some("ann"), Some("better recall")));
    assert_eq!(release.digest, Some(second));

    // One transaction: a route and a policy, both in one table.
    let ops = [
        TxnOp::put("sagehost/routes/score", r#"{"model":"m","version":1}"#, None),
        TxnOp::put("sagehost/policies/risk", r#"{"version":4,"values":{"review":0.5,"blocked":["u1"]}}"#, None),
    ];
    client.txn(Txn::new().and_then(ops)).await.unwrap();
    let live = fixture.until_live(&["m@1", "m@2"]).await;
    assert_eq!((live.routes["score"].as_str(), live.policies["risk"]), ("m Number(1)", 4));

    // Wrong documents are refused, and what they would have replaced stays.
    put(&mut client, "routes/score", r#"{"model":"m","version":"newest"}"#).await;
    put(&mut client, "releases/m/2", r#"{"digets":""}"#).await;
    let wrong = ["routes/score", "releases/m/2"];
    fixture.until("refused", |s| wrong.iter().all(|name| s.refused_documents.contains_key(*name))).await;
    assert_eq!(fixture.live(), live);

    delete(&mut client, "routes/score").await;
    fixture.until_live(&["m@2"]).await;
    delete(&mut client, "releases/m/2").await;
    fixture.until_live(&["m@1"]).await;
}

#[tokio::test]
async fn a_document_may_come_before_its_folder_and_pins_its_digest() {
    let etcd = Etcd::start();
    let mut client = etcd.client().await;
    let mut fixture = Fixture::new();
    fixture.start(SourceOptions::Etcd(options(etcd.port)));
    put(&mut client, "releases/m/1", r#"{"path":"shelf/m/1"}"#).await;
    fixture.until_state("m@1", ReleaseState::Waiting, "manifest.json is missing").await;
    let shelf = fixture.repository().join("shelf");
    fixture.pack_into(&shelf, "m", 1, "first");
    fixture.until_live(&["m@1"]).await;

    let broken = fixture.pack("m", 2, "broken");
    let document = format!(r#"{{"digest":"{broken}"}}"#);
    put(&mut client, "releases/m/2", &document).await;
    fixture.until_state("m@2", ReleaseState::Rejected, "wrong logits").await;
    fixture.pack("m", 3, "third");
    put(&mut client, "releases/m/3", &document).await;
    fixture.until_state("m@3", ReleaseState::Rejected, "the document asks for").await;
    assert_eq!(fixture.loads(), ["m@1", "m@2"]);
    // Written again, a rejected release is tried again.
    let revision = put(&mut client, "releases/m/2", &document).await;
    fixture.until("applied", |s| s.applied_revision >= Some(revision)).await;
    assert_eq!(fixture.loads(), ["m@1", "m@2", "m@2"]);
    assert_eq!(fixture.live().names(), ["m@1"]);
}

#[tokio::test]
async fn what_is_deleted_and_compacted_while_the_line_is_cut_is_deleted_here() {
    let etcd = Etcd::start();
    let mut client = etcd.client().await;
    let proxy = Proxy::to(etcd.port).await;
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.pack("m", 2, "second");
    fixture.pack("n", 1, "other");
    for name in ["releases/m/1", "releases/m/2", "releases/n/1"] {
        put(&mut client, name, "{}").await;
    }
    fixture.start(SourceOptions::Etcd(options(proxy.port)));
    fixture.until_live(&["m@2", "n@1"]).await;
    fixture.until("healthy", |s| s.source.healthy).await;

    proxy.cut(true);
    fixture.until("unhealthy", |s| !s.source.healthy).await;
    delete(&mut client, "releases/m/2").await;
    delete(&mut client, "releases/n/1").await;
    let revision = put(&mut client, "policies/p", r#"{"version":1}"#).await;
    client.compact(revision, None).await.unwrap();
    assert_eq!(fixture.live().names(), ["m@2", "n@1"]);

    proxy.cut(false);
    let live = fixture.until_live(&["m@1"]).await;
    assert_eq!(live.policies["p"], 1);
    fixture.until("applied", |s| s.source.healthy && s.applied_revision == Some(revision)).await;
    assert!(fixture.counters.source_errors() > 0);
    // And the watch goes on from there.
    put(&mut client, "releases/m/2", "{}").await;
    fixture.until_live(&["m@2"]).await;
}

#[tokio::test]
async fn etcd_killed_frozen_and_wiped_changes_nothing_that_serves() {
    let mut etcd = Etcd::start();
    let mut client = etcd.client().await;
    let mut fixture = Fixture::new();
    for version in 1..=3 {
        fixture.pack("m", version, &format!("text {version}"));
    }
    put(&mut client, "releases/m/1", "{}").await;
    fixture.start(SourceOptions::Etcd(options(etcd.port)));
    fixture.until_live(&["m@1"]).await;
    fixture.until("healthy", |s| s.source.healthy).await;

    etcd.kill();
    fixture.until("unhealthy", |s| !s.source.healthy).await;
    etcd.restart();
    fixture.until("healthy again", |s| s.source.healthy).await;
    let mut client = etcd.client().await;
    put(&mut client, "releases/m/2", "{}").await;
    fixture.until_live(&["m@2"]).await;

    // Frozen, not gone: nothing closes the connection, only the pings stay unanswered.
    etcd.signal("-STOP");
    fixture.until("unhealthy", |s| !s.source.healthy).await;
    etcd.signal("-CONT");
    fixture.until("healthy again", |s| s.source.healthy).await;
    put(&mut client, "releases/m/3", "{}").await;
    fixture.until_live(&["m@3"]).await;

    // Empty and younger than what was read before: not a wish to remove everything.
    etcd.kill();
    etcd.wipe();
    etcd.restart();
    fixture.until("lost data", |s| s.source.detail.as_ref().is_some_and(|d| d.contains("data were lost"))).await;
    assert_eq!(fixture.live().names(), ["m@3"]);
    let mut client = etcd.client().await;
    put(&mut client, "releases/m/2", "{}").await;
    fixture.until_live(&["m@2"]).await;
    // Each table had exactly one version of the model: nothing was dropped before its replacement served.
    let history = fixture.history();
    assert_eq!(history.len(), 4, "{history:?}");
    assert!(history.iter().all(|live| live.releases.len() == 1));
}

#[tokio::test]
async fn a_start_without_etcd_serves_the_last_good_state() {
    let mut etcd = Etcd::start();
    let mut client = etcd.client().await;
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.pack("m", 2, "second");
    let last_good = fixture.folder.path().join("state/last-good.json");
    let source = SourceOptions::Etcd(EtcdOptions { last_good: Some(last_good.clone()), ..options(etcd.port) });
    put(&mut client, "releases/m/1", "{}").await;
    put(&mut client, "policies/p", r#"{"version":5}"#).await;
    fixture.start(source.clone());
    fixture.until_live(&["m@1"]).await;
    put(&mut client, "policies/q", r#"{"version":1}"#).await;
    put(&mut client, "policies/p", r#"{"version":6}"#).await;
    fixture.until("version 6", |s| s.policies.get("p") == Some(&6)).await;
    // The source notices the end only after it has kept what it read last.
    etcd.kill();
    fixture.until("unhealthy", |s| !s.source.healthy).await;

    let mut second = fixture.restarted();
    drop(fixture);
    second.start(source);
    let live = second.until_live(&["m@1"]).await;
    assert_eq!((live.policies["p"], live.policies["q"]), (6, 1));
    assert!(!second.status().source.healthy);
    // etcd comes back, and counts again.
    etcd.restart();
    let mut client = etcd.client().await;
    put(&mut client, "releases/m/2", "{}").await;
    second.until_live(&["m@2"]).await;
}

#[tokio::test]
async fn a_listing_of_many_pages_is_one_snapshot() {
    let etcd = Etcd::start();
    let mut client = etcd.client().await;
    let mut fixture = Fixture::new();
    for i in 0..100 {
        put(&mut client, &format!("policies/p{i}"), r#"{"version":1}"#).await;
    }
    fixture.start(SourceOptions::Etcd(options(etcd.port)));
    let status = fixture.until("all policies", |s| s.settled && s.policies.len() == 100).await;
    assert_eq!((status.generation, fixture.history().len()), (1, 1));
}

#[tokio::test]
async fn a_user_and_password_are_used_where_etcd_asks_for_them() {
    let etcd = Etcd::start();
    let mut client = etcd.client().await;
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    put(&mut client, "releases/m/1", "{}").await;
    client.user_add("root", "root-password", None).await.unwrap();
    client.role_add("root").await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.user_add("reader", "reader-password", None).await.unwrap();
    client.role_add("reader").await.unwrap();
    let prefix = Permission::new(PermissionType::Read, "sagehost/").with_prefix();
    client.role_grant_permission("reader", prefix).await.unwrap();
    client.user_grant_role("reader", "reader").await.unwrap();
    client.auth_enable().await.unwrap();

    let with = |password: &str| {
        let user = EtcdUser { name: "reader".into(), password: password.into() };
        SourceOptions::Etcd(EtcdOptions { user: Some(user), ..options(etcd.port) })
    };
    fixture.start(with("wrong"));
    fixture.until("refused", |s| s.source.detail.as_ref().is_some_and(|d| d.contains("authentication failed"))).await;
    assert!(!serde_json::to_string(&*fixture.status()).unwrap().contains("wrong"));
    let mut fixture = fixture.restarted();
    fixture.start(with("reader-password"));
    fixture.until_live(&["m@1"]).await;
}

#[tokio::test]
async fn settings_that_cannot_work_are_errors_at_the_start() {
    let fixture = Fixture::new();
    for (endpoints, word) in [(vec![], "at least one"), (vec!["https://a:2379".to_string()], "TLS")] {
        let source = SourceOptions::Etcd(EtcdOptions { endpoints, ..EtcdOptions::default() });
        let options = sagehost_rollout::Options::new(fixture.repository(), source);
        let error = sagehost_rollout::start(options, fixture.toy.clone(), fixture.counters.clone()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
