//! Which hosts are registries of Azure.
//!
//! A host is taken whole and read from its end: `foo.azurecr.io`, `foo-d8e2a1.azurecr.io` (a registry with a domain name
//! label), `foo.eastus2.geo.azurecr.io` (its endpoint in a region). Hosts that serve layers (`.data.`) take no logins.
//! Upstream also takes any image with the cloud's suffix somewhere in it, such as `evilazurecr.io/x`.

/// Where every cloud's registries are, whatever cloud the node is in.
pub(super) const SUFFIXES: [&str; 4] = ["azurecr.io", "azurecr.cn", "azurecr.de", "azurecr.us"];

/// A host that gives out tokens for a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoginServer {
    /// As the image has it.
    pub(super) host: String,
    /// The registry's own host, if this one is its endpoint in a region.
    pub(super) home: Option<String>,
}

impl LoginServer {
    /// The host of this image, if it is one. The cloud may have a suffix of its own.
    pub(super) fn of(image: &str, cloud_suffix: &str) -> Option<Self> {
        let host = keyfob_api::registry_of(image);
        let own = cloud_suffix.trim_matches('.');
        let suffixes = SUFFIXES.into_iter().chain([own]).filter(|suffix| !suffix.is_empty());
        suffixes.into_iter().find_map(|suffix| Self::below(host, suffix))
    }

    fn below(host: &str, suffix: &str) -> Option<Self> {
        let labels = without_suffix(host, suffix)?.strip_suffix('.')?;
        let labels: Vec<&str> = labels.split('.').collect();
        let home = match *labels {
            [name] if is_registry(name) => None,
            [name, region, geo] if is_registry(name) && is_word(region) && geo == "geo" => {
                Some(format!("{name}.{suffix}"))
            }
            _ => return None,
        };
        Some(Self { host: host.to_owned(), home })
    }

    /// Whether a host is this one, or the home of its registry: where its tokens may go.
    pub(super) fn is_at(&self, host: &str) -> bool {
        let known = [Some(&self.host), self.home.as_ref()];
        known.into_iter().flatten().any(|known| known.eq_ignore_ascii_case(host))
    }
}

fn without_suffix<'a>(host: &'a str, suffix: &str) -> Option<&'a str> {
    let (rest, end) = host.split_at_checked(host.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(rest)
}

/// A registry's name, and at most one label behind a hyphen.
fn is_registry(name: &str) -> bool {
    match name.split_once('-') {
        Some((name, label)) => is_word(name) && is_word(label),
        None => is_word(name),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(image: &str, suffix: &str) -> String {
        LoginServer::of(image, suffix).map(|login| login.host).unwrap_or_default()
    }

    #[test]
    fn a_login_server_is_known_by_its_whole_host() {
        let rows = [
            ("invalidImage", ""),
            ("", ""),
            ("busybox", ""),
            ("docker.io/library/busybox:latest", ""),
            ("foo.azurecr.io/bar/image:version", "foo.azurecr.io"),
            ("foo.azurecr.cn/bar/image:version", "foo.azurecr.cn"),
            ("foo.azurecr.us/foo.azurecr.io/bar/image:version", "foo.azurecr.us"),
            ("foo.azurecr.my.cloud/bar/image:version", "foo.azurecr.my.cloud"),
            ("foo.azurecr.io.example/bar/image:version", ""),
            ("foo.azurecr.io./bar", ""),
            ("foo.azurecr.io", "foo.azurecr.io"),
            ("Foo.AzureCR.io/bar", "Foo.AzureCR.io"),
            ("foo-azurecr-io.azurecr.cn", ""),
            ("-foo.azurecr.io/a", ""),
            ("foo-.azurecr.io/a", ""),
            ("demo-abc123.azurecr.io/bar", "demo-abc123.azurecr.io"),
            ("demo-abc123.eastus2.geo.azurecr.io/bar", "demo-abc123.eastus2.geo.azurecr.io"),
            ("foo.westus.geo.azurecr.my.cloud/bar", "foo.westus.geo.azurecr.my.cloud"),
            ("foo.germanynorth.geo.azurecr.de/bar", "foo.germanynorth.geo.azurecr.de"),
            ("foo.eastus2.geo.azurecr.io.example/bar", ""),
            ("foo.eastus2.data.azurecr.io/bar", ""),
            ("foo.usgovvirginia.data.azurecr.us/bar", ""),
            ("foo.azurecr.io:443/a", ""),
            ("föö.azurecr.io/a", ""),
            (".azurecr.io/a", ""),
            ("azurecr.io/a", ""),
        ];
        for (image, expected) in rows {
            assert_eq!(host(image, ".azurecr.my.cloud"), expected, "{image}");
        }
    }

    #[test]
    fn the_suffix_of_the_public_cloud_opens_no_back_door() {
        for image in [
            "evilazurecr.io/x",
            "docker/foo.azurecr.io/bar",
            "foo.eastus2.data.azurecr.io/x",
            "busybox",
        ] {
            assert_eq!(host(image, "azurecr.io"), "", "{image}");
        }
        assert_eq!(host("foo.azurecr.io/x", "azurecr.io"), "foo.azurecr.io");
        assert_eq!(host("foo.example/x", ""), "");
    }

    #[test]
    fn an_endpoint_in_a_region_belongs_to_its_registry() {
        let regional = LoginServer::of("foo.eastus2.geo.azurecr.io/x", "").unwrap();
        assert!(regional.is_at("foo.azurecr.io") && regional.is_at("FOO.eastus2.geo.azurecr.io"));
        assert!(!regional.is_at("foo.westus.geo.azurecr.io") && !regional.is_at("bar.azurecr.io"));
        assert!(
            !LoginServer::of("foo.azurecr.io/x", "").unwrap().is_at("foo.eastus2.geo.azurecr.io")
        );
    }
}
