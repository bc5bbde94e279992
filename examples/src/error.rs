//! What can go wrong while an example graph is made.

use std::path::PathBuf;

/// A fault while finding, downloading, reading or writing an example's data.
#[derive(Debug, thiserror::Error)]
pub enum ExampleError {
    /// The data are nowhere and could not be downloaded.
    #[error(
        "{what} was not found. Looked for: {}. Download from {url}: {download}. Put the file there by hand, or set \
         SAGEHOST_DATA to the folder that holds it",
        list(.looked)
    )]
    Missing {
        /// The data set.
        what: &'static str,
        /// Every path that was tried.
        looked: Vec<PathBuf>,
        /// The public address.
        url: String,
        /// Why the download did not help, or that it was not tried.
        download: String,
    },

    /// A file is there but is not the published one.
    #[error("{}: this is not the published {what}: digest {found}, expected {expected}. Delete or replace the file", .path.display())]
    Digest {
        /// The data set.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The digest of what the file says, line ends and fractional seconds removed.
        found: String,
        /// The published data's.
        expected: &'static str,
    },

    /// A line does not read as it should.
    #[error("{}, line {line}: {what}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },

    /// Reading or writing failed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl ExampleError {
    /// For `map_err`: an I/O error at a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
}
