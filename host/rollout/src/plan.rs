//! From what is desired and what is to the steps between them: a pure function.
//!
//! - Of each model the highest usable version serves, and the versions that routes name. Others are unloaded.
//! - A release is usable if its folder is complete and the target did not reject it; one that is live stays usable while its
//!   document stays, whatever becomes of its folder.
//! - Nothing that serves is dropped before what replaces it is loaded: while a model has something to load, all that serves
//!   of it stays. What has no document any more stays while anything is to be loaded, and while its model has documents but
//!   none of them usable; it goes at once with the last document of its model.
//! - A route takes effect once its release is live; until then the endpoint's earlier route stays, as long as it can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sagehost_types::Digest;

use crate::documents::{PolicyDoc, ReleaseKey, RouteDoc, VersionChoice};

/// What would be loaded: a release's content, and a stamp of everything else that was seen of it. A rejected attempt is not
/// made again; another stamp makes it another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The manifest's digest.
    pub digest: Digest,
    /// Changes when anything in the folder or the document was written.
    pub stamp: u64,
}

/// What is desired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Every documented release; `None` where its folder is not a whole release (now).
    pub releases: BTreeMap<ReleaseKey, Option<Attempt>>,
    /// Routes by endpoint.
    pub routes: BTreeMap<String, RouteDoc>,
    /// Policies by name.
    pub policies: BTreeMap<String, Arc<PolicyDoc>>,
}

/// What is live: the content of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Publication {
    /// Releases, and which content of them.
    pub releases: BTreeMap<ReleaseKey, Digest>,
    /// Routes by endpoint.
    pub routes: BTreeMap<String, RouteDoc>,
    /// Policies by name.
    pub policies: BTreeMap<String, Arc<PolicyDoc>>,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actual {
    /// What was published last.
    pub published: Publication,
    /// Loaded since then.
    pub staged: BTreeMap<ReleaseKey, Digest>,
    /// The last attempt at a release, where it failed.
    pub rejected: BTreeMap<ReleaseKey, Attempt>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Load a release; it is then staged, or the attempt rejected.
    Load(ReleaseKey, Attempt),
    /// Make this live. What is neither in it nor staged is let go.
    Publish(Publication),
}

/// The first step from `actual` towards `desired`; none if they agree as far as they can.
#[must_use]
pub fn next(desired: &Desired, actual: &Actual) -> Option<Step> {
    let view = View::new(desired, actual);
    let target = view.publication();
    if target != actual.published {
        return Some(Step::Publish(target));
    }
    let (key, attempt) = view.pending.into_iter().next()?;
    Some(Step::Load(key.clone(), attempt))
}

/// All steps, if every load succeeds.
#[must_use]
pub fn plan(desired: &Desired, actual: &Actual) -> Vec<Step> {
    let mut actual = actual.clone();
    let mut steps = Vec::new();
    while let Some(step) = next(desired, &actual) {
        actual.apply(&step);
        steps.push(step);
    }
    steps
}

impl Actual {
    /// Notes that a step was carried out.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Load(key, attempt) => {
                self.staged.insert(key.clone(), attempt.digest);
                self.rejected.remove(key);
            }
            Step::Publish(publication) => {
                self.published = publication.clone();
                self.staged.clear();
            }
        }
    }
}

struct View<'a> {
    desired: &'a Desired,
    actual: &'a Actual,
    /// What should serve once everything is loaded.
    wanted: BTreeSet<&'a ReleaseKey>,
    /// What of it must be loaded first.
    pending: Vec<(&'a ReleaseKey, Attempt)>,
}

impl<'a> View<'a> {
    fn new(desired: &'a Desired, actual: &'a Actual) -> Self {
        let mut view = Self { desired, actual, wanted: BTreeSet::new(), pending: Vec::new() };
        let mut highest = BTreeMap::new();
        for key in desired.releases.keys().filter(|key| view.usable(key)) {
            // Keys ascend, so that the last one of a model is its highest.
            highest.insert(&key.model, key);
        }
        view.wanted.extend(highest.into_values());
        for route in desired.routes.values() {
            if let VersionChoice::Number(version) = route.version {
                let named = ReleaseKey { model: route.model.clone(), version };
                view.wanted
                    .extend(desired.releases.get_key_value(&named).map(|(key, _)| key).filter(|key| view.usable(key)));
            }
        }
        for key in &view.wanted {
            if let Some(attempt) = view.attempt(key)
                && view.held(key) != Some(attempt.digest)
            {
                view.pending.push((key, attempt));
            }
        }
        view
    }

    /// What could be loaded of a release now.
    fn attempt(&self, key: &ReleaseKey) -> Option<Attempt> {
        let attempt = (*self.desired.releases.get(key)?)?;
        (self.actual.rejected.get(key) != Some(&attempt)).then_some(attempt)
    }

    /// What is in memory of a release and would serve if published now.
    fn held(&self, key: &ReleaseKey) -> Option<Digest> {
        let staged = self.actual.staged.get(key).copied();
        let current = self.attempt(key).map(|attempt| attempt.digest);
        staged.filter(|digest| Some(*digest) == current).or_else(|| self.actual.published.releases.get(key).copied())
    }

    fn usable(&self, key: &ReleaseKey) -> bool {
        self.attempt(key).is_some() || self.held(key).is_some()
    }

    /// Whether a release may go on serving, or begin to, as far as documents are concerned.
    fn may_serve(&self, key: &ReleaseKey) -> bool {
        let removal_waits = || !self.pending.is_empty() || self.is_starved(&key.model);
        self.held(key).is_some() && (self.desired.releases.contains_key(key) || removal_waits())
    }

    /// Whether a model has documents, and none of them can serve.
    fn is_starved(&self, model: &str) -> bool {
        let mut documented = self.desired.releases.keys().filter(|key| key.model == model).peekable();
        documented.peek().is_some() && !documented.any(|key| self.usable(key))
    }

    fn can_follow(&self, route: &RouteDoc) -> bool {
        match route.version {
            VersionChoice::Number(version) => self.may_serve(&ReleaseKey { model: route.model.clone(), version }),
            VersionChoice::Latest => {
                let known = self.actual.published.releases.keys().chain(self.actual.staged.keys());
                known.filter(|key| key.model == route.model).any(|key| self.may_serve(key))
            }
        }
    }

    fn publication(&self) -> Publication {
        let pending_models: BTreeSet<&str> = self.pending.iter().map(|(key, _)| key.model.as_str()).collect();
        let mut releases = BTreeMap::new();
        let mut serve = |key: &ReleaseKey| {
            if let Some(digest) = self.held(key) {
                releases.insert(key.clone(), digest);
            }
        };
        self.wanted.iter().for_each(|key| serve(key));
        for key in self.actual.published.releases.keys() {
            let documented = self.desired.releases.contains_key(key);
            if self.may_serve(key) && (!documented || pending_models.contains(key.model.as_str())) {
                serve(key);
            }
        }
        let mut routes = BTreeMap::new();
        for (endpoint, route) in &self.desired.routes {
            let earlier = self.actual.published.routes.get(endpoint);
            let effective = match earlier {
                Some(earlier) if !self.can_follow(route) && self.can_follow(earlier) => earlier,
                _ => route,
            };
            if let VersionChoice::Number(version) = effective.version {
                let named = ReleaseKey { model: effective.model.clone(), version };
                if self.may_serve(&named) {
                    serve(&named);
                }
            }
            routes.insert(endpoint.clone(), effective.clone());
        }
        Publication { releases, routes, policies: self.desired.policies.clone() }
    }
}

#[cfg(test)]
mod tests;
