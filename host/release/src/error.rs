//! What can be wrong with a release, in words that its author can act on.

use std::fmt;
use std::path::PathBuf;

use sagehost_types::Digest;

/// One thing that is wrong, and where: `model.layers[1].convs[0].aggregator`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, written as a path from the file's root.
    pub place: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Every problem of one file, reported together. As text: one stands alone; several have a line each, and of many of them
/// the first ten are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Most problems that are shown: one wrong column of the schema is a problem of every row.
    const SHOWN: usize = 10;

    pub(crate) fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { place: place.into(), message: message.into() });
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0.as_slice() {
            return write!(f, "{problem}");
        }
        write!(f, "{} problems:", self.0.len())?;
        for problem in self.0.iter().take(Self::SHOWN) {
            write!(f, "\n  - {problem}")?;
        }
        match self.0.len().saturating_sub(Self::SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  - and {more} more"),
        }
    }
}

/// Why a release cannot be read, packed or used.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be parsed, or holds an unknown key or a value of the wrong type.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A file's values contradict each other or a limit.
    #[error("{file}: {problems}")]
    Invalid {
        /// The file.
        file: String,
        /// All of them.
        problems: Problems,
    },
    /// A file's format number is not one that this sagehost reads.
    #[error("{file}: format {found} is not known to this sagehost, which reads format 1")]
    UnknownFormat {
        /// The file.
        file: String,
        /// What it says.
        found: String,
    },
    /// A file is not what the manifest says, though it was when the folder was verified.
    #[error("{file} is no longer what the manifest states (size and digest): was the folder changed?")]
    Changed {
        /// The file, relative to the release folder.
        file: String,
    },
    /// A file is larger than the limit for its kind.
    #[error("{file} has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The folder is not `<model>/<version>`, or these cannot name a release.
    #[error("`{name}` cannot name a release: {expected}")]
    BadName {
        /// What was given.
        name: String,
        /// What would do.
        expected: &'static str,
    },
    /// The folder is not a whole release.
    #[error("{} is not a complete release: {reason}", folder.display())]
    NotComplete {
        /// The folder.
        folder: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another release stands where this one was to go. Releases are immutable.
    #[error(
        "{} already holds another release ({existing}, not {packed}): releases are immutable, choose another version",
        folder.display()
    )]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// What is there.
        existing: String,
        /// What was to be put there.
        packed: Digest,
    },
    /// A plugin's file is nowhere.
    #[error(
        "plugins.{role}.file: `{file}` is not found; looked for {searched}. Build it, or name the folder that holds it with \
         `--plugins DIR`"
    )]
    MissingPlugin {
        /// The role.
        role: &'static str,
        /// The file as `release.toml` names it.
        file: String,
        /// Where it was looked for.
        searched: String,
    },
}

/// Names for a message, quoted: the first ten and how many more there are.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const NAMED: usize = 10;
    let mut names = names.into_iter();
    let first: Vec<String> = names.by_ref().take(NAMED).map(|name| format!("`{name}`")).collect();
    match (first.len(), names.count()) {
        (0, _) => "none".into(),
        (_, 0) => first.join(", "),
        (_, more) => format!("{} and {more} more", first.join(", ")),
    }
}

impl ReleaseError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_is_a_line_and_many_are_cut() {
        let mut problems = Problems::default();
        problems.add("a", "is wrong");
        assert_eq!(problems.to_string(), "a: is wrong");
        problems.add("b", "is, too");
        assert_eq!(problems.to_string(), "2 problems:\n  - a: is wrong\n  - b: is, too");
        for row in 0..58 {
            problems.add(format!("c[{row}]"), "has 2 values");
        }
        let text = problems.to_string();
        assert!(
            text.starts_with("60 problems:\n") && text.ends_with("\n  - c[7]: has 2 values\n  - and 50 more"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 12);
    }

    #[test]
    fn names_are_listed_up_to_ten() {
        assert_eq!(listed([]), "none");
        assert_eq!(listed(["a", "b"]), "`a`, `b`");
        assert_eq!(listed(["x"; 12]), format!("{} and 2 more", ["`x`"; 10].join(", ")));
    }
}
