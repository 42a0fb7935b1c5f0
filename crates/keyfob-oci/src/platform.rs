//! What a machine runs.
//!
//! Upstream: `github.com/containerd/platforms` (`Only`, `Normalize`), by which a node's runtime chooses.

use std::{env::consts, fmt, iter, str::FromStr};

use keyfob_api::Quoted;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An operating system and an architecture: `linux/amd64`, `linux/arm/v7`.
///
/// ```
/// use keyfob_oci::Platform;
///
/// let wanted = Platform::parse("linux/arm/v7")?;
/// assert!(wanted.accepts(&Platform::parse("linux/arm/v6")?));
/// assert!(!wanted.accepts(&Platform::parse("linux/arm64")?));
/// # Ok::<(), keyfob_oci::InvalidPlatform>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "the fields of a platform in an image index")]
pub struct Platform {
    /// `linux`, as Go calls it.
    pub os: String,
    /// `amd64`, as Go calls it.
    pub architecture: String,
    /// `v7`; mostly empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Of Windows.
    #[serde(rename = "os.version", skip_serializing_if = "String::is_empty")]
    pub os_version: String,
    /// What the operating system must have besides.
    #[serde(rename = "os.features", skip_serializing_if = "Vec::is_empty")]
    pub os_features: Vec<String>,
}

/// A text that names no platform.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} is no platform: it is written as os/arch or os/arch/variant, as in linux/arm64 or linux/arm/v7", Quoted(.0))]
pub struct InvalidPlatform(String);

impl Platform {
    /// The same with other words: a registry may have chosen them.
    pub(crate) fn map_text(self, change: impl Fn(String) -> String) -> Self {
        Self {
            os: change(self.os),
            architecture: change(self.architecture),
            variant: change(self.variant),
            os_version: change(self.os_version),
            os_features: self.os_features.into_iter().map(change).collect(),
        }
    }

    /// Reads `os/arch` or `os/arch/variant`.
    pub fn parse(text: &str) -> Result<Self, InvalidPlatform> {
        let is_word = |part: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            !part.is_empty() && part.bytes().all(fits)
        };
        let parts: Vec<&str> = text.split('/').filter(is_word).collect();
        let (os, architecture, variant) = match parts.as_slice() {
            [os, architecture] => (*os, *architecture, ""),
            [os, architecture, variant] => (*os, *architecture, *variant),
            _ => return Err(InvalidPlatform(text.to_owned())),
        };
        if parts.len() != text.split('/').count() {
            return Err(InvalidPlatform(text.to_owned()));
        }
        Ok(Self::new(os, architecture, variant).normalized())
    }

    /// That of this machine.
    pub fn this_machine() -> Self {
        let architecture = match consts::ARCH {
            "x86" => "386",
            "loongarch64" => "loong64",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            other => other,
        };
        // A program for an older processor runs on a newer one, which then is not made use of.
        let variant = if cfg!(target_feature = "v7") { "v7" } else { "v6" };
        let variant = if architecture == "arm" { variant } else { "" };
        Self::new(consts::OS, architecture, variant).normalized()
    }

    /// Whether something for the other runs on this.
    pub fn accepts(&self, other: &Self) -> bool {
        self.rank(other).is_some()
    }

    /// How well something for the other runs on this: the lower, the better.
    pub(crate) fn rank(&self, other: &Self) -> Option<usize> {
        // Windows' features were never asked for.
        if !other.os_features.is_empty() && other.os != "windows" {
            return None;
        }
        let wanted = |platform: &Self| {
            (platform.os.clone(), platform.architecture.clone(), platform.variant.clone())
        };
        let other = wanted(&other.normalized());
        self.normalized().order().iter().position(|each| wanted(&each.normalized()) == other)
    }

    fn new(os: &str, architecture: &str, variant: &str) -> Self {
        let (os, architecture) = (os.to_ascii_lowercase(), architecture.to_ascii_lowercase());
        let variant = variant.to_ascii_lowercase();
        Self { os, architecture, variant, ..Self::default() }
    }

    fn normalized(&self) -> Self {
        let Self { os, architecture, variant, .. } =
            Self::new(&self.os, &self.architecture, &self.variant);
        let (architecture, variant) = match (architecture.as_str(), variant.as_str()) {
            ("i386", _) => ("386", ""),
            ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
            ("x86_64" | "x86-64", variant) => ("amd64", variant),
            ("aarch64" | "arm64", "8" | "v8" | "v8.0") => ("arm64", ""),
            ("aarch64" | "arm64", "9" | "9.0" | "v9.0") => ("arm64", "v9"),
            ("aarch64", variant) => ("arm64", variant),
            ("armhf", _) | ("arm", "" | "7") => ("arm", "v7"),
            ("armel", _) | ("arm", "6") => ("arm", "v6"),
            ("arm", "5") => ("arm", "v5"),
            ("arm", "8") => ("arm", "v8"),
            unchanged => unchanged,
        };
        let os = if os == "macos" { "darwin" } else { &os };
        let (os_version, os_features) = (self.os_version.clone(), self.os_features.clone());
        Self { os_version, os_features, ..Self::new(os, architecture, variant) }
    }

    /// What a normalized platform runs, best first.
    fn order(&self) -> Vec<Self> {
        let of = |architecture: &str, variant: String| Self::new(&self.os, architecture, &variant);
        let older = |down_to: u32| {
            let newest: u32 = self.variant.trim_start_matches('v').parse().unwrap_or_default();
            // No processor has so many that it would take long to count them.
            (down_to..newest.min(100)).rev().map(|version| format!("v{version}"))
        };
        let rest: Vec<Self> = match self.architecture.as_str() {
            "amd64" => older(1)
                .map(|variant| of("amd64", variant))
                .chain(iter::once(of("386", String::new())))
                .collect(),
            "arm" => older(5).map(|variant| of("arm", variant)).collect(),
            "arm64" => arm64_below(&self.variant)
                .map(|variant| of("arm64", variant))
                .chain((5..=8).rev().map(|version| of("arm", format!("v{version}"))))
                .collect(),
            _ => Vec::new(),
        };
        iter::once(self.clone()).chain(rest).collect()
    }
}

/// The variants of arm64 that run what an older one runs: v9.1 is v8.6 and more.
fn arm64_below(variant: &str) -> impl Iterator<Item = String> {
    let variant = if variant.is_empty() { "v8" } else { variant };
    let (major, minor) = variant.split_once('.').unwrap_or((variant, "0"));
    let minor: u32 = minor.parse().unwrap_or_default();
    let (nine, eight) = match major {
        "v8" if minor <= 9 => (0..0, 0..minor),
        "v9" if minor <= 7 => (0..minor, 0..(minor + 6).min(10)),
        _ => (0..0, 0..0),
    };
    let named = |major: u32| move |minor: u32| format!("v{major}.{minor}");
    nine.rev().map(named(9)).chain(eight.rev().map(named(8)))
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if !self.variant.is_empty() {
            write!(f, "/{}", self.variant)?;
        }
        Ok(())
    }
}

impl FromStr for Platform {
    type Err = InvalidPlatform;

    fn from_str(text: &str) -> Result<Self, InvalidPlatform> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        Platform::parse(text).unwrap()
    }

    /// The platforms of a list that another accepts, best first.
    fn chosen(wanted: &str, offered: &[&str]) -> Vec<String> {
        let wanted = platform(wanted);
        let ranked = |text: &&str| Some((wanted.rank(&platform(text))?, (*text).to_owned()));
        let mut fitting: Vec<_> = offered.iter().filter_map(ranked).collect();
        fitting.sort();
        fitting.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn the_nearest_variant_comes_first_and_newer_ones_never() {
        let rows: [(&str, &[&str], &[&str]); 10] = [
            (
                "linux/arm/v7",
                &["linux/arm/v5", "linux/arm/v6", "linux/arm/v8", "linux/arm/v7"],
                &["linux/arm/v7", "linux/arm/v6", "linux/arm/v5"],
            ),
            ("linux/arm", &["linux/arm/v6", "linux/arm/v8"], &["linux/arm/v6"]),
            ("linux/arm/v5", &["linux/arm/v6", "linux/arm"], &[]),
            (
                "linux/arm64",
                &["linux/arm/v6", "linux/arm/v7", "linux/amd64", "linux/arm64/v8"],
                &["linux/arm64/v8", "linux/arm/v7", "linux/arm/v6"],
            ),
            (
                "linux/arm64/v9.1",
                &["linux/arm64/v8.7", "linux/arm64/v8.6", "linux/arm64", "linux/arm64/v9"],
                &["linux/arm64/v9", "linux/arm64/v8.6", "linux/arm64"],
            ),
            ("linux/amd64", &["linux/386", "linux/amd64/v2", "windows/amd64"], &["linux/386"]),
            (
                "linux/amd64/v3",
                &["linux/amd64", "linux/amd64/v4", "linux/amd64/v2"],
                &["linux/amd64/v2", "linux/amd64"],
            ),
            ("linux/x86_64", &["linux/amd64/v1"], &["linux/amd64/v1"]),
            ("Linux/aarch64/v8", &["linux/arm64"], &["linux/arm64"]),
            ("linux/s390x", &["linux/s390x", "linux/amd64"], &["linux/s390x"]),
        ];
        for (wanted, offered, expected) in rows {
            assert_eq!(chosen(wanted, offered), expected, "{wanted}");
        }
    }

    #[test]
    fn a_platform_with_features_that_were_not_asked_for_is_none() {
        let mut offered = platform("linux/amd64");
        offered.os_features = vec!["sgx".into()];
        assert!(!platform("linux/amd64").accepts(&offered));
        offered.os = "windows".into();
        assert!(platform("windows/amd64").accepts(&offered));
    }

    #[test]
    fn what_is_no_platform_is_refused() {
        for wrong in ["", "linux", "linux/", "/amd64", "linux/arm/v7/x", "linux//v7", "linux/a b"] {
            assert!(Platform::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(platform("linux/arm").to_string(), "linux/arm/v7");
        assert_eq!(platform("linux/arm64/v8").to_string(), "linux/arm64");
    }

    #[test]
    fn a_variant_of_a_thousand_digits_costs_nothing() {
        for variant in ["v4294967295".to_owned(), format!("v{}", "9".repeat(1000))] {
            for architecture in ["amd64", "arm", "arm64"] {
                let strange = Platform::new("linux", architecture, &variant);
                assert!(strange.accepts(&strange), "{architecture}");
                assert!(strange.order().len() < 200);
            }
        }
    }

    #[test]
    fn this_machine_runs_what_is_built_for_it() {
        let here = Platform::this_machine();
        assert!(here.accepts(&Platform::parse(&here.to_string()).unwrap()));
    }
}
