//! The release format: `release.toml`, weights, plugins, golden examples, and the manifest that names every file's digest.
//!
//! A release is read in two steps. [`inspect`] says whether a folder holds a whole release (it may still be being copied
//! in); [`ReleaseFolder::load`] reads the files, digesting the very bytes that it hands out, so that what was verified is
//! what is used. [`pack`] makes such a folder.

pub mod error;
pub mod folder;
pub mod golden;
pub mod load;
pub mod manifest;
pub mod observe;
pub mod pack;
pub mod paths;
pub mod spec;
pub mod validate;

pub use error::{Problem, Problems, ReleaseError};
pub use folder::{FolderState, Incomplete, ReleaseFolder, inspect};
pub use golden::Golden;
pub use load::{LoadedFiles, LoadedPlugin};
pub use manifest::{FileEntry, Manifest};
pub use observe::{Fingerprint, Settling, Verdict, judge};
pub use pack::{Checked, Packed, check, pack};
pub use spec::{PluginRole, ReleaseSpec};
