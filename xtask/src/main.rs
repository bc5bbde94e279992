//! `cargo xtask`: every command that a developer types. Each subcommand is a module; `run` starts other programs and says what
//! it does and how long it took.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod apt;
mod bench;
mod demo;
mod dependencies;
mod lint;
mod paths;
mod plugins;
mod run;
mod setup;
mod stage;
mod test;
mod tools;
mod wasm;

/// The commands of sagehost's developers. Each says what it is doing, and for how long.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build, serve an example, ask it, swap its release under load, and go on serving.
    Demo(demo::Args),
    /// Measure the running server, print a table and write `target/bench/NAME.json`.
    Bench(bench::Args),
    /// Install what the tests need and this machine lacks (as root; else print the command and stop).
    Setup,
    /// Build the guests in `plugins/` as WebAssembly components into `target/plugins/`.
    Plugins(plugins::Args),
    /// Format check, clippy and every test: natively, on llvmpipe and on SwiftShader.
    Test(test::Args),
    /// Licences, sources, advisories, spelling and the list of dependencies.
    Lint,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Setup => setup::run(),
        Command::Plugins(args) => plugins::run(&args).map(drop),
        Command::Test(args) => test::run(&args),
        Command::Lint => lint::run(),
    };
    // Whoever runs this wants to know what failed and what to do, not where in xtask it was noticed.
    result.map_or_else(
        |error| {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
