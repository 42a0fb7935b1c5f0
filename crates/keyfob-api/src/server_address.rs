//! Addresses of registries, as docker asks credential helpers for them.

use std::borrow::Cow;

/// Docker Hub, as image names have it.
const DOCKER_HUB: &str = "docker.io";
/// What else addresses call it.
const DOCKER_HUB_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// The registry and the path of a server's address, which is a URL or a host. The path is empty if the address is that of the
/// registry's API. Docker Hub is `docker.io` under each of its names. Nothing if the address names no host, or has a scheme other than
/// `https` and `http`.
///
/// ```
/// use keyfob_api::server_address;
///
/// let hub = server_address("https://index.docker.io/v1/");
/// assert_eq!(hub, Some(("docker.io".into(), "")));
/// let team = server_address("registry.example:5000/team/app");
/// assert_eq!(team, Some(("registry.example:5000".into(), "team/app")));
/// assert_eq!(server_address("https://"), None);
/// ```
pub fn server_address(address: &str) -> Option<(Cow<'_, str>, &str)> {
    let address = match address.split_once("://") {
        Some(("https" | "http", rest)) => rest,
        Some(_) => return None,
        None => address,
    };
    let address = address.trim_end_matches('/');
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    if host.is_empty() || host.contains(char::is_whitespace) {
        return None;
    }
    let path = match path {
        "v1" | "v2" => "",
        path => path,
    };
    let mut hub_names = DOCKER_HUB_ALIASES.into_iter().chain([DOCKER_HUB]);
    let is_docker_hub = hub_names.any(|name| name.eq_ignore_ascii_case(host));
    Some((if is_docker_hub { DOCKER_HUB } else { host }.into(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_registry_and_perhaps_a_path() {
        let rows = [
            ("r.io", Some(("r.io", ""))),
            ("https://r.io", Some(("r.io", ""))),
            ("http://127.0.0.1:5000/", Some(("127.0.0.1:5000", ""))),
            ("https://r.io:5000/v2/", Some(("r.io:5000", ""))),
            ("r.io/v1", Some(("r.io", ""))),
            ("r.io/team/v1", Some(("r.io", "team/v1"))),
            ("r.io/team/app//", Some(("r.io", "team/app"))),
            ("https://index.docker.io/v1/", Some(("docker.io", ""))),
            ("Registry-1.Docker.IO/team", Some(("docker.io", "team"))),
            ("docker.io.example", Some(("docker.io.example", ""))),
            ("", None),
            ("https:///team", None),
            ("r.io /team", None),
            ("ftp://r.io", None),
        ];
        for (address, expected) in rows {
            let read = server_address(address);
            let read = read.as_ref().map(|(registry, path)| (&**registry, *path));
            assert_eq!(read, expected, "{address}");
        }
    }
}
