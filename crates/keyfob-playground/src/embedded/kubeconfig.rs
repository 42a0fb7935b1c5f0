//! How a client gets to the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyfob_api::Secret;
use serde_json::json;

/// A kubeconfig with one user. It is JSON, which is YAML, too.
pub(super) fn kubeconfig(
    host: SocketAddr,
    authority: &str,
    user: &str,
    token: &Secret<String>,
) -> Secret<String> {
    let cluster = json!({
        "server": format!("https://{host}"),
        "certificate-authority-data": STANDARD.encode(authority),
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "keyfob", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token.expose()}}],
        "contexts": [{"name": "keyfob", "context": {"cluster": "keyfob", "user": user}}],
        "current-context": "keyfob",
    });
    Secret::new(format!("{config:#}\n"))
}

/// Whoever listens everywhere is asked here.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_reached_on_loopback() {
        let reached = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(reached("[::]:1"), "[::1]:1");
        assert_eq!(reached("10.0.0.1:1"), "10.0.0.1:1");
    }
}
