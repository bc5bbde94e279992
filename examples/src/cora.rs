//! Cora: 2,708 papers, 5,278 citations between them, 1,433 words, 7 subjects; the public split of Planetoid (Z. Yang, W. Cohen,
//! R. Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016).

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::data::{self, Finder};
use crate::error::ExampleError;
use crate::tables;

/// The public address: a folder of pickles, `ind.cora.*`.
pub const URL: &str = "https://github.com/kimiyoung/planetoid/raw/master/data";
const WHAT: &str = "Cora";
const NODES: (&str, &str) =
    ("cora/nodes.csv", "sha256:a6cc9da48317a254ede29991a73b8890b26a983afcc19dd2256012db3c3fa50b");
const EDGES: (&str, &str) =
    ("cora/edges.csv", "sha256:69a173f2ac604f48d31bae25d1e816faaa7f5d1c174270259c71e46f9a09d4aa");
/// Reads the pickles with Python's standard library alone: a pickle reader in Rust for one data set would be too much.
const UNPICKLE: &str = include_str!("../cora/planetoid.py");
const PARTS: [&str; 8] = ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"];

const GRAPH_TOML: &str = r#"# The cora example, for `sagehost graph build`. See docs/examples.md.
format = 1
key = "u64"

# The places of the words that a paper has, of 1,433: columns f0 to f1432, 1 where the word is.
[nodes]
file = "nodes.csv"
id = "id"
indices = { column = "words", width = 1433 }

[[relations]]
name = "cites"
file = "edges.csv"
from = "u"
to = "v"
symmetric = true
"#;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Rows of `nodes.csv`.
    pub papers: usize,
    /// Rows of `edges.csv`: each an edge in both directions.
    pub citations: usize,
}

/// Writes `nodes.csv` (id, label, split, words), `edges.csv` (u, v) and `graph.toml` into `folder`.
///
/// # Errors
/// As [`crate::bitcoin::convert`].
pub fn convert(finder: &Finder, folder: &Path) -> Result<Summary, ExampleError> {
    let nodes = read(finder, NODES)?;
    let edges = read(finder, EDGES)?;
    tables::make_folder(folder)?;
    tables::write(folder, "nodes.csv", nodes.as_bytes())?;
    tables::write(folder, "edges.csv", edges.as_bytes())?;
    tables::write(folder, "graph.toml", GRAPH_TOML.as_bytes())?;
    Ok(Summary { papers: nodes.lines().count() - 1, citations: edges.lines().count() - 1 })
}

/// One of the two tables, whatever its line ends.
fn read(finder: &Finder, (name, digest): (&str, &'static str)) -> Result<String, ExampleError> {
    let path = finder.find(WHAT, &[name], URL, |to| download(URL, to))?;
    let text = fs::read_to_string(&path).map_err(ExampleError::io(&path))?.replace("\r\n", "\n");
    data::verify(WHAT, &path, text.as_bytes(), digest)?;
    Ok(text)
}

/// Downloads the pickles from `url` and makes both tables of them.
fn download(url: &str, to: &Path) -> Result<(), String> {
    let folder = to.join("cora");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for part in PARTS {
        data::curl(&format!("{url}/ind.cora.{part}"), &folder.join(format!("ind.cora.{part}")))?;
    }
    data::run(Command::new("python3").args(["-c", UNPICKLE]).arg(&folder), "python3").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_are_not_the_published_ones_are_refused() {
        let (data, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(data.path().join("cora")).unwrap();
        fs::write(data.path().join(NODES.0), "id,label,split,words\n0,3,train,19 81\n").unwrap();
        let finder = Finder { folders: vec![data.path().into()], downloads: None };
        assert!(matches!(convert(&finder, out.path()), Err(ExampleError::Digest { .. })));
        fs::remove_file(data.path().join(NODES.0)).unwrap();
        let missing = convert(&finder, out.path()).unwrap_err().to_string();
        assert!(missing.contains("Cora was not found") && missing.contains("cora/nodes.csv"), "{missing}");
    }
}
