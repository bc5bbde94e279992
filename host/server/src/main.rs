//! The `sagehost` binary: commands, configuration, wiring. Holds no logic of its own.

mod commands;
mod config;
mod offline;
mod policies;
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
            eprintln!("sagehost: {}", chain(&error));
            let usage = error.is::<config::ConfigError>() || error.is::<commands::Usage>();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

/// An error with its causes, each said once: many libraries put a cause into their own text as well.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_said_once() {
        let refused: anyhow::Result<()> =
            Err(std::io::Error::other("disk full")).context("x: disk full").context("graph `g`");
        assert_eq!(super::chain(&refused.unwrap_err()), "graph `g`: x: disk full");
    }
}
