//! An example, set up and served: what the demo shows and the benchmarks measure. Everything goes below `.demo/NAME`, or
//! `.demo/NAME-PORT` where another port than 8080 is asked for: one folder for each server that can run.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sagehost_examples::data::Finder;
use sagehost_examples::{bitcoin, cora, transfers};

use crate::paths;
use crate::run::{on_path, output, run, step};

/// One of the examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Example {
    /// A generated money-transfer network with rings of mule accounts. Needs nothing from outside.
    Transfers,
    /// Who trusts whom on Bitcoin OTC (SNAP): real ratings with signs and times.
    BitcoinOtc,
    /// Cora (Planetoid): papers that cite papers.
    Cora,
}

impl Example {
    /// The folder below `examples/` and the graph's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::BitcoinOtc => "bitcoin-otc",
            Self::Cora => "cora",
        }
    }

    /// The model that the example's releases are of.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Transfers => "mule-risk",
            Self::BitcoinOtc => "trust-risk",
            Self::Cora => "cora",
        }
    }

    /// The folder of a release's source.
    pub(crate) fn source(self, version: u64) -> PathBuf {
        paths::root().join("examples").join(self.name()).join("releases").join(self.model()).join(version.to_string())
    }
}

/// The port that needs no mention: in folders' names as on the command line.
pub(crate) const USUAL_PORT: u16 = 8080;

/// An example's files, ready to be served.
pub(crate) struct Stage {
    pub(crate) example: Example,
    folder: PathBuf,
    binary: PathBuf,
    addresses: [String; 2],
    /// Listeners on both addresses until the server takes them: whoever else wants them, or the folder, is told at once.
    held: Vec<TcpListener>,
}

impl Stage {
    /// Takes `port` and the next (management), builds the plugins and the server, makes the graph, packs version 1 and
    /// writes the configuration.
    ///
    /// # Errors
    /// A port is taken, before anything is built or written; a step fails.
    pub(crate) fn set(example: Example, port: u16) -> Result<Self> {
        let next = port.checked_add(1).context("there is no port after it for the management pages")?;
        let addresses = [port, next].map(|port| format!("127.0.0.1:{port}"));
        // First of all: the folder belongs to whoever serves at its port, so what is below must not touch it without.
        let held = addresses.iter().map(|address| {
            TcpListener::bind(address.as_str()).with_context(|| {
                format!(
                    "{address} cannot be listened on: end what uses it, or `cargo xtask demo --port` chooses others"
                )
            })
        });
        let held = held.collect::<Result<Vec<_>>>()?;
        let plugins = crate::plugins::run(&crate::plugins::Args::default())?;
        let binary = step("Server: release build (the first takes about ten minutes on two cores)", build_server)?;
        let stage = Self { example, folder: folder(example, port), binary, addresses, held };
        if stage.folder.exists() {
            std::fs::remove_dir_all(&stage.folder).with_context(|| stage.folder.display().to_string())?;
        }
        std::fs::create_dir_all(stage.repository()).with_context(|| stage.folder.display().to_string())?;
        step("Graph: tables to a snapshot", || stage.build_graph())?;
        step("Release: version 1 into the model repository", || stage.pack(1, &plugins))?;
        stage.copy_policies()?;
        stage.write_configuration()?;
        Ok(stage)
    }

    /// What the training script of version 1 computed.
    pub(crate) fn expected(&self) -> PathBuf {
        paths::root().join("examples").join(self.example.name()).join("expected/1.json")
    }

    /// Where everything is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The model repository that the server watches.
    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.join("models")
    }

    /// Where the graph's tables are.
    pub(crate) fn tables(&self) -> PathBuf {
        self.folder.join("tables")
    }

    fn build_graph(&self) -> Result<()> {
        let tables = self.tables();
        match self.example {
            Example::Transfers => {
                let made = transfers::generate(&tables, transfers::SEED)?;
                println!("{} accounts, {} transfers, {} mules in rings", made.accounts, made.transfers, made.mules);
            }
            Example::BitcoinOtc => {
                bitcoin::convert(&Finder::usual(&paths::root()), &tables)?;
            }
            Example::Cora => {
                cora::convert(&Finder::usual(&paths::root()), &tables)?;
            }
        }
        let (description, out) = (tables.join("graph.toml"), self.folder.join("graph"));
        run(Command::new(&self.binary).args(["graph", "build"]).arg(description).arg("--out").arg(out))
    }

    /// Packs a version of the example's model into the repository.
    pub(crate) fn pack(&self, version: u64, plugins: &Path) -> Result<()> {
        let text = output(
            Command::new(&self.binary)
                .args(["release", "pack"])
                .arg(self.example.source(version))
                .arg("--repository")
                .arg(self.repository())
                .args(["--model", self.example.model(), "--version", &version.to_string(), "--plugins"])
                .arg(plugins),
        )?;
        print!("{text}");
        Ok(())
    }

    fn copy_policies(&self) -> Result<()> {
        let from = paths::root().join("examples").join(self.example.name()).join("policies");
        if !from.exists() {
            return Ok(());
        }
        let to = self.repository().join("_policies");
        std::fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
        for entry in std::fs::read_dir(&from).with_context(|| from.display().to_string())? {
            let path = entry?.path();
            if let Some(name) = path.file_name() {
                std::fs::copy(&path, to.join(name)).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Where the configuration is.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.folder.join("sagehost.toml")
    }

    fn write_configuration(&self) -> Result<()> {
        let [address, admin] = &self.addresses;
        let text = format!(
            "# Written by `cargo xtask demo`. docs/configuration.md has every key.\n[server]\nlisten = \"{address}\"\n\
             admin_listen = \"{admin}\"\n\n[repository]\nfolder = \"models\"\n\n[graphs]\n{} = \"graph\"\n",
            self.example.name()
        );
        let path = self.configuration();
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Starts the server and waits until it is ready: live, warm and checked.
    pub(crate) fn serve(&mut self, backend: &str) -> Result<Server> {
        let log = self.folder.join("server.log");
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let [address, admin] = self.addresses.clone();
        self.held.clear();
        let child = self
            .command()
            .args(["serve", "--config"])
            .arg(self.configuration())
            .env("SAGEHOST_ENGINE_BACKEND", backend)
            // Ours, whatever the environment says.
            .env("SAGEHOST_SERVER_LISTEN", &address)
            .env("SAGEHOST_SERVER_ADMIN_LISTEN", &admin)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        let mut server = Server { child, address, admin, log };
        let started = Instant::now();
        while !server.ready() {
            if let Some(status) = server.child.try_wait()? {
                let log = std::fs::read_to_string(&server.log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("(empty)");
                bail!("the server ended ({status}): {last}\nits log is {}", server.log.display());
            }
            if started.elapsed() > Duration::from_secs(60) {
                bail!("the server is not ready after a minute; its log is {}", server.log.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        println!(
            "http://{} is ready after {:.2} s (log: {})",
            server.address,
            started.elapsed().as_secs_f64(),
            server.log.display()
        );
        Ok(server)
    }

    /// The server's command, such that the server ends with us.
    fn command(&self) -> Command {
        // `Drop` of the handle does not run when a signal ends us, and the server would go on, on its ports. The kernel can
        // be asked to send it a signal then, but from within the process alone: util-linux' setpriv asks, and becomes the
        // server. Where it is missing, Ctrl-C still reaches both, as one process group.
        if !on_path("setpriv") {
            return Command::new(&self.binary);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(&self.binary);
        command
    }
}

/// Where an example's files go. Nothing but the port tells two servers of one example apart.
fn folder(example: Example, port: u16) -> PathBuf {
    let demos = paths::root().join(".demo");
    if port == USUAL_PORT { demos.join(example.name()) } else { demos.join(format!("{}-{port}", example.name())) }
}

fn build_server() -> Result<PathBuf> {
    crate::setup::protoc()?;
    run(paths::cargo().args(["build", "--release", "--package", "sagehost"]).current_dir(paths::root()))?;
    Ok(paths::target()?.join("release/sagehost"))
}

/// A running server, ended with its handle.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) admin: String,
    log: PathBuf,
}

impl Server {
    fn ready(&self) -> bool {
        ureq::get(format!("http://{}/readyz", self.address)).call().is_ok()
    }

    /// Waits until the server ends by itself.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        println!("the server ended: {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_folder() {
        assert!(folder(Example::Cora, USUAL_PORT).ends_with(".demo/cora"));
        assert!(folder(Example::BitcoinOtc, 9000).ends_with(".demo/bitcoin-otc-9000"));
    }

    #[test]
    fn a_taken_port_is_said_before_anything_is_touched() {
        // The management pages' port is taken, not the first: both are looked at.
        let (port, _taken) = loop {
            let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = taken.local_addr().expect("an address").port();
            if port > 1 && TcpListener::bind(("127.0.0.1", port - 1)).is_ok() {
                break (port, taken);
            }
        };
        let error = Stage::set(Example::Cora, port - 1).err().expect("a port is taken");
        assert!(error.to_string().starts_with(&format!("127.0.0.1:{port} cannot be listened on")), "{error}");
        assert!(!folder(Example::Cora, port - 1).exists());
    }
}
