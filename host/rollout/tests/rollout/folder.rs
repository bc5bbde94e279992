//! The folder source.

use std::fs;

use sagehost_rollout::{ReleaseState, SourceOptions};

use crate::toy::Fixture;

#[tokio::test]
async fn copied_in_slowly_a_release_becomes_live_once() {
    let mut fixture = Fixture::new();
    fixture.start(SourceOptions::Folder);
    let elsewhere = fixture.folder.path().join("elsewhere");
    fixture.pack_into(&elsewhere, "m", 1, "first");
    let from = elsewhere.join("m/1");
    let to = fixture.repository().join("m/1");
    fs::create_dir_all(&to).unwrap();
    fixture.until_state("m@1", ReleaseState::Waiting, "manifest.json is missing").await;
    // Half a file, seen as such, then the other half.
    let steps = [
        ("manifest.json", "manifest.json: EOF", "golden.json is missing"),
        ("golden.json", "golden.json has", "release.toml is missing"),
        ("release.toml", "release.toml has", "weights.safetensors is missing"),
        ("weights.safetensors", "weights.safetensors has 2 of 5", ""),
    ];
    for (file, half, whole) in steps {
        let bytes = fs::read(from.join(file)).unwrap();
        fs::write(to.join(file), &bytes[..bytes.len() / 2]).unwrap();
        fixture.until_state("m@1", ReleaseState::Waiting, half).await;
        assert_eq!(fixture.history(), []);
        fs::write(to.join(file), &bytes).unwrap();
        if !whole.is_empty() {
            fixture.until_state("m@1", ReleaseState::Waiting, whole).await;
        }
    }
    fixture.until_live(&["m@1"]).await;
    fixture.until_settled().await;
    assert_eq!(fixture.loads(), ["m@1"]);
    assert_eq!(fixture.history().len(), 1);
    assert_eq!((fixture.counters.accepted(), fixture.counters.rejected(), fixture.counters.swaps()), (1, 0, 1));
}

#[tokio::test]
async fn a_broken_release_leaves_the_old_one_and_is_tried_again_only_when_it_changed() {
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.start(SourceOptions::Folder);
    fixture.until_live(&["m@1"]).await;
    fixture.pack("m", 2, "broken");
    fixture.until_state("m@2", ReleaseState::Rejected, "wrong logits").await;
    // Something else changes: version 2 is not tried again.
    fs::create_dir(fixture.repository().join("n")).unwrap();
    fixture.pack("n", 1, "other");
    fixture.until_live(&["m@1", "n@1"]).await;
    fixture.until_settled().await;
    assert_eq!(fixture.loads(), ["m@1", "m@2", "n@1"]);
    // It is replaced by one that works.
    fs::remove_dir_all(fixture.repository().join("m/2")).unwrap();
    fixture.pack("m", 2, "second");
    fixture.until_live(&["m@2", "n@1"]).await;
    assert!(fixture.history().iter().all(|live| live.releases.keys().any(|name| name.starts_with("m@"))));
    assert_eq!(fixture.counters.rejected(), 1);
}

#[tokio::test]
async fn wrong_content_is_waited_for_and_then_rejected() {
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.start(SourceOptions::Folder);
    fixture.until_live(&["m@1"]).await;
    let elsewhere = fixture.folder.path().join("elsewhere");
    fixture.pack_into(&elsewhere, "m", 2, "second");
    fs::write(elsewhere.join("m/2/weights.safetensors"), "SECOND").unwrap();
    fs::rename(elsewhere.join("m/2"), fixture.repository().join("m/2")).unwrap();
    fixture.until_state("m@2", ReleaseState::Waiting, "weights.safetensors has the digest").await;
    fixture.until_state("m@2", ReleaseState::Rejected, "weights.safetensors has the digest").await;
    fs::write(fixture.repository().join("m/2/weights.safetensors"), "second").unwrap();
    fixture.until_live(&["m@2"]).await;

    // A release cannot pass under another name.
    let renamed = fixture.repository().join("m/3");
    fs::rename(fixture.repository().join("m/2"), renamed).unwrap();
    fixture.until_state("m@3", ReleaseState::Rejected, "cannot pass under another name").await;
    // Version 2 was taken away with that, and what is left is version 1.
    fixture.until_live(&["m@1"]).await;
}

#[tokio::test]
async fn what_is_live_outlives_damage_to_its_folder_and_ends_with_it() {
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.pack("m", 2, "second");
    fixture.start(SourceOptions::Folder);
    fixture.until_live(&["m@2"]).await;
    fs::remove_file(fixture.repository().join("m/2/weights.safetensors")).unwrap();
    fixture.until_state("m@2", ReleaseState::Live, "weights.safetensors is missing").await;
    assert_eq!(fixture.live().names(), ["m@2"]);
    // Removing version 2 goes back to version 1, which is loaded first.
    fs::remove_dir_all(fixture.repository().join("m/2")).unwrap();
    fixture.until_live(&["m@1"]).await;
    // With something else beside it: a repository that is empty all at once is taken for one that cannot be read.
    fs::create_dir(fixture.repository().join("_routes")).unwrap();
    fs::remove_dir_all(fixture.repository().join("m")).unwrap();
    fixture.until_live(&[]).await;
    let sizes: Vec<_> = fixture.history().iter().map(|live| live.releases.len()).collect();
    assert_eq!(sizes, [1, 1, 0]);
}

#[tokio::test]
async fn routes_and_policies_are_files() {
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.pack("m", 2, "second");
    let repository = fixture.repository();
    let write = |file: &str, text: &str| {
        let path = repository.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("_routes/score.toml", "model = \"m\"\nversion = 1\n");
    write("_policies/risk.toml", "version = 1\n[values]\nreview = 0.5\n");
    fixture.start(SourceOptions::Folder);
    fixture.until_live(&["m@1", "m@2"]).await;
    fixture.until_settled().await;
    assert_eq!(fixture.live().routes["score"], "m Number(1)");
    assert_eq!(fixture.live().policies["risk"], 1);

    let file = |name: &str| fixture.repository().join(name);
    fs::write(file("_policies/risk.toml"), "version = 2\nvalues = { review = [1, \"x\"] }\n").unwrap();
    let refused = |name: &'static str| move |s: &sagehost_rollout::Status| s.refused_documents.contains_key(name);
    fixture.until("refused", refused("policies/risk")).await;
    assert_eq!(fixture.live().policies["risk"], 1);
    fs::write(file("_policies/risk.toml"), "version = 3\n").unwrap();
    fixture.until("version 3", |s| s.policies.get("risk") == Some(&3)).await;
    // A route to what is not there leaves the earlier one; without a route version 1 is not needed.
    fs::write(file("_routes/score.toml"), "model = \"m\"\nversion = 7\n").unwrap();
    fs::write(file("_policies/risk.toml"), "version = 4\n").unwrap();
    fixture.until("version 4", |s| s.policies.get("risk") == Some(&4) && s.settled).await;
    assert_eq!(fixture.live().routes["score"], "m Number(1)");
    fs::remove_file(file("_routes/score.toml")).unwrap();
    fixture.until_live(&["m@2"]).await;
    assert_eq!(fixture.loads().len(), 2);
}

#[tokio::test]
async fn a_route_to_what_is_not_live_waits_and_says_so() {
    let mut fixture = Fixture::new();
    fixture.pack("hosts", 1, "first");
    fixture.start(SourceOptions::Folder);
    fixture.until_live(&["hosts@1"]).await;
    let file = fixture.repository().join("_routes/predict.toml");
    fs::create_dir(file.parent().unwrap()).unwrap();
    let pending = |text: &'static str| {
        move |s: &sagehost_rollout::Status| {
            s.settled && s.pending_routes.get("predict").is_some_and(|r| r.contains(text))
        }
    };
    // No such model, no such version: the only model's latest goes on answering.
    fs::write(&file, "model = \"hots\"\nversion = \"latest\"\n").unwrap();
    fixture.until("misspelt", pending("waiting: hots@latest is not live: there is no release of a model `hots`")).await;
    fs::write(&file, "model = \"hosts\"\nversion = 2\n").unwrap();
    fixture.until("too early", pending("waiting: hosts@2 is not live: there is no such version")).await;
    fixture.pack("hosts", 2, "broken");
    let status = fixture.until("rejected", pending("hosts@2 was rejected: golden example 0: wrong logits")).await;
    assert_eq!(status.routes.len(), 0);
    // A server that starts with these documents serves as well.
    let mut restarted = fixture.restarted();
    restarted.start(SourceOptions::Folder);
    restarted.until("rejected", pending("hosts@2 was rejected")).await;
    drop(restarted.rollout.take());
    for toy in [&fixture, &restarted] {
        assert!(toy.history().iter().all(|live| live.names() == ["hosts@1"] && live.routes.is_empty()));
    }

    // Version 3 serves, until version 2 is mended: it is loaded for the route's sake.
    fixture.pack("hosts", 3, "third");
    fixture.until_live(&["hosts@3"]).await;
    fs::remove_dir_all(fixture.repository().join("hosts/2")).unwrap();
    fixture.until("removed", pending("no such version")).await;
    fixture.pack("hosts", 2, "second");
    let live = fixture.until_live(&["hosts@2", "hosts@3"]).await;
    assert_eq!(live.routes["predict"], "hosts Number(2)");
    fixture.until("in force", |s| s.settled && s.pending_routes.is_empty() && s.routes.contains_key("predict")).await;
    fs::remove_file(&file).unwrap();
    let live = fixture.until_live(&["hosts@3"]).await;
    assert_eq!(live.routes.len(), 0);
}

#[tokio::test]
async fn the_newest_desired_state_wins_over_what_is_being_loaded() {
    let mut fixture = Fixture::new();
    fixture.pack("m", 1, "first");
    fixture.start(SourceOptions::Folder);
    fixture.until_live(&["m@1"]).await;
    fixture.toy.hold(true);
    fixture.pack("m", 2, "second");
    fixture.until_state("m@2", ReleaseState::Loading, "").await;
    fixture.pack("m", 3, "third");
    fixture.until_state("m@3", ReleaseState::Standby, "").await;
    // Meanwhile policies roll out.
    fs::create_dir(fixture.repository().join("_policies")).unwrap();
    fs::write(fixture.repository().join("_policies/p.toml"), "version = 9\n").unwrap();
    fixture.until("the policy", |s| s.policies.contains_key("p")).await;
    assert_eq!(fixture.live().names(), ["m@1"]);
    fixture.toy.hold(false);
    fixture.until_live(&["m@3"]).await;
    assert_eq!(fixture.loads(), ["m@1", "m@2", "m@3"]);
    assert!(
        fixture.history().iter().all(|live| live.names() != ["m@2"]),
        "version 2 was superseded before it was loaded"
    );
}

#[tokio::test]
async fn many_swaps_in_a_row_leave_no_gap() {
    let mut fixture = Fixture::new();
    fixture.start(SourceOptions::Folder);
    for version in 1..=20 {
        fixture.pack("m", version, &format!("text {version}"));
        fixture.until_live(&[&format!("m@{version}")]).await;
    }
    fixture.until_settled().await;
    let history = fixture.history();
    assert_eq!(history.len(), 20);
    assert!(history.iter().all(|live| live.releases.len() == 1));
    assert_eq!(fixture.status().generation, 20);
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_an_error_at_the_start() {
    let fixture = Fixture::new();
    let options = sagehost_rollout::Options::new(fixture.folder.path().join("absent"), SourceOptions::Folder);
    let error = sagehost_rollout::start(options, fixture.toy.clone(), fixture.counters.clone()).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}
