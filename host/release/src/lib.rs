//! The release format: `release.toml`, weights, plugins, golden examples, and the manifest that names every file's digest.

pub mod golden;
pub mod spec;

pub use golden::Golden;
pub use spec::ReleaseSpec;
