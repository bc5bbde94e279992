//! The simplest target: a release is loaded if its weights do not begin with `broken`, and "serves" their text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sagehost_release::{ReleaseFolder, pack};
use sagehost_rollout::{Counters, Options, ReleaseState, Rollout, SourceOptions, Status, Table, Target, start};
use sagehost_types::Digest;
use tokio::sync::watch;

/// No test waits this long unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was published, without the values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Live {
    /// `m@1` → the text that serves.
    pub(crate) releases: BTreeMap<String, String>,
    /// Endpoint → model and version.
    pub(crate) routes: BTreeMap<String, String>,
    /// Name → version.
    pub(crate) policies: BTreeMap<String, u64>,
}

impl Live {
    pub(crate) fn names(&self) -> Vec<&str> {
        self.releases.keys().map(String::as_str).collect()
    }
}

pub(crate) struct Toy {
    published: watch::Sender<Live>,
    history: Mutex<Vec<Live>>,
    loads: Mutex<Vec<String>>,
    held: Mutex<bool>,
    go_on: Condvar,
}

impl Toy {
    fn new() -> Self {
        Self {
            published: watch::Sender::default(),
            history: Mutex::default(),
            loads: Mutex::default(),
            held: Mutex::default(),
            go_on: Condvar::new(),
        }
    }

    /// Lets no load finish, or lets them.
    pub(crate) fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.go_on.notify_all();
    }
}

impl Target for Toy {
    type Loaded = String;

    fn load(&self, release: &ReleaseFolder) -> Result<Arc<String>, String> {
        self.loads.lock().unwrap().push(release.id().to_string());
        drop(self.go_on.wait_while(self.held.lock().unwrap(), |held| *held).unwrap());
        let files = release.load().map_err(|e| e.to_string())?;
        let text = String::from_utf8(files.weights).map_err(|e| e.to_string())?;
        if text.starts_with("broken") { Err("golden example 0: wrong logits".into()) } else { Ok(Arc::new(text)) }
    }

    fn publish(&self, table: Table<String>) {
        let mut live = Live::default();
        for (model, versions) in &table.models {
            for (version, text) in versions {
                live.releases.insert(format!("{model}@{version}"), text.to_string());
            }
        }
        live.routes = table.routes.iter().map(|(e, r)| (e.clone(), format!("{} {:?}", r.model, r.version))).collect();
        live.policies = table.policies.iter().map(|(name, policy)| (name.clone(), policy.version)).collect();
        self.history.lock().unwrap().push(live.clone());
        self.published.send_replace(live);
    }
}

/// A repository with a rollout on it.
pub(crate) struct Fixture {
    pub(crate) folder: Arc<tempfile::TempDir>,
    pub(crate) toy: Arc<Toy>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) rollout: Option<Rollout>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // A failed test must not leave a load waiting, for which the runtime would wait.
        self.toy.hold(false);
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("repository")).unwrap();
        Self { folder, toy: Arc::new(Toy::new()), counters: Arc::default(), rollout: None }
    }

    /// Another server over the same repository, as after a restart.
    pub(crate) fn restarted(&self) -> Self {
        Self { folder: Arc::clone(&self.folder), toy: Arc::new(Toy::new()), counters: Arc::default(), rollout: None }
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    pub(crate) fn start(&mut self, source: SourceOptions) {
        let options = Options {
            settle: Duration::from_millis(300),
            debounce: Duration::from_millis(10),
            // Only notifications: a test that passes by the rescan would hide that they are missed.
            rescan: Duration::from_secs(3600),
            ..Options::new(self.repository(), source)
        };
        self.rollout = Some(start(options, Arc::clone(&self.toy), Arc::clone(&self.counters)).unwrap());
    }

    /// Packs `model`@`version` whose weights are `text` into a repository.
    pub(crate) fn pack_into(&self, repository: &Path, model: &str, version: u64, text: &str) -> Digest {
        const SPEC: &str = r#"
            format = 1
            kind = "graphsage"
            graph = "g"
            schema = { node = [{ name = "x" }] }
            sampling = { hops = [{ fanout = 2 }] }
            model = { layers = [{ convs = [{ relation = "r", aggregator = "mean", weights = "c" }] }] }
        "#;
        let source = tempfile::tempdir_in(self.folder.path()).unwrap();
        fs::write(source.path().join("release.toml"), SPEC).unwrap();
        fs::write(source.path().join("weights.safetensors"), text).unwrap();
        let golden = r#"{"format":1,"graph":{"nodes":[],"edges":{}},"examples":[]}"#;
        fs::write(source.path().join("golden.json"), golden).unwrap();
        pack(source.path(), repository, model, version, &[], None).unwrap().id.digest
    }

    pub(crate) fn pack(&self, model: &str, version: u64, text: &str) -> Digest {
        self.pack_into(&self.repository(), model, version, text)
    }

    pub(crate) fn live(&self) -> Live {
        self.toy.published.borrow().clone()
    }

    pub(crate) fn history(&self) -> Vec<Live> {
        self.toy.history.lock().unwrap().clone()
    }

    pub(crate) fn loads(&self) -> Vec<String> {
        self.toy.loads.lock().unwrap().clone()
    }

    pub(crate) async fn until_live(&self, names: &[&str]) -> Live {
        let mut published = self.toy.published.subscribe();
        let waited = tokio::time::timeout(PATIENCE, published.wait_for(|live| live.names() == names)).await;
        match waited {
            Ok(live) => live.unwrap().clone(),
            Err(_) => panic!("not {names:?} but {:?}; {:#?}", self.live(), self.status()),
        }
    }

    pub(crate) fn status(&self) -> Arc<Status> {
        self.rollout.as_ref().unwrap().status().borrow().clone()
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Status) -> bool) -> Arc<Status> {
        let mut status = self.rollout.as_ref().unwrap().status();
        match tokio::time::timeout(PATIENCE, status.wait_for(|status| condition(status))).await {
            Ok(status) => Arc::clone(&status.unwrap()),
            Err(_) => panic!("never {what}: {:#?}", self.status()),
        }
    }

    /// Waits until a release is in a state with a reason that holds `text`.
    pub(crate) async fn until_state(&self, name: &str, state: ReleaseState, text: &str) {
        let holds = |status: &Status| {
            status.releases.iter().any(|r| {
                format!("{}@{}", r.model, r.version) == name
                    && r.state == state
                    && r.reason.as_deref().unwrap_or_default().contains(text)
            })
        };
        self.until(&format!("{name} {state:?} {text}"), holds).await;
    }

    pub(crate) async fn until_settled(&self) {
        self.until("settled", |status| status.settled).await;
    }
}
