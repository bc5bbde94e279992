//! What can go wrong in a graph.

use std::path::PathBuf;

use sagehost_types::Node;

/// An error of a graph store, an import or a sampling primitive.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// A dense id beyond the graph.
    #[error("no node with dense id {0}")]
    NoSuchNode(Node),
    /// A relation index beyond the schema.
    #[error("no relation with index {0}")]
    NoSuchRelation(u32),
    /// An edge id beyond the relation, or not an edge of the destination named.
    #[error("no edge {edge} in relation {relation}")]
    NoSuchEdge {
        /// The relation's index.
        relation: u32,
        /// The edge's id.
        edge: u64,
    },
    /// A column that the relation does not have.
    #[error("relation {relation} has no column `{column}`")]
    NoSuchColumn {
        /// The relation's index.
        relation: u32,
        /// The column's name or index.
        column: String,
    },
    /// Weighted sampling on a relation without usable weights.
    #[error("relation `{0}` cannot be sampled by weight: it has no weight column, or the column has negative values")]
    NotWeighted(String),
    /// Arguments that do not fit each other.
    #[error("{0}")]
    BadArgument(String),
    /// More edges than a batch may sample.
    #[error("the neighbourhood has over {0} edges: lower the fan-out or cap it")]
    TooManyEdges(usize),
    /// A snapshot that is truncated, altered or of an unknown format.
    #[error("{path}: {detail}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A bad row or value in a file to import.
    #[error("{path}:{line}: {detail}")]
    Import {
        /// The file.
        path: PathBuf,
        /// 1-based line; 0 where the fault is of the whole file.
        line: u64,
        /// What is wrong and what would be right.
        detail: String,
    },
    /// A configuration with bad values, all of them.
    #[error("{}: {} bad value{}\n  {}", path.display(), problems.len(), if problems.len() == 1 { "" } else { "s" }, problems.join("\n  "))]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, each with its line and key.
        problems: Vec<String>,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl GraphError {
    /// An I/O error at a path.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }

    /// A damaged file.
    pub(crate) fn damaged(path: &std::path::Path, detail: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_path_buf(), detail: detail.into() }
    }
}
