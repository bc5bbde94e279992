//! Reads `graph.toml`, and reports everything that is wrong with it together, with lines.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::GraphError;
use crate::schema::KeyType;

/// A graph's sources.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) key: KeyType,
    pub(super) nodes: NodesConfig,
    pub(super) relations: Vec<RelationConfig>,
}

/// A text of the configuration with its place (`line 7: nodes.id`), for errors that show later.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) place: String,
}

/// A CSV file.
#[derive(Debug)]
pub(super) struct CsvSource {
    pub(super) file: Text,
    /// Beside the configuration.
    pub(super) path: PathBuf,
    /// Names for the columns of a file without a header line.
    pub(super) header: Option<Vec<String>>,
    pub(super) delimiter: u8,
}

#[derive(Debug)]
pub(super) enum NodesConfig {
    /// Nodes are the keys seen in edges.
    FromEdges,
    File(Box<NodesFile>),
}

/// The nodes file and what to read of it.
#[derive(Debug)]
pub(super) struct NodesFile {
    pub(super) source: CsvSource,
    pub(super) id: Text,
    pub(super) features: FeaturesConfig,
}

#[derive(Debug)]
pub(super) enum FeaturesConfig {
    /// A numeric column each.
    Columns(Vec<Text>),
    /// A column of positions that are 1, the others 0.
    Indices { column: Text, width: usize },
}

impl FeaturesConfig {
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Columns(columns) => columns.iter().map(|column| column.text.clone()).collect(),
            Self::Indices { width, .. } => (0..*width).map(|i| format!("f{i}")).collect(),
        }
    }

    /// The columns read.
    pub(super) fn columns(&self) -> &[Text] {
        match self {
            Self::Columns(columns) => columns,
            Self::Indices { column, .. } => std::slice::from_ref(column),
        }
    }
}

#[derive(Debug)]
pub(super) struct RelationConfig {
    pub(super) name: Text,
    pub(super) source: CsvSource,
    pub(super) from: Text,
    pub(super) to: Text,
    pub(super) time: Option<TimeConfig>,
    pub(super) weight: Option<Text>,
    pub(super) columns: Vec<Text>,
    pub(super) symmetric: bool,
}

#[derive(Debug)]
pub(super) struct TimeConfig {
    pub(super) column: Text,
    pub(super) unit: TimeUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Milliseconds,
}

/// Widest rows that an import takes: a snapshot of dense rows that are wider is a mistake.
const MAX_WIDTH: i64 = 65_536;

impl Config {
    pub(super) fn read(path: &Path) -> Result<Self, GraphError> {
        let text = std::fs::read_to_string(path).map_err(GraphError::io(path))?;
        let mut reader = Reader { text: &text, folder: path.parent().unwrap_or(Path::new("")), problems: Vec::new() };
        let config = match DeTable::parse(&text) {
            Ok(table) => reader.config(table.get_ref()),
            Err(error) => {
                let detail = error.message().to_owned();
                reader.problem(error.span().unwrap_or(0..0), "not TOML", &detail);
                None
            }
        };
        match config {
            Some(config) if reader.problems.is_empty() => Ok(config),
            _ => Err(GraphError::Config { path: path.to_path_buf(), problems: reader.problems }),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    folder: &'a Path,
    problems: Vec<String>,
}

/// A table and where it is: `relations[1]`, and its place in the text.
struct Table<'a, 'i> {
    table: &'a DeTable<'i>,
    name: String,
    span: Range<usize>,
}

impl<'a, 'i> Table<'a, 'i> {
    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn key(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

impl Reader<'_> {
    fn place(&self, span: &Range<usize>, key: &str) -> String {
        let line = self.text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1;
        format!("line {line}: {key}")
    }

    fn problem(&mut self, span: Range<usize>, key: &str, detail: &str) {
        let place = self.place(&span, key);
        self.problems.push(format!("{place}: {detail}"));
    }

    /// A wrong type.
    fn wrong(&mut self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str) {
        let detail = format!("{expected} is expected, not {} {}", article(value), value.get_ref().type_str());
        self.problem(value.span(), key, &detail);
    }

    fn unknown(&mut self, table: &Table<'_, '_>, known: &[&str]) {
        for (name, _) in table.table.iter().filter(|(name, _)| !known.contains(&name.get_ref().as_ref())) {
            let detail = format!("unknown key; known are {}", known.join(", "));
            self.problem(name.span(), &table.key(name.get_ref()), &detail);
        }
    }

    fn as_text(&mut self, value: &Spanned<DeValue<'_>>, key: &str) -> Option<Text> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong(value, key, "a string");
            return None;
        };
        if text.is_empty() {
            self.problem(value.span(), key, "is empty");
            return None;
        }
        Some(Text { text: text.to_owned(), place: self.place(&value.span(), key) })
    }

    fn text(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Text> {
        table.get(key).and_then(|value| self.as_text(value, &table.key(key)))
    }

    fn required(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Text> {
        if table.get(key).is_none() {
            self.problem(table.span.clone(), &table.key(key), "is missing");
        }
        self.text(table, key)
    }

    fn texts(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Vec<Text>> {
        let value = table.get(key)?;
        let Some(list) = value.get_ref().as_array() else {
            self.wrong(value, &table.key(key), "a list of strings");
            return None;
        };
        Some(list.iter().filter_map(|item| self.as_text(item, &table.key(key))).collect())
    }

    fn flag(&mut self, table: &Table<'_, '_>, key: &str) -> bool {
        let Some(value) = table.get(key) else { return false };
        if value.get_ref().as_bool().is_none() {
            self.wrong(value, &table.key(key), "true or false");
        }
        value.get_ref().as_bool().unwrap_or(false)
    }

    fn integer(&mut self, table: &Table<'_, '_>, key: &str) -> Option<i64> {
        let Some(value) = table.get(key) else {
            self.problem(table.span.clone(), &table.key(key), "is missing");
            return None;
        };
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok());
        if number.is_none() {
            self.wrong(value, &table.key(key), "an integer");
        }
        number
    }

    fn subtable<'b, 'i>(&mut self, table: &Table<'b, 'i>, key: &str) -> Option<Table<'b, 'i>> {
        let value = table.get(key)?;
        let name = table.key(key);
        let Some(inner) = value.get_ref().as_table() else {
            self.wrong(value, &name, "a table");
            return None;
        };
        Some(Table { table: inner, name, span: value.span() })
    }

    fn config(&mut self, table: &DeTable<'_>) -> Option<Config> {
        let root = Table { table, name: String::new(), span: 0..0 };
        self.unknown(&root, &["format", "key", "nodes", "relations"]);
        if let Some(format) = self.integer(&root, "format").filter(|&format| format != 1) {
            let span = root.get("format").map_or(0..0, Spanned::span);
            self.problem(span, "format", &format!("{format} is unknown: this sagehost reads format 1"));
        }
        let key = self.required(&root, "key").and_then(|key| match key.text.as_str() {
            "u64" => Some(KeyType::U64),
            "string" => Some(KeyType::String),
            other => {
                self.problems.push(format!("{}: `{other}` is unknown: u64 or string", key.place));
                None
            }
        });
        if root.get("nodes").is_none() {
            self.problem(0..0, "nodes", "is missing: a table with `file`, or with `from_edges = true`");
        }
        let nodes = self.subtable(&root, "nodes").and_then(|nodes| self.nodes(&nodes));
        let relations = self.relations(&root);
        Some(Config { key: key?, nodes: nodes?, relations: relations? })
    }

    fn relations(&mut self, root: &Table<'_, '_>) -> Option<Vec<RelationConfig>> {
        let Some(value) = root.get("relations") else {
            self.problem(0..0, "relations", "is missing: a [[relations]] table for each kind of edge");
            return None;
        };
        let Some(list) = value.get_ref().as_array() else {
            self.wrong(value, "relations", "a list of tables");
            return None;
        };
        let mut relations = Vec::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            let name = format!("relations[{index}]");
            match item.get_ref().as_table() {
                Some(table) => relations.extend(self.relation(&Table { table, name, span: item.span() })),
                None => self.wrong(item, &name, "a table"),
            }
        }
        // One that is missing has left a problem.
        Some(relations)
    }

    fn nodes(&mut self, table: &Table<'_, '_>) -> Option<NodesConfig> {
        self.unknown(table, &["file", "header", "delimiter", "id", "features", "indices", "from_edges"]);
        if self.flag(table, "from_edges") {
            for key in ["file", "header", "delimiter", "id", "features", "indices"] {
                if let Some(value) = table.get(key) {
                    self.problem(value.span(), &table.key(key), "does not go with `from_edges = true`");
                }
            }
            return Some(NodesConfig::FromEdges);
        }
        let source = self.source(table);
        let id = self.required(table, "id");
        let features = match (table.get("features"), table.get("indices")) {
            (Some(_), Some(both)) => {
                self.problem(both.span(), &table.key("indices"), "give either `features` or `indices`");
                None
            }
            (_, None) => Some(FeaturesConfig::Columns(self.texts(table, "features").unwrap_or_default())),
            (None, Some(_)) => self.indices(table),
        };
        Some(NodesConfig::File(Box::new(NodesFile { source: source?, id: id?, features: features? })))
    }

    fn indices(&mut self, table: &Table<'_, '_>) -> Option<FeaturesConfig> {
        let table = self.subtable(table, "indices")?;
        self.unknown(&table, &["column", "width"]);
        let column = self.required(&table, "column");
        let width = self.integer(&table, "width")?;
        match usize::try_from(width) {
            Ok(size) if width <= MAX_WIDTH => Some(FeaturesConfig::Indices { column: column?, width: size }),
            _ => {
                let span = table.get("width").map_or(table.span.clone(), Spanned::span);
                self.problem(span, &table.key("width"), &format!("{width} is not between 0 and {MAX_WIDTH}"));
                None
            }
        }
    }

    fn relation(&mut self, table: &Table<'_, '_>) -> Option<RelationConfig> {
        let known = ["name", "file", "header", "delimiter", "from", "to", "time", "weight", "columns", "symmetric"];
        self.unknown(table, &known);
        let name = self.required(table, "name");
        let source = self.source(table);
        let (from, to) = (self.required(table, "from"), self.required(table, "to"));
        let time = self.subtable(table, "time").and_then(|time| self.time(&time));
        let weight = self.text(table, "weight");
        let columns = self.texts(table, "columns").unwrap_or_default();
        let symmetric = self.flag(table, "symmetric");
        Some(RelationConfig { name: name?, source: source?, from: from?, to: to?, time, weight, columns, symmetric })
    }

    fn time(&mut self, table: &Table<'_, '_>) -> Option<TimeConfig> {
        self.unknown(table, &["column", "unit"]);
        let column = self.required(table, "column");
        let unit = self.required(table, "unit")?;
        let unit = match unit.text.as_str() {
            "s" => TimeUnit::Seconds,
            "ms" => TimeUnit::Milliseconds,
            other => {
                self.problems.push(format!("{}: `{other}` is unknown: s or ms", unit.place));
                return None;
            }
        };
        Some(TimeConfig { column: column?, unit })
    }

    fn source(&mut self, table: &Table<'_, '_>) -> Option<CsvSource> {
        let file = self.required(table, "file");
        let header = self.texts(table, "header").map(|names| names.into_iter().map(|name| name.text).collect());
        let delimiter = match self.text(table, "delimiter") {
            None => b',',
            Some(text) => match *text.text.as_bytes() {
                [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => byte,
                _ => {
                    self.problems.push(format!("{}: one ASCII character is expected", text.place));
                    b','
                }
            },
        };
        let file = file?;
        Some(CsvSource { path: self.folder.join(&file.text), file, header, delimiter })
    }
}

/// Before the name of a TOML type.
fn article(value: &Spanned<DeValue<'_>>) -> &'static str {
    if value.get_ref().type_str().starts_with(['a', 'i']) { "an" } else { "a" }
}
