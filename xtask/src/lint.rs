//! `cargo xtask lint`: what no compiler checks. Apart from `test`, because its tools are not part of a plain machine.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::dependencies;
use crate::run::step;
use crate::tools::{CARGO_DENY, TYPOS};
use crate::{paths, run};

/// Where RustSec keeps its advisories.
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// Runs all linters, also after one has found something.
///
/// # Errors
/// What each of them found.
pub(crate) fn run() -> Result<()> {
    let spelling = || run::run(Command::new(TYPOS.path()?).current_dir(paths::root()).args(["--config", "typos.toml"]));
    let advisories = || {
        if reachable(ADVISORIES)? {
            return deny(&["advisories"]);
        }
        println!("SKIPPED: {ADVISORIES} cannot be reached");
        Ok(())
    };
    let results = [
        step("lint: spelling (typos)", spelling),
        step("lint: dependencies, each once and each explained", dependencies::check),
        step("lint: bans, licences, sources (cargo-deny)", || deny(&["bans", "licenses", "sources"])),
        step("lint: advisories (cargo-deny)", advisories),
    ];
    let faults: Vec<String> = results.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
}

/// Both workspaces, by the same rules.
fn deny(checks: &[&str]) -> Result<()> {
    let program = CARGO_DENY.path()?;
    for manifest in ["Cargo.toml", "plugins/Cargo.toml"] {
        let mut command = Command::new(&program);
        command.current_dir(paths::root()).args(["--locked", "--manifest-path", manifest]);
        run::run(command.arg("--config").arg(paths::root().join("deny.toml")).arg("check").args(checks))?;
    }
    Ok(())
}

/// Whether a git repository answers within half a minute.
fn reachable(repository: &str) -> Result<bool> {
    let mut child = Command::new("git")
        .args(["ls-remote", "--quiet", repository, "HEAD"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .context("cannot start git")?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for git")? {
            return Ok(status.success());
        }
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().context("cannot end git")?;
            child.wait().context("cannot wait for git")?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
