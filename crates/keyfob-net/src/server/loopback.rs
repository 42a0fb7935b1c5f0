//! By which names a server on loopback may be called.
//!
//! A web page cannot choose the `Host` header of the requests that it causes: it is the name in the address. Whoever lets a name of his
//! own point at 127.0.0.1 (DNS rebinding) is recognised by that name.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{
    HeaderMap, Uri,
    header::HOST,
    uri::{Authority, Scheme},
};

/// The names of a server that listens on a port of a loopback address: `localhost`, and loopback addresses, each with the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackNames {
    port: u16,
    is_port_optional: bool,
}

impl LoopbackNames {
    /// The names with this port, which only port 80 may leave out.
    pub fn with_port(port: u16) -> Self {
        Self { port, is_port_optional: port == 80 }
    }

    /// The same names, also without the port.
    #[must_use]
    pub fn or_without_port(self) -> Self {
        Self { is_port_optional: true, ..self }
    }

    /// Whether a request names this server: in the one `Host` header, and in its request line if that has a whole address, which
    /// would count instead of the header.
    pub fn are_named_in(&self, target: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let has_one = host.is_some_and(|host| self.contain(host)) && hosts.next().is_none();
        let is_ours = |authority: &Authority| self.contain(authority.as_str());
        has_one
            && target.authority().is_none_or(is_ours)
            && target.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP)
    }

    /// Whether this is one of the names, such as `localhost:8001`.
    pub fn contain(&self, host: &str) -> bool {
        // Not the colons of an IPv6 address.
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (host, None),
        };
        let is_port = port.map_or(self.is_port_optional, |port| port == self.port.to_string());
        is_port && is_name(name)
    }
}

fn is_name(name: &str) -> bool {
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    if let Some(address) = bracketed {
        return address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback());
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_server_is_called_by_its_own_names_only() {
        let names = LoopbackNames::with_port(8001);
        for host in
            ["127.0.0.1:8001", "127.0.0.2:8001", "localhost:8001", "LOCALHOST:8001", "[::1]:8001"]
        {
            assert!(names.contain(host), "{host}");
        }
        for host in [
            "",
            ":8001",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:08001",
            "10.0.0.1:8001",
            "[::2]:8001",
            "[::1]",
            "::1:8001",
            "evil.example:8001",
            "localhost.evil.example:8001",
            "localhost:8001.evil",
            "evil@localhost:8001",
            "2130706433:8001",
        ] {
            assert!(!names.contain(host), "{host}");
        }
    }

    #[test]
    fn some_servers_need_no_port() {
        let names = LoopbackNames::with_port(80);
        assert!(["localhost", "127.0.0.1", "[::1]", "[::1]:80"].iter().all(|it| names.contain(it)));
        assert!(!names.contain("evil.example"));
        let names = LoopbackNames::with_port(8001).or_without_port();
        assert!(names.contain("localhost") && names.contain("localhost:8001"));
        assert!(!names.contain("localhost:80") && !names.contain("evil.example"));
    }
}
