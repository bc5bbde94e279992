//! A release folder that is copied in slowly, file by file, becomes live once, when its manifest is complete; a broken one
//! leaves the old one serving and says why.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sagehost_testkit::eventually;
use sagehost_testkit::releases::{mule_risk, pack, transfers_graph};
use sagehost_testkit::server::{Server, Setup};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// How often a release was accepted, as the metrics count it.
fn swaps(server: &Server) -> f64 {
    let text = server.admin().get("/metrics").text;
    let line = text.lines().find(|l| l.starts_with("sagehost_release_swaps_total")).expect("the counter of swaps");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn version(server: &Server) -> u64 {
    server.client().predict(&json!({ "nodes": [1] }))["version"].as_u64().unwrap()
}

#[test]
fn a_folder_copied_in_slowly_becomes_live_once() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    let repository = folder.path().join("repository");
    pack(BINARY, &mule_risk(1), &repository, "mule-risk", 1);
    let elsewhere = folder.path().join("elsewhere");
    pack(BINARY, &mule_risk(2), &elsewhere, "mule-risk", 2);
    let server = Setup::new(BINARY, folder.path()).graph("transfers", &graph).start();
    server.wait_ready();
    let before = swaps(&server);

    // The manifest first: the worst order. Each file in two halves.
    let (from, to) = (elsewhere.join("mule-risk/2"), repository.join("mule-risk/2"));
    let mut order = files(&from);
    order.sort_by_key(|path| !path.ends_with("manifest.json"));
    for path in &order {
        assert_eq!(version(&server), 1, "before {} was there", path.display());
        let target = to.join(path.strip_prefix(&from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        std::fs::write(&target, first).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(version(&server), 1);
        std::fs::write(&target, [first, second].concat()).unwrap();
    }
    server.wait_version(1, 2);
    assert_eq!(swaps(&server), before + 1.0, "it became live once");
}

#[test]
fn a_broken_release_leaves_the_old_one_serving() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path());
    let repository = folder.path().join("repository");
    pack(BINARY, &mule_risk(1), &repository, "mule-risk", 1);
    let server = Setup::new(BINARY, folder.path()).graph("transfers", &graph).start();
    server.wait_ready();

    // Version 2's golden examples with version 1's weights: whole, and wrong.
    let mixed = folder.path().join("mixed");
    std::fs::create_dir_all(&mixed).unwrap();
    for (file, from) in [("release.toml", 1), ("weights.safetensors", 1), ("golden.json", 2)] {
        std::fs::copy(mule_risk(from).join(file), mixed.join(file)).unwrap();
    }
    pack(BINARY, &mixed, &repository, "mule-risk", 2);
    let reason = eventually("the rejection", Duration::from_secs(30), || {
        let page = server.admin().get("/admin/releases").json;
        let releases = page["releases"].as_array()?;
        let rejected = releases.iter().find(|r| r["state"] == "rejected" && r["version"] == 2)?;
        Some(rejected["reason"].as_str()?.to_string())
    });
    assert!(reason.contains("golden example 0"), "{reason}");
    assert_eq!(version(&server), 1);
    assert!(server.log().contains("golden example 0"), "the reason is in the log too");

    // A file that never matches its manifest: left alone for the settle time, then rejected.
    pack(BINARY, &mule_risk(2), &repository, "mule-risk", 3);
    server.wait_version(1, 3);
    pack(BINARY, &mule_risk(2), &folder.path().join("elsewhere"), "mule-risk", 4);
    let from = folder.path().join("elsewhere/mule-risk/4");
    let weights = from.join("weights.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    std::fs::rename(from, repository.join("mule-risk/4")).unwrap();
    let started = Instant::now();
    eventually("the rejection of version 4", Duration::from_secs(30), || {
        let page = server.admin().get("/admin/releases").json;
        page["releases"].as_array()?.iter().any(|r| r["state"] == "rejected" && r["version"] == 4).then_some(())
    });
    assert!(started.elapsed() >= Duration::from_millis(300), "not before the settle time");
    assert_eq!(version(&server), 3);
}
