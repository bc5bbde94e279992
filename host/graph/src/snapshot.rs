//! A graph on disk: a folder with `manifest.json` and immutable files that are memory-mapped as they are. Opening reads the
//! manifest and the headers; what the files hold is checked where it is used, so that an altered file gives an error or a
//! wrong value, never undefined behaviour or a panic. `docs/formats.md` has the layout.

mod manifest;
mod section;
pub(crate) mod writer;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use sagehost_types::{Digest, GraphVersion, Key, Node, TimeMs};

use crate::error::GraphError;
use crate::memory::{check_column, gather_rows, not_weighted};
use crate::schema::{GraphSchema, KeyType};
use crate::tables::{at, column_value, visible};
use crate::view::{GraphView, Visible};
use section::{Kind, Section};

pub use manifest::{FORMAT, FileEntry, MANIFEST, Manifest, RelationCounts};
pub use writer::write;

/// An open snapshot.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    manifest: Manifest,
    version: GraphVersion,
    keys: Keys,
    key_hashes: Section,
    /// Pairs of key hash and dense id, sorted.
    key_index: Section,
    features: Section,
    relations: Vec<Relation>,
}

/// External keys by dense id.
#[derive(Debug)]
enum Keys {
    Int(Section),
    Text { offsets: Section, bytes: Section },
}

/// The files of a relation.
#[derive(Debug)]
struct Relation {
    num_edges: u64,
    offsets: Section,
    sources: Section,
    /// Whether sources are u64.
    wide: bool,
    times: Option<Section>,
    columns: Section,
    weights: Option<Section>,
}

impl Snapshot {
    /// Opens the snapshot in a folder: checks the manifest and every file's length and header. Cheap, whatever the size.
    ///
    /// # Errors
    /// [`GraphError::Io`] where a file is missing, [`GraphError::Damaged`] where one is truncated, altered or unknown.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, GraphError> {
        let path = path.into();
        let manifest = Manifest::read(&path)?;
        let places = manifest.places();
        let open = |kind, relation| {
            let found = places.iter().zip(&manifest.files).find(|(p, _)| (p.kind, p.relation) == (kind, relation));
            found.map(|(&place, entry)| Section::open(&path, place, entry)).transpose()
        };
        let required = |kind, relation| {
            let missing = || GraphError::damaged(&path.join(MANIFEST), "a file of the schema is not listed");
            open(kind, relation)?.ok_or_else(missing)
        };
        let keys = match manifest.schema.key_type {
            KeyType::U64 => Keys::Int(required(Kind::Keys, None)?),
            KeyType::String => {
                Keys::Text { offsets: required(Kind::KeyOffsets, None)?, bytes: required(Kind::KeyBytes, None)? }
            }
        };
        let mut relations = Vec::with_capacity(manifest.relations.len());
        for (index, counts) in (0_u32..).zip(&manifest.relations) {
            relations.push(Relation {
                num_edges: counts.num_edges,
                offsets: required(Kind::Offsets, Some(index))?,
                sources: required(Kind::Sources, Some(index))?,
                wide: counts.source_bytes == 8,
                times: open(Kind::Times, Some(index))?,
                columns: required(Kind::Columns, Some(index))?,
                weights: open(Kind::Weights, Some(index))?,
            });
        }
        let version = GraphVersion { lineage: manifest.lineage.as_str().into(), sequence: manifest.sequence };
        let (key_hashes, key_index) = (required(Kind::KeyHashes, None)?, required(Kind::KeyIndex, None)?);
        let features = required(Kind::Features, None)?;
        Ok(Self { path, version, keys, key_hashes, key_index, features, relations, manifest })
    }

    /// Reads every file and compares its digest with the manifest's.
    ///
    /// # Errors
    /// [`GraphError::Damaged`] naming the first file that differs.
    pub fn verify(&self) -> Result<(), GraphError> {
        for entry in &self.manifest.files {
            let path = self.path.join(&entry.name);
            let mut file = File::open(&path).map_err(GraphError::io(&path))?;
            let digest = Digest::of_reader(&mut file).map_err(GraphError::io(&path))?;
            if digest != entry.digest {
                let detail = format!("altered: its digest is {digest}, the manifest says {}", entry.digest);
                return Err(GraphError::damaged(&path, detail));
            }
        }
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What to tell a person of it.
    #[must_use]
    pub fn info(&self) -> SnapshotInfo<'_> {
        SnapshotInfo { path: &self.path, manifest: &self.manifest }
    }

    fn relation(&self, relation: u32) -> Result<&Relation, GraphError> {
        self.relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))
    }

    fn check_node(&self, node: Node) -> Result<(), GraphError> {
        if node < self.manifest.num_nodes { Ok(()) } else { Err(GraphError::NoSuchNode(node)) }
    }
}

impl Relation {
    fn check_edge(&self, relation: u32, edge: u64) -> Result<(), GraphError> {
        if edge < self.num_edges { Ok(()) } else { Err(GraphError::NoSuchEdge { relation, edge }) }
    }
}

impl Keys {
    /// The key of a node that is in the graph.
    fn get(&self, node: Node) -> Result<Key, GraphError> {
        match self {
            Self::Int(keys) => at(keys.slice::<u64>(), node)
                .map(Key::Int)
                .ok_or_else(|| keys.damaged(format!("no key of node {node}"))),
            Self::Text { offsets, bytes } => {
                let text = Self::text(offsets, bytes, node).and_then(|bytes| std::str::from_utf8(bytes).ok());
                text.map(Key::from).ok_or_else(|| bytes.damaged(format!("the key of node {node} is out of bounds")))
            }
        }
    }

    fn text<'a>(offsets: &Section, bytes: &'a Section, node: Node) -> Option<&'a [u8]> {
        let offsets = offsets.slice::<u64>();
        let (start, end) = (at(offsets, node)?, at(offsets, node.checked_add(1)?)?);
        bytes.slice::<u8>().get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    fn equals(&self, node: Node, key: &Key) -> bool {
        match (self, key) {
            (Self::Int(keys), Key::Int(key)) => at(keys.slice::<u64>(), node) == Some(*key),
            (Self::Text { offsets, bytes }, Key::Text(key)) => {
                Self::text(offsets, bytes, node).is_some_and(|text| text == key.as_bytes())
            }
            _ => false,
        }
    }
}

impl GraphView for Snapshot {
    fn schema(&self) -> &GraphSchema {
        &self.manifest.schema
    }

    fn version(&self) -> &GraphVersion {
        &self.version
    }

    fn num_nodes(&self) -> u64 {
        self.manifest.num_nodes
    }

    fn latest_ms(&self) -> TimeMs {
        self.manifest.latest_ms
    }

    fn find(&self, key: &Key) -> Option<Node> {
        let fits = matches!(
            (key, self.manifest.schema.key_type),
            (Key::Int(_), KeyType::U64) | (Key::Text(_), KeyType::String)
        );
        if !fits {
            return None;
        }
        let hash = key.hash();
        let index = self.key_index.slice::<[u64; 2]>();
        let start = index.partition_point(|pair| pair[0] < hash);
        let equal = index.get(start..)?.iter().take_while(|pair| pair[0] == hash);
        equal.map(|pair| pair[1]).find(|&node| node < self.manifest.num_nodes && self.keys.equals(node, key))
    }

    fn key(&self, node: Node) -> Result<Key, GraphError> {
        self.check_node(node)?;
        self.keys.get(node)
    }

    fn key_hash(&self, node: Node) -> Result<u64, GraphError> {
        at(self.key_hashes.slice(), node).ok_or(GraphError::NoSuchNode(node))
    }

    fn visible(&self, relation: u32, node: Node, as_of_ms: TimeMs) -> Result<Visible, GraphError> {
        let files = self.relation(relation)?;
        self.check_node(node)?;
        let row = usize::try_from(node).map_err(|_| GraphError::NoSuchNode(node))?;
        let times = files.times.as_ref().map(Section::slice);
        visible(files.offsets.slice(), times, files.num_edges, row, as_of_ms)
            .ok_or_else(|| files.offsets.damaged(format!("the in-edges of node {node} are out of bounds")))
    }

    fn source(&self, relation: u32, edge: u64) -> Result<Node, GraphError> {
        let files = self.relation(relation)?;
        let source = if files.wide {
            at(files.sources.slice::<u64>(), edge)
        } else {
            at(files.sources.slice::<u32>(), edge).map(u64::from)
        };
        let source = source.ok_or(GraphError::NoSuchEdge { relation, edge })?;
        if source < self.manifest.num_nodes {
            Ok(source)
        } else {
            Err(files.sources.damaged(format!("edge {edge} comes from node {source}, which is not in the graph")))
        }
    }

    fn edge_time(&self, relation: u32, edge: u64) -> Result<TimeMs, GraphError> {
        let files = self.relation(relation)?;
        files.check_edge(relation, edge)?;
        files
            .times
            .as_ref()
            .map_or(Some(TimeMs::MIN), |times| at(times.slice(), edge))
            .ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn edge_value(&self, relation: u32, column: u32, edge: u64) -> Result<f32, GraphError> {
        let files = self.relation(relation)?;
        check_column(&self.manifest.schema, relation, column)?;
        files.check_edge(relation, edge)?;
        column_value(files.columns.slice(), files.num_edges, column, edge)
            .ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn weight_prefix(&self, relation: u32, visible: Visible, position: u32) -> Result<u64, GraphError> {
        let files = self.relation(relation)?;
        let weights = files.weights.as_ref().ok_or_else(|| not_weighted(&self.manifest.schema, relation))?;
        let edge = visible.first.saturating_add(u64::from(position));
        at(weights.slice(), edge).ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn gather(&self, nodes: &[Node], out: &mut [f32]) -> Result<(), GraphError> {
        let width = self.manifest.schema.features.len();
        gather_rows(self.features.slice(), width, self.manifest.num_nodes, nodes, out)
    }
}

/// A snapshot in a few lines; see [`Snapshot::info`].
#[derive(Clone, Copy, Debug)]
pub struct SnapshotInfo<'a> {
    /// The folder.
    pub path: &'a Path,
    /// The manifest.
    pub manifest: &'a Manifest,
}

impl SnapshotInfo<'_> {
    /// Bytes of all files, the manifest excepted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.manifest.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

impl fmt::Display for SnapshotInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Manifest { format, lineage, sequence, num_nodes, latest_ms, schema, .. } = self.manifest;
        let keys = match schema.key_type {
            KeyType::U64 => "u64",
            KeyType::String => "string",
        };
        writeln!(f, "snapshot   {} (format {format})", self.path.display())?;
        writeln!(f, "version    {lineage}:{sequence}")?;
        writeln!(f, "nodes      {num_nodes}, {keys} keys, {} features", schema.features.len())?;
        for (names, counts) in schema.relations.iter().zip(&self.manifest.relations) {
            write!(f, "relation   {}: {} edges", names.name, counts.num_edges)?;
            write!(f, ", {}", if names.timed { "timed" } else { "without times" })?;
            if !names.columns.is_empty() {
                write!(f, ", columns {}", names.columns.join(", "))?;
            }
            match &names.weight {
                Some(weight) if counts.weighted => write!(f, ", weight {weight}")?,
                Some(weight) => write!(f, ", weight {weight} (has negative values: not for weighted sampling)")?,
                None => {}
            }
            writeln!(f)?;
        }
        writeln!(f, "latest_ms  {latest_ms}")?;
        write!(f, "size       {:.1} MiB in {} files", self.bytes() as f64 / 1_048_576.0, self.manifest.files.len())
    }
}

#[cfg(test)]
mod tests;
