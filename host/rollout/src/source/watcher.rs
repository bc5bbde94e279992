//! Tells when something in the repository changed: the operating system's notifications, gathered until they pause, and a
//! slow rescan for what they miss (network file systems, overflow, watches that could not be set).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

/// How soon to look after a change, and how often without one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// A pause of this length ends a burst of changes.
    pub(crate) debounce: Duration,
    /// The rescan's period.
    pub(crate) rescan: Duration,
}

/// A burst is cut off after this many pauses' length: a copy that never pauses must not keep everything else waiting.
const LONGEST_BURST: u32 = 10;

struct FolderWatch {
    root: PathBuf,
    /// Device and inode of the folder that is watched: it may be removed, or something mounted over it.
    watched: Option<(u64, u64)>,
    watcher: Option<RecommendedWatcher>,
    wake: Arc<Notify>,
}

impl FolderWatch {
    /// Watches the root if that is not being done already. Failing leaves the rescan.
    fn ensure(&mut self) {
        let now = self.root.metadata().ok().map(|m| (m.dev(), m.ino()));
        if now.is_some() && now == self.watched {
            return;
        }
        self.watched = None;
        self.watcher = None;
        if now.is_none() {
            return;
        }
        let wake = Arc::clone(&self.wake);
        let on_event = move |event: notify::Result<Event>| {
            if event.as_ref().map_or(true, is_change) {
                wake.notify_one();
            }
        };
        // Links are not followed: one that leads to `/` would have everything watched.
        let config = notify::Config::default().with_follow_symlinks(false);
        let watching = RecommendedWatcher::new(on_event, config).and_then(|mut watcher| {
            watcher.watch(&self.root, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => (self.watcher, self.watched) = (Some(watcher), now),
            Err(error) => tracing::warn!(
                repository = %self.root.display(), %error,
                "cannot watch the repository; it is rescanned now and then (is fs.inotify.max_user_watches too low?)"
            ),
        }
    }
}

/// Our own reading raises access events: only what writes counts.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// Watches `root` for as long as the receiver lives; the number that it holds rises after each burst of changes and at
/// each rescan.
pub(crate) fn watch_folder(root: &Path, pace: Pace) -> watch::Receiver<u64> {
    let wake = Arc::new(Notify::new());
    let mut folder = FolderWatch { root: root.into(), watched: None, watcher: None, wake: Arc::clone(&wake) };
    // Before the caller looks for the first time, so that nothing after that look is missed.
    folder.ensure();
    let (changes, receiver) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                () = changes.closed() => return,
                event = timeout_at(Instant::now() + pace.rescan, wake.notified()) => event,
            };
            if event.is_ok() {
                let latest = Instant::now() + pace.debounce * LONGEST_BURST;
                while timeout_at(latest.min(Instant::now() + pace.debounce), wake.notified()).await.is_ok()
                    && Instant::now() < latest
                {}
            }
            folder.ensure();
            changes.send_modify(|count| *count += 1);
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn a_write_below_a_new_folder_is_seen_and_reading_is_not_a_change() {
        let folder = tempfile::tempdir().unwrap();
        // No rescan within the test: only notifications can wake it.
        let pace = Pace { debounce: Duration::from_millis(20), rescan: Duration::from_secs(3600) };
        let mut changes = watch_folder(folder.path(), pace);
        fs::create_dir_all(folder.path().join("m/1/plugins")).unwrap();
        changes.changed().await.unwrap();
        fs::write(folder.path().join("m/1/plugins/a.wasm"), "x").unwrap();
        changes.changed().await.unwrap();
        changes.mark_unchanged();
        fs::read(folder.path().join("m/1/plugins/a.wasm")).unwrap();
        let read_only = tokio::time::timeout(Duration::from_millis(200), changes.changed()).await;
        assert!(read_only.is_err(), "reading woke the watcher");
    }

    #[tokio::test]
    async fn the_rescan_comes_without_notifications_and_finds_a_root_that_appears_later() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("later");
        let pace = Pace { debounce: Duration::from_millis(5), rescan: Duration::from_millis(20) };
        let mut changes = watch_folder(&root, pace);
        changes.changed().await.unwrap();
        fs::create_dir(&root).unwrap();
        changes.changed().await.unwrap();
    }
}
