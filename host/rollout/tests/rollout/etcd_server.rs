//! A real etcd in a folder of its own, and a proxy that can cut the line to it.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use tokio::sync::watch;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) struct Etcd {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    peer_port: u16,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Another process may take a port between the look and the start: look again then.
        for _ in 0..5 {
            let (port, peer_port) = (free_port(), free_port());
            if let Some(child) = spawn(&folder, port, peer_port) {
                return Self { child, folder, port, peer_port };
            }
        }
        panic!("etcd does not start");
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with the same data and ports.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, self.port, self.peer_port).expect("etcd does not start again");
    }

    /// Loses all data; it must have been killed.
    pub(crate) fn wipe(&self) {
        std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) async fn client(&self) -> Client {
        let options = ConnectOptions::new().with_timeout(Duration::from_secs(10));
        Client::connect([self.url()], Some(options)).await.unwrap()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &tempfile::TempDir, port: u16, peer_port: u16) -> Option<Child> {
    let (url, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut child = Command::new("etcd")
        .args(["--name", "s1", "--logger", "zap", "--grpc-keepalive-min-time", "50ms"])
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("s1={peer_url}")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("etcd is not installed: `cargo xtask test` installs it (Debian: etcd-server)");
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (ready, is_ready) = mpsc::channel();
    // Reads on to the end, so that etcd never waits for a reader.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains("serving client traffic") {
                // The receiver may have given up.
                let _ = ready.send(());
            }
        }
    });
    let up = is_ready.recv_timeout(Duration::from_secs(30)).is_ok();
    if !up {
        let _ = child.kill();
        let _ = child.wait();
    }
    up.then_some(child)
}

/// A TCP proxy that can be cut: connections end and no new one gets through.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                if *is_cut.borrow() {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(mut far) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = is_cut.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { port: own_port, cut }
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}
