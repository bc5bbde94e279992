//! Which policy each release gets: the document that it names, once its rule was seen to work with it; else the one that
//! worked before. The last ones that worked are kept in a file, so that a restart beside a broken document does not fall back
//! to other thresholds without a word.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sagehost_pipeline::{Live, LoadedRelease, Table, settings};
use sagehost_plugin::Policy;
use sagehost_rollout::PolicyDoc;
use serde::{Deserialize, Serialize};

/// What worked, and what did not and why.
pub(crate) struct Policies {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    worked: BTreeMap<String, Worked>,
    refused: BTreeMap<String, String>,
}

/// A policy that worked, as the file keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Worked {
    version: u64,
    values: BTreeMap<String, toml::Value>,
}

/// The documents of one publication.
pub(crate) struct Wanted<'a> {
    /// Those that could be read.
    pub(crate) docs: &'a BTreeMap<String, Arc<PolicyDoc>>,
    /// Those that could not, by document name.
    pub(crate) refused: &'a BTreeMap<String, String>,
    /// What is live until now.
    pub(crate) before: &'a Table,
}

impl Policies {
    /// Reads what worked before, where there is such a file.
    pub(crate) fn open(file: PathBuf) -> Self {
        let worked = match std::fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text).unwrap_or_else(|error| {
                tracing::warn!(file = %file.display(), %error, "the policies that worked before cannot be read");
                BTreeMap::new()
            }),
            Err(_) => BTreeMap::new(),
        };
        Self { file, state: Mutex::new(State { worked, refused: BTreeMap::new() }) }
    }

    /// Documents that no rule could use, by document name, and why.
    pub(crate) fn refused(&self) -> BTreeMap<String, String> {
        self.lock().refused.clone()
    }

    /// Forgets what was refused in the publication before.
    pub(crate) fn begin(&self) {
        self.lock().refused.clear();
    }

    /// The policy of a release. Asks its rule, which is a moment's work; blocking.
    pub(crate) fn of(&self, release: &LoadedRelease, wanted: &Wanted<'_>) -> Arc<Policy> {
        let Some(name) = release.policy_name() else { return Arc::clone(release.default_policy()) };
        let document = format!("policies/{name}");
        let reason = match (wanted.docs.get(name), wanted.refused.get(&document)) {
            (Some(doc), _) => match self.try_document(release, doc, wanted.before) {
                Ok(policy) => return policy,
                Err(reason) => reason,
            },
            // There is a document and it cannot be read: the rollout says so.
            (None, Some(reason)) => reason.clone(),
            (None, None) => return Arc::clone(release.default_policy()),
        };
        let kept = self.earlier(release, name, wanted.before);
        tracing::error!(policy = name, release = %release.id(), kept = kept.version, %reason, "the policy does not take effect");
        self.lock().refused.insert(document, format!("{reason}; {} keeps version {}", release.id(), kept.version));
        kept
    }

    fn try_document(&self, release: &LoadedRelease, doc: &PolicyDoc, before: &Table) -> Result<Arc<Policy>, String> {
        let policy = Policy { name: doc.name.clone(), version: doc.version, values: settings(&doc.values)? };
        if let Some(known) = live(release, before).map(|live| &live.policy).filter(|known| ***known == policy) {
            return Ok(Arc::clone(known));
        }
        release.try_policy(&policy)?;
        self.keep(&doc.name, Worked { version: doc.version, values: doc.values.clone() });
        Ok(Arc::new(policy))
    }

    /// What was in force: for this release, for another of its model, before the last start; else the release's own values.
    fn earlier(&self, release: &LoadedRelease, name: &str, before: &Table) -> Arc<Policy> {
        let latest = before.models.get(&*release.id().model).and_then(|versions| versions.last_key_value());
        let in_force = live(release, before).or(latest.map(|(_, live)| live)).map(|live| &live.policy);
        if let Some(policy) = in_force.filter(|policy| policy.name == name && policy.version != 0) {
            return Arc::clone(policy);
        }
        let kept = self.lock().worked.get(name).cloned();
        let kept = kept.and_then(|Worked { version, values }| {
            let policy = Policy { name: name.to_owned(), version, values: settings(&values).ok()? };
            release.try_policy(&policy).ok().map(|()| Arc::new(policy))
        });
        kept.unwrap_or_else(|| Arc::clone(release.default_policy()))
    }

    fn keep(&self, name: &str, worked: Worked) {
        let text = {
            let mut state = self.lock();
            if state.worked.get(name) == Some(&worked) {
                return;
            }
            state.worked.insert(name.to_owned(), worked);
            toml::to_string(&state.worked)
        };
        // Renamed into place: a crash leaves the old file or the new one.
        let part = self.file.with_extension("part");
        let written = text.map_err(std::io::Error::other).and_then(|text| {
            std::fs::write(&part, text)?;
            std::fs::rename(&part, &self.file)
        });
        if let Err(error) = written {
            tracing::warn!(file = %self.file.display(), %error, "a restart will not know the policy that works now");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same release, where it is live already.
fn live<'a>(release: &LoadedRelease, before: &'a Table) -> Option<&'a Arc<Live>> {
    let id = release.id();
    let versions = before.models.get(&*id.model)?;
    versions.get(&id.version).filter(|live| live.release.id() == id)
}
