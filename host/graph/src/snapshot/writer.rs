//! Writes a snapshot: into a temporary folder beside its place, synced, then renamed. An interrupted write leaves a hidden
//! `.NAME.building-…` folder to delete, never half a snapshot under its name.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use bytemuck::NoUninit;
use sagehost_types::{Digest, Key};

use super::manifest::{FORMAT, FileEntry, MANIFEST, Manifest, RelationCounts};
use super::section::{Header, Kind, Place};
use crate::error::GraphError;
use crate::memory::MemoryGraph;
use crate::view::GraphView as _;

/// Writes `graph` as a new lineage's first snapshot to `dir`, which must not exist (its parents are made).
///
/// # Errors
/// [`GraphError::BadArgument`] where `dir` exists, [`GraphError::Io`].
pub fn write(graph: &MemoryGraph, dir: &Path) -> Result<Manifest, GraphError> {
    let (parent, name) = target(dir)?;
    fs::create_dir_all(parent).map_err(GraphError::io(parent))?;
    let prefix = format!(".{name}.building-");
    let mut folder = tempfile::Builder::new();
    folder.prefix(&prefix);
    // Others may read a snapshot, as any folder that the user makes; tempfile's own default is private.
    #[cfg(unix)]
    folder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755));
    let temporary = folder.tempdir_in(parent).map_err(GraphError::io(parent))?;

    let wide = graph.num_nodes() > 1 << 32;
    let counts = graph.relations().iter().map(|table| RelationCounts {
        num_edges: table.num_edges(),
        source_bytes: if wide { 8 } else { 4 },
        weighted: table.weights.is_some(),
    });
    let mut manifest = Manifest {
        format: FORMAT,
        lineage: String::new(),
        sequence: 0,
        num_nodes: graph.num_nodes(),
        latest_ms: graph.latest_ms(),
        schema: graph.schema().clone(),
        relations: counts.collect(),
        files: Vec::new(),
    };
    for place in manifest.places() {
        let entry = write_section(graph, place, temporary.path())?;
        manifest.files.push(entry);
    }
    manifest.lineage = manifest.content_lineage();
    let path = temporary.path().join(MANIFEST);
    let mut json = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| GraphError::Io { path: path.clone(), source: error.into() })?;
    json.push(b'\n');
    let mut file = File::create(&path).map_err(GraphError::io(&path))?;
    file.write_all(&json).and_then(|()| file.sync_all()).map_err(GraphError::io(&path))?;

    sync_folder(temporary.path())?;
    target(dir)?;
    fs::rename(temporary.path(), dir).map_err(GraphError::io(dir))?;
    // It has another name now: nothing is left to delete.
    let _ = temporary.keep();
    sync_folder(parent)?;
    Ok(manifest)
}

/// The parent and name of a folder to write, which must not exist yet.
pub(crate) fn target(dir: &Path) -> Result<(&Path, String), GraphError> {
    let Some(name) = dir.file_name() else {
        return Err(GraphError::BadArgument(format!("{}: not the name of a folder", dir.display())));
    };
    if fs::symlink_metadata(dir).is_ok() {
        let detail = "exists already: snapshots are never overwritten; name another folder or remove it first";
        return Err(GraphError::BadArgument(format!("{}: {detail}", dir.display())));
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((parent, name.to_string_lossy().into_owned()))
}

fn sync_folder(dir: &Path) -> Result<(), GraphError> {
    // Other systems cannot open a folder as a file.
    if cfg!(unix) {
        File::open(dir).and_then(|folder| folder.sync_all()).map_err(GraphError::io(dir))?;
    }
    Ok(())
}

fn write_section(graph: &MemoryGraph, place: Place, dir: &Path) -> Result<FileEntry, GraphError> {
    let table = place.relation.and_then(|relation| graph.relations().get(relation as usize));
    let file = |elements: &[u8]| write_file(dir, place, elements);
    match (place.kind, table) {
        (Kind::Keys, _) => file(bytes(&int_keys(graph.keys()))),
        (Kind::KeyOffsets, _) => {
            let lengths = graph.keys().iter().map(|key| text(key).len() as u64);
            let ends = lengths.scan(0, |end, length| {
                *end += length;
                Some(*end)
            });
            file(bytes(&std::iter::once(0).chain(ends).collect::<Vec<u64>>()))
        }
        (Kind::KeyBytes, _) => file(&graph.keys().iter().flat_map(|key| text(key).bytes()).collect::<Vec<u8>>()),
        (Kind::KeyHashes, _) => file(bytes(graph.key_hashes())),
        (Kind::KeyIndex, _) => {
            let mut pairs: Vec<[u64; 2]> = graph.key_hashes().iter().zip(0..).map(|(&hash, id)| [hash, id]).collect();
            pairs.sort_unstable();
            file(bytes(&pairs))
        }
        (Kind::Features, _) => file(bytes(graph.features())),
        (Kind::Offsets, Some(table)) => file(bytes(&table.offsets)),
        (Kind::Sources, Some(table)) if place.width == 8 => file(bytes(&table.sources)),
        // With 4 bytes all ids fit: see `write`.
        (Kind::Sources, Some(table)) => file(bytes(&table.sources.iter().map(|&id| id as u32).collect::<Vec<_>>())),
        (Kind::Times, Some(table)) => file(bytes(table.times.as_deref().unwrap_or_default())),
        (Kind::Columns, Some(table)) => file(bytes(&table.columns)),
        (Kind::Weights, Some(table)) => file(bytes(table.weights.as_deref().unwrap_or_default())),
        (Kind::Offsets | Kind::Sources | Kind::Times | Kind::Columns | Kind::Weights, None) => {
            Err(GraphError::NoSuchRelation(place.relation.unwrap_or(u32::MAX)))
        }
    }
}

fn int_keys(keys: &[Key]) -> Vec<u64> {
    // The builder lets no key of another kind in.
    keys.iter().filter_map(|key| if let Key::Int(value) = key { Some(*value) } else { None }).collect()
}

fn text(key: &Key) -> &str {
    if let Key::Text(text) = key { text } else { "" }
}

fn bytes<T: NoUninit>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

fn write_file(dir: &Path, place: Place, elements: &[u8]) -> Result<FileEntry, GraphError> {
    let name = place.name();
    let path = dir.join(&name);
    let header = Header::new(place, elements.len() as u64 / u64::from(place.width));
    let written = || {
        let mut writer = BufWriter::new(File::create(&path)?);
        writer.write_all(bytemuck::bytes_of(&header))?;
        writer.write_all(elements)?;
        writer.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        let digest = Digest::of_reader(&mut File::open(&path)?)?;
        Ok(FileEntry { name, bytes: (size_of::<Header>() + elements.len()) as u64, digest })
    };
    written().map_err(GraphError::io(&path))
}
