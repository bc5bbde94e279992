//! The commands, one file each.

pub(crate) mod graph;
pub(crate) mod plugin;
pub(crate) mod predict;
pub(crate) mod release;
pub(crate) mod serve;

/// A command line that the parser takes and that still makes no sense: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
