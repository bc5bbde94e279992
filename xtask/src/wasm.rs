//! A Rust toolchain for `wasm32-unknown-unknown`: the target where rustup has it or can get it, else the distribution's
//! compiler, which builds the target's standard library from source.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{apt, paths, run};

/// The target of all guests.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's compiler that is new enough (the one that its browsers are built with), and its standard library's source.
const DEBIAN: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// How guests are compiled.
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// The toolchain that runs us has the target.
    Installed,
    /// The distribution's compiler and standard library's source, with the linker of the toolchain that runs us.
    FromSource {
        /// `rust-lld`.
        linker: PathBuf,
    },
}

impl Toolchain {
    /// Finds or makes one. `from_source` skips rustup, to try the fallback where it is not needed.
    ///
    /// # Errors
    /// Neither way works: with what to do.
    pub(crate) fn find(from_source: bool) -> Result<Self> {
        let sysroot = sysroot()?;
        if !from_source {
            if has_target(&sysroot) {
                println!("toolchain: this one has {TARGET}");
                return Ok(Self::Installed);
            }
            if add_target() && has_target(&sysroot) {
                println!("toolchain: rustup added {TARGET}");
                return Ok(Self::Installed);
            }
            println!("toolchain: rustup cannot add {TARGET}; building its standard library from Debian's source");
        }
        if !supports_build_std(DEBIAN_RUSTC) {
            apt::install(&DEBIAN).context(
                "no compiler for WebAssembly: `rustup target add wasm32-unknown-unknown` failed, and Debian's compiler \
                 is not installed",
            )?;
        }
        if !supports_build_std(DEBIAN_RUSTC) {
            bail!("{DEBIAN_RUSTC} has no source of the standard library, or does not run");
        }
        let host = host_triple()?;
        let linker = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
        if !linker.is_file() {
            bail!("the Rust toolchain has no linker at {}", linker.display());
        }
        println!("toolchain: {}", run::output(Command::new(DEBIAN_RUSTC).arg("--version"))?.trim());
        Ok(Self::FromSource { linker })
    }

    /// A `cargo build` for the target. The SIMD flag comes from `plugins/.cargo/config.toml`.
    #[must_use]
    pub(crate) fn cargo_build(&self) -> Command {
        let mut command = paths::cargo();
        command.args(["build", "--release", "--target", TARGET]);
        // Flags that are meant for the host would replace those of the configuration file; its profile settings would
        // change the guests.
        for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            command.env_remove(variable);
        }
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("CARGO_PROFILE_") {
                command.env_remove(variable);
            }
        }
        if let Self::FromSource { linker } = self {
            command.arg("-Zbuild-std=std,panic_abort");
            command.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        command
    }

    /// What identifies the compiler: another one makes other guests.
    ///
    /// # Errors
    /// It does not run.
    pub(crate) fn version(&self) -> Result<String> {
        let rustc = match self {
            Self::Installed => rustc(),
            Self::FromSource { .. } => DEBIAN_RUSTC.into(),
        };
        run::output(Command::new(rustc).arg("-vV"))
    }
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

fn sysroot() -> Result<PathBuf> {
    Ok(run::output(Command::new(rustc()).args(["--print", "sysroot"]))?.trim().into())
}

fn has_target(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir()
}

/// Whether rustup could add the target. It needs the network, so failing is normal.
fn add_target() -> bool {
    run::on_path("rustup") && run::run(Command::new("rustup").args(["target", "add", TARGET])).is_ok()
}

fn supports_build_std(rustc: &str) -> bool {
    let sysroot = run::output(Command::new(rustc).args(["--print", "sysroot"]));
    sysroot.is_ok_and(|sysroot| Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std").is_dir())
}

fn host_triple() -> Result<String> {
    let version = run::output(Command::new(rustc()).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV does not name its host")
}
