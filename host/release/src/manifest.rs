//! `manifest.json`: every file's size and digest, and the release's name, version and salt.
//!
//! The canonical form is JSON without spaces, keys sorted, no floating-point numbers, UTF-8, no line break at the end. The
//! digest of a release is the digest of its manifest's canonical form, however the file on disk is laid out; `pack` writes
//! the canonical form, so that `sha256sum manifest.json` prints the release's digest.

use std::collections::BTreeMap;
use std::fmt;

use sagehost_types::Digest;
use sagehost_types::ids::valid_name;
use sagehost_types::limits::{MAX_NAME, MAX_RELEASE_FILE};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Problems;
use crate::paths::path_problem;

/// The manifest's own name. It does not list itself.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The release's settings: see [`crate::spec`].
pub const SPEC_FILE: &str = "release.toml";
/// The model's numbers.
pub const WEIGHTS_FILE: &str = "weights.safetensors";
/// The golden examples: see [`crate::golden`].
pub const GOLDEN_FILE: &str = "golden.json";
/// Most files in a release.
pub const MAX_FILES: usize = 256;
/// Largest `manifest.json`, in bytes.
pub const MAX_MANIFEST: u64 = 1 << 20;
/// Largest `weights.safetensors`, in bytes.
pub const MAX_WEIGHTS: u64 = 16 << 30;

/// What a release consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    // The order of these fields is the canonical form's: alphabetical.
    /// Every file by its path inside the folder: relative, forward slashes, no `..`.
    #[serde(deserialize_with = "distinct_files")]
    pub files: BTreeMap<String, FileEntry>,
    /// The format's number: 1.
    pub format: u32,
    /// The model's name; also the name of the folder that holds the version's folder.
    pub model: String,
    /// Part of every sample's random key: 1 to 128 printable characters.
    pub salt: String,
    /// The version; also the folder's name.
    pub version: u64,
}

/// One file of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// The digest: in JSON the 64 hex digits that `sha256sum` prints.
    #[serde(with = "hex")]
    pub sha256: Digest,
    /// Bytes.
    pub size: u64,
}

/// Why a `manifest.json` is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not JSON: it may be half written.
    #[error("{MANIFEST_FILE}: {0}")]
    NotJson(String),
    /// It is JSON, and wrong.
    #[error("{MANIFEST_FILE}: {0}")]
    Shape(String),
    /// It breaks a rule.
    #[error("{MANIFEST_FILE}: {0}")]
    Invalid(Problems),
}

impl Manifest {
    /// Reads and checks a manifest; spaces and the order of keys do not matter.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Probe {
            format: Option<serde_json::Value>,
        }
        let classify = |error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Data => ManifestError::Shape(error.to_string()),
            _ => ManifestError::NotJson(error.to_string()),
        };
        // The format number first: a later format may have other fields, which must not hide that it is a later format.
        let probe: Probe = serde_json::from_slice(bytes).map_err(classify)?;
        if let Some(format) = probe.format.filter(|format| *format != 1) {
            let message = format!("format {format} is not known to this sagehost, which reads format 1");
            return Err(ManifestError::Shape(message));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(classify)?;
        let problems = manifest.problems();
        if problems.is_empty() { Ok(manifest) } else { Err(ManifestError::Invalid(problems)) }
    }

    /// The bytes that the release's digest is taken of.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        // Maps with string keys and integers: serialisation cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The release's digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.canonical())
    }

    fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        if !valid_name(&self.model) {
            problems.add("model", "must be letters, digits, `-`, `_` and `.`, starting with a letter or digit");
        }
        if self.version == 0 {
            problems.add("version", "must be positive");
        }
        if let Some(problem) = salt_problem(&self.salt) {
            problems.add("salt", problem);
        }
        if self.files.len() > MAX_FILES {
            problems.add("files", format!("{} files; the limit is {MAX_FILES}", self.files.len()));
        }
        for required in [SPEC_FILE, WEIGHTS_FILE, GOLDEN_FILE] {
            if !self.files.contains_key(required) {
                problems.add("files", format!("`{required}` is missing; every release has it"));
            }
        }
        for (path, entry) in &self.files {
            if let Some(problem) = path_problem(path) {
                problems.add("files", format!("`{}` {problem}", path.escape_debug()));
            }
            if path == MANIFEST_FILE {
                problems.add("files", "the manifest must not list itself");
            }
            let limit = size_limit(path);
            if entry.size > limit {
                problems.add(format!("files.{path}"), format!("{} bytes; the limit is {limit}", entry.size));
            }
        }
        problems
    }
}

/// The largest size of a file of a release, by its path.
pub(crate) fn size_limit(path: &str) -> u64 {
    if path == WEIGHTS_FILE { MAX_WEIGHTS } else { MAX_RELEASE_FILE }
}

pub(crate) fn salt_problem(salt: &str) -> Option<String> {
    let good = !salt.is_empty() && salt.len() <= MAX_NAME && !salt.chars().any(char::is_control);
    (!good).then(|| format!("must have 1 to {MAX_NAME} bytes and no control characters"))
}

/// A map whose keys must differ: with the usual behaviour (the last one wins) two readers could see two releases.
fn distinct_files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, FileEntry>, D::Error> {
    struct Files;

    impl<'de> Visitor<'de> for Files {
        type Value = BTreeMap<String, FileEntry>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("files by path")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut files = BTreeMap::new();
            while let Some((path, entry)) = map.next_entry::<String, FileEntry>()? {
                if files.insert(path.clone(), entry).is_some() {
                    return Err(A::Error::custom(format!("`{path}` is listed twice")));
                }
            }
            Ok(files)
        }
    }

    deserializer.deserialize_map(Files)
}

mod hex {
    use super::{Deserialize, Deserializer, Digest, Serializer};

    pub(super) fn serialize<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(digest.to_string().trim_start_matches("sha256:"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        format!("sha256:{text}").parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest() -> Manifest {
        let entry = FileEntry { sha256: Digest::of(b"abc"), size: 3 };
        Manifest {
            files: [SPEC_FILE, WEIGHTS_FILE, GOLDEN_FILE].map(|f| (f.to_string(), entry)).into(),
            format: 1,
            model: "mule-risk".into(),
            salt: "s".into(),
            version: 1,
        }
    }

    #[test]
    fn the_canonical_form_is_fixed_for_ever() {
        // docs/release.md shows this vector.
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = |name: &str| format!("\"{name}\":{{\"sha256\":\"{hex}\",\"size\":3}}");
        let expected = format!(
            "{{\"files\":{{{},{},{}}},\"format\":1,\"model\":\"mule-risk\",\"salt\":\"s\",\"version\":1}}",
            file("golden.json"),
            file("release.toml"),
            file("weights.safetensors")
        );
        assert_eq!(String::from_utf8(manifest().canonical()).unwrap(), expected);
        assert_eq!(
            manifest().digest().to_string(),
            "sha256:26df57a52653cad4d2d06aeab03d32f4a7c1daf1ea969c9dfec9367152e5a64c"
        );
    }

    #[test]
    fn layout_does_not_change_the_digest() {
        let pretty = serde_json::to_vec_pretty(&manifest()).unwrap();
        let read = Manifest::from_json(&pretty).unwrap();
        assert_eq!(read.digest(), manifest().digest());
    }

    #[test]
    fn half_a_manifest_is_not_json_and_a_wrong_one_is_wrong() {
        let bytes = manifest().canonical();
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            assert!(matches!(Manifest::from_json(&bytes[..cut]), Err(ManifestError::NotJson(_))), "{cut}");
        }
        let text = String::from_utf8(bytes).unwrap();
        let later = text.replace("\"format\":1", "\"format\":2,\"new\":0");
        let error = Manifest::from_json(later.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("format 2 is not known"), "{error}");
        for wrong in [text.replace("\"salt\"", "\"pepper\""), text.replace("\"size\":3", "\"size\":3.5")] {
            assert!(matches!(Manifest::from_json(wrong.as_bytes()), Err(ManifestError::Shape(_))), "{wrong}");
        }
    }

    #[test]
    fn a_path_listed_twice_is_refused() {
        let text = String::from_utf8(manifest().canonical()).unwrap();
        let entry = "\"golden.json\":{\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"size\":4},";
        let twice = text.replace("{\"files\":{", &format!("{{\"files\":{{{entry}"));
        let error = Manifest::from_json(twice.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("listed twice"), "{error}");
    }

    #[test]
    fn all_broken_rules_are_reported_together() {
        let mut bad = manifest();
        bad.model = "../x".into();
        bad.version = 0;
        bad.salt = String::new();
        bad.files.remove(WEIGHTS_FILE);
        let entry = FileEntry { sha256: Digest::of(b""), size: MAX_RELEASE_FILE + 1 };
        bad.files.insert("../../etc/passwd".into(), entry);
        bad.files.insert(MANIFEST_FILE.into(), entry);
        let Err(ManifestError::Invalid(problems)) = Manifest::from_json(&bad.canonical()) else { panic!("accepted") };
        assert_eq!(problems.0.len(), 8, "{problems}");
    }

    prop_compose! {
        fn entries()(bytes in proptest::collection::vec(any::<u8>(), 0..8), size in 0..MAX_RELEASE_FILE) -> FileEntry {
            FileEntry { sha256: Digest::of(&bytes), size }
        }
    }

    proptest! {
        #[test]
        fn reading_the_canonical_form_gives_it_back(
            model in "[a-z0-9][a-z0-9._-]{0,20}",
            version in 1..u64::MAX,
            salt in "[^\\p{Cc}]{1,20}",
            files in proptest::collection::btree_map("[a-zé\" ]{1,6}(/[a-z.é]{1,3}[a-z]){0,3}", entries(), 0..6),
        ) {
            let mut manifest = Manifest { model, version, salt, ..manifest() };
            manifest.files.extend(files);
            let bytes = manifest.canonical();
            let read = Manifest::from_json(&bytes);
            prop_assert_eq!(read.as_ref(), Ok(&manifest));
            prop_assert_eq!(read.map(|m| m.canonical()), Ok(bytes));
            // Any change gives another digest.
            let other = Manifest { salt: format!("{}x", manifest.salt), ..manifest.clone() };
            prop_assert_ne!(other.digest(), manifest.digest());
        }
    }
}
