//! etcd as a source: list everything at one revision, watch from the next one on. Whenever the watch ends (lost connection,
//! compaction, a member without a leader) everything is listed again and compared, so that what was deleted meanwhile is
//! deleted here, whether or not the watch would have told.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, EventType, GetOptions, KeyValue, WatchOptions, WatchResponse};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::counters::Counters;
use crate::documents::{Body, Documents, MAX_DOCUMENTS};
use crate::last_good;
use crate::source::Feed;
use crate::source::backoff::{backoff, random};

/// Documents of one page of the listing. A page of the largest ones stays below [`MAX_MESSAGE`].
const PAGE: i64 = 32;
/// Largest gRPC message that is taken from etcd, in bytes.
const MAX_MESSAGE: usize = 64 << 20;

/// Where etcd is and how to treat it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Addresses of its members: `http://host:2379`.
    pub endpoints: Vec<String>,
    /// What all keys begin with, such as `sagehost/`. A missing slash at the end is added.
    pub prefix: String,
    /// User and password, where etcd asks for them.
    pub user: Option<EtcdUser>,
    /// Where the last documents are kept for a start without etcd.
    pub last_good: Option<PathBuf>,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Period of the pings that find a dead connection, and the wait for their answer. etcd refuses a period below its own
    /// `--grpc-keepalive-min-time`, 5 s by default.
    pub keep_alive: (Duration, Duration),
    /// Shortest and longest wait before connecting again.
    pub backoff: (Duration, Duration),
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            endpoints: vec!["http://127.0.0.1:2379".into()],
            prefix: "sagehost/".into(),
            user: None,
            last_good: None,
            timeout: Duration::from_secs(5),
            keep_alive: (Duration::from_secs(10), Duration::from_secs(5)),
            backoff: (Duration::from_millis(200), Duration::from_secs(10)),
        }
    }
}

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdUser {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a session with etcd ended. What serves is not touched by any of these.
#[derive(Debug, thiserror::Error)]
enum SessionEnd {
    #[error("etcd: {0}")]
    Client(#[from] etcd_client::Error),
    #[error("etcd did not answer within {0:?}")]
    Timeout(Duration),
    #[error("etcd ended the watch{0}")]
    WatchEnded(String),
    #[error("etcd compacted the history below revision {0}, which the watch had not read yet")]
    Compacted(i64),
    #[error("{0} documents under the prefix; the limit is {MAX_DOCUMENTS}")]
    TooMany(i64),
    #[error(
        "etcd holds nothing under the prefix and is at revision {now}, before revision {seen} that was read earlier: its data \
         were lost, so the documents of then stay in force until there are documents again"
    )]
    Wiped { now: i64, seen: i64 },
}

/// Feeds the documents of etcd for as long as someone listens.
pub(crate) async fn run(options: EtcdOptions, feed: watch::Sender<Feed>, counters: Arc<Counters>) {
    let mut source = Source::new(options);
    source.restore(&feed).await;
    loop {
        let end = tokio::select! {
            () = feed.closed() => return,
            end = source.session(&feed) => match end { Err(end) => end },
        };
        counters.count_source_error();
        // Compaction is part of etcd's life; only what keeps us from reading it is worth a warning.
        if matches!(end, SessionEnd::Compacted(_)) {
            tracing::info!(reason = %end, "listing etcd again");
        } else {
            tracing::warn!(reason = %end, "lost etcd; what serves stays");
        }
        feed.send_modify(|feed| {
            feed.status.note(false, Some(end.to_string()));
        });
        let (least, most) = source.options.backoff;
        let wait = backoff(source.failures, least, most, random());
        source.failures = source.failures.saturating_add(1);
        tokio::select! {
            () = feed.closed() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

struct Source {
    options: EtcdOptions,
    prefix: String,
    documents: Arc<Documents>,
    failures: u32,
}

struct Listing {
    kvs: Vec<KeyValue>,
    revision: i64,
}

impl Source {
    fn new(options: EtcdOptions) -> Self {
        let prefix = options.prefix.trim_end_matches('/').to_string() + "/";
        Self { options, prefix, documents: Arc::default(), failures: 0 }
    }

    /// Begins with what was saved by an earlier run.
    async fn restore(&mut self, feed: &watch::Sender<Feed>) {
        let Some(path) = self.options.last_good.clone() else { return };
        let loaded = tokio::task::spawn_blocking(move || last_good::load(&path)).await;
        match loaded.unwrap_or_else(|panic| Err(std::io::Error::other(panic))) {
            Ok(Some(documents)) => {
                tracing::info!(revision = documents.revision, "starting from the documents of the last run");
                self.documents = Arc::new(documents);
                feed.send_modify(|feed| {
                    feed.status.note(false, Some("not read yet; the documents are those of the last run".into()));
                    feed.documents = Some(Arc::clone(&self.documents));
                });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot read the documents of the last run"),
        }
    }

    /// Connects, lists, watches; returns only when something ended that.
    async fn session(&mut self, feed: &watch::Sender<Feed>) -> Result<Infallible, SessionEnd> {
        let wait = self.options.timeout;
        let client = within(wait, Client::connect(&self.options.endpoints, Some(self.connect_options()))).await?;
        let listing = self.list(&client).await?;
        self.take_listing(&listing, feed).await?;

        let mut watcher = client.watch_client().max_decoding_message_size(MAX_MESSAGE);
        let from = WatchOptions::new().with_prefix().with_start_revision(listing.revision + 1);
        let mut stream = within(wait, watcher.watch(self.prefix.as_str(), Some(from))).await?;
        loop {
            let response = stream.message().await?.ok_or_else(|| SessionEnd::WatchEnded(String::new()))?;
            if response.compact_revision() > 0 {
                return Err(SessionEnd::Compacted(response.compact_revision()));
            }
            if response.canceled() {
                return Err(SessionEnd::WatchEnded(format!(": {}", response.cancel_reason())));
            }
            self.failures = 0;
            self.take_events(&response, feed).await;
        }
    }

    fn connect_options(&self) -> ConnectOptions {
        let (period, patience) = self.options.keep_alive;
        let options = ConnectOptions::new()
            .with_connect_timeout(self.options.timeout)
            .with_keep_alive(period, patience)
            // A member that is cut off from the others must not keep us on old documents.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        match &self.options.user {
            Some(user) => options.with_user(&user.name, &user.password),
            None => options,
        }
    }

    /// Reads everything under the prefix at one revision, page by page.
    async fn list(&self, client: &Client) -> Result<Listing, SessionEnd> {
        let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
        let end = prefix_end(&self.prefix);
        let mut listing = Listing { kvs: Vec::new(), revision: 0 };
        let mut start = self.prefix.clone().into_bytes();
        loop {
            let page = GetOptions::new().with_range(end.clone()).with_limit(PAGE).with_revision(listing.revision);
            let mut answer = within(self.options.timeout, kv.get(start, Some(page))).await?;
            if listing.revision == 0 {
                // `count` is that of the whole range.
                if answer.count() > MAX_DOCUMENTS as i64 {
                    return Err(SessionEnd::TooMany(answer.count()));
                }
                listing.revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
            }
            let more = answer.more();
            listing.kvs.append(&mut answer.take_kvs());
            match listing.kvs.last() {
                // The smallest key after the last one.
                Some(last) if more => start = [last.key(), &[0]].concat(),
                _ => return Ok(listing),
            }
        }
    }

    async fn take_listing(&mut self, listing: &Listing, feed: &watch::Sender<Feed>) -> Result<(), SessionEnd> {
        let seen = self.documents.revision;
        if listing.kvs.is_empty() && listing.revision < seen {
            return Err(SessionEnd::Wiped { now: listing.revision, seen });
        }
        let items: Vec<_> = listing.kvs.iter().filter_map(|kv| Some((self.name(kv)?, kv))).collect();
        let bodies = items.iter().map(|(name, kv)| (name.as_str(), Body::Json(kv.value()), kv.mod_revision()));
        let documents = self.documents.replaced_by(bodies, listing.revision);
        self.emit(documents, feed).await;
        Ok(())
    }

    async fn take_events(&mut self, response: &WatchResponse, feed: &watch::Sender<Feed>) {
        if response.events().is_empty() {
            return;
        }
        // All events of a response at once: etcd does not split a transaction over two of them.
        let mut documents = (*self.documents).clone();
        for event in response.events() {
            let Some(kv) = event.kv() else { continue };
            let Some(name) = self.name(kv) else { continue };
            documents.revision = documents.revision.max(kv.mod_revision());
            match event.event_type() {
                EventType::Put => documents.put(&name, Body::Json(kv.value()), kv.mod_revision()),
                EventType::Delete => documents.delete(&name),
            }
        }
        self.emit(documents, feed).await;
    }

    fn name(&self, kv: &KeyValue) -> Option<String> {
        let name = kv.key().strip_prefix(self.prefix.as_bytes())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    async fn emit(&mut self, documents: Documents, feed: &watch::Sender<Feed>) {
        let changed = documents != *self.documents;
        self.documents = Arc::new(documents);
        feed.send_modify(|feed| {
            feed.status.note(true, None);
            feed.documents = Some(Arc::clone(&self.documents));
        });
        let (true, Some(path)) = (changed, self.options.last_good.clone()) else { return };
        let documents = Arc::clone(&self.documents);
        let saved = tokio::task::spawn_blocking(move || last_good::save(&path, &documents)).await;
        if let Err(error) = saved.unwrap_or_else(|panic| Err(std::io::Error::other(panic))) {
            tracing::warn!(%error, "cannot keep the documents for a start without etcd");
        }
    }
}

async fn within<T>(wait: Duration, call: impl Future<Output = Result<T, etcd_client::Error>>) -> Result<T, SessionEnd> {
    Ok(timeout(wait, call).await.map_err(|_| SessionEnd::Timeout(wait))??)
}

/// The first key after all keys with this prefix, as etcd's ranges want it.
fn prefix_end(prefix: &str) -> Vec<u8> {
    // UTF-8 has no byte 0xff, so that adding one to the last byte cannot overflow.
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(prefix_end("sagehost/"), b"sagehost0");
        assert_eq!(prefix_end("a"), b"b");
    }

    #[test]
    fn passwords_are_not_printed() {
        let user = EtcdUser { name: "ann".into(), password: "secret".into() };
        assert!(!format!("{user:?}").contains("secret"));
    }
}
