//! `cargo xtask`: every command that a developer types. Each subcommand is a module; `run` starts other programs and says what
//! it does and how long it took.

use clap::{Parser, Subcommand};

mod apt;
mod paths;
mod plugins;
mod run;
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
    /// Build the guests in `plugins/` as WebAssembly components into `target/plugins/`.
    Plugins(plugins::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Plugins(args) => plugins::run(&args).map(drop),
    }
}
