//! Patterns that match no image, whatever its name.
//!
//! Each finding is a proof over the grammar of image names: a pattern without one may still be useless, a pattern with
//! one is. Keys of a keyring are patterns too, but are matched against the same names.
//! Upstream: none; the kubelet accepts such patterns and stays silent.

use thiserror::Error;

use super::{LabelPattern, MatchPattern};
use crate::{ImageRef, glob, image::is_path_prefix};

/// Why a pattern matches no image, and what to write in its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NeverMatches {
    /// A keyring's key that cannot be read the second time.
    #[error("the key, percent-decoded, is no host and path: write it without escapes")]
    DeadKey,
    /// The path has a digest.
    #[error(
        "patterns are matched against names without tag and digest, so {found:?} is never found: {}",
        write(.instead.as_deref(), "leave it out")
    )]
    Digest {
        /// What stands in the path.
        found: String,
        /// The pattern without it.
        instead: Option<String>,
    },
    /// The host is one word and neither `localhost` nor followed by a port.
    #[error(
        "{host:?} has neither a dot nor a port, so image names take it for a user or an image of Docker Hub: {}, or add the registry's port",
        write(.instead.as_deref(), "put docker.io/ in front")
    )]
    DockerHubUser {
        /// The host.
        host: String,
        /// The pattern with Docker Hub in front.
        instead: Option<String>,
    },
    /// The host is Docker Hub's former name.
    #[error(
        "image names say docker.io where index.docker.io was written: {}",
        write(.instead.as_deref(), "say so too")
    )]
    DockerIndex {
        /// The pattern with today's name.
        instead: Option<String>,
    },
    /// There is no host.
    #[error("the pattern has no host name: write the registry's, or \"*\" for any of one label")]
    EmptyHost,
    /// A label of the host is empty.
    #[error(
        "host name {host:?} has two dots in a row, or one at an end: write \"*\" for a label that may be anything"
    )]
    EmptyLabel {
        /// The host.
        host: String,
    },
    /// No image name can have the host.
    #[error(
        "no image name can have a registry like {host:?}: write its host name, with \"*\" for labels that vary"
    )]
    Host {
        /// Host and port.
        host: String,
    },
    /// The host is an IPv6 address, and there is no port.
    #[error(
        "without a port the brackets of {host:?} are read as a character class: write the port as well"
    )]
    Ipv6WithoutPort {
        /// The host.
        host: String,
    },
    /// No image name can have a path that begins so.
    #[error(
        "no image name can have a path that begins with {path:?}: write the plain beginning of one, or none"
    )]
    Path {
        /// The path.
        path: String,
    },
    /// There is a scheme in front.
    #[error(
        "image names have no scheme, so a pattern with one matches none: {}",
        write(.instead.as_deref(), "leave it out")
    )]
    Scheme {
        /// The pattern without it.
        instead: Option<String>,
    },
    /// The path has a star.
    #[error(
        "a star in the path stands for itself, and no image name has one: {}, which is a prefix",
        write(.instead.as_deref(), "write what stands before it")
    )]
    Star {
        /// The pattern up to the star.
        instead: Option<String>,
    },
    /// The path has a tag.
    #[error(
        "patterns are matched against names without tag and digest, so {found:?} is never found: {}",
        write(.instead.as_deref(), "leave it out")
    )]
    Tag {
        /// What stands in the path.
        found: String,
        /// The pattern without it.
        instead: Option<String>,
    },
    /// The path has upper-case letters.
    #[error(
        "the path of an image name is lower case: {}",
        write(.instead.as_deref(), "write it so")
    )]
    Uppercase {
        /// The pattern in lower case.
        instead: Option<String>,
    },
}

impl NeverMatches {
    /// A pattern to write in this one's place, if one can be told.
    pub fn instead(&self) -> Option<&str> {
        match self {
            Self::Digest { instead, .. }
            | Self::DockerHubUser { instead, .. }
            | Self::DockerIndex { instead }
            | Self::Scheme { instead }
            | Self::Star { instead }
            | Self::Tag { instead, .. }
            | Self::Uppercase { instead } => instead.as_deref(),
            Self::DeadKey
            | Self::EmptyHost
            | Self::EmptyLabel { .. }
            | Self::Host { .. }
            | Self::Ipv6WithoutPort { .. }
            | Self::Path { .. } => None,
        }
    }
}

impl MatchPattern {
    /// Why no image can match, if that is certain.
    pub fn never_matches(&self) -> Option<NeverMatches> {
        self.scheme().or_else(|| self.impossible_path()).or_else(|| self.impossible_host())
    }

    /// `https://registry.io` is the host `https:` with the path `//registry.io`.
    fn scheme(&self) -> Option<NeverMatches> {
        let (scheme, _) = self.text.split_once("://")?;
        // A scheme may have been put before another: what stands behind the last is meant.
        let (_, rest) = self.text.rsplit_once("://")?;
        let is_word = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_word && self.path.starts_with(b"//"))
            .then(|| NeverMatches::Scheme { instead: improved(rest.to_owned()) })
    }

    fn impossible_path(&self) -> Option<NeverMatches> {
        let path = String::from_utf8_lossy(&self.path);
        if path.is_empty() || path.strip_prefix('/').is_some_and(is_path_prefix) {
            return None;
        }
        let cut_at = |character| {
            let (kept, found) = path.split_at(path.find(character)?);
            Some((found.to_owned(), improved(self.with_path(kept))))
        };
        let star = cut_at('*').map(|(_, instead)| NeverMatches::Star { instead });
        let digest = || cut_at('@').map(|(found, instead)| NeverMatches::Digest { found, instead });
        let tag = || cut_at(':').map(|(found, instead)| NeverMatches::Tag { found, instead });
        let uppercase = || {
            let instead = self.with_path(&path.to_ascii_lowercase());
            let is_uppercase = path.bytes().any(|byte| byte.is_ascii_uppercase());
            is_uppercase.then(|| NeverMatches::Uppercase { instead: improved(instead) })
        };
        let path = || NeverMatches::Path { path: path.to_string() };
        Some(star.or_else(digest).or_else(tag).or_else(uppercase).unwrap_or_else(path))
    }

    fn impossible_host(&self) -> Option<NeverMatches> {
        let is_literal = |label: &LabelPattern| matches!(label, LabelPattern::Literal(_));
        if self.labels.iter().any(|label| label.text().is_empty()) {
            let host = self.name();
            return Some(match host.as_str() {
                "" => NeverMatches::EmptyHost,
                _ => NeverMatches::EmptyLabel { host },
            });
        }
        if self.labels.iter().all(is_literal) {
            return self.impossible_registry();
        }
        if self.is_dead_class() {
            return Some(NeverMatches::Ipv6WithoutPort { host: self.name() });
        }
        let hopeless = self.labels.iter().any(|label| !self.may_be_label(label));
        hopeless.then(|| NeverMatches::Host { host: self.registry() })
    }

    /// Without a wildcard there is but one registry the pattern can mean; an image there tells whether there is one.
    fn impossible_registry(&self) -> Option<NeverMatches> {
        let registry = self.registry();
        let image = ImageRef::parse(&format!("{registry}/a")).ok();
        let target = image.as_ref().and_then(|image| image.target().ok());
        let fits = |name: &[u8], port: &str| self.name().as_bytes() == name && *self.port == *port;
        if target.is_some_and(|target| fits(&target.name, &target.port)) {
            return None;
        }
        let behind =
            |host: &str| improved(format!("{host}{}", String::from_utf8_lossy(&self.path)));
        Some(match image {
            Some(_) if registry == "index.docker.io" => {
                NeverMatches::DockerIndex { instead: behind("docker.io") }
            }
            Some(image) if image.registry() == "docker.io" => {
                // Alone it is the name of an image: `nginx` is `docker.io/library/nginx`.
                let user = if self.path.is_empty() { "library/" } else { "" };
                let instead = behind(&format!("docker.io/{user}{registry}"));
                NeverMatches::DockerHubUser { instead, host: registry }
            }
            _ => NeverMatches::Host { host: registry },
        })
    }

    /// A bracketed address without a port is a class, which fits a host name of one character or is malformed. An image
    /// can have such a host only in upper case: in lower case it is a user of Docker Hub.
    fn is_dead_class(&self) -> bool {
        match &*self.labels {
            labels if labels.iter().any(is_malformed) => true,
            [LabelPattern::Glob(class)] => {
                let inside = class.strip_prefix(b"[").and_then(|class| class.strip_suffix(b"]"));
                inside.is_some_and(|inside| {
                    !inside.iter().any(|byte| matches!(byte, b'[' | b']' | b'*'))
                }) && !(b'A'..=b'Z').any(|letter| glob::matches(class, &[letter]) == Ok(true))
            }
            _ => false,
        }
    }

    /// Whether some image's host name may have a label like this one. Classes are given the benefit of the doubt.
    fn may_be_label(&self, label: &LabelPattern) -> bool {
        let (LabelPattern::Glob(text) | LabelPattern::Literal(text)) = label else {
            return true;
        };
        let at_an_end = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'*';
        let inside = |byte: &u8| at_an_end(byte) || matches!(byte, b'-' | b'_');
        if text.contains(&b'[') {
            return true;
        }
        if self.labels.len() == 1 {
            // The only label may be an address, in brackets if no port follows.
            return text.iter().all(|byte| inside(byte) || matches!(byte, b':' | b']'));
        }
        text.iter().all(inside) && [text.first(), text.last()].into_iter().flatten().all(at_an_end)
    }

    /// Host and port as an image name has them.
    fn registry(&self) -> String {
        let name = self.name();
        match self.port() {
            None => name,
            Some(port) if name.contains(':') => format!("[{name}]:{port}"),
            Some(port) => format!("{name}:{port}"),
        }
    }

    fn with_path(&self, path: &str) -> String {
        self.registry() + path
    }
}

fn is_malformed(label: &LabelPattern) -> bool {
    matches!(label, LabelPattern::Glob(pattern) if glob::is_malformed(pattern))
}

/// What to propose. A pattern may be useless twice over: what is proposed must not be. Without escapes, which would be
/// decoded anew each time, there are as many rounds as kinds of findings, at most.
fn improved(instead: String) -> Option<String> {
    if instead.contains('%') {
        return None;
    }
    match MatchPattern::parse(&instead).ok()?.never_matches() {
        None => Some(instead),
        Some(never) => never.instead().map(str::to_owned),
    }
}

/// What to do: write the proposal, or else what can be said without one.
fn write(instead: Option<&str>, otherwise: &str) -> String {
    instead.map_or_else(|| otherwise.to_owned(), |pattern| format!("write {pattern:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(pattern: &str) -> Option<NeverMatches> {
        MatchPattern::parse(pattern).unwrap().never_matches()
    }

    fn instead(pattern: &str) -> String {
        never(pattern).unwrap().instead().unwrap().to_owned()
    }

    #[test]
    fn what_is_proposed_can_be_used() {
        for useless in ["https://registry.io:*/team", "a%25/B", "https://r.io/%74eam"] {
            let never = never(useless).unwrap();
            assert_eq!(never.instead(), None, "{useless}");
            assert!(!never.to_string().contains("write \""), "{never}");
        }
    }

    #[test]
    fn a_useless_pattern_comes_with_a_useful_one() {
        let cases = [
            ("https://reg.test", "reg.test"),
            ("docker://reg.test:5000/team", "reg.test:5000/team"),
            ("https://index.docker.io/Team/*", "docker.io/team/"),
            ("*.reg.test/*", "*.reg.test/"),
            ("reg.test/team*", "reg.test/team"),
            ("reg.test/team/app:v1", "reg.test/team/app"),
            ("reg.test/team/app@sha256:12", "reg.test/team/app"),
            ("[::1]:5000/app:v1", "[::1]:5000/app"),
            ("reg.test/Team", "reg.test/team"),
            ("index.docker.io", "docker.io"),
            ("index.docker.io/library", "docker.io/library"),
            ("team/app", "docker.io/team/app"),
            ("nginx", "docker.io/library/nginx"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(instead(pattern), expected, "{pattern}");
            assert_eq!(never(expected), None, "{expected}");
        }
    }

    #[test]
    fn what_no_image_name_can_hold_is_never_found() {
        let host = |host: &str| Some(NeverMatches::Host { host: host.to_owned() });
        let ipv6 = |host: &str| Some(NeverMatches::Ipv6WithoutPort { host: host.to_owned() });
        let label = |host: &str| Some(NeverMatches::EmptyLabel { host: host.to_owned() });
        let path = |path: &str| Some(NeverMatches::Path { path: path.to_owned() });
        let cases = [
            ("", Some(NeverMatches::EmptyHost)),
            ("/team", Some(NeverMatches::EmptyHost)),
            (":5000", Some(NeverMatches::EmptyHost)),
            (".reg.test", label(".reg.test")),
            ("*.reg..test", label("*.reg..test")),
            ("-reg.test", host("-reg.test")),
            ("r_1.test:5000", host("r_1.test:5000")),
            ("R_1.test", host("R_1.test")),
            ("*.reg~.test", host("*.reg~.test")),
            ("*.reg-.test", host("*.reg-.test")),
            ("*~:5000", host("*~:5000")),
            ("*.é", host("*.é")),
            ("[::1]:", host("::1")),
            ("[fe80::1%25eth0]:5000", host("[fe80::1%eth0]:5000")),
            ("[::ffff:10.0.0.1]:5000", host("[::ffff:10.0.0.1]:5000")),
            ("[::1]", ipv6("[::1]")),
            ("[::ffff:10.0.0.1]", ipv6("[::ffff:10.0.0.1]")),
            ("reg.test//team", path("//team")),
            ("reg.test/te am", path("/te am")),
            ("reg.test/a___b", path("/a___b")),
            ("reg.test/%C3%A9%FF", path("/é\u{fffd}")),
        ];
        for (pattern, expected) in cases {
            assert_eq!(never(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_some_image_matches_is_left_alone() {
        let cases = [
            ("*", "localhost/app"),
            ("*", "[::1]/app"),
            ("*]", "[::1]/app"),
            ("TEAM", "TEAM/app"),
            ("te*", "teaM/app"),
            ("[fe80::A]", "A/app"),
            ("[fe80::1%25%5B%5D*]", "[::1]/app"),
            ("[::1]:5000", "[::1]:5000/app"),
            ("localhost", "localhost/app"),
            ("team:5000", "team:5000/app"),
            ("index.docker.io:443", "index.docker.io:443/app"),
            ("index.docker.*", "index.docker.com/app"),
            ("docker.io/nginx", "nginx/app"),
            ("docker.io/library/", "nginx"),
            ("r_1.test", "r_1.test/app"),
            ("reg.test/a__", "reg.test/a__b"),
            ("reg.test:/a#*", "reg.test/app"),
            ("me@reg.test/a?b:*", "reg.test/app"),
        ];
        for (pattern, image) in cases {
            let image = ImageRef::parse(image).unwrap().target().unwrap();
            assert!(MatchPattern::parse(pattern).unwrap().matches(&image), "{pattern}");
            assert_eq!(never(pattern), None, "{pattern}");
        }
    }
}
