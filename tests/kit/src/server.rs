//! A running `sagehost serve`, ended with its handle.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::client::Client;
use crate::{eventually, free_port};

/// What to serve, and how.
pub struct Setup {
    binary: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// See the module.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// `address:port` of the inference API.
    pub address: String,
    /// `address:port` of the management pages.
    pub admin: String,
}

impl Setup {
    /// Serves `folder/repository` with the graphs named by [`Self::graph`]; configuration goes by the environment.
    #[must_use]
    pub fn new(binary: &str, folder: &Path) -> Self {
        let environment = vec![
            ("SAGEHOST_REPOSITORY_FOLDER".into(), folder.join("repository").display().to_string()),
            ("SAGEHOST_REPOSITORY_SETTLE_MS".into(), "300".into()),
            ("SAGEHOST_ENGINE_BACKEND".into(), "cpu".into()),
            ("SAGEHOST_LOG_LEVEL".into(), "info".into()),
        ];
        Self { binary: binary.into(), folder: folder.into(), environment }
    }

    /// Names a graph.
    #[must_use]
    pub fn graph(self, name: &str, folder: &Path) -> Self {
        self.set("SAGEHOST_GRAPHS", &format!("{name}={}", folder.display()))
    }

    /// Sets a variable.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(n, _)| n != name);
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts, and waits until the process answers `/livez`.
    ///
    /// # Panics
    /// Where it does not; with its log.
    #[must_use]
    pub fn start(&self) -> Server {
        std::fs::create_dir_all(self.folder.join("repository")).expect("the repository folder");
        for _ in 0..5 {
            if let Some(server) = self.try_start() {
                return server;
            }
        }
        panic!("the server did not start; its log:\n{}", read_log(&self.folder.join("server.log")));
    }

    fn try_start(&self) -> Option<Server> {
        let [address, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let log = self.folder.join("server.log");
        let file = File::options().create(true).append(true).open(&log).expect("a log file");
        let child = Command::new(&self.binary)
            .arg("serve")
            .env("SAGEHOST_SERVER_LISTEN", &address)
            .env("SAGEHOST_SERVER_ADMIN_LISTEN", &admin)
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("the server's binary");
        let mut server = Server { child, log, address, admin };
        let client = server.client();
        let end = std::time::Instant::now() + Duration::from_secs(30);
        while std::time::Instant::now() < end {
            if client.try_get("/livez").is_ok_and(|a| a.status == 200) {
                return Some(server);
            }
            // Another process took the port, or the configuration is bad.
            if server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Server {
    /// A client of the inference API.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// A client of the management pages.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::new(&self.admin)
    }

    /// Waits until `/readyz` says 200.
    ///
    /// # Panics
    /// Where it does not within a minute; with the log.
    pub fn wait_ready(&self) {
        let client = self.client();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !client.try_get("/readyz").is_ok_and(|a| a.status == 200) {
            assert!(std::time::Instant::now() < end, "not ready; the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until predictions for `node` come from `version`.
    ///
    /// # Panics
    /// Where they do not within a minute; with the log.
    pub fn wait_version(&self, node: u64, version: u64) {
        let client = self.client();
        eventually(&format!("version {version}"), Duration::from_secs(60), || {
            let answer = client.post("/v1/graphsage/predict", &serde_json::json!({ "nodes": [node] }));
            (answer.status == 200 && answer.json["version"] == version).then_some(())
        });
    }

    /// Resident memory in KiB, as the kernel counts it.
    ///
    /// # Panics
    /// Where the process is gone.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a running server");
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(&self.log)
    }

    /// Asks it to stop, as an operator would, and gives its exit code.
    ///
    /// # Panics
    /// Where it does not end within 30 s.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().is_ok_and(|s| s.success()));
        eventually("the server's end", Duration::from_secs(30), || self.child.try_wait().ok().flatten()).code()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

fn read_log(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
