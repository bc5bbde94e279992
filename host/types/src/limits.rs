//! Limits that hold whatever the configuration says: one place, so that the documentation can be checked against it.

/// Longest model, graph, route or policy name, in bytes.
pub const MAX_NAME: usize = 128;
/// Longest string key of a node, in bytes.
pub const MAX_KEY: usize = 1024;
/// Most seeds in one request.
pub const MAX_SEEDS: usize = 4096;
/// Most nodes and edges that one request may bring along.
pub const MAX_REQUEST_NODES: usize = 4096;
/// See [`MAX_REQUEST_NODES`].
pub const MAX_REQUEST_EDGES: usize = 65_536;
/// Most hops of a release's sampling.
pub const MAX_HOPS: usize = 8;
/// Most edges that one batch may sample: bounds memory when a release asks for full neighbourhoods.
pub const MAX_BATCH_EDGES: usize = 1 << 24;
/// Seeds of requests with decisions that a release has in hand at one time: at or over it, further ones are refused. A
/// request is taken whole, so one may go over it by its own size. It bounds the work in front of the guest threads, where
/// each seed costs two plugin calls.
pub const MAX_DECIDING_SEEDS: usize = 8192;
/// Most neighbours handed to a post-processor as evidence for one seed.
pub const MAX_EVIDENCE: usize = 256;
/// Largest file of a release other than its weights, in bytes.
pub const MAX_RELEASE_FILE: u64 = 64 << 20;
