//! Names of releases and graph versions.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Which release answered: a model's name and version for people, the manifest's digest for machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReleaseId {
    /// The model's name: letters, digits, `-`, `_` and `.`, starting with a letter or digit.
    pub model: Arc<str>,
    /// A positive version number, as in a Triton model repository.
    pub version: u64,
    /// The digest of the release's manifest, which names the digest of every file.
    pub digest: Digest,
}

impl fmt::Display for ReleaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.model, self.version)
    }
}

/// What a request reads of a graph: a lineage (one graph's history) and a place in its commit sequence. Storage and
/// compaction change neither it nor any answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GraphVersion {
    /// The lineage's id: 16 hex digits, given when the lineage's first snapshot is built.
    pub lineage: Arc<str>,
    /// Commits since the lineage began; a freshly built snapshot is at 0.
    pub sequence: u64,
}

impl fmt::Display for GraphVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.lineage, self.sequence)
    }
}

/// Whether `name` can name a model, a graph, a route or a policy: it becomes a folder's name and part of an etcd key.
#[must_use]
pub fn valid_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= crate::limits::MAX_NAME
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_safe_as_folders_and_keys() {
        for good in ["mule-risk", "a", "v1.2_x"] {
            assert!(super::valid_name(good), "{good}");
        }
        for bad in ["", ".", "..", "_routes", "a/b", "a b", "é", &"x".repeat(129)] {
            assert!(!super::valid_name(bad), "{bad}");
        }
    }
}
