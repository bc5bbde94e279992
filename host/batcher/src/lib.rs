//! One queue per release and the threads that empty it.
//!
//! [`policy`] says when a batch is formed (pure), [`Batcher`] owns a queue and keeps to it, [`ComputePool`] is the set of
//! OS threads that run batches and guests, so that neither ever runs on an I/O thread.
//!
//! Nothing here knows what a job is: it is a type parameter.

pub mod batcher;
pub mod policy;
pub mod pool;
mod queue;

pub use batcher::{Batcher, Gauges, QueueTime};
pub use policy::Settings;
pub use pool::{ComputePool, PoolError};
