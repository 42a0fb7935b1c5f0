//! Which hosts are ECR's, and what their names say.

use keyfob_plugin::Failure;

/// What follows the region, in every partition.
const SUFFIXES: &[&str] = &[
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "c2s.ic.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
    "on.amazonwebservices.com.cn",
    "on.aws",
    "sc2s.sgov.gov",
];
/// ECR Public has its API in one region only.
const HOME_OF_PUBLIC: &str = "us-east-1";

/// A registry of ECR, as its host describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registry {
    /// The host with its port, as the image has it: what the answer's key must match.
    pub(super) key: String,
    /// ECR Public, which has an API of its own.
    pub(super) public: bool,
    /// Where its API is.
    pub(super) region: String,
    pub(super) fips: bool,
    pub(super) dual_stack: bool,
}

impl Registry {
    /// The registry of an image. Any other host is refused: a token of ECR is none of its business.
    pub(super) fn of_image(image: &str) -> Result<Self, Failure> {
        let key = keyfob_api::registry_of(without_scheme(image));
        Self::parse(key).ok_or_else(|| {
            Failure::new(format!(
                "{key} is not a registry of ECR: look at matchImages of this provider's configuration"
            ))
        })
    }

    fn parse(key: &str) -> Option<Self> {
        // Names of hosts are the same in either case.
        let host = without_port(key)?.to_ascii_lowercase();
        match host.as_str() {
            "public.ecr.aws" => Some(Self::public(key, false)),
            "ecr-public.aws.com" => Some(Self::public(key, true)),
            host => Self::private(key, host),
        }
    }

    fn public(key: &str, dual_stack: bool) -> Self {
        let region = HOME_OF_PUBLIC.into();
        Self { key: key.into(), public: true, region, fips: false, dual_stack }
    }

    /// `ACCOUNT.dkr.ecr.REGION.SUFFIX`, with `dkr-ecr` for dual-stack hosts and `-fips` behind either.
    fn private(key: &str, host: &str) -> Option<Self> {
        let (account, rest) = host.split_once('.')?;
        let (hyphen, rest) = match rest.strip_prefix("dkr.ecr") {
            Some(rest) => (false, rest),
            None => (true, rest.strip_prefix("dkr-ecr")?),
        };
        let (fips, rest) = match rest.strip_prefix("-fips.") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix('.')?),
        };
        let (region, suffix) = rest.split_once('.')?;
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        if !is_account || !is_region(region) || !SUFFIXES.contains(&suffix) {
            return None;
        }
        let (key, region) = (key.into(), region.into());
        Some(Self {
            key,
            public: false,
            region,
            fips,
            dual_stack: hyphen || suffix.starts_with("on."),
        })
    }
}

fn is_region(label: &str) -> bool {
    let in_a_region = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    label.starts_with(|first: char| first.is_ascii_alphanumeric()) && label.bytes().all(in_a_region)
}

fn without_scheme(image: &str) -> &str {
    image.strip_prefix("https://").or(image.strip_prefix("http://")).unwrap_or(image)
}

fn without_port(key: &str) -> Option<&str> {
    let Some((host, port)) = key.split_once(':') else { return Some(key) };
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some(host)
}

#[cfg(test)]
mod tests {
    use keyfob_api::{MatchPattern, MatchTarget};

    use super::*;
    use crate::ecr::PROVIDER;

    #[test]
    fn a_host_says_where_its_api_is() {
        let rows = [
            ("dkr.ecr.us-west-2.amazonaws.com", "us-west-2", false, false),
            ("dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1", true, false),
            ("dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1", false, false),
            ("dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1", false, false),
            ("dkr-ecr.us-west-2.on.aws", "us-west-2", false, true),
            ("dkr.ecr.us-west-2.on.aws", "us-west-2", false, true),
            ("dkr-ecr-fips.us-east-1.on.aws", "us-east-1", true, true),
            ("dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "cn-north-1", false, true),
            ("DKR.ECR.US-WEST-2.AMAZONAWS.COM", "us-west-2", false, false),
            ("dkr.ecr.us-isob-east-1.sc2s.sgov.gov:443", "us-isob-east-1", false, false),
        ];
        for (host, region, fips, dual_stack) in rows {
            let key = format!("123456789012.{host}");
            let registry = Registry::of_image(&format!("{key}/team/app:1")).unwrap();

            let told = Registry { key, public: false, region: region.into(), fips, dual_stack };
            assert_eq!(registry, told, "{host}");
        }
    }

    #[test]
    fn the_public_registry_is_one_region_under_two_names() {
        for (host, dual_stack) in [("public.ecr.aws", false), ("ecr-public.aws.com", true)] {
            let registry = Registry::of_image(host).unwrap();

            assert!(registry.public && registry.region == "us-east-1", "{host}");
            assert_eq!((registry.key.as_str(), registry.dual_stack), (host, dual_stack));
        }
    }

    #[test]
    fn no_other_host_is_taken_for_one() {
        let hosts = [
            "docker.io",
            "r.io/123456789012.dkr.ecr.us-west-2.amazonaws.com",
            "user@123456789012.dkr.ecr.us-west-2.amazonaws.com",
            "123456789012.dkr.ecr.us-west-2.amazonaws.com@evil.example",
            "123456789012.dkr.ecr.us-west-2.amazonaws.com:latest",
            "123456789012.dkr.ecr.us-west-2.amazonaws.com.",
            "123456789012.dkr.ecr.us-west-2.amazonaws.com.evil.example",
            "123456789012.dkr.ecr..amazonaws.com",
            "123456789012.dkr.ecr.-x.amazonaws.com",
            "123456789012.dkr.ecrx.us-west-2.amazonaws.com",
            "12345678901.dkr.ecr.us-west-2.amazonaws.com",
            "public.ecr.aws.evil.example",
            "xpublic.ecr.aws",
            "",
        ];
        for host in hosts {
            assert!(Registry::of_image(host).is_err(), "{host}");
        }
    }

    #[test]
    fn the_kubelet_is_told_to_ask_about_every_host_that_is_amazons() {
        let asked = |host: &str| {
            let target = MatchTarget::parse(host).unwrap();
            PROVIDER
                .match_images
                .iter()
                .any(|text| MatchPattern::parse(text).unwrap().matches(&target))
        };
        for suffix in SUFFIXES {
            let service = if suffix.starts_with("on.") { "dkr-ecr" } else { "dkr.ecr" };
            for fips in ["", "-fips"] {
                let host = format!("123456789012.{service}{fips}.region-1.{suffix}");
                assert!(Registry::of_image(&host).is_ok() && asked(&host), "{host}");
            }
        }
    }
}
