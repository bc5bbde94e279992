//! The edge's limits.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Addresses and limits of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The listener for clients; port 0 takes a free one.
    pub public: SocketAddr,
    /// The listener for operators: it serves `/admin` and must not be reachable from outside.
    pub management: SocketAddr,
    /// Largest request body, in bytes. Reading one takes up to 16 times as much memory while it lasts.
    pub max_body: usize,
    /// Most open connections of a listener; further ones are answered 503 and closed.
    pub max_connections: usize,
    /// How long a request's head may take to arrive. As it begins with the response before, it is also how long a connection
    /// may be idle.
    pub header_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// Longest time for an answer, above whatever the request and its release say.
    pub request_timeout: Duration,
    /// At the end, how long to go on accepting while `/readyz` already answers 503, so that load balancers turn away first.
    pub unready_for: Duration,
    /// At the end, how long accepted requests may take to finish.
    pub drain_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080)),
            management: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            max_body: 4 << 20,
            max_connections: 4096,
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            unready_for: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
        }
    }
}
