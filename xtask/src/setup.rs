//! `cargo xtask setup`: what the tests need that a plain machine lacks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result};

use crate::{apt, paths, run};

/// Debian packages: a real etcd, two software Vulkan drivers (Mesa's llvmpipe; chromium brings SwiftShader), a load tool.
const PACKAGES: [&str; 6] = ["etcd-server", "etcd-client", "libvulkan1", "mesa-vulkan-drivers", "chromium", "wrk"];

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
    if tool.is_file() {
        return Ok(());
    }
    let Ok(vendored) = protoc_bin_vendored::protoc_bin_path() else {
        if run::on_path("protoc") {
            return Ok(());
        }
        return apt::install(&["protobuf-compiler"]);
    };
    fs::create_dir_all(paths::tools()).context("cannot make .tools")?;
    // Renamed into place: another build may be calling it.
    let part = tool.with_extension(format!("part{}", std::process::id()));
    fs::copy(&vendored, &part).with_context(|| format!("cannot copy {}", vendored.display()))?;
    fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).context("cannot make protoc executable")?;
    fs::rename(&part, &tool).context("cannot place .tools/protoc")?;
    println!("protoc: from crates.io into {}", tool.display());
    Ok(())
}
