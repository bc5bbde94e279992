//! The HTTP edge: two listeners, strict reading of requests, problem documents, counting. `docs/http.md` is its manual.
//!
//! It knows [`Inference`] and [`Admin`], not how requests are answered or where releases come from.

mod body;
mod decode;
#[cfg(test)]
mod docs;
mod edge;
mod ids;
mod inference;
mod json;
mod problem;
mod request;
mod response;
mod routes;
mod serve;
mod settings;
mod time;

#[cfg(test)]
#[path = "tests/common.rs"]
mod common;
#[cfg(test)]
#[path = "tests/http.rs"]
mod http_tests;
#[cfg(test)]
#[path = "tests/listen.rs"]
mod listen_tests;

pub use inference::{Admin, Health, Inference, ModelHealth};
pub use serve::{Drained, Gateway, GatewayError};
pub use settings::Settings;
