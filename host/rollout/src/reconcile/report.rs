//! The actor's status.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::documents::ReleaseKey;
use crate::plan::next;
use crate::resolve::Candidate;
use crate::status::{ReleaseState, ReleaseStatus, SourceStatus, Status, now_ms};
use crate::target::Target;

use super::Actor;

impl<T: Target> Actor<T> {
    /// Tells whoever watches the status, if it changed.
    pub(super) fn report(&self) {
        self.status.send_if_modified(|status| {
            let new = self.compose(status);
            let changed = **status != new;
            if changed {
                *status = Arc::new(new);
            }
            changed
        });
    }

    fn compose(&self, before: &Status) -> Status {
        let feed = self.feed.borrow();
        let newest = feed.documents.as_ref();
        let taken = self.documents.as_ref();
        let is_newest = taken.is_some() && newest.map(Arc::as_ptr) == taken.map(Arc::as_ptr);
        let settled = is_newest && self.loading.is_none() && next(&self.desired, &self.actual).is_none();
        let published = &self.actual.published;
        let keys: BTreeSet<&ReleaseKey> = self.resolved.releases.keys().chain(published.releases.keys()).collect();
        Status {
            source: SourceStatus { kind: self.kind, ..feed.status.clone() },
            applied_revision: if settled { taken.map(|d| d.revision) } else { before.applied_revision },
            settled,
            generation: self.generation,
            releases: keys.into_iter().map(|key| self.release(key, before)).collect(),
            routes: published.routes.clone(),
            pending_routes: self.route_waits.iter().map(|(e, wait)| (e.clone(), wait.to_string())).collect(),
            policies: published.policies.iter().map(|(name, policy)| (name.clone(), policy.version)).collect(),
            refused_documents: taken.map(|documents| documents.refused.clone()).unwrap_or_default(),
        }
    }

    fn release(&self, key: &ReleaseKey, before: &Status) -> ReleaseStatus {
        let live = self.actual.published.releases.get(key).copied();
        let candidate = self.resolved.releases.get(key);
        let loading = self.loading.as_ref().is_some_and(|(loading, _)| loading == key);
        let (state, digest, reason) = match candidate {
            None => {
                (ReleaseState::Live, live, Some("its document is gone; it serves until its replacement does".into()))
            }
            Some(Candidate::Waiting(reason)) => (ReleaseState::Waiting, None, Some(reason.clone())),
            Some(Candidate::Broken(reason)) => (ReleaseState::Rejected, None, Some(reason.clone())),
            Some(Candidate::Ready(_, attempt)) => {
                let digest = Some(attempt.digest);
                if self.actual.rejected.get(key) == Some(attempt) {
                    (ReleaseState::Rejected, digest, self.reasons.get(key).cloned())
                } else if loading {
                    (ReleaseState::Loading, digest, None)
                } else {
                    (ReleaseState::Standby, digest, None)
                }
            }
        };
        // What is live is live, whatever its folder holds now; the reason then says what that is.
        let state = if live.is_some() { ReleaseState::Live } else { state };
        let digest = live.or(digest);
        let documented = self.documents.as_ref().and_then(|documents| documents.releases.get(key));
        let mut status = ReleaseStatus {
            model: key.model.clone(),
            version: key.version,
            state,
            digest,
            reason,
            since_ms: 0,
            author: documented.and_then(|d| d.doc.author.clone()),
            note: documented.and_then(|d| d.doc.reason.clone()),
        };
        let known = before.releases.iter().find(|r| {
            (r.state, r.digest) == (status.state, status.digest) && r.version == key.version && r.model == key.model
        });
        status.since_ms = known.map_or_else(now_ms, |known| known.since_ms);
        status
    }
}
