//! The listeners, their connections, and their end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sagehost_telemetry::{GaugeGuard, Metrics};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::inference::{Admin, Inference};
use crate::routes::{App, management, public};
use crate::settings::Settings;

/// How long the management listener's requests may take once the public one is done.
const MANAGEMENT_DRAIN: Duration = Duration::from_secs(1);
/// Refusals under way at a time; over it a connection is closed without a word.
const MAX_REFUSALS: usize = 64;
/// How long a refused client may take to read its refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after `accept` failed for want of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Most header fields of a request.
const MAX_HEADERS: usize = 64;
/// Most bytes of a request's head, and of what is read ahead of a body.
const MAX_HEAD: usize = 64 << 10;

/// A gateway whose addresses are bound but which does not accept yet.
pub struct Gateway<I> {
    app: Arc<App<I>>,
    public: (TcpListener, SocketAddr),
    management: (TcpListener, SocketAddr),
}

impl<I> std::fmt::Debug for Gateway<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (public, management) = (self.public.1, self.management.1);
        f.debug_struct("Gateway").field("public", &public).field("management", &management).finish_non_exhaustive()
    }
}

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({what}): {source}")]
pub struct GatewayError {
    address: SocketAddr,
    what: &'static str,
    source: std::io::Error,
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections of clients that were cut because their requests did not finish within [`Settings::drain_timeout`].
    pub cut: usize,
}

impl<I: Inference> Gateway<I> {
    /// Binds both addresses.
    ///
    /// # Errors
    /// An address is taken, or not ours.
    pub async fn bind(
        settings: Settings,
        inference: Arc<I>,
        admin: Arc<dyn Admin>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, GatewayError> {
        let public = listen(settings.public, "for clients").await?;
        let management = listen(settings.management, "for operators").await?;
        let app = Arc::new(App { inference, admin, metrics, settings, draining: false.into() });
        Ok(Self { app, public, management })
    }

    /// Where clients are served.
    #[must_use]
    pub fn public_addr(&self) -> SocketAddr {
        self.public.1
    }

    /// Where operators are served.
    #[must_use]
    pub fn management_addr(&self) -> SocketAddr {
        self.management.1
    }

    /// Serves until `shutdown` is ready, then ends in order: unready, no more connections, accepted requests finished, all
    /// within [`Settings::unready_for`] and [`Settings::drain_timeout`]. The probes answer until the last request is done.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Drained {
        let settings = &self.app.settings;
        let (stop_public, stopped_public) = watch::channel(false);
        let (stop_management, stopped_management) = watch::channel(false);
        let listener = |name, router, drain_timeout| Listener {
            name,
            router,
            metrics: Arc::clone(&self.app.metrics),
            max_connections: settings.max_connections.max(1),
            header_timeout: settings.header_timeout,
            drain_timeout,
        };
        let clients = listener("public", public(&self.app), settings.drain_timeout);
        let operators = listener("management", management(&self.app), MANAGEMENT_DRAIN);
        // Both end with this future, should it be dropped.
        let mut tasks = JoinSet::new();
        let mut probes = JoinSet::new();
        tasks.spawn(clients.run(self.public.0, stopped_public));
        probes.spawn(operators.run(self.management.0, stopped_management));
        shutdown.await;
        tracing::info!("ending: unready from now on");
        self.app.draining.store(true, Ordering::Relaxed);
        tokio::time::sleep(settings.unready_for).await;
        // The receivers live in the tasks; were one gone, its listener would have ended already.
        let _ = stop_public.send(true);
        let cut = tasks.join_next().await.and_then(Result::ok).unwrap_or(0);
        let _ = stop_management.send(true);
        probes.join_next().await;
        Drained { cut }
    }
}

async fn listen(address: SocketAddr, what: &'static str) -> Result<(TcpListener, SocketAddr), GatewayError> {
    let error = |source| GatewayError { address, what, source };
    let listener = TcpListener::bind(address).await.map_err(error)?;
    let bound = listener.local_addr().map_err(error)?;
    Ok((listener, bound))
}

struct Listener {
    name: &'static str,
    router: Router,
    metrics: Arc<Metrics>,
    max_connections: usize,
    header_timeout: Duration,
    drain_timeout: Duration,
}

impl Listener {
    /// Accepts until told to stop, then waits for its connections; returns how many it had to cut.
    async fn run(self, listener: TcpListener, mut stop: watch::Receiver<bool>) -> usize {
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        let stopped = stop.clone();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = told(&mut stop) => break,
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) if connections.len() < self.max_connections => {
                    let guard = self.metrics.connection(self.name.into());
                    connections.spawn(self.connection(stream, stopped.clone(), guard));
                }
                Ok((stream, _)) => {
                    self.metrics.connection_refused(self.name.into());
                    if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                        tokio::spawn(async move {
                            let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refuse(stream)).await;
                            drop(permit);
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(listener = self.name, %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let finished = async {
            while let Some(ended) = connections.join_next().await {
                log_panic(ended);
            }
        };
        let _ = tokio::time::timeout(self.drain_timeout, finished).await;
        let cut = connections.len();
        if cut > 0 {
            tracing::warn!(listener = self.name, connections = cut, "cut connections whose requests did not finish");
        }
        connections.shutdown().await;
        cut
    }

    fn connection(
        &self,
        stream: TcpStream,
        mut stop: watch::Receiver<bool>,
        guard: GaugeGuard,
    ) -> impl Future<Output = ()> + Send + use<> {
        // Answers are written whole: waiting to fill a packet only costs time. A failure costs no more than that.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(self.router.clone());
        let (name, header_timeout) = (self.name, self.header_timeout);
        async move {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(header_timeout)
                .max_headers(MAX_HEADERS)
                .max_buf_size(MAX_HEAD);
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = told(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(listener = name, %error, "connection ended");
            }
            drop(guard);
        }
    }
}

/// Returns when the listener is to stop. A closed channel means that as well.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// Tells a client beyond the limit to come back, and waits until it has read that: closing at once could discard the answer
/// with the unread request.
async fn refuse(stream: TcpStream) -> std::io::Result<()> {
    const PROBLEM: &str = r#"{"type":"urn:sagehost:problem:unavailable","title":"The service cannot answer now","status":503,"code":"unavailable","detail":"the server has as many connections as it may; retry"}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
         content-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{PROBLEM}",
        PROBLEM.len()
    );
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        stream.writable().await?;
        match stream.try_write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let stream = stream.into_std()?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let stream = TcpStream::from_std(stream)?;
    let mut scratch = [0; 1024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut scratch) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
