//! Bitcoin OTC: who trusts whom on a trading platform (S. Kumar, F. Spezzano, V. Subrahmanian, C. Faloutsos: Edge Weight
//! Prediction in Weighted Signed Networks, ICDM 2016; SNAP, `soc-sign-bitcoinotc`). 5,881 users, 35,592 signed ratings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::data::{self, Finder};
use crate::error::ExampleError;
use crate::tables::{self, Table};

/// The public address.
pub const URL: &str = "https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz";
/// Digest of `rater,ratee,rating,seconds` lines with whole seconds and `\n`.
const DIGEST: &str = "sha256:febe082b17ef5e1fe632d558fc1d3b8d54043908d3df9a9210e743cdc2f9db49";
const WHAT: &str = "the Bitcoin OTC network";
/// The name in our data folder, and SNAP's own.
const NAMES: [&str; 2] = ["bitcoin-otc.csv", "soc-sign-bitcoinotc.csv"];

const GRAPH_TOML: &str = r#"# The bitcoin-otc example, for `sagehost graph build`. See docs/examples.md.
format = 1
key = "u64"

# Nothing is known of a user but the ratings: one constant column, which the layers turn into what the ratings say.
[nodes]
file = "users.csv"
id = "user"
features = ["one"]

[[relations]]
name = "rated-by"
file = "ratings.csv"
from = "rater"
to = "ratee"
time = { column = "time", unit = "s" }
weight = "rating"
columns = ["rating"]

[[relations]]
name = "rates"
file = "ratings.csv"
from = "ratee"
to = "rater"
time = { column = "time", unit = "s" }
weight = "rating"
columns = ["rating"]
"#;

/// One rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rating {
    rater: u64,
    ratee: u64,
    rating: i8,
    /// Seconds since 1970.
    time: i64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Rows of `users.csv`.
    pub users: usize,
    /// Rows of `ratings.csv`.
    pub ratings: usize,
}

/// Writes `users.csv`, `ratings.csv` and `graph.toml` into `folder`.
///
/// # Errors
/// [`ExampleError::Missing`] where the data are nowhere, [`ExampleError::Digest`] where they are not the published ones;
/// what the system says.
pub fn convert(finder: &Finder, folder: &Path) -> Result<Summary, ExampleError> {
    let path = finder.find(WHAT, &NAMES, URL, download)?;
    let text = fs::read_to_string(&path).map_err(ExampleError::io(&path))?;
    let ratings = parse(&text, &path)?;
    let plain: String = ratings.iter().map(|r| format!("{},{},{},{}\n", r.rater, r.ratee, r.rating, r.time)).collect();
    data::verify(WHAT, &path, plain.as_bytes(), DIGEST)?;

    let users: BTreeSet<u64> = ratings.iter().flat_map(|r| [r.rater, r.ratee]).collect();
    let mut table = Table::new(&["user", "one"]);
    for user in &users {
        table.row(format_args!("{user},1"));
    }
    tables::make_folder(folder)?;
    tables::write(folder, "users.csv", table.as_bytes())?;
    tables::write(folder, "ratings.csv", ["rater,ratee,rating,time\n", &plain].concat().as_bytes())?;
    tables::write(folder, "graph.toml", GRAPH_TOML.as_bytes())?;
    Ok(Summary { users: users.len(), ratings: ratings.len() })
}

/// SNAP's seconds have a fraction; they are rounded.
fn parse(text: &str, path: &Path) -> Result<Vec<Rating>, ExampleError> {
    let mut ratings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| ExampleError::Line {
            path: path.to_owned(),
            line: index + 1,
            what: format!("{what}; expected rater,ratee,rating,seconds"),
        };
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        let [rater, ratee, rating, time] = cells[..] else { return Err(wrong(&format!("{} cells", cells.len()))) };
        let time: f64 = time.parse().map_err(|_| wrong("the time is no number"))?;
        if !(0.0..1e11).contains(&time) {
            return Err(wrong("the time is out of range"));
        }
        ratings.push(Rating {
            rater: rater.parse().map_err(|_| wrong("the rater is no number"))?,
            ratee: ratee.parse().map_err(|_| wrong("the ratee is no number"))?,
            rating: rating.parse().map_err(|_| wrong("the rating is no number"))?,
            // Within an i64: checked above.
            time: time.round() as i64,
        });
    }
    Ok(ratings)
}

fn download(to: &Path) -> Result<(), String> {
    let (packed, plain) = (to.join("soc-sign-bitcoinotc.csv.gz"), to.join(NAMES[1]));
    data::curl(URL, &packed)?;
    let text = data::run(Command::new("gzip").arg("-dc").arg(&packed), "gzip")?;
    tables::write(to, NAMES[1], &text).map_err(|e| format!("{}: {e}", plain.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fractional_seconds_and_names_bad_lines() {
        let ratings = parse("6,2,4,1289241911.72836\r\n6,5,-2,1289241942\n", Path::new("f")).unwrap();
        assert_eq!(ratings[0], Rating { rater: 6, ratee: 2, rating: 4, time: 1_289_241_912 });
        assert_eq!(ratings[1], Rating { rater: 6, ratee: 5, rating: -2, time: 1_289_241_942 });
        for (text, part) in [
            ("1,2,3,4\n1,2,3\n", "f, line 2: 3 cells"),
            ("1,x,3,4\n", "the ratee is no number"),
            ("1,2,300,4\n", "the rating is no number"),
            ("1,2,3,inf\n", "out of range"),
        ] {
            let error = parse(text, Path::new("f")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_the_published_one_is_refused() {
        let (data, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(data.path().join(NAMES[0]), "6,2,4,1289241912\n").unwrap();
        let finder = Finder { folders: vec![data.path().into()], downloads: None };
        assert!(matches!(convert(&finder, out.path()), Err(ExampleError::Digest { .. })));
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    }
}
