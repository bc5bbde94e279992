//! `sagehost graph`: builds snapshots and looks at them.

use std::path::PathBuf;
use std::time::Instant;

use sagehost_graph::import;
use sagehost_graph::snapshot::Snapshot;

/// Build and look at graph snapshots.
#[derive(clap::Subcommand)]
pub(crate) enum Graph {
    /// Import CSV files, described by a graph.toml, into a snapshot.
    ///
    /// Example: sagehost graph build tables/graph.toml --out transfers.graph
    Build {
        /// The description of the files; see docs/graph.md.
        config: PathBuf,
        /// The snapshot's folder. It must not exist; it appears when it is whole.
        #[arg(long)]
        out: PathBuf,
        /// Print no progress.
        #[arg(long)]
        quiet: bool,
    },
    /// Print what a snapshot holds.
    Info {
        /// The snapshot's folder.
        folder: PathBuf,
        /// Also check every file against its digest.
        #[arg(long)]
        verify: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// Where files cannot be read or written, or hold what they should not; the message names file and line.
pub(crate) fn run(command: &Graph) -> anyhow::Result<()> {
    match command {
        Graph::Build { config, out, quiet } => {
            let started = Instant::now();
            let summary = if *quiet {
                import::build(config, out, &mut import::Silent)?
            } else {
                import::build(config, out, &mut import::Bar::default())?
            };
            let edges: u64 = summary.relations.iter().map(|(_, edges)| edges).sum();
            let seconds = started.elapsed().as_secs_f64();
            println!(
                "{}: {} nodes, {edges} edges, version {} ({seconds:.1} s, {:.0} edges/s)",
                out.display(),
                summary.nodes,
                summary.version,
                edges as f64 / seconds.max(1e-9)
            );
            summary.notes.iter().for_each(|note| println!("note: {note}"));
            println!(
                "next: name it under [graphs] in the server's configuration, or look at it with `sagehost graph info {}`",
                out.display()
            );
        }
        Graph::Info { folder, verify } => {
            let snapshot = Snapshot::open(folder)?;
            println!("{}", snapshot.info());
            if *verify {
                snapshot.verify()?;
                println!("every file matches its digest");
            }
        }
    }
    Ok(())
}
