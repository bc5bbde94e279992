//! Where values come from: a TOML file's leaves and environment variables, both as text, each with its place.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{KEYS, variable};

/// Where a value was given.
#[derive(Clone, Debug)]
pub(super) enum Place {
    File { path: PathBuf, line: usize },
    Variable(String),
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Default => f.write_str("configuration"),
        }
    }
}

/// Values by key, and the problems found so far.
pub(super) struct Values {
    given: BTreeMap<String, (String, Place)>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Values {
    pub(super) fn collect(file: Option<(&Path, &str)>, environment: impl Iterator<Item = (String, String)>) -> Self {
        let mut values = Self { given: BTreeMap::new(), problems: Vec::new(), warnings: Vec::new() };
        if let Some((path, text)) = file {
            values.read_file(path, text);
        }
        let names: BTreeMap<String, &str> = KEYS.iter().map(|k| (variable(k.name), k.name)).collect();
        for (name, text) in environment {
            match names.get(&name) {
                Some(key) => {
                    values.given.insert((*key).to_string(), (text, Place::Variable(name)));
                }
                // Not a problem: Kubernetes sets SAGEHOST_PORT and the like in every pod beside a Service named sagehost.
                None if name.starts_with("SAGEHOST_") => {
                    values
                        .warnings
                        .push(format!("${name} is not a key of the configuration; see docs/configuration.md"));
                }
                None => {}
            }
        }
        values
    }

    fn read_file(&mut self, path: &Path, text: &str) {
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                self.problems.push(format!("{}:{line}: {}", path.display(), error.message()));
                return;
            }
        };
        self.flatten(path, text, "", table.get_ref());
    }

    fn flatten(&mut self, path: &Path, text: &str, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            let place = Place::File { path: path.to_path_buf(), line: line_of(text, name.span().start) };
            match value.get_ref() {
                DeValue::Table(graphs) if key == "graphs" => {
                    let entries: Vec<String> =
                        graphs.iter().map(|(n, v)| format!("{}={}", n.get_ref(), leaf(v))).collect();
                    self.given.insert(key, (entries.join(","), place));
                }
                DeValue::Table(inner) => self.flatten(path, text, &key, inner),
                _ if KEYS.iter().any(|k| k.name == key) => {
                    self.given.insert(key, (leaf(value), place));
                }
                _ => self.problems.push(format!("{place}: `{key}`: there is no such key; see docs/configuration.md")),
            }
        }
    }

    fn raw(&self, key: &str) -> (String, Place) {
        if let Some((text, place)) = self.given.get(key) {
            return (text.clone(), place.clone());
        }
        let default = KEYS.iter().find(|k| k.name == key).and_then(|k| k.default).unwrap_or_default();
        (default.to_string(), Place::Default)
    }

    /// A value by its parser, which says what would be right.
    pub(super) fn get<T>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, &'static str>) -> T {
        let (text, place) = self.raw(key);
        match parse(&text) {
            Ok(value) => value,
            Err(wanted) => {
                self.problem_at(&place, key, &format!("`{text}` is not {wanted}"));
                let default = KEYS.iter().find(|k| k.name == key).and_then(|k| k.default).unwrap_or_default();
                // A test parses every default.
                parse(default).unwrap_or_else(|_| panic!("the default of `{key}` does not parse"))
            }
        }
    }

    pub(super) fn number(&mut self, key: &str, least: usize, most: usize) -> usize {
        let (text, place) = self.raw(key);
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => number,
            _ => {
                self.problem_at(&place, key, &format!("`{text}` is not a whole number from {least} to {most}"));
                least
            }
        }
    }

    /// Milliseconds, an hour at most.
    pub(super) fn millis(&mut self, key: &str, least: usize) -> Duration {
        Duration::from_millis(self.number(key, least, 3_600_000) as u64)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        Some(self.raw(key).0).filter(|text| !text.is_empty())
    }

    pub(super) fn list(&mut self, key: &str) -> Vec<(String, Place)> {
        let (text, place) = self.raw(key);
        text.split(',').map(str::trim).filter(|e| !e.is_empty()).map(|e| (e.to_string(), place.clone())).collect()
    }

    /// A path, resolved; a problem where the key has no default and is not given.
    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        let (text, place) = self.raw(key);
        if text.is_empty() {
            if KEYS.iter().any(|k| k.name == key && k.default.is_none()) {
                self.problem(key, &format!("is required: give it in the file or as ${}", variable(key)));
            }
            return None;
        }
        Some(place.resolve(&text))
    }

    pub(super) fn problem(&mut self, key: &str, detail: &str) {
        let place = self.raw(key).1;
        self.problem_at(&place, key, detail);
    }

    pub(super) fn problem_at(&mut self, place: &Place, key: &str, detail: &str) {
        self.problems.push(format!("{place}: `{key}`: {detail}"));
    }

    /// What cannot be used, and what was not understood.
    pub(super) fn into_findings(self) -> (Vec<String>, Vec<String>) {
        (self.problems, self.warnings)
    }
}

/// A leaf as the environment would write it.
fn leaf(value: &Spanned<DeValue<'_>>) -> String {
    match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().replace('_', ""),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Array(items) => items.iter().map(leaf).collect::<Vec<_>>().join(","),
        DeValue::Datetime(_) | DeValue::Table(_) => String::from("(not a plain value)"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
}
