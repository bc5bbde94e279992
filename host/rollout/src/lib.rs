//! From documents to live releases: a source (folder or etcd) says what is desired, a pure function plans the steps, an
//! actor carries them out one by one and publishes the result with one atomic store.
//!
//! This crate knows neither what loading a release means nor how requests arrive: both are behind [`Target`].

pub mod counters;
pub mod documents;
mod last_good;
pub mod plan;
mod reconcile;
mod resolve;
mod source;
pub mod status;
pub mod target;

pub use counters::Counters;
pub use documents::{Documents, PolicyDoc, ReleaseDoc, ReleaseKey, RouteDoc, VersionChoice};
pub use reconcile::{Options, Rollout, RolloutError, SourceOptions, start};
pub use source::etcd::{EtcdOptions, EtcdUser};
pub use status::{ReleaseState, ReleaseStatus, SourceStatus, Status};
pub use target::{Table, Target};
