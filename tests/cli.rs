//! The command line: help, exit codes, and errors that say what to do.

use std::path::Path;
use std::process::{Command, Output};

use sagehost_testkit::releases::{mule_risk, pack, plugins, sagehost, transfers_graph};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).env_remove("SAGEHOST_REPOSITORY_FOLDER").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        &["serve"][..],
        &["graph", "build"],
        &["release", "check"],
        &["release", "pack"],
        &["plugin", "inspect"],
        &["predict"],
    ] {
        let output = run(&[command, &["--help"]].concat());
        assert!(output.status.success(), "{command:?}");
        let help = text(&output.stdout);
        assert!(help.contains("Example"), "{command:?}: {help}");
    }
    assert_eq!(run(&["serve", "--nonsense"]).status.code(), Some(2));
}

#[test]
fn a_bad_configuration_is_reported_whole_and_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[server]\nlisten = \"here\"\n[engine]\nbackend = \"tpu\"\n").unwrap();
    let output = run(&["serve", "--check-config", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    for part in ["bad.toml:2: `server.listen`", "bad.toml:4: `engine.backend`", "`repository.folder`: is required"] {
        assert!(said.contains(part), "{part} is missing from: {said}");
    }
}

#[test]
fn plugins_are_inspected_without_running_them() {
    let file = plugins().join("risk-decision.wasm").display().to_string();
    let said = sagehost(BINARY, &["plugin", "inspect", &file]);
    for part in ["post-processor", "sagehost:plugin@0.1.0", "sha256:"] {
        assert!(said.contains(part), "{part} is missing from: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let truncated = folder.path().join("half.wasm");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&truncated, &bytes[..bytes.len() / 2]).unwrap();
    let output = run(&["plugin", "inspect", &truncated.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("half.wasm"));
}

#[test]
fn graphs_and_releases_are_made_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path()).display().to_string();
    let said = sagehost(BINARY, &["graph", "info", &graph, "--verify"]);
    assert!(said.contains("20000") || said.contains("20,000"), "{said}");
    assert!(said.contains("received") && said.contains("matches its digest"), "{said}");

    let repository = folder.path().join("models");
    pack(BINARY, &mule_risk(1), &repository, "mule-risk", 1);
    let release = repository.join("mule-risk/1");
    let said = sagehost(BINARY, &["release", "check", &release.display().to_string()]);
    assert!(said.contains("mule-risk@1 is good"), "{said}");
    let said = sagehost(BINARY, &["release", "check", &release.display().to_string(), "--graph", &graph]);
    assert!(said.contains("is good") && !said.contains("not run"), "{said}");
    alter(&release.join("weights.safetensors"));
    let output = run(&["release", "check", &release.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("weights.safetensors"), "{}", text(&output.stderr));

    // A version, once packed, is never changed.
    let version =
        ["release", "pack", &mule_risk(2).display().to_string(), "--repository", &repository.display().to_string()]
            .map(String::from);
    let plugins = plugins().display().to_string();
    let rest = ["--model", "mule-risk", "--version", "1", "--plugins", &plugins];
    let arguments: Vec<&str> = version.iter().map(String::as_str).chain(rest).collect();
    assert_eq!(run(&arguments).status.code(), Some(1));
}

/// What no server would take does not use a version up.
#[test]
fn a_release_that_cannot_serve_is_not_packed() {
    let folder = tempfile::tempdir().unwrap();
    let graph = transfers_graph(BINARY, folder.path()).display().to_string();
    let repository = folder.path().join("models");
    let text = std::fs::read_to_string(mule_risk(1).join("release.toml")).unwrap();
    let golden = std::fs::read_to_string(mule_risk(2).join("golden.json")).unwrap();
    let broken = [
        ("release.toml", text.replace("layers.0.received", "layers.9.received"), "layers.9.received"),
        ("release.toml", text.replace("plugins/risk-decision.wasm", "plugins/standardize.wasm"), "pre-processor"),
        ("weights.safetensors", "hello".into(), "weights"),
        ("golden.json", golden, "golden example 0"),
    ];
    for (number, (file, content, reason)) in broken.into_iter().enumerate() {
        let source = sagehost_testkit::releases::edited(&mule_risk(1), &folder.path().join(number.to_string()), |t| t);
        std::fs::write(source.join(file), content).unwrap();
        let [source, repository, plugins] = [&source, &repository, &plugins()].map(|p| p.display().to_string());
        let place = ["--repository", &repository, "--model", "mule-risk", "--version", "1"];
        let output =
            run(&[&["release", "pack", &source][..], &place, &["--plugins", &plugins, "--graph", &graph]].concat());
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(text_of(&output).contains(reason), "{file}: {}", text_of(&output));
    }
    assert!(!repository.join("mule-risk/1").exists());
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

fn alter(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn predict_says_how_to_go_on_when_nobody_listens() {
    let server = format!("http://127.0.0.1:{}", sagehost_testkit::free_port());
    let output = run(&["predict", "--server", &server, "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("sagehost serve"), "{}", text(&output.stderr));
}
