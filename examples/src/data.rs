//! Finding other people's data: in `$SAGEHOST_DATA`, in `../shared/data` beside the repository, in what was downloaded before,
//! and last at the public address. The data are not committed; what is found must have the published digest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sagehost_types::Digest;

use crate::error::ExampleError;

/// Where to look.
#[derive(Clone, Debug)]
pub struct Finder {
    /// Folders, in this order.
    pub folders: Vec<PathBuf>,
    /// Where downloads go (and are found again); `None`: nothing is downloaded.
    pub downloads: Option<PathBuf>,
}

impl Finder {
    /// The usual places, seen from the repository's root: `$SAGEHOST_DATA`, `../shared/data`, and downloads into
    /// `target/examples/downloads`.
    #[must_use]
    pub fn usual(root: &Path) -> Self {
        let mut finder = Self::offline(root);
        finder.downloads = Some(root.join("target/examples/downloads"));
        finder
    }

    /// As [`Finder::usual`], without downloads: for tests.
    #[must_use]
    pub fn offline(root: &Path) -> Self {
        let named = std::env::var_os("SAGEHOST_DATA").filter(|v| !v.is_empty()).map(PathBuf::from);
        // Joined to the real path: `..` of a linked checkout would be another folder.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let beside = root.parent().map(|parent| parent.join("shared/data"));
        Self { folders: named.into_iter().chain(beside).collect(), downloads: None }
    }

    /// The first of `names` that is a file, folder by folder; else what `download` puts into the downloads folder.
    pub(crate) fn find(
        &self,
        what: &'static str,
        names: &[&str],
        url: &str,
        download: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, ExampleError> {
        let mut looked = Vec::new();
        for folder in self.folders.iter().chain(&self.downloads) {
            for name in names {
                let path = folder.join(name);
                if path.is_file() {
                    return Ok(path);
                }
                looked.push(path);
            }
        }
        let download = match &self.downloads {
            None => "not tried".to_owned(),
            Some(folder) => match fs::create_dir_all(folder).map_err(|e| e.to_string()).and_then(|()| download(folder))
            {
                Ok(()) => match names.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
                    Some(path) => return Ok(path),
                    None => "it held no such file".to_owned(),
                },
                Err(why) => why,
            },
        };
        Err(ExampleError::Missing { what, looked, url: url.to_owned(), download })
    }
}

/// Downloads a file with the system's `curl`: it has what TLS needs, and this crate need not.
pub(crate) fn curl(url: &str, to: &Path) -> Result<(), String> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--show-error", "--location", "--max-time", "120", "--output"]).arg(to).arg(url);
    run(&mut curl, "curl").map(drop)
}

/// Runs a tool that must be installed, and returns its output.
pub(crate) fn run(command: &mut Command, tool: &str) -> Result<Vec<u8>, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("`{tool}` could not be run: {e}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{tool}` failed ({}): {}", output.status, told.trim().lines().last().unwrap_or("it said nothing")))
}

/// Refuses a text that is not the published one.
pub(crate) fn verify(what: &'static str, path: &Path, text: &[u8], expected: &'static str) -> Result<(), ExampleError> {
    let found = Digest::of(text).to_string();
    if found == expected {
        return Ok(());
    }
    Err(ExampleError::Digest { what, path: path.to_owned(), found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_that_has_a_file_wins_and_a_missing_one_is_told() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let finder = Finder { folders: vec![a.path().into(), b.path().into()], downloads: None };
        let find = || finder.find("the data", &["x.csv", "y.csv"], "http://example.org/x", |_| Ok(()));
        let text = find().unwrap_err().to_string();
        for part in ["the data was not found", "x.csv", "y.csv", "http://example.org/x: not tried", "SAGEHOST_DATA"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        fs::write(b.path().join("y.csv"), "").unwrap();
        assert_eq!(find().unwrap(), b.path().join("y.csv"));
        fs::write(a.path().join("y.csv"), "").unwrap();
        assert_eq!(find().unwrap(), a.path().join("y.csv"));
    }

    #[test]
    fn a_download_is_kept_and_one_that_fails_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let downloads = folder.path().join("downloads");
        let finder = Finder { folders: vec![], downloads: Some(downloads.clone()) };
        let failed = finder.find("it", &["x"], "u", |_| Err("`curl` failed".into())).unwrap_err().to_string();
        assert!(failed.contains("u: `curl` failed"), "{failed}");
        let put = |to: &Path| fs::write(to.join("x"), "x").map_err(|e| e.to_string());
        assert_eq!(finder.find("it", &["x"], "u", put).unwrap(), downloads.join("x"));
        assert_eq!(finder.find("it", &["x"], "u", |_| Err("not again".into())).unwrap(), downloads.join("x"));
    }

    #[test]
    fn another_text_is_refused_by_its_digest() {
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(verify("it", Path::new("f"), b"abc", abc).is_ok());
        assert!(verify("it", Path::new("f"), b"abd", abc).unwrap_err().to_string().contains("not the published it"));
    }
}
