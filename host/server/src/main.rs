//! The `sagehost` binary: commands, configuration, wiring. Holds no logic of its own.

mod commands;
mod config;
mod retired;
mod service;
mod target;

use std::process::ExitCode;

use clap::Parser;

/// Serves GraphSAGE and risk-score models whose business logic is WebAssembly components.
#[derive(Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.\nFirst steps: `cargo xtask demo` in the repository, or docs/ there."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
    /// Build and look at graph snapshots.
    #[command(subcommand)]
    Graph(commands::graph::Graph),
    /// Pack and check releases.
    #[command(subcommand)]
    Release(commands::release::Release),
    /// Look at plugins.
    #[command(subcommand)]
    Plugin(commands::plugin::Plugin),
    Predict(commands::predict::Predict),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(serve) => commands::serve::run(&serve),
        Command::Graph(graph) => commands::graph::run(&graph),
        Command::Release(release) => commands::release::run(&release),
        Command::Plugin(plugin) => commands::plugin::run(&plugin),
        Command::Predict(predict) => commands::predict::run(&predict),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sagehost: {error:#}");
            ExitCode::from(if error.is::<config::ConfigError>() { 2 } else { 1 })
        }
    }
}
