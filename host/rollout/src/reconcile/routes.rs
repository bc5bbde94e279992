//! Route documents that are not in force: what each waits for, in the status and once in the log.

use std::fmt;

use crate::documents::{ReleaseKey, RouteDoc, VersionChoice};
use crate::resolve::Candidate;
use crate::target::Target;

use super::Actor;

/// Why a route document is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteWait {
    route: RouteDoc,
    cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// No release of the model is documented.
    NoModel,
    /// The version is not documented.
    NoVersion,
    /// The folder is not a whole release.
    Incomplete(ReleaseKey, String),
    /// What was in the folder failed.
    Rejected(ReleaseKey, String),
    /// Its turn to be loaded comes.
    Loading,
}

impl RouteWait {
    /// Whether an operator would read the same in the log: a folder that is being copied has another reason every moment.
    fn is_news_after(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| {
            let same_cause = match (&self.cause, &before.cause) {
                (Cause::Incomplete(now, _), Cause::Incomplete(then, _)) => now == then,
                (now, then) => now == then,
            };
            before.route != self.route || !same_cause
        })
    }
}

impl fmt::Display for RouteWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting: {} is not live: ", self.route)?;
        match &self.cause {
            Cause::NoModel => write!(f, "there is no release of a model `{}`", self.route.model),
            Cause::NoVersion => f.write_str("there is no such version"),
            Cause::Incomplete(key, reason) => write!(f, "the folder of {key} is not complete: {reason}"),
            Cause::Rejected(key, reason) => write!(f, "{key} was rejected: {reason}"),
            Cause::Loading => f.write_str("it is to be loaded"),
        }
    }
}

impl<T: Target> Actor<T> {
    /// Finds out which route documents are not in force, and logs what is new about that.
    pub(super) fn note_routes(&mut self) {
        let in_force = &self.actual.published.routes;
        let waiting = self.desired.routes.iter().filter(|(endpoint, route)| in_force.get(*endpoint) != Some(*route));
        let waits = waiting
            .map(|(endpoint, route)| (endpoint.clone(), RouteWait { route: route.clone(), cause: self.cause(route) }))
            .collect();
        let before = std::mem::replace(&mut self.route_waits, waits);
        for (endpoint, wait) in &self.route_waits {
            if !wait.is_news_after(before.get(endpoint)) {
                continue;
            }
            let until_then = self.actual.published.routes.get(endpoint).map(ToString::to_string);
            let until_then = until_then.as_deref().unwrap_or("no route");
            if wait.cause == Cause::Loading {
                tracing::info!(%endpoint, until_then, "route {wait}");
            } else {
                tracing::warn!(%endpoint, until_then, "route {wait}");
            }
        }
    }

    fn cause(&self, route: &RouteDoc) -> Cause {
        let mut causes = self.resolved.releases.iter().filter(|(key, _)| key.model == route.model).peekable();
        if causes.peek().is_none() {
            return Cause::NoModel;
        }
        match route.version {
            VersionChoice::Number(version) => causes
                .find(|(key, _)| key.version == version)
                .map_or(Cause::NoVersion, |(key, candidate)| self.cause_of(key, candidate)),
            // One that is to be loaded will do; if there is none, the highest is the one that was meant.
            VersionChoice::Latest => {
                let causes = causes.map(|(key, candidate)| self.cause_of(key, candidate));
                let chosen = causes.reduce(|lower, higher| if lower == Cause::Loading { lower } else { higher });
                chosen.unwrap_or(Cause::NoModel)
            }
        }
    }

    fn cause_of(&self, key: &ReleaseKey, candidate: &Candidate) -> Cause {
        match candidate {
            Candidate::Waiting(reason) => Cause::Incomplete(key.clone(), reason.clone()),
            Candidate::Broken(reason) => Cause::Rejected(key.clone(), reason.clone()),
            Candidate::Ready(_, attempt) if self.actual.rejected.get(key) == Some(attempt) => {
                Cause::Rejected(key.clone(), self.reasons.get(key).cloned().unwrap_or_default())
            }
            Candidate::Ready(..) => Cause::Loading,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_logged_once_and_again_when_it_or_the_route_changes() {
        let key = |version| ReleaseKey { model: "m".into(), version };
        let wait = |version, cause| RouteWait {
            route: RouteDoc { model: "m".into(), version: VersionChoice::Number(version) },
            cause,
        };
        let half = |size: &str| wait(1, Cause::Incomplete(key(1), format!("weights has {size} of 9 bytes")));
        let rejected = |reason: &str| wait(1, Cause::Rejected(key(1), reason.into()));
        assert!(half("2").is_news_after(None));
        assert!(!half("5").is_news_after(Some(&half("2"))), "a copy that goes on is no news");
        assert!(!rejected("logits").is_news_after(Some(&rejected("logits"))));
        assert!(rejected("logits").is_news_after(Some(&half("2"))));
        assert!(rejected("shape").is_news_after(Some(&rejected("logits"))));
        assert!(wait(2, Cause::NoVersion).is_news_after(Some(&wait(1, Cause::NoVersion))));
    }

    #[test]
    fn the_text_names_the_route_and_the_cause() {
        let wait =
            RouteWait { route: RouteDoc { model: "m".into(), version: VersionChoice::Latest }, cause: Cause::NoModel };
        assert_eq!(wait.to_string(), "waiting: m@latest is not live: there is no release of a model `m`");
    }
}
