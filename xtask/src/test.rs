//! `cargo xtask test`: everything that must hold before a change lands.

use std::process::Command;

use anyhow::Result;

use crate::run::{step, tee};
use crate::{paths, plugins, run, setup};

/// Flags of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this crate of the host, for clippy and tests; may be repeated. Guests and set-up are left out.
    #[arg(short, long = "package", value_name = "CRATE")]
    packages: Vec<String>,
    /// Use plain `cargo test` even where nextest is installed.
    #[arg(long)]
    no_nextest: bool,
}

/// Our own crates are checked while they run and compiled quickly; dependencies keep the release profile (see the root
/// Cargo.toml), so that the demo and the tests share what takes long.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"),
    ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_INCREMENTAL", "1"),
];

/// Runs all steps; the first failure ends it.
///
/// # Errors
/// The failing step's.
pub(crate) fn run(args: &Args) -> Result<()> {
    let start = std::time::Instant::now();
    let mut closing = Vec::new();
    if args.packages.is_empty() {
        setup::run()?;
        plugins::run(&plugins::Args::default())?;
        guests(&mut closing)?;
    } else {
        setup::protoc()?;
    }
    data();
    host(args, &mut closing)?;

    println!("\n=== all steps passed in {}", run::seconds(start.elapsed()));
    for line in closing {
        println!("    {line}");
    }
    Ok(())
}

/// The guests' own workspace, natively.
fn guests(closing: &mut Vec<String>) -> Result<()> {
    let build = paths::target()?.join("plugins-build");
    let cargo = |arguments: &[&str]| {
        let mut command = paths::cargo();
        command.current_dir(paths::root().join("plugins")).args(arguments);
        command
    };
    step("guests: rustfmt", || run::run(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("guests: clippy", || {
        let mut command = cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--target-dir"]);
        run::run(command.arg(&build).args(["--", "-D", "warnings"]))
    })?;
    step("guests: their logic, natively", || {
        let mut command = cargo(&["test", "--locked", "--workspace", "--target-dir"]);
        closing.extend(verdicts("guests", &tee(command.arg(&build))?));
        Ok(())
    })
}

/// The host's workspace. The wgpu backend's tests choose their driver themselves: one binary runs on llvmpipe, one on
/// SwiftShader.
fn host(args: &Args, closing: &mut Vec<String>) -> Result<()> {
    if args.packages.is_empty() {
        step("host: rustfmt", || run::run(cargo().args(["fmt", "--all", "--check"])))?;
    }
    step("host: clippy", || {
        run::run(select(cargo().args(["clippy", "--locked", "--all-targets"]), args).args(["--", "-D", "warnings"]))
    })?;
    if run::on_path("cargo-nextest") && !args.no_nextest {
        step("host: tests (nextest; CPU, llvmpipe, SwiftShader, real services)", || {
            let mut command = cargo();
            let command = command.args(["nextest", "run", "--locked", "--no-fail-fast"]);
            let command = command.args(["--config-file", "xtask/nextest.toml"]);
            closing.extend(verdicts("host", &tee(select(command, args))?));
            Ok(())
        })?;
        // nextest does not run these, and cargo refuses to look for them where there is no library.
        if !has_library(args)? {
            return Ok(());
        }
        step("host: documentation tests", || {
            let mut command = cargo();
            let output = tee(select(command.args(["test", "--locked", "--doc"]), args))?;
            closing.extend(verdicts("host's documentation", &output));
            Ok(())
        })
    } else {
        step("host: tests (cargo test; CPU, llvmpipe, SwiftShader, real services)", || {
            let mut command = cargo();
            closing.extend(verdicts("host", &tee(select(command.args(["test", "--locked", "--no-fail-fast"]), args))?));
            Ok(())
        })
    }
}

/// cargo in the root, in the tests' variant of the release profile, with what the tests look for.
fn cargo() -> Command {
    let mut command = paths::cargo();
    command.current_dir(paths::root()).envs(PROFILE);
    if let Ok(target) = paths::target() {
        command.env("SAGEHOST_PLUGINS", target.join("plugins"));
    }
    command
}

fn select<'a>(command: &'a mut Command, args: &Args) -> &'a mut Command {
    command.arg("--release");
    if args.packages.is_empty() {
        return command.arg("--workspace");
    }
    for package in &args.packages {
        command.args(["-p", package]);
    }
    command
}

fn has_library(args: &Args) -> Result<bool> {
    let packages = paths::metadata(&paths::root(), false)?.packages;
    let chosen = |package: &&paths::Package| args.packages.is_empty() || args.packages.contains(&package.name);
    Ok(packages.iter().filter(chosen).flat_map(|package| &package.targets).any(|target| target.kind == ["lib"]))
}

/// Says which real data the tests will find: where there are none, they say `SKIPPED` and pass.
fn data() {
    let given = std::env::var_os("SAGEHOST_DATA").map(Into::into);
    let folders = given.into_iter().chain([paths::root().join("../shared/data")]);
    let folders: Vec<std::path::PathBuf> = folders.collect();
    for name in ["bitcoin-otc.csv", "cora"] {
        match folders.iter().map(|folder| folder.join(name)).find(|path| path.exists()) {
            Some(path) => println!("real data: {}", path.display()),
            None => println!("real data: no {name} (set SAGEHOST_DATA); tests on it are SKIPPED"),
        }
    }
}

/// The lines in which a test runner says how it went: nextest's summary, or the sum of `cargo test`'s results.
fn verdicts(what: &str, output: &str) -> Vec<String> {
    let plain = without_colours(output);
    let summaries: Vec<String> = plain
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("Summary ["))
        .map(|line| format!("{what}: {line}"))
        .collect();
    if !summaries.is_empty() {
        return summaries;
    }
    let results: Vec<&str> = plain.lines().filter_map(|line| line.trim().strip_prefix("test result: ")).collect();
    let count = |word: &str| results.iter().filter_map(|line| number_before(line, word)).sum::<u64>();
    let (passed, failed, ignored) = (count("passed"), count("failed"), count("ignored"));
    vec![format!("{what}: {passed} passed, {failed} failed, {ignored} ignored in {} binaries", results.len())]
}

/// The number in front of a word, as in `ok. 5 passed; 0 failed`.
fn number_before(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok())
}

fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        plain.push_str(&rest[..at]);
        let code = &rest[at + 2..];
        rest = code.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &code[end + 1..]);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tests_results_are_summed() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                      \x1b[1mtest result: \x1b[32mok\x1b[0m. 7 passed; 0 failed; 0 ignored; 0 measured\n";
        assert_eq!(verdicts("host", output), ["host: 12 passed, 0 failed, 1 ignored in 2 binaries"]);
    }

    #[test]
    fn nextests_summary_is_found_among_colours() {
        let output = "\x1b[32;1m     Summary\x1b[0m [   0.071s] 12 tests run: 12 passed, 0 skipped\n";
        assert_eq!(verdicts("host", output), ["host: Summary [   0.071s] 12 tests run: 12 passed, 0 skipped"]);
    }
}
