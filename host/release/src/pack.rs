//! Makes a release folder, and checks one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use sagehost_types::ids::valid_name;
use sagehost_types::{Digest, ReleaseId};

use crate::error::{Problems, ReleaseError};
use crate::folder::{FolderState, ReleaseFolder, inspect};
use crate::load::utf8;
use crate::manifest::{
    FileEntry, GOLDEN_FILE, MANIFEST_FILE, Manifest, SPEC_FILE, WEIGHTS_FILE, salt_problem, size_limit,
};
use crate::paths::place_of;
use crate::spec::ReleaseSpec;
use crate::validate::{parse_golden, parse_spec};

/// What [`pack`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The release's identity.
    pub id: ReleaseId,
    /// Whether it was put there now; an equal release that was there already is left as it is.
    pub fresh: bool,
}

/// Packs the release in `source` into `<repository>/<model>/<version>/`.
///
/// Taken are `release.toml`, `weights.safetensors`, `golden.json` and the plugins that the spec names: from `source`, or by
/// their file name from one of `plugin_dirs`. Everything is written beside the place, under a name that no repository
/// watcher takes for a release, and renamed into it. Packing the same again changes nothing. Without a `salt` the digest of
/// the content is the salt, so that packing is a pure function of its inputs.
///
/// # Errors
/// What is wrong with the sources (all problems of a file together); [`ReleaseError::Exists`] where another release stands.
pub fn pack(
    source: &Path,
    repository: &Path,
    model: &str,
    version: u64,
    plugin_dirs: &[PathBuf],
    salt: Option<String>,
) -> Result<Packed, ReleaseError> {
    if !valid_name(model) || version == 0 {
        let expected = "the name is letters, digits, `-`, `_` and `.`, the version a positive number";
        return Err(ReleaseError::BadName { name: format!("{model}/{version}"), expected });
    }
    let (spec, golden_bytes) = read_sources(source)?;
    parse_golden(&source.join(GOLDEN_FILE).display().to_string(), &golden_bytes, &spec)?;
    let sources = find_files(source, &spec, plugin_dirs)?;

    let parent = repository.join(model);
    fs::create_dir_all(&parent).map_err(ReleaseError::io(&parent))?;
    // Hidden, so that a watcher does not take it for a version; removed if anything below fails.
    let staging = tempfile::Builder::new()
        .prefix(&format!(".{version}.packing-"))
        .tempdir_in(&parent)
        .map_err(ReleaseError::io(&parent))?;
    let mut files = BTreeMap::new();
    for (path, from) in &sources {
        files.insert(path.clone(), copy(from, &staging.path().join(path), path)?);
    }
    let salt = salt.unwrap_or_else(|| content_salt(&files));
    if let Some(problem) = salt_problem(&salt) {
        let mut problems = Problems::default();
        problems.add("salt", problem);
        return Err(ReleaseError::Invalid { file: MANIFEST_FILE.into(), problems });
    }
    let manifest = Manifest { files, format: 1, model: model.into(), salt, version };
    write_synced(&staging.path().join(MANIFEST_FILE), &manifest.canonical())?;
    let id = ReleaseId { model: model.into(), version, digest: manifest.digest() };
    // What is about to be published must be readable as a release.
    checked(staging.path(), model, version)?.load()?;
    let fresh = publish(staging, &parent.join(version.to_string()), &id)?;
    Ok(Packed { id, fresh })
}

fn read_sources(source: &Path) -> Result<(ReleaseSpec, Vec<u8>), ReleaseError> {
    let spec_path = source.join(SPEC_FILE);
    let spec_name = spec_path.display().to_string();
    let text = utf8(&spec_name, read_bounded(&spec_path, SPEC_FILE)?)?;
    Ok((parse_spec(&spec_name, &text)?, read_bounded(&source.join(GOLDEN_FILE), GOLDEN_FILE)?))
}

fn find_files(
    source: &Path,
    spec: &ReleaseSpec,
    plugin_dirs: &[PathBuf],
) -> Result<BTreeMap<String, PathBuf>, ReleaseError> {
    let mut found: BTreeMap<String, PathBuf> =
        [SPEC_FILE, WEIGHTS_FILE, GOLDEN_FILE].iter().map(|f| ((*f).to_string(), source.join(f))).collect();
    for (role, plugin) in &spec.plugins {
        let name = plugin.file.rsplit('/').next().unwrap_or(&plugin.file);
        let mut places = vec![source.join(&plugin.file)];
        places.extend(plugin_dirs.iter().map(|dir| dir.join(name)));
        let Some(place) = places.iter().find(|place| place.is_file()) else {
            let searched: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            return Err(ReleaseError::MissingPlugin {
                role: role.as_str(),
                file: plugin.file.clone(),
                searched: searched.join(", "),
            });
        };
        found.insert(plugin.file.clone(), place.clone());
    }
    Ok(found)
}

fn read_bounded(path: &Path, name: &str) -> Result<Vec<u8>, ReleaseError> {
    let limit = size_limit(name);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(ReleaseError::io(path))?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ReleaseError::io(path))?;
    let size = bytes.len() as u64;
    if size > limit { Err(ReleaseError::TooLarge { file: name.into(), size, limit }) } else { Ok(bytes) }
}

/// Copies a file and says what was written.
fn copy(from: &Path, to: &Path, name: &str) -> Result<FileEntry, ReleaseError> {
    let limit = size_limit(name);
    let source = File::open(from).map_err(ReleaseError::io(from))?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(ReleaseError::io(folder))?;
    }
    let mut target = File::create(to).map_err(ReleaseError::io(to))?;
    let size = std::io::copy(&mut source.take(limit + 1), &mut target).map_err(ReleaseError::io(from))?;
    if size > limit {
        return Err(ReleaseError::TooLarge { file: name.into(), size, limit });
    }
    target.sync_all().map_err(ReleaseError::io(to))?;
    // Of what is there now, so that a source that changes while it is copied cannot make a wrong manifest.
    let mut written = File::open(to).map_err(ReleaseError::io(to))?;
    Ok(FileEntry { sha256: Digest::of_reader(&mut written).map_err(ReleaseError::io(to))?, size })
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), ReleaseError> {
    let mut file = File::create(path).map_err(ReleaseError::io(path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(ReleaseError::io(path))
}

fn content_salt(files: &BTreeMap<String, FileEntry>) -> String {
    // As in the manifest: path and digest of every file.
    let text = serde_json::to_vec(files).unwrap_or_default();
    Digest::of(&text).to_string().trim_start_matches("sha256:").to_string()
}

/// Moves it into its place; `false` where an equal release is there already.
fn publish(staging: tempfile::TempDir, place: &Path, id: &ReleaseId) -> Result<bool, ReleaseError> {
    // tempfile makes folders for their owner only; a release is read by the server's user.
    let public = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(staging.path(), public).map_err(ReleaseError::io(staging.path()))?;
    match fs::rename(staging.path(), place) {
        Ok(()) => {
            // Moved: there is nothing left to remove.
            let _ = staging.keep();
            let parent = place.parent().unwrap_or(place);
            File::open(parent).and_then(|folder| folder.sync_all()).map_err(ReleaseError::io(parent))?;
            Ok(true)
        }
        Err(error) if place.exists() => match inspect(place, &id.model, id.version) {
            FolderState::Complete(existing) if existing.id == *id => Ok(false),
            other => {
                let existing = match other {
                    FolderState::Complete(existing) => existing.id.digest.to_string(),
                    FolderState::Incomplete(reason) => format!("incomplete: {reason}"),
                    FolderState::Invalid(reason) => format!("invalid: {reason}"),
                };
                tracing::debug!(%error, "the place is taken");
                Err(ReleaseError::Exists { folder: place.into(), existing, packed: id.digest })
            }
        },
        Err(error) => Err(ReleaseError::Io { path: place.into(), source: error }),
    }
}

fn checked(folder: &Path, model: &str, version: u64) -> Result<ReleaseFolder, ReleaseError> {
    let reason = match inspect(folder, model, version) {
        FolderState::Complete(release) => return Ok(release),
        FolderState::Incomplete(reason) => reason.to_string(),
        FolderState::Invalid(reason) => reason,
    };
    Err(ReleaseError::NotComplete { folder: folder.into(), reason })
}

/// What [`check`] found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The release's identity.
    pub id: ReleaseId,
    /// What is allowed and may not be meant.
    pub notes: Vec<String>,
}

/// Checks the release in `folder`, whose last two components are `<model>/<version>`: manifest, every digest, spec, golden
/// examples. Whether graph, weights and plugins fit shows only when it is loaded.
///
/// # Errors
/// The first file that is wrong, with all of its problems.
pub fn check(folder: &Path) -> Result<Checked, ReleaseError> {
    let folder = std::path::absolute(folder).map_err(ReleaseError::io(folder))?;
    let (model, version) = place_of(&folder)?;
    let release = checked(&folder, &model, version)?;
    let loaded = release.load()?;
    let mut notes = Vec::new();
    if loaded.golden.examples.is_empty() {
        notes.push(format!("{GOLDEN_FILE} has no examples: nothing checks this release's numbers before it goes live"));
    }
    let used = |path: &str| {
        [SPEC_FILE, WEIGHTS_FILE, GOLDEN_FILE].contains(&path) || loaded.spec.plugins.values().any(|p| p.file == path)
    };
    notes.extend(
        release.manifest.files.keys().filter(|path| !used(path)).map(|path| format!("{path} is used by nothing")),
    );
    Ok(Checked { id: release.id, notes })
}
