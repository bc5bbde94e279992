//! Encodes each world of `wit/v0.1` as the section that makes a core module a component of that world. wit-bindgen would put it
//! there, but only with one set of types per world; and its export macros for two worlds cannot live in one crate.

use std::fmt::Write as _;
use std::path::Path;

use wit_component::{StringEncoding, metadata};
use wit_parser::Resolve;

const WIT: &str = "../../wit/v0.1";

fn main() {
    println!("cargo::rerun-if-changed={WIT}");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(Path::new(WIT)).expect("wit/v0.1 is valid");
    let worlds = resolve.packages[package].worlds.clone();
    let mut source = String::new();
    for (name, world) in worlds {
        let bytes = metadata::encode(&resolve, world, StringEncoding::UTF8, None).expect("a world can be encoded");
        let constant = name.to_uppercase().replace('-', "_");
        writeln!(source, "pub const {constant}: [u8; {}] = {bytes:?};", bytes.len()).expect("a string takes any text");
    }
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("worlds.rs"), source).expect("OUT_DIR is writable");
}
