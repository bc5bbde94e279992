//! `manifest.json`: what a snapshot consists of. See `docs/formats.md`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sagehost_types::limits::MAX_RELEASE_FILE;
use sagehost_types::{Digest, TimeMs};
use serde::{Deserialize, Serialize};

use super::section::{HEADER, Kind, Place};
use crate::error::GraphError;
use crate::schema::{GraphSchema, KeyType};

/// The format's number.
pub const FORMAT: u32 = 1;
/// The manifest's name in the snapshot's folder.
pub const MANIFEST: &str = "manifest.json";

/// A snapshot's manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Sixteen hex digits: of a first snapshot, those that its content's digest begins with.
    pub lineage: String,
    /// Commits since the lineage began.
    pub sequence: u64,
    /// Nodes.
    pub num_nodes: u64,
    /// The newest event time, 0 where no edge has one.
    pub latest_ms: TimeMs,
    /// Names.
    pub schema: GraphSchema,
    /// One per relation of the schema.
    pub relations: Vec<RelationCounts>,
    /// Every other file of the folder, in the order of [`Manifest::places`].
    pub files: Vec<FileEntry>,
}

/// The size of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationCounts {
    /// Edges.
    pub num_edges: u64,
    /// Bytes of a source's dense id: 4 where all ids of the graph fit, else 8.
    pub source_bytes: u32,
    /// Whether there are prefix sums to sample by weight.
    pub weighted: bool,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its name in the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its digest.
    pub digest: Digest,
}

impl Manifest {
    /// Reads and checks the manifest of the snapshot in `dir`; the files themselves are not looked at.
    pub(super) fn read(dir: &Path) -> Result<Self, GraphError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let path = dir.join(MANIFEST);
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(GraphError::io(&path))?;
        file.take(MAX_RELEASE_FILE + 1).read_to_end(&mut bytes).map_err(GraphError::io(&path))?;
        let damaged = |detail: String| GraphError::damaged(&path, detail);
        if bytes.len() as u64 > MAX_RELEASE_FILE {
            return Err(damaged(format!("over {MAX_RELEASE_FILE} bytes long")));
        }
        let Format { format } =
            serde_json::from_slice(&bytes).map_err(|error| damaged(format!("not a snapshot's manifest: {error}")))?;
        if format != FORMAT {
            return Err(damaged(format!("snapshot format {format}: this sagehost reads format {FORMAT}")));
        }
        let manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(format!("not a snapshot's manifest: {error}")))?;
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if let Some(problem) = self.schema.problems().into_iter().next() {
            return Err(problem);
        }
        if self.relations.len() != self.schema.relations.len() {
            return Err(format!(
                "counts of {} relations, but {} are named",
                self.relations.len(),
                self.schema.relations.len()
            ));
        }
        for (counts, names) in self.relations.iter().zip(&self.schema.relations) {
            if !matches!(counts.source_bytes, 4 | 8) {
                return Err(format!("relation `{}`: source_bytes is {}: 4 or 8", names.name, counts.source_bytes));
            }
            if counts.weighted && names.weight.is_none() {
                return Err(format!("relation `{}` is weighted, but has no weight column", names.name));
            }
        }
        if self.num_nodes >= 1 << 62 || self.relations.iter().any(|counts| counts.num_edges >= 1 << 62) {
            return Err("absurdly many nodes or edges".into());
        }
        // Of a first snapshot the lineage is a digest over all else: any change of the manifest shows.
        if self.sequence == 0 && self.lineage != self.content_lineage() {
            return Err("altered: the lineage does not match the content".into());
        }
        let places = self.places();
        let same = self.files.len() == places.len() && places.iter().zip(&self.files).all(|(p, f)| p.name() == f.name);
        if !same {
            let names: Vec<_> = places.iter().map(Place::name).collect();
            return Err(format!("the files listed are not those of the schema: {}", names.join(", ")));
        }
        for (place, file) in places.iter().zip(&self.files) {
            let bytes = |count: u64| count.checked_mul(u64::from(place.width))?.checked_add(HEADER as u64);
            let fits = match place.kind {
                // Only the offsets say how many: checked where they are used.
                Kind::KeyBytes => file.bytes >= HEADER as u64,
                _ => self.elements(*place).and_then(bytes) == Some(file.bytes),
            };
            if !fits {
                return Err(format!("{}: {} bytes do not fit the counts", file.name, file.bytes));
            }
        }
        Ok(())
    }

    /// The first sixteen hex digits of the digest of this manifest without its lineage and with sequence 0, as compact
    /// JSON: equal content, which the files' digests stand for, gives an equal lineage.
    pub(super) fn content_lineage(&self) -> String {
        let bare = Self { lineage: String::new(), sequence: 0, ..self.clone() };
        // A manifest has string keys only and no failing serializer, so this cannot fail; an empty text matches nothing.
        let json = serde_json::to_vec(&bare).unwrap_or_default();
        Digest::of(&json).to_string().chars().skip("sha256:".len()).take(16).collect()
    }

    /// The files that such a schema has, in order.
    pub(super) fn places(&self) -> Vec<Place> {
        let node = |kind, width| Place { kind, relation: None, width };
        let mut places = match self.schema.key_type {
            KeyType::U64 => vec![node(Kind::Keys, 8)],
            KeyType::String => vec![node(Kind::KeyOffsets, 8), node(Kind::KeyBytes, 1)],
        };
        places.extend([node(Kind::KeyHashes, 8), node(Kind::KeyIndex, 16), node(Kind::Features, 4)]);
        for ((index, counts), names) in (0_u32..).zip(&self.relations).zip(&self.schema.relations) {
            let edge = |kind, width| Place { kind, relation: Some(index), width };
            places.extend([edge(Kind::Offsets, 8), edge(Kind::Sources, counts.source_bytes)]);
            if names.timed {
                places.push(edge(Kind::Times, 8));
            }
            places.push(edge(Kind::Columns, 4));
            if counts.weighted {
                places.push(edge(Kind::Weights, 8));
            }
        }
        places
    }

    /// How many elements a file has by the counts; `None` where only its length says (the bytes of string keys), or where
    /// the counts are absurd.
    fn elements(&self, place: Place) -> Option<u64> {
        let relation = || self.relations.get(place.relation? as usize);
        match place.kind {
            Kind::KeyBytes => None,
            Kind::Keys | Kind::KeyHashes | Kind::KeyIndex => Some(self.num_nodes),
            Kind::KeyOffsets | Kind::Offsets => self.num_nodes.checked_add(1),
            Kind::Features => self.num_nodes.checked_mul(self.schema.features.len() as u64),
            Kind::Sources | Kind::Times | Kind::Weights => Some(relation()?.num_edges),
            Kind::Columns => {
                let names = self.schema.relations.get(place.relation? as usize)?;
                relation()?.num_edges.checked_mul(names.columns.len() as u64)
            }
        }
    }
}
