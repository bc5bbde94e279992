//! A snapshot's files: a header of 64 bytes, then little-endian elements of one type, memory-mapped.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytemuck::{AnyBitPattern, Pod, Zeroable};
use memmap2::Mmap;

use super::manifest::FileEntry;
use crate::error::GraphError;

#[cfg(target_endian = "big")]
compile_error!("snapshots are little-endian and mapped as they are: big-endian machines are not supported");

/// Length of the header: elements after it are aligned, as mappings begin at a page.
pub(super) const HEADER: usize = size_of::<Header>();
const MAGIC: [u8; 8] = *b"SAGEGRPH";
const VERSION: u32 = 1;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Keys,
    KeyOffsets,
    KeyBytes,
    KeyHashes,
    KeyIndex,
    Features,
    Offsets,
    Sources,
    Times,
    Columns,
    Weights,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::KeyOffsets => "key-offsets",
            Self::KeyBytes => "key-bytes",
            Self::KeyHashes => "key-hashes",
            Self::KeyIndex => "key-index",
            Self::Features => "features",
            Self::Offsets => "offsets",
            Self::Sources => "sources",
            Self::Times => "times",
            Self::Columns => "columns",
            Self::Weights => "weights",
        }
    }

    /// The number in the header.
    const fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// Which file of a snapshot, and how wide its elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) kind: Kind,
    /// The relation's index, for a file of edges.
    pub(super) relation: Option<u32>,
    /// Bytes of an element.
    pub(super) width: u32,
}

impl Place {
    /// The file's name.
    pub(super) fn name(&self) -> String {
        let kind = self.kind.name();
        self.relation.map_or_else(|| format!("{kind}.bin"), |relation| format!("relation-{relation}-{kind}.bin"))
    }
}

/// The header of every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Header {
    magic: [u8; 8],
    version: u32,
    kind: u32,
    /// `u32::MAX` for a file of nodes.
    relation: u32,
    width: u32,
    count: u64,
    zero: [u64; 4],
}

impl Header {
    pub(super) fn new(place: Place, count: u64) -> Self {
        Self {
            magic: MAGIC,
            version: VERSION,
            kind: place.kind.number(),
            relation: place.relation.unwrap_or(u32::MAX),
            width: place.width,
            count,
            zero: [0; 4],
        }
    }

    /// What differs from the header expected.
    fn difference(&self, expected: &Self) -> Option<String> {
        if self == expected {
            return None;
        }
        Some(if self.magic != MAGIC {
            "not a sagehost graph file".into()
        } else if self.version != VERSION {
            format!("file version {}: this sagehost reads version {VERSION}", self.version)
        } else if self.count == expected.count {
            "the header is of another file of a snapshot".into()
        } else {
            format!("the header counts {} elements: {} are expected", self.count, expected.count)
        })
    }
}

/// A mapped file.
#[derive(Debug)]
pub(super) struct Section {
    map: Mmap,
    path: PathBuf,
}

impl Section {
    /// Maps a file and checks its length and header; its elements are not read.
    pub(super) fn open(dir: &Path, place: Place, entry: &FileEntry) -> Result<Self, GraphError> {
        let path = dir.join(place.name());
        let file = File::open(&path).map_err(GraphError::io(&path))?;
        let bytes = file.metadata().map_err(GraphError::io(&path))?.len();
        if bytes != entry.bytes {
            let detail = format!("{bytes} bytes long: the manifest says {}", entry.bytes);
            return Err(GraphError::damaged(&path, detail));
        }
        // SAFETY: the files of a snapshot are written in full before their folder gets its name, and never again: sagehost
        // replaces snapshots, it does not change them. Every byte pattern is valid for the types read from the mapping, and
        // all that is read is checked on use, so that a file altered by someone else can give wrong values, not undefined
        // ones; truncating a mapped file ends the process by SIGBUS, which docs/graph.md tells operators.
        let map = unsafe { Mmap::map(&file) }.map_err(GraphError::io(&path))?;
        // Lookups jump about: reading ahead would fetch pages that nobody asked for. Only advice, so a refusal is no error.
        #[cfg(unix)]
        if let Err(error) = map.advise(memmap2::Advice::Random) {
            tracing::debug!(path = %path.display(), %error, "madvise was refused");
        }
        let header = map.get(..HEADER).map(bytemuck::pod_read_unaligned::<Header>);
        let Some(header) = header else { return Err(GraphError::damaged(&path, "shorter than its header")) };
        let count = (bytes - HEADER as u64) / u64::from(place.width);
        match header.difference(&Header::new(place, count)) {
            None => Ok(Self { map, path }),
            Some(detail) => Err(GraphError::damaged(&path, detail)),
        }
    }

    /// The elements. `T` is of the width that the section was opened with: another gives an empty slice.
    pub(super) fn slice<T: AnyBitPattern>(&self) -> &[T] {
        self.map.get(HEADER..).and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or_default()
    }

    /// The error for contents that contradict each other.
    pub(super) fn damaged(&self, detail: impl Into<String>) -> GraphError {
        GraphError::damaged(&self.path, detail)
    }
}
