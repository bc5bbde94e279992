//! Real connections: clients that leave, too many of them, slow ones, and the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sagehost_telemetry::Metrics;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::common::{Echo, series};
use crate::inference::Admin;
use crate::serve::{Drained, Gateway};
use crate::settings::Settings;

const WAIT: &str = "POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 19\r\n\r\n{\"user_id\": \"wait\"}";

struct Server {
    echo: Arc<Echo>,
    events: mpsc::UnboundedReceiver<&'static str>,
    metrics: Arc<Metrics>,
    public: SocketAddr,
    management: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

async fn start(change: impl FnOnce(&mut Settings)) -> Server {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut settings = Settings { public: any, management: any, ..Settings::default() };
    change(&mut settings);
    let (echo, events) = Echo::new();
    let metrics = Arc::new(Metrics::new("test"));
    let admin: Arc<dyn Admin> = Arc::clone(&echo) as _;
    let gateway = Gateway::bind(settings, Arc::clone(&echo), admin, Arc::clone(&metrics)).await.unwrap();
    let (public, management) = (gateway.public_addr(), gateway.management_addr());
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(gateway.serve(async move {
        let _ = stopped.await;
    }));
    Server { echo, events, metrics, public, management, stop, ended }
}

async fn send(address: SocketAddr, text: &str) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        stream.writable().await.unwrap();
        if let Ok(written) = stream.try_write(rest) {
            rest = &rest[written..];
        }
    }
    stream
}

/// Reads until the server closes the connection, or an answer ends in `until`.
async fn receive(stream: &TcpStream, until: &str) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        stream.readable().await.unwrap();
        match stream.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        if !until.is_empty() && bytes.ends_with(until.as_bytes()) {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

async fn get(address: SocketAddr, path: &str) -> String {
    let stream = send(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
    receive(&stream, "").await
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_request() {
    let mut server = start(|_| {}).await;
    let client = send(server.public, WAIT).await;
    assert_eq!(server.events.recv().await, Some("waiting"));
    drop(client);
    assert_eq!(server.events.recv().await, Some("dropped"));
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained { cut: 0 });
    let page = server.metrics.render();
    assert_eq!(series(&page, r#"sagehost_requests_total{endpoint="score",model="",code="cancelled"}"#), 1);
    assert_eq!(series(&page, r#"sagehost_connections{listener="public"}"#), 0);
}

#[tokio::test]
async fn the_end_finishes_what_was_accepted() {
    let mut server = start(|_| {}).await;
    let idle = send(server.public, "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(receive(&idle, "alive\n").await.starts_with("HTTP/1.1 200"));
    let client = send(server.public, WAIT).await;
    assert_eq!(server.events.recv().await, Some("waiting"));
    server.stop.send(()).unwrap();
    // The idle connection is closed, and the probes on the other listener tell.
    assert_eq!(receive(&idle, "").await, "");
    assert!(get(server.management, "/readyz").await.starts_with("HTTP/1.1 503"));
    assert!(get(server.management, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(TcpStream::connect(server.public).await.is_err(), "no new connections");
    server.echo.gate.add_permits(1);
    let answer = receive(&client, "").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    assert_eq!(server.ended.await.unwrap(), Drained { cut: 0 });
    assert!(TcpStream::connect(server.management).await.is_err());
}

#[tokio::test]
async fn the_end_comes_within_its_bound() {
    let mut server = start(|settings| settings.drain_timeout = Duration::from_millis(50)).await;
    let client = send(server.public, WAIT).await;
    assert_eq!(server.events.recv().await, Some("waiting"));
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained { cut: 1 });
    assert_eq!(server.events.recv().await, Some("dropped"));
    drop(client);
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let server = start(|settings| settings.max_connections = 1).await;
    let first = send(server.public, "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    receive(&first, "alive\n").await;
    let refused = get(server.public, "/livez").await;
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 1"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["code"], "unavailable");
    let name = r#"sagehost_connections_refused_total{listener="public"}"#;
    assert_eq!(series(&server.metrics.render(), name), 1);
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained { cut: 0 });
}

#[tokio::test]
async fn a_slow_head_is_not_waited_for() {
    let server = start(|settings| settings.header_timeout = Duration::from_millis(50)).await;
    let slow = send(server.public, "GET /livez HTTP/1.1\r\nhost:").await;
    assert!(!receive(&slow, "").await.contains("200"), "closed without an answer of ours");
    server.stop.send(()).unwrap();
    server.ended.await.unwrap();
}

#[tokio::test]
async fn a_taken_address_is_said() {
    let server = start(|_| {}).await;
    let settings = Settings { public: server.public, ..Settings::default() };
    let (echo, _) = Echo::new();
    let admin: Arc<dyn Admin> = Arc::clone(&echo) as _;
    let error = Gateway::bind(settings, echo, admin, Arc::clone(&server.metrics)).await.unwrap_err().to_string();
    assert!(error.contains(&server.public.to_string()), "{error}");
}
