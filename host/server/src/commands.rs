//! The commands, one file each.

pub mod graph;
pub mod plugin;
pub mod predict;
pub mod release;
pub mod serve;
