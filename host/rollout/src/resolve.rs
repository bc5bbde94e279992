//! From documents to release folders: which of the documented releases are whole, and why the others are not.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sagehost_release::{Fingerprint, FolderState, ReleaseFolder, Settling, Verdict, inspect, judge};

use crate::documents::{Documented, Documents, ReleaseKey};
use crate::plan::Attempt;

/// What a document's folder holds.
#[derive(Clone, Debug)]
pub(crate) enum Candidate {
    /// Not a whole release yet.
    Waiting(String),
    /// Wrong, and nobody is writing it.
    Broken(String),
    /// A whole release.
    Ready(ReleaseFolder, Attempt),
}

/// Every documented release, and when to look again even if nothing seems to change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) releases: BTreeMap<ReleaseKey, Candidate>,
    pub(crate) recheck: Option<Duration>,
}

/// Remembers what folders looked like, so that an unchanged one is not read again.
pub(crate) struct Resolver {
    repository: PathBuf,
    settle: Duration,
    epoch: Instant,
    seen: BTreeMap<ReleaseKey, Seen>,
}

struct Seen {
    folder: PathBuf,
    settling: Settling,
    state: FolderState,
    /// Reading it again would say the same.
    is_final: bool,
}

impl Resolver {
    pub(crate) fn new(repository: PathBuf, settle: Duration) -> Self {
        Self { repository, settle, epoch: Instant::now(), seen: BTreeMap::new() }
    }

    /// Looks at every documented folder. Blocking: reads the files of folders that changed.
    pub(crate) fn resolve(&mut self, documents: &Documents) -> Resolved {
        self.seen.retain(|key, _| documents.releases.contains_key(key));
        let mut resolved = Resolved::default();
        for (key, documented) in &documents.releases {
            let (candidate, recheck) = self.look(key, documented);
            resolved.releases.insert(key.clone(), candidate);
            resolved.recheck = [resolved.recheck, recheck].into_iter().flatten().min();
        }
        resolved
    }

    fn look(&mut self, key: &ReleaseKey, documented: &Documented) -> (Candidate, Option<Duration>) {
        let place = match &documented.doc.path {
            Some(path) => self.repository.join(path),
            None => self.repository.join(&key.model).join(key.version.to_string()),
        };
        let print = Fingerprint::of(&place);
        let earlier = self.seen.remove(key).filter(|seen| seen.folder == place);
        let (settling, state) = match earlier {
            Some(seen) if seen.is_final && seen.settling.seen == print => (Some(seen.settling), seen.state),
            other => (other.map(|seen| seen.settling), inspect(&place, &key.model, key.version)),
        };
        let now = self.epoch.elapsed();
        let (settling, verdict) = judge(&state, print, settling.as_ref(), now, self.settle);
        let (candidate, recheck) = match verdict {
            // An incomplete folder is looked at now and then even if no change was seen: not every file system tells.
            Verdict::Waiting { reason, until } => {
                let wait = until.map_or(self.settle, |until| until.saturating_sub(now));
                (Candidate::Waiting(reason), Some(wait.max(Duration::from_millis(10))))
            }
            Verdict::Rejected { reason } => (Candidate::Broken(reason), None),
            Verdict::Complete => (judge_digest(&state, print, documented), None),
        };
        let is_final = !matches!(candidate, Candidate::Waiting(_));
        self.seen.insert(key.clone(), Seen { folder: place, settling, state, is_final });
        (candidate, recheck)
    }
}

fn judge_digest(state: &FolderState, print: Fingerprint, documented: &Documented) -> Candidate {
    let FolderState::Complete(folder) = state else {
        return Candidate::Waiting("not complete".into());
    };
    let digest = folder.id().digest;
    match documented.doc.digest {
        Some(expected) if expected != digest => {
            Candidate::Broken(format!("the folder holds {digest}, and the document asks for {expected}"))
        }
        _ => {
            let mut hasher = DefaultHasher::new();
            (print, documented.revision).hash(&mut hasher);
            Candidate::Ready(folder.clone(), Attempt { digest, stamp: hasher.finish() })
        }
    }
}
