//! An example, set up and served: what the demo shows and the benchmarks measure. Everything goes below `.demo/NAME`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sagehost_examples::data::Finder;
use sagehost_examples::{bitcoin, cora, transfers};

use crate::paths;
use crate::run::{output, run, step};

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

/// An example's files, ready to be served.
pub(crate) struct Stage {
    pub(crate) example: Example,
    folder: PathBuf,
    binary: PathBuf,
}

impl Stage {
    /// Builds the plugins and the server, makes the graph, packs version 1 and writes the configuration.
    pub(crate) fn set(example: Example) -> Result<Self> {
        let plugins = crate::plugins::run(&crate::plugins::Args::default())?;
        let binary = step("Server: release build (the first takes some ten minutes on two cores)", build_server)?;
        let stage = Self { example, folder: paths::root().join(".demo").join(example.name()), binary };
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
        let text = format!(
            "# Written by `cargo xtask demo`. docs/configuration.md has every key.\n[server]\nlisten = \"127.0.0.1:8080\"\n\
             admin_listen = \"127.0.0.1:8081\"\n\n[repository]\nfolder = \"models\"\n\n[graphs]\n{} = \"graph\"\n",
            self.example.name()
        );
        let path = self.configuration();
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Starts the server on the addresses given and waits until it is ready: live, warm and checked.
    pub(crate) fn serve(&self, backend: &str, listen: Option<[String; 2]>) -> Result<Server> {
        let log = self.folder.join("server.log");
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let [address, admin] = listen.unwrap_or_else(|| ["127.0.0.1:8080".into(), "127.0.0.1:8081".into()]);
        for address in [&address, &admin] {
            // Else an older server would answer in the new one's place.
            std::net::TcpListener::bind(address.as_str())
                .with_context(|| format!("{address} is taken: end what listens there, or name another with --port"))?;
        }
        let child = Command::new(&self.binary)
            .args(["serve", "--config"])
            .arg(self.configuration())
            .env("SAGEHOST_ENGINE_BACKEND", backend)
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
                bail!("the server ended ({status}); its log is {}", server.log.display());
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
