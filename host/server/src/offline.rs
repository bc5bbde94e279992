//! A release, looked at without serving it: what `release check` and `release pack` do, by the server's own loading.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use sagehost_batcher::ComputePool;
use sagehost_engine::cpu::CpuBackend;
use sagehost_graph::{GraphView, Snapshot};
use sagehost_pipeline::{LoadedRelease, Runtime, check_without_graph};
use sagehost_plugin::PluginHost;
use sagehost_release::{FolderState, LoadedFiles, inspect};
use sagehost_telemetry::Metrics;

/// Loads a packed release as a server would, on the CPU. Without a graph its golden examples are not run, as they take the
/// relations' columns from it.
///
/// # Errors
/// Why a server would reject it.
pub(crate) fn check(folder: &Path, model: &str, version: u64, graph: Option<&Path>) -> anyhow::Result<()> {
    let release = match inspect(folder, model, version) {
        FolderState::Complete(release) => release,
        FolderState::Incomplete(why) => bail!("{}: not complete: {why}", folder.display()),
        FolderState::Invalid(why) => bail!("{}: {why}", folder.display()),
    };
    let files = release.load()?;
    match graph {
        None => check_without_graph(&runtime(BTreeMap::new())?, &files).map_err(anyhow::Error::msg),
        Some(folder) => with_graph(files, folder),
    }
}

fn with_graph(files: LoadedFiles, folder: &Path) -> anyhow::Result<()> {
    let snapshot = Snapshot::open(folder).with_context(|| format!("--graph {}", folder.display()))?;
    let graph: Arc<dyn GraphView> = Arc::new(snapshot);
    let runtime = runtime(BTreeMap::from([(files.spec.graph.clone(), graph)]))?;
    LoadedRelease::load(&runtime, files).map(drop).map_err(anyhow::Error::msg)
}

fn runtime(graphs: BTreeMap<String, Arc<dyn GraphView>>) -> anyhow::Result<Runtime> {
    let pool = Arc::new(ComputePool::new("sagehost-check", 1, 16)?);
    Ok(Runtime {
        compute: pool,
        guest_threads: 1,
        backend: Arc::new(CpuBackend::new()),
        plugins: PluginHost::new()?,
        metrics: Arc::new(Metrics::new(env!("CARGO_PKG_VERSION"))),
        graphs,
    })
}
