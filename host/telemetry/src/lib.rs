//! What sagehost measures, and where its log goes.
//!
//! Every metric is one row of the table in [`metrics`]; `docs/metrics.md` is made from it. Nothing here knows what a request
//! is: labels are text.

#[cfg(test)]
mod docs;
mod families;
mod label;
pub mod logs;
pub mod metrics;
mod process;

pub use families::{Kind, Row, TABLE};
pub use label::Label;
pub use logs::{LogFormat, LogsError, init_logs};
pub use metrics::{CONTENT_TYPE, GaugeGuard, LiveRelease, Metrics, OK, Readings, Stage};
