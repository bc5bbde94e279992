//! Where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The repository's root.
#[must_use]
pub(crate) fn root() -> PathBuf {
    // cargo sets it when it runs the binary; what was compiled in serves a binary that is run by hand.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_owned)
}

/// The workspace's target folder, wherever `CARGO_TARGET_DIR` or a configuration file has put it.
///
/// # Errors
/// cargo cannot be run.
pub(crate) fn target() -> Result<PathBuf> {
    Ok(metadata(&root(), false)?.target_directory)
}

/// Tools that xtask brings along: `.tools/`.
#[must_use]
pub(crate) fn tools() -> PathBuf {
    root().join(".tools")
}

/// The cargo that runs us.
#[must_use]
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What `cargo metadata` says, as far as we read it.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for a path dependency.
    pub(crate) source: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
}

/// Reads a workspace's metadata; `resolved` includes the packages of all dependencies on x86-64 Linux.
///
/// # Errors
/// cargo cannot be run, or a manifest is broken.
pub(crate) fn metadata(workspace: &Path, resolved: bool) -> Result<Metadata> {
    let mut command = cargo();
    command.current_dir(workspace).args(["metadata", "--format-version", "1"]);
    command.args(if resolved {
        &["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"][..]
    } else {
        &["--no-deps"]
    });
    let text = crate::run::output(&mut command)?;
    serde_json::from_str(&text).context("cargo metadata's answer is not understood")
}
