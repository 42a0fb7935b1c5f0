//! Who may come in.

use http::{
    HeaderMap, Method,
    header::{HOST, ORIGIN, UPGRADE},
};

/// Keeps other people's web pages out.
///
/// A browser sends `Host` as the page's script named it (so a name that somebody points at this machine shows), `Origin`
/// with whatever changes something or reads across origins, and `Sec-Fetch-Site` with the rest: pictures, frames, links.
#[derive(Debug)]
pub(super) struct Doorkeeper {
    /// The port that must be named; a socket of the file system has none, and no browser reaches it.
    port: Option<u16>,
    read_only: bool,
}

/// What a browser says of a page of ours, and of what somebody typed.
const HOME: [&[u8]; 2] = [b"same-origin", b"none"];

const NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

impl Doorkeeper {
    pub(super) fn of_a_port(port: u16, read_only: bool) -> Self {
        Self { port: Some(port), read_only }
    }

    pub(super) fn of_a_socket(read_only: bool) -> Self {
        Self { port: None, read_only }
    }

    /// Why a request is refused, if it is.
    pub(super) fn refuses(&self, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
        if let Some(port) = self.port {
            let mut hosts = headers.get_all(HOST).iter();
            let is_ours = |host: &str| NAMES.iter().any(|name| is_at(host, name, port));
            let host = hosts.next().and_then(|host| host.to_str().ok());
            if !host.is_some_and(is_ours) || hosts.next().is_some() {
                return Some("the Host header names another host or port than this proxy's");
            }
            let of_ours = |origin: &str| origin.strip_prefix("http://").is_some_and(is_ours);
            let mut origins = headers.get_all(ORIGIN).iter();
            let is_foreign =
                headers.get("sec-fetch-site").is_some_and(|site| !HOME.contains(&site.as_bytes()));
            if is_foreign || !origins.all(|origin| origin.to_str().is_ok_and(of_ours)) {
                return Some("it comes from a web page of another origin");
            }
        }
        if *method == Method::CONNECT {
            return Some("it is for one cluster, and no way to other hosts");
        }
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        if self.read_only && (!reads || headers.contains_key(UPGRADE)) {
            return Some("this proxy is read-only");
        }
        None
    }
}

/// Port 80 need not be named.
fn is_at(host: &str, name: &str, port: u16) -> bool {
    let rest = host.get(..name.len()).filter(|it| it.eq_ignore_ascii_case(name));
    match rest.and_then(|_| host.get(name.len()..)) {
        Some("") => port == 80,
        Some(rest) => rest.strip_prefix(':').is_some_and(|it| it == port.to_string()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn asked(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = headers.iter();
        let pairs =
            pairs.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        HeaderMap::from_iter(pairs.collect::<Vec<_>>())
    }

    #[test]
    fn only_this_machine_by_its_own_names_is_let_in() {
        let door = Doorkeeper::of_a_port(8001, false);
        for host in ["127.0.0.1:8001", "localhost:8001", "LOCALHOST:8001", "[::1]:8001"] {
            assert_eq!(door.refuses(&Method::GET, &asked(&[("host", host)])), None, "{host}");
        }
        for host in [
            "evil.example:8001",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:8001",
            "localhost:8001.evil",
            "",
        ] {
            assert!(door.refuses(&Method::GET, &asked(&[("host", host)])).is_some(), "{host}");
        }
        assert!(door.refuses(&Method::GET, &asked(&[])).is_some());
    }

    #[test]
    fn a_web_page_of_another_origin_is_kept_out() {
        let door = Doorkeeper::of_a_port(8001, false);
        let from = |origin| asked(&[("host", "localhost:8001"), ("origin", origin)]);
        assert_eq!(door.refuses(&Method::POST, &from("http://localhost:8001")), None);
        for origin in
            ["http://evil.example", "https://localhost:8001", "null", "http://localhost:3000"]
        {
            assert!(door.refuses(&Method::GET, &from(origin)).is_some(), "{origin}");
        }
        let at = |site| asked(&[("host", "localhost:8001"), ("sec-fetch-site", site)]);
        assert_eq!(door.refuses(&Method::GET, &at("none")), None);
        for site in ["cross-site", "same-site", "?"] {
            assert!(door.refuses(&Method::GET, &at(site)).is_some(), "{site}");
        }
    }

    #[test]
    fn no_proxy_is_a_tunnel() {
        let door = Doorkeeper::of_a_socket(false);
        assert_eq!(door.refuses(&Method::DELETE, &asked(&[])), None);
        assert!(door.refuses(&Method::CONNECT, &asked(&[])).is_some());
    }

    #[test]
    fn a_read_only_proxy_changes_nothing() {
        let door = Doorkeeper::of_a_socket(true);
        assert_eq!(door.refuses(&Method::GET, &asked(&[])), None);
        assert!(door.refuses(&Method::DELETE, &asked(&[])).is_some());
        assert!(door.refuses(&Method::GET, &asked(&[("upgrade", "websocket")])).is_some());
    }
}
