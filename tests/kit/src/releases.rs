//! Graphs and releases to serve: the transfers example, and releases made of it with other plugins.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// Runs the binary and expects success.
///
/// # Panics
/// Where it fails; with what it printed.
pub fn sagehost(binary: &str, arguments: &[&str]) -> String {
    let output = Command::new(binary).args(arguments).output().expect("the binary");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "sagehost {arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Where the built plugins are. `cargo xtask plugins` makes them; `SAGEHOST_PLUGINS` names another folder.
///
/// # Panics
/// Where they are missing.
#[must_use]
pub fn plugins() -> PathBuf {
    let default = || root().join("target/plugins");
    let folder = std::env::var_os("SAGEHOST_PLUGINS").map_or_else(default, PathBuf::from);
    assert!(
        folder.join("risk-decision.wasm").exists(),
        "no plugins in {}: run `cargo xtask plugins`",
        folder.display()
    );
    folder
}

/// Makes the transfers graph below `folder` and gives the snapshot's folder.
///
/// # Panics
/// Where it cannot.
#[must_use]
pub fn transfers_graph(binary: &str, folder: &Path) -> PathBuf {
    let data = folder.join("transfers-data");
    sagehost_examples::transfers::generate(&data, sagehost_examples::transfers::SEED).expect("the example's tables");
    build_graph(binary, &data, &folder.join("transfers.graph"))
}

/// Imports the tables in `data`.
#[must_use]
pub fn build_graph(binary: &str, data: &Path, out: &Path) -> PathBuf {
    sagehost(
        binary,
        &[
            "graph",
            "build",
            &data.join("graph.toml").display().to_string(),
            "--quiet",
            "--out",
            &out.display().to_string(),
        ],
    );
    out.to_path_buf()
}

/// Packs a release source folder into `repository` as `model` version `version`, with one salt for all, so that releases
/// of different content draw the same samples; without the command's own check, which the server repeats.
pub fn pack(binary: &str, source: &Path, repository: &Path, model: &str, version: u64) {
    let [source, repository, plugins] = [source, repository, &plugins()].map(|p| p.display().to_string());
    let version = version.to_string();
    let place = ["--repository", &repository, "--model", model, "--version", &version];
    let rest = ["--plugins", &plugins, "--salt", "testkit", "--unchecked"];
    sagehost(binary, &[&["release", "pack", &source][..], &place, &rest].concat());
}

/// The source folder of a committed release of the transfers example.
#[must_use]
pub fn mule_risk(version: u64) -> PathBuf {
    root().join(format!("examples/transfers/releases/mule-risk/{version}"))
}

/// A copy of a release source with its `release.toml` edited, below `folder`.
///
/// # Panics
/// Where the files cannot be copied.
#[must_use]
pub fn edited(source: &Path, folder: &Path, edit: impl FnOnce(String) -> String) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    for entry in std::fs::read_dir(source).expect("the release's source") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_file() {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
        }
    }
    let path = folder.join("release.toml");
    let text = std::fs::read_to_string(&path).expect("release.toml");
    std::fs::write(&path, edit(text)).expect("release.toml");
    folder.to_path_buf()
}
