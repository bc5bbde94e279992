//! What an operator sees: `GET /admin/releases` serialises it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use sagehost_types::Digest;
use serde::Serialize;

use crate::documents::RouteDoc;

/// Everything about the rollout at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// Where documents come from, and how that is.
    pub source: SourceStatus,
    /// The source's revision that is fully carried out, as far as it can be; none before the first.
    pub applied_revision: Option<i64>,
    /// Whether there is nothing left to load or publish: the documents are carried out as far as they can be now. What could
    /// not be is in `pending_routes`, `refused_documents` and the releases' states, and waits for a document or a folder to
    /// change.
    pub settled: bool,
    /// Tables published since the start.
    pub generation: u64,
    /// Every documented or live release, by model and version.
    pub releases: Vec<ReleaseStatus>,
    /// Routes that are in force, by endpoint: each has a live release. An endpoint without one takes the latest version of the
    /// only model.
    pub routes: BTreeMap<String, RouteDoc>,
    /// Route documents that are not in force, by endpoint, and what they wait for. Until then `routes` holds for the endpoint.
    pub pending_routes: BTreeMap<String, String>,
    /// Versions of the policies that are in force, by name.
    pub policies: BTreeMap<String, u64>,
    /// Documents that were refused, by name, and why. Where an earlier one was accepted it stays in force.
    pub refused_documents: BTreeMap<String, String>,
}

/// Where documents come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceStatus {
    /// `folder` or `etcd`.
    pub kind: &'static str,
    /// Whether it can be read now. What serves does not depend on it.
    pub healthy: bool,
    /// What was wrong the last time, or what is worth knowing.
    pub detail: Option<String>,
    /// Since when it is healthy or not, in milliseconds since 1970.
    pub since_ms: u64,
}

/// One release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReleaseStatus {
    /// The model.
    pub model: String,
    /// The version.
    pub version: u64,
    /// How it stands.
    pub state: ReleaseState,
    /// The digest of what is live, else of what is in the folder, if that is a whole release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Why it is rejected or waiting; or what is wrong with the folder of a release that goes on serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when it stands so, in milliseconds since 1970.
    pub since_ms: u64,
    /// Who rolled it out, as the document says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Why it was rolled out, as the document says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// See [`ReleaseStatus::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseState {
    /// It serves.
    Live,
    /// It is being verified, compiled, warmed up and checked.
    Loading,
    /// Its folder is not complete.
    Waiting,
    /// It cannot serve; it is tried again when something about it changes.
    Rejected,
    /// It is complete, and not needed or not yet loaded.
    Standby,
}

impl SourceStatus {
    /// Notes what the source is like; returns whether that is a change of health.
    pub(crate) fn note(&mut self, healthy: bool, detail: Option<String>) -> bool {
        let changed = self.healthy != healthy || self.since_ms == 0;
        if changed {
            self.since_ms = now_ms();
        }
        self.healthy = healthy;
        self.detail = detail;
        changed
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
