//! `sagehost graph`: builds snapshots and looks at them.

use std::path::PathBuf;
use std::time::Instant;

use sagehost_graph::import;
use sagehost_graph::snapshot::Snapshot;

/// Build and look at graph snapshots.
#[derive(clap::Subcommand)]
pub enum Graph {
    /// Import CSV files, described by a graph.toml, into a snapshot.
    ///
    /// Example: sagehost graph build examples/transfers/data/graph.toml --out transfers.graph
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
