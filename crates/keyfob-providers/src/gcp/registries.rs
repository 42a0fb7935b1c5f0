//! Whose hosts may be given a token of Google.

use crate::registry_pattern::RegistryPattern;

/// Google's own registries.
pub(super) const GOOGLE: [&str; 4] =
    ["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"];

/// The registry that was asked for, if it may be offered a token and is not among Google's by name already.
pub(super) fn one_more<'a>(registry: &'a str, named: &[RegistryPattern]) -> Option<&'a str> {
    let may = is_google(registry) || named.iter().any(|named| named.matches(registry));
    (may && !GOOGLE.contains(&registry)).then_some(registry)
}

fn is_google(registry: &str) -> bool {
    let host = registry.split_once(':').map_or(registry, |(host, _)| host);
    GOOGLE.iter().any(|pattern| match pattern.strip_prefix('*') {
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => host == *pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_googles_by_its_whole_ending() {
        for host in [
            "gcr.io",
            "eu.gcr.io",
            "us-docker.pkg.dev",
            "us-docker.pkg.dev:443",
            "container.cloud.google.com",
        ] {
            assert!(is_google(host), "{host}");
        }
        for host in [
            "evilgcr.io",
            "gcr.io.evil.test",
            "pkg.dev",
            ".pkg.dev",
            "evil.test:gcr.io",
            "registry.k8s.io",
            "docker.io",
            "",
        ] {
            assert!(!is_google(host), "{host}");
        }
    }

    #[test]
    fn a_token_is_offered_to_google_and_to_whom_the_command_line_names() {
        let named = ["r.test".parse().unwrap(), "*.own.test".parse().unwrap()];
        assert_eq!(one_more("gcr.io", &named), None, "it is there already");
        assert_eq!(one_more("eu.gcr.io", &named), Some("eu.gcr.io"));
        assert_eq!(one_more("r.test", &named), Some("r.test"));
        assert_eq!(one_more("eu.own.test", &named), Some("eu.own.test"));
        assert_eq!(one_more("r.test:1", &named), None);
    }
}
