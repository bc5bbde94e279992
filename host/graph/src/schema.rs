//! What a graph consists of: the part of a snapshot's manifest that requests, releases and plugins refer to.

use serde::{Deserialize, Serialize};

/// Integer or string keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// Unsigned 64-bit integers.
    U64,
    /// UTF-8 strings.
    String,
}

/// A relation: a named kind of directed edge. `received` and `sent` of one transfer are two relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationSchema {
    /// The relation's name: part of every sample's random key.
    pub name: String,
    /// Whether edges have event times.
    pub timed: bool,
    /// Names of the numeric edge columns.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Which of `columns` is the weight, if any.
    #[serde(default)]
    pub weight: Option<String>,
}

impl RelationSchema {
    /// A column's index.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<u32> {
        self.columns.iter().position(|c| c == name).and_then(|i| u32::try_from(i).ok())
    }

    /// The weight column's index.
    #[must_use]
    pub fn weight_column(&self) -> Option<u32> {
        self.weight.as_deref().and_then(|name| self.column(name))
    }
}

/// A graph's names and columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphSchema {
    /// The kind of key.
    pub key_type: KeyType,
    /// Names of the node feature columns, in the order of a row.
    pub features: Vec<String>,
    /// Relations; a relation's index is its place here.
    pub relations: Vec<RelationSchema>,
}

impl GraphSchema {
    /// A relation's index.
    #[must_use]
    pub fn relation(&self, name: &str) -> Option<u32> {
        self.relations.iter().position(|r| r.name == name).and_then(|i| u32::try_from(i).ok())
    }
}
