//! The documentation keeps its word: every command is run (or, where it would compile, compared with the commands' help),
//! links and paths resolve, and quoted files are what they say.
//!
//! Blocks are marked by their fence: `sh` is run as it stands, `sh serve` starts a server, `sh server` asks it, `sh xtask`
//! is compared with help, `sh torch` is run where PyTorch Geometric is. CONTRIBUTING.md says so too.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sagehost_testkit::client::Client;
use sagehost_testkit::releases::{mule_risk, pack, plugins, transfers_graph};
use sagehost_testkit::{free_port, root};

const BINARY: &str = env!("CARGO_BIN_EXE_sagehost");
/// Longest wait for what a block's output must hold, such as a swap's end.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_readme_works() {
    Session::new().follow("README.md");
}

#[test]
fn the_first_model_works() {
    Session::new().follow("docs/first-model.md");
}

#[test]
fn the_other_manuals_work() {
    for page in pages().iter().filter(|page| !["README.md", "docs/first-model.md"].contains(&page.as_str())) {
        if fences(page).iter().any(|fence| fence.is("sh")) {
            Session::new().follow(page);
        }
    }
}

/// Commands that are shown in passing are not run, as they name files that nobody has; but clap must take them.
#[test]
fn every_command_line_is_one_that_the_binary_takes() {
    let empty = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for page in pages() {
        let shown = fences(&page).into_iter().filter(|fence| !fence.is("sh")).map(|fence| fence.text);
        let shown: Vec<String> = shown.chain(spans(&page)).collect();
        let lines = shown.iter().flat_map(|text| text.lines());
        for line in lines.map(|line| line.trim().trim_start_matches("$ ")).filter(|line| line.starts_with("sagehost "))
        {
            let line = line.split(" #").next().unwrap_or(line);
            let words: Vec<&str> = line.split_whitespace().skip(1).map(|w| if w == "N" { "1" } else { w }).collect();
            // A command's name alone, or one that would serve: its words and flags must be known. Else a run that finds no
            // files.
            let named = words.len() <= 2 && words.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase()));
            let words = if named || words[0] == "serve" { [&words[..], &["--help"]].concat() } else { words };
            let output = Command::new(BINARY).args(&words).current_dir(&empty).output().unwrap();
            if output.status.code() == Some(2) {
                faults.push(format!("{page}: `{line}`: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn links_and_paths_resolve() {
    let mut faults = Vec::new();
    for page in pages() {
        let folder = root().join(&page).parent().unwrap().to_path_buf();
        for link in links(&page) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { root().join(&page) } else { folder.join(file) };
            let has_anchor = || anchors(&target).iter().any(|known| known == anchor);
            if !target.exists() || !(anchor.is_empty() || has_anchor()) {
                faults.push(format!("{page}: {link}"));
            }
        }
        // What is written as a path of this repository is one.
        let folders = ["host/", "tests/", "plugins/", "wit/", "shaders/", "docs/", "xtask/", "examples/"];
        let paths = spans(&page).into_iter().filter(|span| folders.iter().any(|folder| span.starts_with(folder)));
        for span in paths.filter(|span| !span.contains(['{', '<', '*', ' ', '…']) && !span.contains("/my-")) {
            if !root().join(&span).exists() {
                faults.push(format!("{page}: `{span}`"));
            }
        }
    }
    assert!(faults.is_empty(), "these lead nowhere:\n{}", faults.join("\n"));
}

#[test]
fn quoted_files_are_what_they_say() {
    let mut quoted = 0;
    for page in pages() {
        let quotes = |fence: &&Fence| (fence.is("toml") || fence.is("rust")) && fence.marks.len() > 1;
        for fence in fences(&page).iter().filter(quotes) {
            let file = std::fs::read_to_string(root().join(&fence.marks[1])).unwrap();
            assert_eq!(fence.text, file, "{page} line {} quotes {}", fence.line, fence.marks[1]);
            quoted += 1;
        }
    }
    assert!(quoted >= 4, "docs/first-model.md quotes three files, docs/plugins.md a plugin");
}

/// Every manual, relative to the root.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".into(), "ARCHITECTURE.md".into(), "CONTRIBUTING.md".into(), "CHANGELOG.md".into()];
    for folder in ["docs", "plugins", "examples", "examples/transfers", "examples/bitcoin-otc", "examples/cora"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found.sort();
    found
}

/// A fenced block.
struct Fence {
    /// The words behind the fence.
    marks: Vec<String>,
    text: String,
    line: usize,
    /// What its output must hold.
    expected: Vec<String>,
}

impl Fence {
    fn is(&self, language: &str) -> bool {
        self.marks.first().is_some_and(|mark| mark == language)
    }
}

fn fences(page: &str) -> Vec<Fence> {
    let mut found: Vec<Fence> = Vec::new();
    let mut open: Option<Fence> = None;
    for (number, line) in std::fs::read_to_string(root().join(page)).unwrap().lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            match open.take() {
                Some(fence) => found.push(fence),
                None => {
                    let marks = info.split_whitespace().map(String::from).collect();
                    open = Some(Fence { marks, text: String::new(), line: number + 1, expected: Vec::new() });
                }
            }
        } else if let Some(fence) = &mut open {
            fence.text += line;
            fence.text.push('\n');
        } else if let Some(text) = line.strip_prefix("<!-- expect: ").and_then(|rest| rest.strip_suffix(" -->")) {
            found.last_mut().expect("a block above the expectation").expected.push(text.into());
        }
    }
    assert!(open.is_none(), "{page}: a fence is not closed");
    found
}

/// The page without its fenced blocks.
fn prose(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let mut fenced = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// Inline code.
fn spans(page: &str) -> Vec<String> {
    let prose = prose(&root().join(page));
    prose.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect()
}

/// Targets of links within the repository.
fn links(page: &str) -> Vec<String> {
    let prose = prose(&root().join(page));
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).map(String::from).collect()
}

/// A page's headings, as links name them.
fn anchors(page: &Path) -> Vec<String> {
    let slug = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
    };
    prose(page).lines().filter(|line| line.starts_with('#')).map(|line| slug(line.trim_start_matches('#'))).collect()
}

/// A user with a clone of the repository, where `cargo xtask demo` was run once.
struct Session {
    folder: tempfile::TempDir,
    server: Option<Server>,
}

impl Session {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["docs", "examples", "plugins", "wit"] {
            copy(&root().join(part), &folder.path().join(part));
        }
        copy(&plugins(), &folder.path().join("target/plugins"));
        std::fs::create_dir_all(folder.path().join("target/release")).unwrap();
        std::os::unix::fs::symlink(BINARY, folder.path().join("target/release/sagehost")).unwrap();
        Self { folder, server: None }
    }

    fn clone(&self) -> &Path {
        self.folder.path()
    }

    fn follow(&mut self, page: &str) {
        for fence in fences(page).iter().filter(|fence| fence.is("sh")) {
            println!("{page} line {}: {}", fence.line, fence.text);
            let place = format!("{page} line {}", fence.line);
            match fence.marks.get(1).map(String::as_str) {
                None => drop(self.run(&place, &fence.text)),
                Some("server") => self.ask(&place, fence),
                Some("serve") => {
                    // The old one ends first, as its files may be the new one's.
                    self.server = None;
                    self.server = Some(self.serve(fence.text.trim()));
                }
                Some("xtask") => self.compile(&place, fence),
                Some("torch") => self.train(&place, &fence.text),
                Some(other) => panic!("{place}: no block is marked `{other}`"),
            }
        }
    }

    /// bash, in the folder and with the environment that the block before left: one terminal.
    fn bash(&self, text: &str) -> Command {
        let state = self.clone().join(".state");
        let script = format!(
            "set -euo pipefail\n[ ! -f '{0}' ] || . '{0}'\n{text}\n{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > '{0}'\n",
            state.display()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(self.clone()).stdin(Stdio::null());
        command
    }

    fn run(&self, place: &str, text: &str) -> String {
        let output = self.bash(text).output().expect("bash");
        assert!(output.status.success(), "{place}:\n{text}\n{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Asks the running server, until the output holds what is expected.
    fn ask(&self, place: &str, fence: &Fence) {
        let server = self.server.as_ref().unwrap_or_else(|| panic!("{place}: no server runs"));
        let text = fence.text.replace("127.0.0.1:8080", &server.address).replace("127.0.0.1:8081", &server.admin);
        let text = text.replace("sagehost predict", &format!("sagehost predict --server http://{}", server.address));
        let end = Instant::now() + PATIENCE;
        loop {
            let output = self.run(place, &text);
            assert!(!output.contains("urn:sagehost:problem"), "{place}:\n{text}\n{output}");
            let missing = fence.expected.iter().find(|expected| !output.contains(expected.as_str()));
            let Some(missing) = missing else { return };
            assert!(Instant::now() < end, "{place}: `{missing}` is not in: {output}");
        }
    }

    /// Commands that compile: they must be commands, with these flags, on packages that exist.
    fn compile(&mut self, place: &str, fence: &Fence) {
        for line in fence.text.lines() {
            let command = line.trim_matches(['(', ')']).rsplit("&& ").next().unwrap_or(line);
            let words: Vec<&str> = command.split_whitespace().collect();
            let [cargo, command, rest @ ..] = words.as_slice() else { panic!("{place}: `{line}`") };
            assert_eq!(*cargo, "cargo", "{place}: `{line}`");
            match *command {
                "xtask" => xtask_takes(place, rest),
                "test" | "build" => {
                    let at = rest.iter().position(|word| *word == "-p").expect("-p PACKAGE");
                    let manifest = self.clone().join("plugins").join(rest[at + 1]).join("Cargo.toml");
                    let text = std::fs::read_to_string(&manifest).unwrap_or_else(|e| panic!("{place}: {line}: {e}"));
                    assert!(text.contains(&format!("name = \"{}\"", rest[at + 1])), "{place}: {text}");
                }
                _ => panic!("{place}: `{line}` cannot be checked"),
            }
            if words == ["cargo", "xtask", "demo"] {
                self.demo();
            }
        }
        // A plugin that is a copy of another would be built now; the other's component stands for it.
        for mark in &fence.marks {
            if let Some((new, old)) = mark.strip_prefix("copy=").and_then(|pair| pair.split_once(':')) {
                let members = std::fs::read_to_string(self.clone().join("plugins/Cargo.toml")).unwrap();
                assert!(members.contains(&format!("\"{new}\",")), "{place}: {new} is no member of {members}");
                let folder = self.clone().join("target/plugins");
                std::fs::copy(folder.join(format!("{old}.wasm")), folder.join(format!("{new}.wasm"))).unwrap();
            }
        }
    }

    /// What `cargo xtask demo` leaves and serves.
    fn demo(&mut self) {
        // The old one ends first, as its files are made anew.
        self.server = None;
        let stage = self.clone().join(".demo/transfers");
        if stage.exists() {
            std::fs::remove_dir_all(&stage).unwrap();
        }
        std::fs::create_dir_all(stage.join("models")).unwrap();
        std::fs::rename(transfers_graph(BINARY, &stage), stage.join("graph")).unwrap();
        for version in [1, 2] {
            pack(BINARY, &mule_risk(version), &stage.join("models"), "mule-risk", version);
        }
        copy(&root().join("examples/transfers/policies"), &stage.join("models/_policies"));
        let configuration = stage.join("sagehost.toml");
        let text = "[repository]\nfolder = \"models\"\n[graphs]\ntransfers = \"graph\"\n";
        std::fs::write(&configuration, text).unwrap();
        self.server = Some(self.serve(&format!("'{BINARY}' serve --config '{}'", configuration.display())));
    }

    fn train(&self, place: &str, text: &str) {
        let python = std::env::var("DOCS_PYTHON").unwrap_or_else(|_| "python3".into());
        let test = Command::new(&python).args(["-c", "import torch_geometric, safetensors"]).output();
        if !test.is_ok_and(|output| output.status.success()) {
            println!("{place}: SKIPPED, as `{python}` (or $DOCS_PYTHON) has no torch_geometric");
            return;
        }
        let text: Vec<String> = text
            .lines()
            .filter(|line| !line.contains("pip install"))
            .map(|l| l.replace(".venv/bin/python", &python))
            .collect();
        let output = self.run(place, &text.join("\n"));
        assert!(output.contains("AUC"), "{place}: {output}");
    }

    fn serve(&self, command: &str) -> Server {
        assert_eq!(command.lines().count(), 1, "one command serves: {command}");
        let log = self.clone().join("server.log");
        for _ in 0..5 {
            let file = File::options().create(true).append(true).open(&log).expect("a log file");
            let [address, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
            let child = self
                .bash(&format!("exec {command}"))
                .envs([("SAGEHOST_SERVER_LISTEN", &address), ("SAGEHOST_SERVER_ADMIN_LISTEN", &admin)])
                .env("SAGEHOST_ENGINE_BACKEND", "cpu")
                .stdout(file.try_clone().expect("a second handle"))
                .stderr(file)
                .spawn()
                .expect("bash");
            let mut server = Server { child, address, admin };
            if server.wait_ready() {
                return server;
            }
        }
        panic!("`{command}` does not serve:\n{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
}

/// A server that ends with its handle.
struct Server {
    child: Child,
    address: String,
    admin: String,
}

impl Server {
    fn wait_ready(&mut self) -> bool {
        let client = Client::new(&self.address);
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if client.try_get("/readyz").is_ok_and(|answer| answer.status == 200) {
                return true;
            }
            // Another process may have taken the port.
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks xtask's help, without compiling anything: whoever built the plugins has built it.
fn xtask_takes(place: &str, words: &[&str]) {
    let xtask = Path::new(BINARY).with_file_name("xtask");
    let help = Command::new(&xtask).args(&words[..1]).arg("--help").output();
    let help = help.unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask plugins`", xtask.display()));
    assert!(help.status.success(), "{place}: `cargo xtask {}`: {}", words[0], said(&help));
    let text = said(&help);
    for flag in words[1..].iter().filter(|word| word.starts_with('-')) {
        let known = text.split([' ', ',', '\n']).any(|word| word == *flag);
        assert!(known, "{place}: `cargo xtask {}` has no {flag}: {text}", words[0]);
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Copies a folder without what was built in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.unwrap();
        let (path, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
        if !entry.file_type().unwrap().is_dir() {
            std::fs::copy(&path, &target).unwrap();
        } else if entry.file_name() != "target" {
            copy(&path, &target);
        }
    }
}
