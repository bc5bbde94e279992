//! Real services that tests start, and end with their handles.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::client::Client;
use crate::free_port;

/// A single etcd with its data in a folder of its own.
pub struct Etcd {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub endpoint: String,
}

impl Etcd {
    /// Starts one on free ports.
    ///
    /// # Panics
    /// Where it does not become healthy: `cargo xtask setup` installs it.
    #[must_use]
    pub fn start(folder: &Path) -> Self {
        Self::start_on(folder, free_port(), free_port())
    }

    /// Starts one on given ports, as after a crash.
    ///
    /// # Panics
    /// Where it does not become healthy.
    #[must_use]
    pub fn start_on(folder: &Path, port: u16, peer: u16) -> Self {
        let (endpoint, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let data = folder.join("etcd");
        let child = Command::new("etcd")
            .args(["--name", "s1", "--logger", "zap", "--data-dir"])
            .arg(&data)
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("s1={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd; `cargo xtask setup` installs it");
        let client = Client::new(endpoint.trim_start_matches("http://"));
        crate::eventually("etcd's health", Duration::from_secs(20), || {
            client.try_get("/health").ok().filter(|a| a.status == 200)
        });
        Self { child, endpoint }
    }

    /// The port that clients use.
    ///
    /// # Panics
    /// Never: the endpoint is this type's own.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.endpoint.rsplit(':').next().and_then(|p| p.parse().ok()).expect("a port")
    }

    /// Writes a key.
    ///
    /// # Panics
    /// Where etcd refuses.
    pub fn put(&self, key: &str, value: &str) {
        self.etcdctl(&["put", key, value]);
    }

    /// Removes a key.
    ///
    /// # Panics
    /// Where etcd refuses.
    pub fn delete(&self, key: &str) {
        self.etcdctl(&["del", key]);
    }

    fn etcdctl(&self, arguments: &[&str]) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint]).args(arguments).stdout(Stdio::null());
        assert!(command.status().expect("etcdctl").success(), "etcdctl {arguments:?}");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
