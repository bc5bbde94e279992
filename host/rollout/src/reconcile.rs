//! The actor that carries out the plan: looks at folders and loads releases on blocking threads, one at a time, and
//! publishes. The newest desired state wins; what is being loaded is finished first, and dropped if nobody wants it any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sagehost_types::Digest;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::counters::Counters;
use crate::documents::{Documents, ReleaseKey};
use crate::plan::{Actual, Attempt, Desired, Publication, Step, next};
use crate::resolve::{Candidate, Resolved, Resolver};
use crate::source::etcd::{self, EtcdOptions};
use crate::source::watcher::{Pace, watch_folder};
use crate::source::{Feed, folder};
use crate::status::{SourceStatus, Status};
use crate::target::{Table, Target};

mod report;
mod routes;

use routes::RouteWait;

/// How to roll out.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of release folders, `<model>/<version>/`.
    pub repository: PathBuf,
    /// Where documents come from.
    pub source: SourceOptions,
    /// How long a folder with wrong content must stay unchanged to count as rejected.
    pub settle: Duration,
    /// A pause of this length ends a burst of changes in the repository.
    pub debounce: Duration,
    /// How often the repository is looked at without a notification.
    pub rescan: Duration,
}

impl Options {
    /// The usual times.
    #[must_use]
    pub fn new(repository: PathBuf, source: SourceOptions) -> Self {
        Self {
            repository,
            source,
            settle: Duration::from_secs(5),
            debounce: Duration::from_millis(50),
            rescan: Duration::from_secs(30),
        }
    }
}

/// Where documents come from.
#[derive(Clone, Debug)]
pub enum SourceOptions {
    /// The repository itself.
    Folder,
    /// etcd; the repository holds the folders that its documents name.
    Etcd(EtcdOptions),
}

/// Why a rollout cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The repository is not a folder that can be read.
    #[error("the repository {}: {source}", path.display())]
    Repository {
        /// The folder.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        source: std::io::Error,
    },
    /// The source's settings cannot work.
    #[error("rollout source: {0}")]
    Source(String),
}

/// A running rollout. Dropping it stops it; what was published stays.
#[derive(Debug)]
pub struct Rollout {
    status: watch::Receiver<Arc<Status>>,
    actor: JoinHandle<()>,
}

impl Rollout {
    /// The status, now and whenever it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        // The sources end when the actor's receivers are gone.
        self.actor.abort();
    }
}

/// Begins to roll out to `target`. Must be called within a tokio runtime.
///
/// # Errors
/// [`RolloutError`], where nothing can come of it; everything later is a matter of [`Status`].
pub fn start<T: Target>(options: Options, target: Arc<T>, counters: Arc<Counters>) -> Result<Rollout, RolloutError> {
    if let Err(source) = std::fs::read_dir(&options.repository) {
        return Err(RolloutError::Repository { path: options.repository, source });
    }
    let pace = Pace { debounce: options.debounce, rescan: options.rescan };
    let changes = watch_folder(&options.repository, pace);
    let (feed_sender, feed) = watch::channel(Feed::default());
    let kind = match options.source {
        SourceOptions::Folder => {
            let scans = folder::run(options.repository.clone(), changes.clone(), feed_sender, Arc::clone(&counters));
            tokio::spawn(scans);
            "folder"
        }
        SourceOptions::Etcd(etcd) => {
            if etcd.endpoints.is_empty() {
                return Err(RolloutError::Source("etcd needs at least one endpoint".into()));
            }
            if let Some(secure) = etcd.endpoints.iter().find(|e| e.starts_with("https://")) {
                return Err(RolloutError::Source(format!("{secure}: this build speaks to etcd without TLS only")));
            }
            tokio::spawn(etcd::run(etcd, feed_sender, Arc::clone(&counters)));
            "etcd"
        }
    };
    let initial = Status { source: SourceStatus { kind, ..SourceStatus::default() }, ..Status::default() };
    let (status_sender, status) = watch::channel(Arc::new(initial));
    let actor = Actor {
        target,
        counters,
        resolver: Some(Resolver::new(options.repository.clone(), options.settle)),
        repository: options.repository,
        settle: options.settle,
        feed,
        changes,
        status: status_sender,
        kind,
        documents: None,
        resolved: Resolved::default(),
        desired: Desired::default(),
        actual: Actual::default(),
        loaded: BTreeMap::new(),
        loading: None,
        reasons: BTreeMap::new(),
        route_waits: BTreeMap::new(),
        generation: 0,
    };
    Ok(Rollout { status, actor: tokio::spawn(actor.run()) })
}

struct Actor<T: Target> {
    target: Arc<T>,
    counters: Arc<Counters>,
    /// Away while it is at work.
    resolver: Option<Resolver>,
    repository: PathBuf,
    settle: Duration,
    feed: watch::Receiver<Feed>,
    changes: watch::Receiver<u64>,
    status: watch::Sender<Arc<Status>>,
    kind: &'static str,
    /// Those that `resolved` and `desired` are of.
    documents: Option<Arc<Documents>>,
    resolved: Resolved,
    desired: Desired,
    actual: Actual,
    /// What is published or staged.
    loaded: BTreeMap<(ReleaseKey, Digest), Arc<T::Loaded>>,
    loading: Option<(ReleaseKey, Attempt)>,
    /// Why the attempts of `actual.rejected` failed.
    reasons: BTreeMap<ReleaseKey, String>,
    /// Endpoints whose route document is not in force, and why.
    route_waits: BTreeMap<String, RouteWait>,
    generation: u64,
}

type Looked = (Resolver, Arc<Documents>, Resolved);
type Load<L> = JoinHandle<Result<Arc<L>, String>>;

impl<T: Target> Actor<T> {
    async fn run(mut self) {
        let mut look_again = true;
        let mut looking: Option<JoinHandle<Looked>> = None;
        let mut load: Option<Load<T::Loaded>> = None;
        let mut recheck: Option<Instant> = None;
        loop {
            if look_again && looking.is_none() {
                look_again = false;
                looking = self.look();
            }
            tokio::select! {
                looked = finish(&mut looking) => {
                    looking = None;
                    match looked {
                        Ok(looked) => recheck = self.take_look(looked).map(|wait| Instant::now() + wait),
                        // A panic took the resolver with it: begin anew rather than stop rolling out.
                        Err(error) => {
                            tracing::error!(%error, "looking at the repository failed");
                            self.resolver = Some(Resolver::new(self.repository.clone(), self.settle));
                            recheck = Some(Instant::now() + self.settle);
                        }
                    }
                }
                loaded = finish(&mut load) => {
                    load = None;
                    self.take_load(loaded.unwrap_or_else(|error| Err(format!("loading failed: {error}"))));
                }
                change = self.feed.changed() => match change {
                    Ok(()) => look_again = true,
                    Err(_) => return,
                },
                change = self.changes.changed() => match change {
                    Ok(()) => look_again = true,
                    Err(_) => return,
                },
                () = until(recheck) => {
                    recheck = None;
                    look_again = true;
                }
            }
            if let Some(started) = self.advance() {
                load = Some(started);
            }
            self.note_routes();
            self.report();
        }
    }

    /// Starts to look at the folders of the newest documents.
    fn look(&mut self) -> Option<JoinHandle<Looked>> {
        let documents = self.feed.borrow_and_update().documents.clone()?;
        let mut resolver = self.resolver.take()?;
        Some(tokio::task::spawn_blocking(move || {
            let resolved = resolver.resolve(&documents);
            (resolver, documents, resolved)
        }))
    }

    fn take_look(&mut self, (resolver, documents, resolved): Looked) -> Option<Duration> {
        self.resolver = Some(resolver);
        let attempt = |candidate: &Candidate| match candidate {
            Candidate::Ready(_, attempt) => Some(*attempt),
            Candidate::Waiting(_) | Candidate::Broken(_) => None,
        };
        self.desired = Desired {
            releases: resolved.releases.iter().map(|(key, candidate)| (key.clone(), attempt(candidate))).collect(),
            routes: documents.routes.clone(),
            policies: documents.policies.clone(),
        };
        self.count_refusals(&documents, &resolved);
        self.actual.rejected.retain(|key, _| documents.releases.contains_key(key));
        self.reasons.retain(|key, _| documents.releases.contains_key(key));
        self.documents = Some(documents);
        let recheck = resolved.recheck;
        self.resolved = resolved;
        recheck
    }

    fn count_refusals(&self, documents: &Documents, resolved: &Resolved) {
        let before = self.documents.as_deref();
        for (name, reason) in &documents.refused {
            if before.and_then(|before| before.refused.get(name)) != Some(reason) {
                self.counters.count_rejected();
                tracing::warn!(document = %name, %reason, "document refused");
            }
        }
        for (key, candidate) in &resolved.releases {
            let Candidate::Broken(reason) = candidate else { continue };
            let known = matches!(self.resolved.releases.get(key), Some(Candidate::Broken(before)) if before == reason);
            if !known {
                self.counters.count_rejected();
                tracing::warn!(release = %key, %reason, "release rejected");
            }
        }
    }

    /// Does what can be done at once, and starts to load what comes next, unless something is being loaded.
    fn advance(&mut self) -> Option<Load<T::Loaded>> {
        while let Some(Step::Publish(publication)) = next(&self.desired, &self.actual) {
            self.publish(publication);
        }
        // What was loaded and is in no publication is wanted no more.
        self.actual.staged.clear();
        self.let_go();
        if self.loading.is_some() {
            return None;
        }
        let Some(Step::Load(key, attempt)) = next(&self.desired, &self.actual) else {
            self.actual.settle();
            return None;
        };
        let Some(Candidate::Ready(folder, _)) = self.resolved.releases.get(&key) else { return None };
        tracing::info!(release = %key, digest = attempt.digest.short(), "loading");
        let (target, folder) = (Arc::clone(&self.target), folder.clone());
        self.loading = Some((key, attempt));
        Some(tokio::task::spawn_blocking(move || target.load(&folder)))
    }

    fn take_load(&mut self, result: Result<Arc<T::Loaded>, String>) {
        let Some((key, attempt)) = self.loading.take() else { return };
        match result {
            Ok(loaded) => {
                self.counters.count_accepted();
                self.reasons.remove(&key);
                self.loaded.insert((key.clone(), attempt.digest), loaded);
                self.actual.apply(&Step::Load(key, attempt));
            }
            Err(reason) => {
                self.counters.count_rejected();
                tracing::warn!(release = %key, digest = attempt.digest.short(), %reason, "release rejected");
                self.reasons.insert(key.clone(), reason);
                self.actual.rejected.insert(key, attempt);
            }
        }
    }

    fn publish(&mut self, publication: Publication) {
        let mut models: BTreeMap<String, BTreeMap<u64, Arc<T::Loaded>>> = BTreeMap::new();
        for (key, digest) in &publication.releases {
            if let Some(loaded) = self.loaded.get(&(key.clone(), *digest)) {
                models.entry(key.model.clone()).or_default().insert(key.version, Arc::clone(loaded));
            }
            if self.actual.published.releases.get(key) != Some(digest) {
                tracing::info!(release = %key, digest = digest.short(), "live");
            }
        }
        for key in self.actual.published.releases.keys().filter(|key| !publication.releases.contains_key(key)) {
            tracing::info!(release = %key, "no longer live");
        }
        for (endpoint, route) in &publication.routes {
            if self.actual.published.routes.get(endpoint) != Some(route) {
                tracing::info!(%endpoint, %route, "route in force");
            }
        }
        for endpoint in self.actual.published.routes.keys().filter(|e| !publication.routes.contains_key(*e)) {
            tracing::info!(%endpoint, "no route any more: the latest version of the only model answers");
        }
        let (routes, policies) = (publication.routes.clone(), publication.policies.clone());
        let refused = self.documents.as_ref().map(|documents| documents.refused.clone()).unwrap_or_default();
        self.target.publish(Table { models, routes, policies, refused });
        self.counters.count_swap();
        self.generation += 1;
        self.actual.apply(&Step::Publish(publication));
    }

    /// Drops what is not published, off this thread: a release may take long to tear down.
    fn let_go(&mut self) {
        let live = &self.actual.published.releases;
        let gone: Vec<_> = self
            .loaded
            .extract_if(.., |(key, digest), _| live.get(key) != Some(digest))
            .map(|(_, loaded)| loaded)
            .collect();
        if !gone.is_empty() {
            tokio::task::spawn_blocking(move || drop(gone));
        }
    }
}

/// The end of a task, if there is one to wait for.
async fn finish<R>(task: &mut Option<JoinHandle<R>>) -> Result<R, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
