//! External keys of nodes: what users call them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A node's name outside sagehost: an unsigned integer or a string, as the graph's schema says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Key {
    /// An integer key.
    Int(u64),
    /// A string key.
    Text(Arc<str>),
}

impl Key {
    /// The hash that samplers key their random numbers on: XXH3-64 of the integer's 8 little-endian bytes, or of the
    /// string's UTF-8. It depends on the key alone, so that a sample does not change when dense ids do.
    #[must_use]
    pub fn hash(&self) -> u64 {
        match self {
            Self::Int(value) => xxh3_64(&value.to_le_bytes()),
            Self::Text(text) => xxh3_64(text.as_bytes()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl From<u64> for Key {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_fixed_for_ever() {
        // Changing these changes every sample of every deployed release: see docs/formats.md.
        assert_eq!(Key::from("").hash(), 0x2d06_8005_38d3_94c2);
        assert_ne!(Key::from(1).hash(), Key::from("1").hash());
    }

    #[test]
    fn json_keys_are_numbers_or_strings() {
        assert_eq!(serde_json::from_str::<Key>("7").unwrap(), Key::from(7));
        assert_eq!(serde_json::from_str::<Key>("\"7\"").unwrap(), Key::from("7"));
        assert!(serde_json::from_str::<Key>("-7").is_err());
        assert!(serde_json::from_str::<Key>("7.5").is_err());
    }
}
