//! `make-example`: writes an example's tables, for the training scripts and for `sagehost graph build`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sagehost_examples::data::Finder;
use sagehost_examples::{ExampleError, bitcoin, cora, transfers};

const USAGE: &str = "usage: make-example transfers|bitcoin-otc|cora FOLDER";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(example), Some(folder), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match make(&example, &PathBuf::from(folder)) {
        Some(Ok(summary)) => println!("{summary}"),
        Some(Err(error)) => {
            eprintln!("make-example: {error}");
            return ExitCode::FAILURE;
        }
        None => {
            eprintln!("make-example: there is no example `{example}`\n{USAGE}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn make(example: &str, folder: &Path) -> Option<Result<String, ExampleError>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Some(match example {
        "transfers" => transfers::generate(folder, transfers::SEED).map(|summary| format!("{summary:?}")),
        "bitcoin-otc" => bitcoin::convert(&Finder::usual(&root), folder).map(|summary| format!("{summary:?}")),
        "cora" => cora::convert(&Finder::usual(&root), folder).map(|summary| format!("{summary:?}")),
        _ => return None,
    })
}
