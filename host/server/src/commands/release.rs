//! `sagehost release`: packs releases and checks them.

use std::path::PathBuf;

use anyhow::Context as _;
use sagehost_release::{Packed, pack};

use crate::offline;

/// Pack and check releases.
#[derive(clap::Subcommand)]
pub(crate) enum Release {
    /// Check a packed release as a server would: manifest, digests, weights, plan, plugins; with a graph the golden examples.
    ///
    /// Example: sagehost release check models/mule-risk/1 --graph transfers.graph
    Check {
        /// `<repository>/<model>/<version>`.
        folder: PathBuf,
        /// The snapshot of the graph that the release reads: then everything is checked.
        #[arg(long)]
        graph: Option<PathBuf>,
    },
    /// Make a release from a source folder and put it into a repository, whole or not at all.
    ///
    /// Example: sagehost release pack examples/transfers/releases/mule-risk/1 --repository models
    ///          --model mule-risk --version 1 --plugins target/plugins
    #[command(verbatim_doc_comment)]
    Pack {
        /// The folder with release.toml, weights.safetensors and golden.json.
        source: PathBuf,
        /// The model repository.
        #[arg(long)]
        repository: PathBuf,
        /// The model's name.
        #[arg(long)]
        model: String,
        /// The version. A version once packed is never changed.
        #[arg(long)]
        version: u64,
        /// Where to look for the plugins that release.toml names and the source folder does not have.
        #[arg(long)]
        plugins: Vec<PathBuf>,
        /// The snapshot of the graph that the release reads: then the golden examples are run before it is packed.
        #[arg(long)]
        graph: Option<PathBuf>,
        /// Pack without loading the release first: a server will still check it.
        #[arg(long, conflicts_with = "graph")]
        unchecked: bool,
        /// The salt of the sampler's random numbers; made from the content where none is given.
        #[arg(long)]
        salt: Option<String>,
    },
}

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the release, together.
pub(crate) fn run(command: &Release) -> anyhow::Result<()> {
    match command {
        Release::Check { folder, graph } => {
            let checked = sagehost_release::pack::check(folder)?;
            offline::check(folder, &checked.id.model, checked.id.version, graph.as_deref())?;
            println!("{} is good: {}", checked.id, checked.id.digest);
            if graph.is_none() {
                println!("note: its golden examples were not run; --graph FOLDER runs them");
            }
            for note in &checked.notes {
                println!("note: {note}");
            }
        }
        Release::Pack { source, repository, model, version, plugins, graph, unchecked, salt } => {
            // A version, once packed, is never changed: what no server would take must not use one up.
            if !unchecked {
                let trial = tempfile::tempdir().context("no folder for a trial")?;
                pack(source, trial.path(), model, *version, plugins, salt.clone())?;
                let packed = trial.path().join(model).join(version.to_string());
                offline::check(&packed, model, *version, graph.as_deref())?;
            }
            if graph.is_none() {
                println!("note: its golden examples were not run; --graph FOLDER runs them before packing");
            }
            let place = repository.join(model).join(version.to_string());
            let Packed { id, fresh } = pack(source, repository, model, *version, plugins, salt.clone())?;
            if fresh {
                println!("{id} {} is in {}", id.digest, place.display());
            } else {
                println!("{id} {} was already in {}, unchanged", id.digest, place.display());
            }
        }
    }
    Ok(())
}
