//! `cargo xtask plugins`: guests to components.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use wit_component::ComponentEncoder;

use crate::wasm::{TARGET, Toolchain};
use crate::{paths, run};

/// Flags of `cargo xtask plugins`.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Build even if nothing has changed.
    #[arg(long)]
    force: bool,
    /// Build the target's standard library from Debian's source, as on a machine where rustup cannot add the target.
    #[arg(long)]
    from_source: bool,
}

/// Builds every guest and returns the folder of the components.
///
/// # Errors
/// No toolchain, a guest that does not compile, a module that is no component of its world.
pub(crate) fn run(args: &Args) -> Result<PathBuf> {
    run::step("plugins: building the guests", || build(args))
}

fn build(args: &Args) -> Result<PathBuf> {
    let workspace = paths::root().join("plugins");
    let target = paths::target()?;
    let out = target.join("plugins");
    let names = guests(&workspace)?;
    let toolchain = Toolchain::find(args.from_source)?;

    let stamp = out.join(".inputs");
    let inputs = inputs(&workspace, &toolchain)?;
    let file = |name: &String| out.join(format!("{name}.wasm"));
    let current = fs::read_to_string(&stamp).is_ok_and(|last| last == inputs);
    if current && !args.force && names.iter().all(|name| file(name).is_file()) {
        println!("{} guests in {} are up to date", names.len(), out.display());
        return Ok(out);
    }

    let intermediate = target.join("plugins-build");
    if matches!(toolchain, Toolchain::FromSource { .. }) && !intermediate.is_dir() {
        println!("the first build compiles the standard library too: two minutes or so");
    }
    // A new guest changes the lock file; in CI nothing may.
    let locked = std::env::var_os("CI").map(|_| "--locked");
    run::run(toolchain.cargo_build().current_dir(&workspace).args(locked).arg("--target-dir").arg(&intermediate))?;

    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    // Until all are written, the folder counts as out of date.
    let _ = fs::remove_file(&stamp);
    for name in &names {
        let module = intermediate.join(TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")));
        let component = component(&module).with_context(|| format!("guest `{name}` is no component"))?;
        println!("  {name}.wasm  {} kB", component.len().div_ceil(1000));
        write(&file(name), &component)?;
    }
    write(&stamp, inputs.as_bytes())?;
    println!("{} guests in {}", names.len(), out.display());
    Ok(out)
}

/// Every member that is built as a `cdylib`.
fn guests(workspace: &Path) -> Result<Vec<String>> {
    let metadata = paths::metadata(workspace, false)?;
    let is_guest =
        |package: &paths::Package| package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "cdylib"));
    let mut names: Vec<String> = metadata.packages.into_iter().filter(is_guest).map(|package| package.name).collect();
    names.sort();
    if names.is_empty() {
        bail!("no guest in {}", workspace.display());
    }
    Ok(names)
}

/// Makes a core module, which carries its world in a custom section, a component.
fn component(module: &Path) -> Result<Vec<u8>> {
    let module = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    ComponentEncoder::default().validate(true).module(&module)?.encode()
}

/// Written beside and renamed, so that nobody reads half a file.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let part = path.with_extension(format!("part{}", std::process::id()));
    fs::write(&part, content).with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, path).with_context(|| format!("cannot write {}", path.display()))
}

/// A digest of everything that the guests are made from.
fn inputs(workspace: &Path, toolchain: &Toolchain) -> Result<String> {
    let mut files = Vec::new();
    list(workspace, &mut files)?;
    list(&paths::root().join("wit"), &mut files)?;
    files.push(paths::root().join("xtask/src/plugins.rs"));
    files.push(paths::root().join("xtask/src/wasm.rs"));
    files.sort();
    let mut hash = Sha256::new();
    hash.update(toolchain.version()?);
    for file in files {
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        hash.update(file.as_os_str().as_encoded_bytes());
        hash.update(content.len().to_le_bytes());
        hash.update(content);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let kind = entry.file_type().context("cannot tell a file from a folder")?;
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && entry.file_name() != "target" {
            list(&entry.path(), files)?;
        }
    }
    Ok(())
}
