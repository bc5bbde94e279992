//! When an incomplete folder counts as rejected: a pure function of what was seen, and when.
//!
//! A missing or short file is waited for without limit. Content that is wrong (a digest that differs, a file that is too
//! long, a manifest that is no JSON) may still be being written, so it counts as rejected only once the folder has not
//! changed for the settle time: no size, change time or name of any file in it. Any later change starts anew.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use sagehost_types::Digest;

use crate::folder::FolderState;
use crate::manifest::MAX_FILES;
use crate::paths::MAX_DEPTH;

/// Most entries of a folder that take part in its fingerprint.
const MAX_ENTRIES: usize = 4 * MAX_FILES;

/// Names, sizes, inodes and change times of everything in a folder: equal as long as nothing was written there. Cheap: no
/// file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Digest);

impl Fingerprint {
    /// Of a folder as it is now. Take it before [`crate::inspect`]: then what changes meanwhile shows the next time.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let mut text = String::new();
        walk(folder, 0, &mut 0, &mut text);
        Self(Digest::of(text.as_bytes()))
    }
}

fn walk(folder: &Path, depth: usize, entries: &mut usize, text: &mut String) {
    use std::fmt::Write as _;
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) => {
            // Writing into a String cannot fail, here and below.
            let _ = writeln!(text, "{}: {:?}", folder.display(), error.kind());
            return;
        }
    };
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).take(MAX_ENTRIES).collect();
    paths.sort();
    for path in paths {
        *entries += 1;
        if *entries > MAX_ENTRIES {
            return;
        }
        match fs::metadata(&path) {
            Ok(m) => {
                let (inode, size) = (m.ino(), m.len());
                let _ = writeln!(
                    text,
                    "{:?} {inode} {size} {}.{} {}.{}",
                    path,
                    m.mtime(),
                    m.mtime_nsec(),
                    m.ctime(),
                    m.ctime_nsec()
                );
                if m.is_dir() && depth < MAX_DEPTH {
                    walk(&path, depth + 1, entries, text);
                }
            }
            Err(error) => {
                let _ = writeln!(text, "{path:?} {:?}", error.kind());
            }
        }
    }
}

/// Since when a folder has looked the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    /// How it looked.
    pub seen: Fingerprint,
    /// Since when, on the caller's monotonic clock.
    pub since: Duration,
}

/// What to do with a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds a whole release.
    Complete,
    /// Wait for it to be written; look again at `until`, if given, even if nothing changes.
    Waiting {
        /// What is missing.
        reason: String,
        /// On the caller's clock.
        until: Option<Duration>,
    },
    /// It is wrong, and nobody is writing it.
    Rejected {
        /// Why.
        reason: String,
    },
}

/// Judges what was seen at `now`, given what was noted the last time; returns what to note for the next time.
#[must_use]
pub fn judge(
    state: &FolderState,
    seen: Fingerprint,
    earlier: Option<&Settling>,
    now: Duration,
    settle: Duration,
) -> (Settling, Verdict) {
    let since = earlier.filter(|e| e.seen == seen).map_or(now, |e| e.since);
    let verdict = match state {
        FolderState::Complete(_) => Verdict::Complete,
        FolderState::Invalid(reason) => Verdict::Rejected { reason: reason.clone() },
        FolderState::Incomplete(incomplete) => {
            let reason = incomplete.to_string();
            let until = since.saturating_add(settle);
            match incomplete.is_suspect() {
                true if now >= until => Verdict::Rejected { reason },
                true => Verdict::Waiting { reason, until: Some(until) },
                false => Verdict::Waiting { reason, until: None },
            }
        }
    };
    (Settling { seen, since }, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Incomplete;

    fn print(text: &str) -> Fingerprint {
        Fingerprint(Digest::of(text.as_bytes()))
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_missing_file_is_waited_for_without_limit() {
        let state = FolderState::Incomplete(Incomplete::Missing { file: "x".into() });
        let (note, _) = judge(&state, print("a"), None, seconds(0), seconds(5));
        let (_, verdict) = judge(&state, print("a"), Some(&note), seconds(1_000_000), seconds(5));
        assert_eq!(verdict, Verdict::Waiting { reason: "x is missing".into(), until: None });
    }

    #[test]
    fn wrong_content_is_rejected_once_it_stays_as_it_is() {
        let state = FolderState::Incomplete(Incomplete::Longer { file: "x".into(), size: 2, expected: 1 });
        let (note, verdict) = judge(&state, print("a"), None, seconds(10), seconds(5));
        assert!(matches!(verdict, Verdict::Waiting { until: Some(until), .. } if until == seconds(15)));
        // Written on: the time starts anew.
        let (note, verdict) = judge(&state, print("b"), Some(&note), seconds(14), seconds(5));
        assert!(matches!(verdict, Verdict::Waiting { until: Some(until), .. } if until == seconds(19)));
        let (note, verdict) = judge(&state, print("b"), Some(&note), seconds(18), seconds(5));
        assert!(matches!(verdict, Verdict::Waiting { .. }));
        let (_, verdict) = judge(&state, print("b"), Some(&note), seconds(19), seconds(5));
        assert!(matches!(verdict, Verdict::Rejected { .. }));
    }

    #[test]
    fn a_fingerprint_changes_with_any_write() {
        let folder = tempfile::tempdir().unwrap();
        let empty = Fingerprint::of(folder.path());
        fs::create_dir(folder.path().join("plugins")).unwrap();
        fs::write(folder.path().join("plugins/a"), "1").unwrap();
        let one = Fingerprint::of(folder.path());
        assert_eq!(one, Fingerprint::of(folder.path()));
        fs::write(folder.path().join("plugins/a"), "22").unwrap();
        let longer = Fingerprint::of(folder.path());
        fs::remove_dir_all(folder.path()).unwrap();
        let gone = Fingerprint::of(folder.path());
        let all = [empty, one, longer, gone];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}
