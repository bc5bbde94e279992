//! A repository as a source: release folders are documents by being there, routes and policies are TOML files in `_routes`
//! and `_policies`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sagehost_release::paths::parse_version;
use sagehost_types::ids::valid_name;
use tokio::sync::watch;

use crate::counters::Counters;
use crate::documents::{Body, Documents, MAX_DOCUMENT, MAX_DOCUMENTS};
use crate::source::Feed;

/// Reads all documents of a repository. Blocking.
fn scan(repository: &Path, previous: &Documents) -> io::Result<Documents> {
    let mut texts = Vec::new();
    let mut refused = Vec::new();
    let found = entries(repository)?;
    if found.is_empty() && !previous.releases.is_empty() {
        // A volume that is not mounted any more looks like this; nobody rolls out nothing at all on purpose.
        return Err(io::Error::other("is empty, and held releases before"));
    }
    for (name, path) in found {
        if name.starts_with(['.', '_']) || !is_folder(&path) {
            continue;
        }
        if !valid_name(&name) {
            refused.push((name, "this folder's name cannot name a model".to_string()));
            continue;
        }
        let versions = match present(entries(&path)) {
            Ok(versions) => versions,
            Err(error) => {
                // That a folder cannot be read now does not say that its releases are gone: they stay.
                let known = previous.releases.keys().filter(|key| key.model == name);
                texts.extend(known.map(|key| (format!("releases/{name}/{}", key.version), Ok(String::new()))));
                refused.push((name, format!("cannot be read: {error}")));
                continue;
            }
        };
        for (version, path) in versions {
            if version.starts_with(['.', '_']) || !is_folder(&path) {
                continue;
            }
            let document = format!("releases/{name}/{version}");
            match parse_version(&version) {
                Some(_) => texts.push((document, Ok(String::new()))),
                None => refused.push((document, "this folder's name is not a version: a positive number".into())),
            }
        }
    }
    for (kind, folder) in [("routes", "_routes"), ("policies", "_policies")] {
        for (name, path) in present(entries(&repository.join(folder)))? {
            if let Some(stem) = name.strip_suffix(".toml").filter(|stem| !stem.starts_with('.')) {
                texts.push((format!("{kind}/{stem}"), read(&path)));
            }
        }
    }
    if texts.len() > MAX_DOCUMENTS {
        return Err(io::Error::other(format!("{} documents; the limit is {MAX_DOCUMENTS}", texts.len())));
    }
    // A file that cannot be read is refused like one that cannot be parsed: what it said before stays.
    let readable = texts.iter().map(|(name, text)| (name.as_str(), Body::Toml(text.as_deref().unwrap_or("")), 0));
    let mut documents = previous.replaced_by(readable, previous.revision);
    refused.extend(texts.iter().filter_map(|(name, text)| Some((name.clone(), text.as_ref().err()?.clone()))));
    refused.into_iter().for_each(|(name, reason)| documents.refuse(&name, reason));
    Ok(documents)
}

fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)?.take(MAX_DOCUMENTS) {
        let path = entry?.path();
        found.push((path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned(), path));
    }
    found.sort();
    Ok(found)
}

/// No entries where there is no such folder, or no longer.
fn present(found: io::Result<Vec<(String, PathBuf)>>) -> io::Result<Vec<(String, PathBuf)>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// Whether there is a folder, or something that cannot be looked at: reading it will say why.
fn is_folder(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    // One byte more than allowed: what is too large is then refused as such.
    let limit = MAX_DOCUMENT as u64 + 1;
    // Opening a pipe would wait for a writer, and the rollout with it.
    if !fs::metadata(path).map_err(|e| e.to_string())?.is_file() {
        return Err("is not a regular file".into());
    }
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(limit).read_to_string(&mut text).map_err(|e| e.to_string())?;
    Ok(text)
}

/// Scans after each change and feeds what it finds, until nobody listens.
pub(crate) async fn run(
    repository: PathBuf,
    mut changes: watch::Receiver<u64>,
    feed: watch::Sender<Feed>,
    counters: Arc<Counters>,
) {
    let mut documents = Arc::new(Documents::default());
    let mut first = true;
    loop {
        let (place, previous) = (repository.clone(), Arc::clone(&documents));
        let scanned = tokio::task::spawn_blocking(move || scan(&place, &previous)).await;
        match scanned.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(mut new) => {
                let changed = first || new != *documents;
                if changed {
                    new.revision += 1;
                    documents = Arc::new(new);
                }
                first = false;
                feed.send_if_modified(|feed| {
                    let health = feed.status.note(true, None);
                    if changed {
                        feed.documents = Some(Arc::clone(&documents));
                    }
                    changed || health
                });
            }
            Err(error) => {
                counters.count_source_error();
                tracing::warn!(repository = %repository.display(), %error, "cannot read the repository; what serves stays");
                let detail = format!("{}: {error}", repository.display());
                feed.send_modify(|feed| {
                    feed.status.note(false, Some(detail));
                });
            }
        }
        tokio::select! {
            () = feed.closed() => return,
            change = changes.changed() => if change.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("_policies")).unwrap();
        let pipe = folder.path().join("_policies/p.toml");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let documents = scan(folder.path(), &Documents::default()).unwrap();
        assert!(documents.refused["policies/p"].contains("not a regular file"), "{:?}", documents.refused);
    }

    #[test]
    fn a_repository_that_is_empty_all_at_once_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("m/1")).unwrap();
        let before = scan(folder.path(), &Documents::default()).unwrap();
        fs::remove_dir(folder.path().join("m/1")).unwrap();
        assert!(scan(folder.path(), &before).unwrap().releases.is_empty(), "a version may go");
        fs::remove_dir(folder.path().join("m")).unwrap();
        assert!(scan(folder.path(), &before).unwrap_err().to_string().contains("is empty"));
    }

    #[test]
    fn folders_and_files_are_documents() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["m/1", "m/2", "m/.3.packing-x", "m/v4", "n/1", "_routes", "_policies", ".git/1", "bad name/1"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("m/5"), "a file, not a folder").unwrap();
        fs::write(root.join("_routes/predict.toml"), "model = \"m\"\nversion = 1\n").unwrap();
        fs::write(root.join("_routes/.predict.toml.swp"), "junk").unwrap();
        fs::write(root.join("_policies/risk.toml"), "version = 1\n[values]\nreview = 0.5\n").unwrap();
        let first = scan(root, &Documents::default()).unwrap();
        let names: Vec<_> = first.releases.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["m@1", "m@2", "n@1"]);
        assert_eq!(first.refused.keys().collect::<Vec<_>>(), ["bad name", "releases/m/v4"]);
        assert_eq!((first.routes.len(), first.policies.len()), (1, 1));

        // Half written, then unreadable (not UTF-8): the old one stays. Removed: it goes.
        for rubbish in [&b"version = "[..], &[0xff, 0xfe]] {
            fs::write(root.join("_policies/risk.toml"), rubbish).unwrap();
            let second = scan(root, &first).unwrap();
            assert_eq!(second.policies, first.policies);
            assert!(second.refused.contains_key("policies/risk"));
        }
        fs::remove_file(root.join("_policies/risk.toml")).unwrap();
        fs::remove_dir(root.join("m/2")).unwrap();
        let third = scan(root, &first).unwrap();
        assert!(third.policies.is_empty() && third.releases.len() == 2);
        assert!(scan(&root.join("absent"), &third).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["m/1", "m/2", "n/1", "_routes"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let first = scan(root, &Documents::default()).unwrap();
        // A link to itself cannot be followed, whoever tries.
        fs::remove_dir_all(root.join("m")).unwrap();
        std::os::unix::fs::symlink("m", root.join("m")).unwrap();
        let second = scan(root, &first).unwrap();
        assert_eq!(second.releases, first.releases);
        assert!(second.refused["m"].starts_with("cannot be read"), "{:?}", second.refused);
        fs::remove_file(root.join("m")).unwrap();
        let third = scan(root, &second).unwrap();
        assert_eq!(third.releases.keys().map(ToString::to_string).collect::<Vec<_>>(), ["n@1"]);
        assert!(third.refused.is_empty());
        // Routes and policies have no such rule of their own: the whole scan says that it failed.
        fs::remove_dir(root.join("_routes")).unwrap();
        std::os::unix::fs::symlink("_routes", root.join("_routes")).unwrap();
        assert!(scan(root, &third).is_err());
    }
}
