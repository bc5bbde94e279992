//! Whether a folder holds a whole release yet.
//!
//! A release may be copied in slowly, file by file, its manifest last or first: it exists once `manifest.json` matches every
//! file. Files that the manifest does not list are no part of the release and are never read.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sagehost_types::{Digest, ReleaseId};

use crate::manifest::{MANIFEST_FILE, MAX_MANIFEST, Manifest, ManifestError};

/// What a folder holds.
#[derive(Clone, Debug)]
pub enum FolderState {
    /// Not a whole release yet: something may still be writing it.
    Incomplete(Incomplete),
    /// A whole release: every file had the manifest's size and digest.
    Complete(ReleaseFolder),
    /// What writing on cannot mend: the manifest itself is wrong.
    Invalid(String),
}

/// The first thing that keeps a folder from being a whole release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// A file is not there.
    Missing {
        /// Its path in the folder.
        file: String,
    },
    /// A file is shorter than the manifest says.
    Shorter {
        /// Its path in the folder.
        file: String,
        /// Its size now.
        size: u64,
        /// The manifest's.
        expected: u64,
    },
    /// A file is longer than the manifest says.
    Longer {
        /// Its path in the folder.
        file: String,
        /// Its size now.
        size: u64,
        /// The manifest's.
        expected: u64,
    },
    /// A file has the manifest's size and other content.
    Differs {
        /// Its path in the folder.
        file: String,
        /// The digest of its content.
        found: Digest,
        /// The manifest's.
        expected: Digest,
    },
    /// A file cannot be read, or the manifest is not JSON (yet).
    Unreadable {
        /// Its path in the folder.
        file: String,
        /// Why.
        reason: String,
    },
}

impl Incomplete {
    /// Whether this is what an interrupted or finished copy of something wrong looks like, so that it becomes a rejection
    /// once the folder no longer changes. A missing or short file is only waited for.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Shorter { .. } => false,
            Self::Longer { .. } | Self::Differs { .. } | Self::Unreadable { .. } => true,
        }
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { file } => write!(f, "{file} is missing"),
            Self::Shorter { file, size, expected } => write!(f, "{file} has {size} of {expected} bytes"),
            Self::Longer { file, size, expected } => {
                write!(f, "{file} has {size} bytes; the manifest says {expected}")
            }
            Self::Differs { file, found, expected } => {
                write!(f, "{file} has the digest {found}; the manifest says {expected}")
            }
            Self::Unreadable { file, reason } => write!(f, "{file}: {reason}"),
        }
    }
}

/// A folder whose every file matched its manifest when it was inspected.
#[derive(Clone, Debug)]
pub struct ReleaseFolder {
    pub(crate) root: PathBuf,
    pub(crate) id: ReleaseId,
    pub(crate) manifest: Manifest,
}

impl ReleaseFolder {
    /// The release's identity.
    #[must_use]
    pub fn id(&self) -> &ReleaseId {
        &self.id
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// Looks whether `folder` holds the whole release `model`@`version`: sizes of all files first, which is cheap, then their
/// digests. Blocking: reads every file.
#[must_use]
pub fn inspect(folder: &Path, model: &str, version: u64) -> FolderState {
    match try_inspect(folder, model, version) {
        Ok(release) => FolderState::Complete(release),
        Err(Obstacle::Incomplete(incomplete)) => FolderState::Incomplete(incomplete),
        Err(Obstacle::Invalid(reason)) => FolderState::Invalid(reason),
    }
}

enum Obstacle {
    Incomplete(Incomplete),
    Invalid(String),
}

fn unreadable(file: &str, error: &io::Error) -> Obstacle {
    Obstacle::Incomplete(match error.kind() {
        io::ErrorKind::NotFound => Incomplete::Missing { file: file.into() },
        _ => Incomplete::Unreadable { file: file.into(), reason: error.to_string() },
    })
}

fn try_inspect(folder: &Path, model: &str, version: u64) -> Result<ReleaseFolder, Obstacle> {
    let root = folder.canonicalize().map_err(|e| unreadable(MANIFEST_FILE, &e))?;
    let manifest = read_manifest(&root)?;
    if (manifest.model.as_str(), manifest.version) != (model, version) {
        return Err(Obstacle::Invalid(format!(
            "the manifest is that of {}@{}, and the folder is that of {model}@{version}: a release cannot pass under another name",
            manifest.model, manifest.version
        )));
    }
    for (path, entry) in &manifest.files {
        let size = open_inside(&root, path)?.1;
        let (file, expected) = (path.clone(), entry.size);
        match size.cmp(&expected) {
            std::cmp::Ordering::Less => return Err(Obstacle::Incomplete(Incomplete::Shorter { file, size, expected })),
            std::cmp::Ordering::Greater => {
                return Err(Obstacle::Incomplete(Incomplete::Longer { file, size, expected }));
            }
            std::cmp::Ordering::Equal => {}
        }
    }
    for (path, entry) in &manifest.files {
        let (file, _) = open_inside(&root, path)?;
        // One byte more than expected: a file that grows meanwhile must not pass by its first part.
        let found = Digest::of_reader(&mut file.take(entry.size + 1)).map_err(|e| unreadable(path, &e))?;
        if found != entry.sha256 {
            let (file, expected) = (path.clone(), entry.sha256);
            return Err(Obstacle::Incomplete(Incomplete::Differs { file, found, expected }));
        }
    }
    let id = ReleaseId { model: model.into(), version, digest: manifest.digest() };
    Ok(ReleaseFolder { root, id, manifest })
}

fn read_manifest(root: &Path) -> Result<Manifest, Obstacle> {
    let (file, size) = open_inside(root, MANIFEST_FILE)?;
    if size > MAX_MANIFEST {
        return Err(Obstacle::Invalid(format!("{MANIFEST_FILE} has {size} bytes; the limit is {MAX_MANIFEST}")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_MANIFEST).read_to_end(&mut bytes).map_err(|e| unreadable(MANIFEST_FILE, &e))?;
    Manifest::from_json(&bytes).map_err(|error| match error {
        ManifestError::NotJson(reason) => {
            Obstacle::Incomplete(Incomplete::Unreadable { file: MANIFEST_FILE.into(), reason })
        }
        other => Obstacle::Invalid(other.to_string()),
    })
}

/// Opens a regular file below `root` (which is canonical) and gives its size. Links inside the folder are followed, as
/// Kubernetes mounts volumes with them; a link out of it is refused.
fn open_inside(root: &Path, path: &str) -> Result<(File, u64), Obstacle> {
    let target = root.join(path).canonicalize().map_err(|e| unreadable(path, &e))?;
    if !target.starts_with(root) {
        return Err(Obstacle::Invalid(format!(
            "{path} is a link out of the release's folder, to {}",
            target.display()
        )));
    }
    // Looked at before opening: opening a pipe would wait for its writer.
    let metadata = target.metadata().map_err(|e| unreadable(path, &e))?;
    if !metadata.is_file() {
        return Err(Obstacle::Invalid(format!("{path} is not a regular file")));
    }
    let file = File::open(&target).map_err(|e| unreadable(path, &e))?;
    Ok((file, metadata.len()))
}

/// Reads a listed file of a verified folder; the caller digests what it got. `Err` is what [`inspect`] would have said.
pub(crate) fn read_inside(root: &Path, path: &str, size: u64) -> Result<Vec<u8>, String> {
    let text = |obstacle| match obstacle {
        Obstacle::Incomplete(reason) => reason.to_string(),
        Obstacle::Invalid(reason) => reason,
    };
    let (file, _) = open_inside(root, path).map_err(text)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(|e| e.to_string())?);
    file.take(size + 1).read_to_end(&mut bytes).map_err(|e| format!("{path}: {e}"))?;
    Ok(bytes)
}
