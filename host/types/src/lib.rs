//! The words that every part of sagehost shares: ids, digests, node sets, and the one table of faults. No I/O.

pub mod digest;
pub mod fault;
pub mod ids;
pub mod key;
pub mod limits;
pub mod nodes;

pub use digest::Digest;
pub use fault::{Code, Fault};
pub use ids::{GraphVersion, ReleaseId};
pub use key::Key;
pub use nodes::{Block, Frontier, Node, TimeMs};
