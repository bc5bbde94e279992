//! `sagehost plugin`: what a component is, without running it.

use std::path::PathBuf;

use anyhow::Context as _;

/// Look at plugins.
#[derive(clap::Subcommand)]
pub(crate) enum Plugin {
    /// Print a component's role, WIT version, imports, size and digest. Nothing of it is run.
    ///
    /// Example: sagehost plugin inspect target/plugins/risk-decision.wasm
    Inspect {
        /// The component.
        file: PathBuf,
    },
}

/// Runs the command.
///
/// # Errors
/// Where the file cannot be read or is not a component that this host can run.
pub(crate) fn run(command: &Plugin) -> anyhow::Result<()> {
    let Plugin::Inspect { file } = command;
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let found = sagehost_plugin::inspect(&bytes).with_context(|| file.display().to_string())?;
    println!("role      {}", found.role);
    println!("wit       sagehost:plugin@{}", found.wit_version);
    println!("size      {} bytes", found.size);
    println!("digest    {}", found.digest);
    println!("imports   {}", list(&found.imports));
    println!("exports   {}", list(&found.exports));
    Ok(())
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "(nothing)".into() } else { names.join(", ") }
}
