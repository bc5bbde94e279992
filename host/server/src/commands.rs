//! The commands, one file each.

pub(crate) mod graph;
pub(crate) mod plugin;
pub(crate) mod predict;
pub(crate) mod release;
pub(crate) mod serve;
