//! `cargo xtask setup`: what the tests need that a plain machine lacks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{apt, paths, run};

/// Debian packages: a real etcd, two software Vulkan drivers (Mesa's llvmpipe; chromium brings SwiftShader), curl for the manuals' commands, a load tool.
const PACKAGES: [&str; 7] =
    ["etcd-server", "etcd-client", "libvulkan1", "mesa-vulkan-drivers", "chromium", "curl", "wrk"];

/// Brings everything.
///
/// # Errors
/// Not root and packages are missing: with the command to run.
pub(crate) fn run() -> Result<()> {
    run::step("setup: what the tests need", || {
        protoc()?;
        apt::install(&PACKAGES)?;
        println!("present: {}, protoc", PACKAGES.join(", "));
        Ok(())
    })
}

/// Puts a prebuilt `protoc`, which etcd-client's build script calls, where `tools/protoc` looks for it. Whatever builds the
/// workspace calls this first.
///
/// # Errors
/// No binary for this platform; then Debian's `protobuf-compiler` serves.
pub(crate) fn protoc() -> Result<()> {
    let tool = paths::tools().join("protoc");
    // protoc looks for the standard .proto files beside itself.
    let standard = paths::tools().join("google/protobuf");
    if tool.is_file() && standard.join("descriptor.proto").is_file() {
        return Ok(());
    }
    let (Ok(vendored), Ok(include)) = (protoc_bin_vendored::protoc_bin_path(), protoc_bin_vendored::include_path())
    else {
        if run::on_path("protoc") {
            return Ok(());
        }
        return apt::install(&["protobuf-compiler"]);
    };
    fs::create_dir_all(&standard).context("cannot make .tools")?;
    let from = include.join("google/protobuf");
    for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        if entry.path().extension().is_some_and(|extension| extension == "proto") {
            place(&entry.path(), &standard.join(entry.file_name()), 0o644)?;
        }
    }
    place(&vendored, &tool, 0o755)?;
    println!("protoc: from crates.io into {}", tool.display());
    Ok(())
}

/// Copies a file and renames it into place: another build may be reading it.
fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let part = to.with_extension(format!("part{}", std::process::id()));
    fs::copy(from, &part).with_context(|| format!("cannot copy {}", from.display()))?;
    fs::set_permissions(&part, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot chmod {}", part.display()))?;
    fs::rename(&part, to).with_context(|| format!("cannot place {}", to.display()))
}
