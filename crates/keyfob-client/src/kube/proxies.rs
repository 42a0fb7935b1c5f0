//! The proxies that the environment names.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use keyfob_exec::{Environment, proxy_address, proxy_variable};

/// The way to a server, where a kubeconfig names none. As in Go nothing on this machine is reached through a proxy.
pub(super) fn proxy_for(server: &Uri, environment: &dyn Environment) -> Option<Uri> {
    if is_this_machine(server.host()?) {
        return None;
    }
    let named = |name: &str| proxy_address(name, environment).unwrap_or_default();
    let matcher = Matcher::builder()
        .http(named("HTTP_PROXY"))
        .https(named("HTTPS_PROXY"))
        .no(proxy_variable("NO_PROXY", environment).unwrap_or_default())
        .build();
    matcher.intercept(server)?;
    // With the user in it, which a matcher takes out.
    let variable = if server.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    named(variable).parse().ok()
}

/// Only loopback, as in client-go. The HTTP client of `keyfob-net` also asks the services that clouds have at link-local addresses
/// without a proxy, but an API server is none of them.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::MapEnvironment;

    use super::*;

    fn way(server: &str, environment: &[(&str, &str)]) -> Option<String> {
        let environment = environment.iter().copied().collect::<MapEnvironment>();
        proxy_for(&server.parse().unwrap(), &environment).map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_environment_names_the_way_to_other_machines_only() {
        let both = [
            ("HTTPS_PROXY", "http://user:pass@proxy:3128"),
            ("no_proxy", ".corp.example,10.0.0.0/8"),
        ];
        assert_eq!(
            way("https://cluster.example", &both).as_deref(),
            Some("http://user:pass@proxy:3128/")
        );
        for direct in [
            "https://a.corp.example",
            "https://10.1.2.3:6443",
            "https://127.0.0.1:6443",
            "https://localhost",
        ] {
            assert_eq!(way(direct, &both), None, "{direct}");
        }
        assert_eq!(way("http://cluster.example", &both), None);
        assert_eq!(
            way("https://cluster.example", &[("https_proxy", "proxy:1")]).as_deref(),
            Some("http://proxy:1/")
        );
    }

    #[test]
    fn an_empty_variable_does_not_hide_the_other_spelling() {
        let environment = [("HTTPS_PROXY", ""), ("https_proxy", "proxy:1")];
        assert_eq!(
            way("https://cluster.example", &environment).as_deref(),
            Some("http://proxy:1/")
        );
        let environment =
            [("HTTPS_PROXY", "proxy:1"), ("NO_PROXY", ""), ("no_proxy", "cluster.example")];
        assert_eq!(way("https://cluster.example", &environment), None);
    }
}
