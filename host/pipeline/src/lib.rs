//! Stub.
pub mod api;
