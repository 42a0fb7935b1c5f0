//! Who may come in.

use http::{
    Method, Request,
    header::{ORIGIN, UPGRADE},
};
use keyfob_net::server::LoopbackNames;

/// Keeps other people's web pages out.
///
/// A browser sends `Host` as the page's script named it (so a name that somebody points at this machine shows), `Origin`
/// with whatever changes something or reads across origins, and `Sec-Fetch-Site` with the rest: pictures, frames, links.
#[derive(Debug)]
pub(super) struct Doorkeeper {
    /// By which names it must be called; a socket of the file system has none, and no browser reaches it.
    names: Option<LoopbackNames>,
    read_only: bool,
}

/// What a browser says of a page of ours, and of what somebody typed.
const HOME: [&[u8]; 2] = [b"same-origin", b"none"];

impl Doorkeeper {
    pub(super) fn of_a_port(port: u16, read_only: bool) -> Self {
        Self { names: Some(LoopbackNames::with_port(port)), read_only }
    }

    pub(super) fn of_a_socket(read_only: bool) -> Self {
        Self { names: None, read_only }
    }

    /// Why a request is refused, if it is.
    pub(super) fn refuses<B>(&self, request: &Request<B>) -> Option<&'static str> {
        let (method, headers) = (request.method(), request.headers());
        if let Some(names) = self.names {
            if !names.are_named_in(request.uri(), headers) {
                return Some(
                    "the Host header or the request line names another host or port than this proxy's",
                );
            }
            let is_ours = |origin: &str| is_origin(origin, names);
            let mut origins = headers.get_all(ORIGIN).iter();
            // A request that says different things about its origin is refused for the worst of them.
            let mut sites = headers.get_all("sec-fetch-site").iter();
            if !sites.all(|site| HOME.contains(&site.as_bytes()))
                || !origins.all(|origin| origin.to_str().is_ok_and(is_ours))
            {
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

fn is_origin(origin: &str, names: LoopbackNames) -> bool {
    origin.strip_prefix("http://").is_some_and(|host| names.contain(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn only_this_machine_by_its_own_names_is_let_in() {
        let door = Doorkeeper::of_a_port(8001, false);
        for host in ["127.0.0.1:8001", "localhost:8001", "LOCALHOST:8001", "[::1]:8001"] {
            assert_eq!(door.refuses(&asked(Method::GET, &[("host", host)])), None, "{host}");
        }
        for host in [
            "evil.example:8001",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:8001",
            "localhost:8001.evil",
            "",
        ] {
            assert!(door.refuses(&asked(Method::GET, &[("host", host)])).is_some(), "{host}");
        }
        assert!(door.refuses(&asked(Method::GET, &[])).is_some());
    }

    #[test]
    fn a_web_page_of_another_origin_is_kept_out() {
        let door = Doorkeeper::of_a_port(8001, false);
        let from = |origin| asked(Method::POST, &[("host", "localhost:8001"), ("origin", origin)]);
        assert_eq!(door.refuses(&from("http://localhost:8001")), None);
        for origin in
            ["http://evil.example", "https://localhost:8001", "null", "http://localhost:3000"]
        {
            assert!(door.refuses(&from(origin)).is_some(), "{origin}");
        }
        let at = |site| asked(Method::GET, &[("host", "localhost:8001"), ("sec-fetch-site", site)]);
        assert_eq!(door.refuses(&at("none")), None);
        for site in ["cross-site", "same-site", "?"] {
            assert!(door.refuses(&at(site)).is_some(), "{site}");
        }
    }

    #[test]
    fn every_value_of_a_repeated_header_counts() {
        let door = Doorkeeper::of_a_port(8001, false);
        let (ours, home) = (("host", "localhost:8001"), ("sec-fetch-site", "same-origin"));
        let origin = ("origin", "http://localhost:8001");
        assert_eq!(door.refuses(&asked(Method::GET, &[ours, home, home, origin, origin])), None);
        for other in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-origin, cross-site"),
            ("sec-fetch-site", ""),
            ("origin", "https://evil.example"),
            ("origin", "http://localhost:8001, https://evil.example"),
            ("origin", "http://localhost:8001 https://evil.example"),
            ("host", "evil.example"),
            ("host", "localhost:8001"),
        ] {
            for headers in [[ours, home, origin, other], [other, origin, home, ours]] {
                assert!(door.refuses(&asked(Method::GET, &headers)).is_some(), "{headers:?}");
            }
        }
        let list = [("host", "localhost:8001,evil.example")];
        assert!(door.refuses(&asked(Method::GET, &list)).is_some());
    }

    #[test]
    fn the_host_of_the_request_line_counts_too() {
        let door = Doorkeeper::of_a_port(8001, false);
        let at = |target: &str| {
            let mut request = asked(Method::GET, &[("host", "localhost:8001")]);
            *request.uri_mut() = target.parse().unwrap();
            request
        };
        assert_eq!(door.refuses(&at("http://localhost:8001/version")), None);
        assert_eq!(door.refuses(&at("http://127.0.0.1:8001/version")), None);
        for target in [
            "http://evil.example/version",
            "http://localhost/version",
            "https://localhost:8001/version",
            "http://localhost:8001@evil.example/version",
            "http://evil@localhost:8001/version",
        ] {
            assert!(door.refuses(&at(target)).is_some(), "{target}");
        }
    }

    #[test]
    fn no_proxy_is_a_tunnel() {
        let door = Doorkeeper::of_a_socket(false);
        assert_eq!(door.refuses(&asked(Method::DELETE, &[])), None);
        assert!(door.refuses(&asked(Method::CONNECT, &[])).is_some());
    }

    #[test]
    fn a_read_only_proxy_changes_nothing() {
        let door = Doorkeeper::of_a_socket(true);
        assert_eq!(door.refuses(&asked(Method::GET, &[])), None);
        assert!(door.refuses(&asked(Method::DELETE, &[])).is_some());
        assert!(door.refuses(&asked(Method::GET, &[("upgrade", "websocket")])).is_some());
    }
}
