//! Which registries a flag is about.

use std::{fmt, str::FromStr};

use keyfob_api::{MatchPattern, MatchTarget};

/// A host with its port, `*` for parts of a label, as in `matchImages`: `r.io`, `*.r.io:5000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryPattern(MatchPattern);

impl RegistryPattern {
    pub(crate) fn matches(&self, registry: &str) -> bool {
        MatchTarget::parse(registry).is_ok_and(|target| self.0.matches(&target))
    }
}

/// Whether a flag that may be repeated lets a registry have a login; without it, all may.
#[cfg(any(feature = "echo", feature = "exchange"))]
pub(crate) fn serves(named: &[RegistryPattern], registry: &str) -> bool {
    named.is_empty() || named.iter().any(|named| named.matches(registry))
}

impl FromStr for RegistryPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pattern = MatchPattern::parse(text).map_err(|error| error.to_string())?;
        if let Some(reason) = pattern.never_matches() {
            return Err(reason.to_string());
        }
        if !pattern.path().is_empty() {
            return Err("a registry is a host with its port, without a path".to_owned());
        }
        Ok(Self(pattern))
    }
}

impl fmt::Display for RegistryPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, registry: &str) -> bool {
        pattern.parse::<RegistryPattern>().unwrap().matches(registry)
    }

    #[test]
    fn host_and_port_are_compared_and_a_star_stands_for_a_part_of_a_label() {
        assert!(fits("r.io", "r.io") && fits("*.r.io:5000", "eu.r.io:5000"));
        assert!(fits("[::1]:5000", "[::1]:5000"));
        assert!(!fits("r.io", "r.io:5000"));
        assert!(!fits("r.io", "r.io.example.com"));
        assert!(!fits("*.io", "a.r.io"));
    }

    #[test]
    fn what_could_never_fit_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<RegistryPattern>().unwrap_err();
        assert!(refused("https://r.io").contains("write \"r.io\""), "{}", refused("https://r.io"));
        assert!(refused("r.io/team").contains("without a path"));
        assert!(refused("").contains("host"), "{}", refused(""));
    }
}
