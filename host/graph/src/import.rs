//! `graph.toml` and CSV files to a snapshot. `docs/graph.md` describes the file. The whole graph is held in memory.

mod config;
mod csv_file;
mod edges;
mod nodes;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use sagehost_types::{GraphVersion, TimeMs};

use crate::error::GraphError;
use crate::memory::MemoryBuilder;
use crate::schema::{GraphSchema, RelationSchema};
use crate::snapshot::{self, Manifest};
use config::{Config, NodesConfig, RelationConfig};
use csv_file::CsvFile;

/// Who wants to know how far an import is.
pub trait Progress {
    /// A stage begins; `total` is its size in bytes, 0 where it is not known.
    fn begin(&mut self, stage: &str, total: u64);
    /// Of the stage, `done` bytes are done.
    fn advance(&mut self, done: u64);
    /// The stage is over.
    fn end(&mut self);
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}
}

/// A bar on standard error, where that is a terminal.
#[derive(Debug, Default)]
pub struct Bar(Option<indicatif::ProgressBar>);

impl Progress for Bar {
    fn begin(&mut self, stage: &str, total: u64) {
        let bar = if total > 0 { indicatif::ProgressBar::new(total) } else { indicatif::ProgressBar::new_spinner() };
        // The template is a constant of known good form; the default stands in for it.
        if let Ok(style) = indicatif::ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(stage.to_owned());
        self.0 = Some(bar);
    }

    fn advance(&mut self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// What an import made.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The snapshot's folder.
    pub path: PathBuf,
    /// Its version: equal content gives an equal lineage.
    pub version: GraphVersion,
    /// Nodes.
    pub nodes: u64,
    /// Feature columns.
    pub features: usize,
    /// Relations by name, with their edges.
    pub relations: Vec<(String, u64)>,
    /// The newest event time.
    pub latest_ms: TimeMs,
    /// Bytes of all files.
    pub bytes: u64,
    /// What the user may not expect: columns that nothing uses, weights that cannot be sampled by.
    pub notes: Vec<String>,
}

impl Summary {
    fn new(path: &Path, manifest: &Manifest, notes: Vec<String>) -> Self {
        let names = manifest.schema.relations.iter().map(|relation| relation.name.clone());
        Self {
            path: path.to_path_buf(),
            version: GraphVersion { lineage: manifest.lineage.as_str().into(), sequence: manifest.sequence },
            nodes: manifest.num_nodes,
            features: manifest.schema.features.len(),
            relations: names.zip(manifest.relations.iter().map(|counts| counts.num_edges)).collect(),
            latest_ms: manifest.latest_ms,
            bytes: manifest.files.iter().map(|file| file.bytes).sum(),
            notes,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges: Vec<_> = self.relations.iter().map(|(name, edges)| format!("{edges} `{name}`")).collect();
        write!(
            f,
            "{}: {} nodes with {} features, edges: {}",
            self.path.display(),
            self.nodes,
            self.features,
            edges.join(", ")
        )?;
        write!(f, "; version {}, {:.1} MiB", self.version, self.bytes as f64 / 1_048_576.0)?;
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}

/// Builds the snapshot `out_dir`, which must not exist, from the `graph.toml` at `config_path`. Files that it names are
/// relative to its folder. Dense ids follow the order of the nodes file (or of first appearance in the edges), ingest order
/// that of the edge files' lines.
///
/// # Errors
/// [`GraphError::Config`] with every bad value of `graph.toml`, missing columns included; [`GraphError::Import`] with file
/// and line for the first bad row; [`GraphError::BadArgument`] where `out_dir` exists; [`GraphError::Io`].
pub fn build(config_path: &Path, out_dir: &Path, progress: &mut dyn Progress) -> Result<Summary, GraphError> {
    snapshot::writer::target(out_dir)?;
    let config = Config::read(config_path)?;
    let plan = Plan::new(config_path, &config)?;
    let mut builder = MemoryBuilder::new(plan.schema.clone())?;
    let nodes_file = match (&config.nodes, &plan.nodes) {
        (NodesConfig::File(nodes), Some(file)) => {
            nodes::read(file, nodes, config.key, &mut builder, progress)?;
            Some(file.path.as_path())
        }
        _ => None,
    };
    for ((index, relation), file) in (0_u32..).zip(&config.relations).zip(&plan.relations) {
        edges::read(file, index, relation, config.key, nodes_file, &mut builder, progress)?;
    }
    progress.begin("sorting and writing", 0);
    let graph = builder.finish().map_err(|error| GraphError::Import {
        path: config_path.to_path_buf(),
        line: 0,
        detail: error.to_string(),
    })?;
    let manifest = snapshot::write(&graph, out_dir)?;
    progress.end();
    let mut notes = plan.notes;
    for (names, counts) in manifest.schema.relations.iter().zip(&manifest.relations) {
        if counts.num_edges == 0 {
            notes.push(format!("relation `{}` has no edges", names.name));
        }
        if let Some(weight) = names.weight.as_ref().filter(|_| !counts.weighted) {
            notes.push(format!(
                "weight `{weight}` of relation `{}` has negative values: models and plugins can read it, weighted sampling \
                 will be refused",
                names.name
            ));
        }
    }
    Ok(Summary::new(out_dir, &manifest, notes))
}

/// What the configuration comes to, once the files' headers are known.
struct Plan {
    schema: GraphSchema,
    nodes: Option<CsvFile>,
    relations: Vec<CsvFile>,
    notes: Vec<String>,
}

impl Plan {
    /// Opens every file and looks for every column; reports all that is missing together.
    fn new(config_path: &Path, config: &Config) -> Result<Self, GraphError> {
        let mut problems = Vec::new();
        let mut used: BTreeMap<PathBuf, (Vec<String>, BTreeSet<String>)> = BTreeMap::new();
        let mut open = |source: &config::CsvSource, columns: Vec<&config::Text>, problems: &mut Vec<String>| {
            let file = match CsvFile::open(source) {
                Ok(file) => file,
                Err(error) => {
                    problems.push(format!("{}: {error}", source.file.place));
                    return None;
                }
            };
            let (_, seen) = used.entry(file.path.clone()).or_insert_with(|| (file.header.clone(), BTreeSet::new()));
            for column in columns {
                if file.column(&column.text).is_none() {
                    let (place, name, has) = (&column.place, &column.text, file.header.join(", "));
                    problems.push(format!("{place}: {} has no column `{name}`, only: {has}", file.path.display()));
                }
                seen.insert(column.text.clone());
            }
            Some(file)
        };
        let nodes = match &config.nodes {
            NodesConfig::FromEdges => None,
            NodesConfig::File(nodes) => {
                let columns = std::iter::once(&nodes.id).chain(nodes.features.columns()).collect();
                open(&nodes.source, columns, &mut problems)
            }
        };
        let relations: Vec<_> =
            config.relations.iter().filter_map(|r| open(&r.source, r.all_columns(), &mut problems)).collect();
        let schema = GraphSchema {
            key_type: config.key,
            features: match &config.nodes {
                NodesConfig::FromEdges => Vec::new(),
                NodesConfig::File(nodes) => nodes.features.names(),
            },
            relations: config.relations.iter().map(RelationConfig::schema).collect(),
        };
        problems.extend(schema.problems());
        if !problems.is_empty() {
            return Err(GraphError::Config { path: config_path.to_path_buf(), problems });
        }
        let mut notes = Vec::new();
        for (path, (header, seen)) in used {
            let unused: Vec<_> = header.iter().filter(|name| !seen.contains(*name)).cloned().collect();
            if !unused.is_empty() {
                notes.push(format!("{}: nothing uses column {}", path.display(), unused.join(", ")));
            }
        }
        Ok(Self { schema, nodes, relations, notes })
    }
}

impl RelationConfig {
    fn schema(&self) -> RelationSchema {
        RelationSchema {
            name: self.name.text.clone(),
            timed: self.time.is_some(),
            columns: self.value_columns().into_iter().map(|column| column.text.clone()).collect(),
            weight: self.weight.as_ref().map(|weight| weight.text.clone()),
        }
    }

    /// The columns that become edge columns: `columns`, then the weight where it is not among them.
    fn value_columns(&self) -> Vec<&config::Text> {
        let extra = self.weight.iter().filter(|weight| self.columns.iter().all(|column| column.text != weight.text));
        self.columns.iter().chain(extra).collect()
    }

    /// Every column that is read.
    fn all_columns(&self) -> Vec<&config::Text> {
        let time = self.time.iter().map(|time| &time.column);
        [&self.from, &self.to].into_iter().chain(time).chain(self.value_columns()).collect()
    }
}

#[cfg(test)]
mod tests;
