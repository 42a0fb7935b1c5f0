//! Kubernetes' feature gates, as far as they decide anything here.
//!
//! Upstream: `MapStringBool` and `featuregate.SetFromMap` of `k8s.io/component-base`.
//! Differs: a gate that decides nothing here is reported, not refused, so that a kubelet's whole list can be given.

use thiserror::Error;

/// Which of the kubelet's features are on. The default is what Kubernetes 1.37 has on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureGates {
    /// `KubeletServiceAccountTokenForCredentialProviders`: providers may have `tokenAttributes`.
    pub service_account_token: bool,
    /// `KubeletEnsureSecretPulledImages`: credentials know where they came from, and what was pulled is recorded.
    pub ensure_secret_pulled_images: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { service_account_token: true, ensure_secret_pulled_images: true }
    }
}

/// A list of gates that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParsedGates {
    /// What is on.
    pub gates: FeatureGates,
    /// Gates of the list that decide nothing here.
    pub unknown: Vec<String>,
    /// Names of the list that only a proposal has, and that no kubelet takes.
    pub proposed: Vec<String>,
}

impl FeatureGates {
    /// Reads a kubelet's `--feature-gates`: `A=true,B=false`. `AllBeta` and `AllAlpha` set what is not set by name; the
    /// gates here are beta. KEP-4412's name for its gate is read too.
    pub fn parse(text: &str) -> Result<ParsedGates, GatesError> {
        let mut parsed = ParsedGates::default();
        let (mut tokens, mut pulled, mut all_beta) = (None, None, None);
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) =
                entry.split_once('=').ok_or_else(|| GatesError::NoValue { gate: entry.into() })?;
            let (name, value) = (name.trim(), value.trim());
            let on = go_bool(value)
                .ok_or_else(|| GatesError::NotABool { gate: name.into(), value: value.into() })?;
            match name {
                "KubeletServiceAccountTokenForCredentialProviders" => tokens = Some(on),
                "ServiceAccountTokenForKubeletCredentialProviders" => {
                    tokens.get_or_insert(on);
                    parsed.proposed.push(name.to_owned());
                }
                "KubeletEnsureSecretPulledImages" => pulled = Some(on),
                "AllBeta" => all_beta = Some(on),
                "AllAlpha" => {}
                unknown => parsed.unknown.push(unknown.to_owned()),
            }
        }
        let default = Self::default();
        parsed.gates = Self {
            service_account_token: tokens.or(all_beta).unwrap_or(default.service_account_token),
            ensure_secret_pulled_images: pulled
                .or(all_beta)
                .unwrap_or(default.ensure_secret_pulled_images),
        };
        Ok(parsed)
    }
}

/// Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Why a text is no list of gates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GatesError {
    /// A gate has no value.
    #[error("missing bool value for {gate}: write {gate}=true or {gate}=false")]
    NoValue {
        /// The gate.
        gate: String,
    },
    /// A gate's value is no boolean.
    #[error("invalid value of {gate}={value}: write true or false")]
    NotABool {
        /// The gate.
        gate: String,
        /// Its value.
        value: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> (bool, bool) {
        let gates = FeatureGates::parse(text).unwrap().gates;
        (gates.service_account_token, gates.ensure_secret_pulled_images)
    }

    #[test]
    fn gates_are_read_as_a_kubelet_reads_them() {
        assert_eq!(gates(""), (true, true));
        assert_eq!(gates("KubeletServiceAccountTokenForCredentialProviders=f"), (false, true));
        assert_eq!(
            gates(" ServiceAccountTokenForKubeletCredentialProviders = false ,"),
            (false, true)
        );
        assert_eq!(gates("KubeletEnsureSecretPulledImages=true,AllBeta=false"), (false, true));
        assert_eq!(gates("AllAlpha=false"), (true, true));
    }

    #[test]
    fn other_gates_are_reported_and_malformed_ones_refused() {
        let parsed = FeatureGates::parse("AllAlpha=true,GracefulNodeShutdown=true").unwrap();
        assert_eq!(parsed.unknown, ["GracefulNodeShutdown"]);
        let proposed = "ServiceAccountTokenForKubeletCredentialProviders";
        let parsed = FeatureGates::parse(&format!("{proposed}=true")).unwrap();
        assert_eq!(parsed.proposed, [proposed]);
        assert!(FeatureGates::parse("AllBeta").is_err());
        let error = FeatureGates::parse("AllBeta=yes").unwrap_err();
        assert_eq!(error.to_string(), "invalid value of AllBeta=yes: write true or false");
    }
}
