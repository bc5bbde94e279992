//! From what is desired and what is to the steps between them: a pure function.
//!
//! - Of each model the highest usable version serves, and the versions that routes name. Others are unloaded.
//! - A release is usable if its folder is complete and the target did not reject it; one that is live stays usable while its
//!   document stays, whatever becomes of its folder.
//! - Nothing that serves is dropped before what replaces it is loaded: while a model has something to load, all that serves
//!   of it stays. What has no document any more stays while anything is to be loaded, and while its model has documents but
//!   none of them usable; it goes at once with the last document of its model.
//! - A route takes effect once its release is live, and is in force only while it is: every published route answers. Until
//!   then the endpoint's earlier route stays, as long as it can; else what the endpoint has without a route, the latest
//!   version of the only model. `View::fallback` says what where that would be no answer.

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
    /// The only model when nothing was left to do the last time: endpoints without a route take it.
    pub(crate) only_model: Option<String>,
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

    /// Notes that nothing is left to do. Only then is a model that is alone the one that is meant: while a server starts, its
    /// models come one by one.
    pub(crate) fn settle(&mut self) {
        let mut models = self.published.releases.keys().map(|key| &key.model);
        let first = models.next();
        self.only_model = first.filter(|first| models.all(|model| model == *first)).cloned();
    }
}

impl Publication {
    /// Whether requests that follow a route find a release.
    pub(crate) fn answers(&self, route: &RouteDoc) -> bool {
        match route.version {
            VersionChoice::Number(version) => {
                self.releases.contains_key(&ReleaseKey { model: route.model.clone(), version })
            }
            VersionChoice::Latest => self.has_model(&route.model),
        }
    }

    fn has_model(&self, model: &str) -> bool {
        self.releases.keys().any(|key| key.model == model)
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

    fn publication(&self) -> Publication {
        let pending_models: BTreeSet<&str> = self.pending.iter().map(|(key, _)| key.model.as_str()).collect();
        let mut new = Publication { policies: self.desired.policies.clone(), ..Publication::default() };
        let mut serve = |key: &ReleaseKey| {
            if let Some(digest) = self.held(key) {
                new.releases.insert(key.clone(), digest);
            }
        };
        self.wanted.iter().for_each(|key| serve(key));
        for key in self.actual.published.releases.keys() {
            let documented = self.desired.releases.contains_key(key);
            if self.may_serve(key) && (!documented || pending_models.contains(key.model.as_str())) {
                serve(key);
            }
        }
        for (endpoint, route) in &self.desired.routes {
            // What the route names is wanted, and so is in `new` if it can be.
            if new.answers(route) {
                new.routes.insert(endpoint.clone(), route.clone());
                continue;
            }
            let earlier = self.actual.published.routes.get(endpoint);
            // What the earlier route names may be wanted by nothing else any more.
            if let Some(RouteDoc { model, version: VersionChoice::Number(version) }) = earlier {
                let named = ReleaseKey { model: model.clone(), version: *version };
                if let Some(digest) = self.held(&named).filter(|_| self.may_serve(&named)) {
                    new.releases.insert(named, digest);
                }
            }
            let stays = earlier.filter(|earlier| new.answers(earlier)).cloned();
            if let Some(in_force) = stays.or_else(|| self.fallback(route, earlier, &new)) {
                new.routes.insert(endpoint.clone(), in_force);
            }
        }
        new
    }

    /// What an endpoint gets that can follow neither its route nor the earlier one; `None` is no route.
    ///
    /// Without a route an endpoint has the only model, and no answer where there are several. There a document that cannot
    /// take effect must not cost the endpoint its answers: it keeps the model that it had, by the earlier route or as the only
    /// one; where it had none (at the start), it gets the model that the document names, in the version that there is.
    fn fallback(&self, route: &RouteDoc, earlier: Option<&RouteDoc>, new: &Publication) -> Option<RouteDoc> {
        let mut models = new.releases.keys().map(|key| &key.model);
        let first = models.next()?;
        if models.all(|model| model == first) {
            return None;
        }
        let candidates = [earlier.map(|earlier| &earlier.model), self.actual.only_model.as_ref(), Some(&route.model)];
        let model = candidates.into_iter().flatten().find(|model| new.has_model(model))?;
        Some(RouteDoc { model: model.clone(), version: VersionChoice::Latest })
    }
}

#[cfg(test)]
mod tests;
