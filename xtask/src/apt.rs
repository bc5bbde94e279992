//! Debian packages: installed as root, else asked for.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run;

/// Installs the packages that are not yet installed. Says so first; it does nothing where there is nothing to do.
///
/// # Errors
/// Without root or apt: with the command to run. A package that does not exist.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !run::on_path("apt-get") {
        bail!("this machine has no apt-get; install what Debian calls: {}", missing.join(" "));
    }
    if !is_root()? {
        bail!(
            "not root; run this, then the command again:\n\n  sudo apt-get install -y --no-install-recommends {}\n",
            missing.join(" ")
        );
    }
    println!("installing Debian packages: {}", missing.join(" "));
    if get(&missing).is_err() {
        // Package lists may be absent (container images) or old.
        run::run(apt_get().arg("update"))?;
        get(&missing)?;
    }
    Ok(())
}

fn get(packages: &[&str]) -> Result<()> {
    run::run(apt_get().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Whether a package is installed and configured.
#[must_use]
pub(crate) fn installed(package: &str) -> bool {
    let status = run::output(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Abbrev}", package]));
    status.is_ok_and(|status| status.starts_with("ii"))
}

fn is_root() -> Result<bool> {
    Ok(run::output(Command::new("id").arg("-u"))?.trim() == "0")
}
