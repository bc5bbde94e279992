//! `sagehost release`: packs releases and checks them.

use std::path::PathBuf;

/// Pack and check releases.
#[derive(clap::Subcommand)]
pub(crate) enum Release {
    /// Check a packed release: manifest, digests, release.toml, golden examples' form.
    ///
    /// Example: sagehost release check models/mule-risk/1
    Check {
        /// `<repository>/<model>/<version>`.
        folder: PathBuf,
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
        Release::Check { folder } => {
            let checked = sagehost_release::pack::check(folder)?;
            println!("{} is whole: {}", checked.id, checked.id.digest);
            for note in &checked.notes {
                println!("note: {note}");
            }
        }
        Release::Pack { source, repository, model, version, plugins, salt } => {
            let id = sagehost_release::pack::pack(source, repository, model, *version, plugins, salt.clone())?;
            println!("{id} {} is in {}", id.digest, repository.join(model).join(version.to_string()).display());
            println!(
                "a server that watches {} takes it now; with etcd, put releases/{model}/{version}",
                repository.display()
            );
        }
    }
    Ok(())
}
