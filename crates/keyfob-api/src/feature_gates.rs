//! Kubernetes' feature gates, as far as they concern image credentials and the tokens that nodes request.
//!
//! The components of Kubernetes share one list of gates: a kubelet accepts a gate that only the API server reads. There is
//! one list here too, and [`ParsedGates`] says which gates of it no [`KubernetesComponent`] reads for whom it is parsed.
//!
//! Upstream: `MapStringBool` and `featuregate.SetFromMap` of `k8s.io/component-base`; the flag of `kube-apiserver`, which
//! also takes `kube:NAME=BOOL`, is in `compatibility/registry.go`. Gates and defaults are those of
//! `pkg/features/kube_features.go` at 1.37.
//! Differs: a gate that is not in these tables is reported, not refused, so that a component's whole list can be given; and
//! KEP-4412's name for its gate is obeyed.

use std::fmt;

use thiserror::Error;

/// Which features are on. The default is that of Kubernetes 1.37.
///
/// ```
/// use keyfob_api::{KubernetesComponent, FeatureGates};
///
/// let parsed = FeatureGates::parse("ServiceAccountNodeAudienceRestriction=false", &[KubernetesComponent::ApiServer])?;
/// assert!(!parsed.gates.node_audience_restriction);
///
/// let parsed = FeatureGates::parse("KubeletCredentialProviders=false", &[KubernetesComponent::Kubelet])?;
/// let removed = "the feature gate KubeletCredentialProviders was removed in Kubernetes 1.28";
/// assert_eq!(parsed.removed[0].to_string(), removed);
/// # Ok::<(), keyfob_api::GatesError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each gate is a switch of its own")]
#[non_exhaustive]
pub struct FeatureGates {
    /// `KubeletServiceAccountTokenForCredentialProviders`: providers may have `tokenAttributes`, and nodes may read the
    /// service accounts of their pods.
    pub service_account_token: bool,
    /// `KubeletEnsureSecretPulledImages`: credentials know where they came from, and what was pulled is recorded.
    pub ensure_secret_pulled_images: bool,
    /// `ServiceAccountNodeAudienceRestriction`: a node gets tokens only for audiences that a volume or a role names.
    pub node_audience_restriction: bool,
    /// `PodCertificateRequest`: nodes may read the service accounts of their pods.
    pub pod_certificate_request: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            service_account_token: true,
            ensure_secret_pulled_images: true,
            node_audience_restriction: true,
            pod_certificate_request: true,
        }
    }
}

/// A component of Kubernetes that has a `--feature-gates` flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KubernetesComponent {
    /// The kubelet.
    Kubelet,
    /// `kube-apiserver`.
    ApiServer,
}

/// A list of gates that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParsedGates {
    /// What is on.
    pub gates: FeatureGates,
    /// Gates that Kubernetes no longer has. No component of today starts with them.
    pub removed: Vec<RemovedGate>,
    /// Names that only a proposal has. They are obeyed here, and no component starts with them.
    pub proposed: Vec<String>,
    /// Gates that exist, and that the components do not read.
    pub unread: Vec<&'static str>,
    /// Gates that are not known here. Kubernetes may have them or not.
    pub unknown: Vec<String>,
}

impl FeatureGates {
    /// Reads the value of `--feature-gates`, `A=true,B=false`, for these components. The last value of a name counts. `AllBeta` and
    /// `AllAlpha` set what is not set by name; no gate here is alpha.
    pub fn parse(
        text: &str,
        components: &[KubernetesComponent],
    ) -> Result<ParsedGates, GatesError> {
        let entries = entries(text, components)?;
        let mut parsed = ParsedGates::default();
        for (_, on) in entries.iter().filter(|(name, _)| *name == "AllBeta") {
            parsed.gates.set_all_beta(*on);
        }
        for (_, on) in entries.iter().filter(|(name, _)| *name == PROPOSED) {
            parsed.gates.service_account_token = *on;
        }
        // What is set by its own name counts, whatever stands before or behind it.
        for (name, on) in entries {
            if let Some(gate) = GATES.iter().find(|gate| gate.name == name) {
                *(gate.switch)(&mut parsed.gates) = on;
                if !gate.readers.iter().any(|reader| components.contains(reader)) {
                    parsed.unread.push(gate.name);
                }
            } else if let Some(row) = REMOVED.iter().find(|row| row.name == name) {
                parsed.removed.push(RemovedGate { row, on });
            } else if name == PROPOSED {
                parsed.proposed.push(name.to_owned());
            } else if !["AllBeta", "AllAlpha"].contains(&name) {
                parsed.unknown.push(name.to_owned());
            }
        }
        Ok(parsed)
    }

    fn set_all_beta(&mut self, on: bool) {
        for gate in GATES.iter().filter(|gate| gate.is_beta) {
            *(gate.switch)(self) = on;
        }
    }
}

/// A gate of Kubernetes 1.37.
struct Gate {
    name: &'static str,
    is_beta: bool,
    readers: &'static [KubernetesComponent],
    switch: fn(&mut FeatureGates) -> &mut bool,
}

const GATES: [Gate; 4] = [
    Gate {
        name: "KubeletServiceAccountTokenForCredentialProviders",
        is_beta: true,
        readers: &[KubernetesComponent::Kubelet, KubernetesComponent::ApiServer],
        switch: |gates| &mut gates.service_account_token,
    },
    Gate {
        name: "KubeletEnsureSecretPulledImages",
        is_beta: true,
        readers: &[KubernetesComponent::Kubelet],
        switch: |gates| &mut gates.ensure_secret_pulled_images,
    },
    Gate {
        name: "ServiceAccountNodeAudienceRestriction",
        is_beta: true,
        readers: &[KubernetesComponent::ApiServer],
        switch: |gates| &mut gates.node_audience_restriction,
    },
    Gate {
        name: "PodCertificateRequest",
        is_beta: false,
        readers: &[KubernetesComponent::ApiServer],
        switch: |gates| &mut gates.pod_certificate_request,
    },
];

/// KEP-4412's name for `KubeletServiceAccountTokenForCredentialProviders`.
const PROPOSED: &str = "ServiceAccountTokenForKubeletCredentialProviders";

/// A gate that Kubernetes no longer has, and the value that it is given. It prints what happened to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedGate {
    row: &'static Removed,
    on: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Removed {
    name: &'static str,
    /// Which proposal calls it so, and what components called it; nothing if they had this name.
    proposal: Option<(&'static str, &'static str)>,
    since: &'static str,
    /// What to do if it is set to true, beside taking it out.
    instead_of_true: &'static str,
    /// What to do if it is set to false.
    instead_of_false: &'static str,
}

const ALWAYS_ON: &str = "credential providers are always on since 1.26";
const DROP_BOTH_FLAGS: &str = "to turn credential providers off, remove --image-credential-provider-config and \
                               --image-credential-provider-bin-dir as well";

const REMOVED: [Removed; 4] = [
    Removed {
        name: "KubeletCredentialProviders",
        proposal: None,
        since: "1.28",
        instead_of_true: ALWAYS_ON,
        instead_of_false: DROP_BOTH_FLAGS,
    },
    Removed {
        name: "KubeletCredentialProvider",
        proposal: Some(("KEP-2133", "KubeletCredentialProviders")),
        since: "1.28",
        instead_of_true: ALWAYS_ON,
        instead_of_false: DROP_BOTH_FLAGS,
    },
    Removed {
        name: "DynamicKubeletConfig",
        proposal: None,
        since: "1.26",
        instead_of_true: "kubelets read their configuration when they start: restart the kubelet after a change",
        instead_of_false: "kubelets read their configuration when they start only, as they did with this gate off",
    },
    Removed {
        name: "DisableKubeletCloudCredentialProviders",
        proposal: None,
        since: "1.33",
        instead_of_true: "kubelets no longer contain the cloud credential providers that it turned off",
        instead_of_false: "kubelets no longer contain cloud credential providers: install plugins in their place with \
                           \"keyfob provider install\"",
    },
];

impl RemovedGate {
    /// The name that was given.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// The first version of Kubernetes without it.
    pub fn since(&self) -> &'static str {
        self.row.since
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        let Removed { name, instead_of_true, instead_of_false, .. } = self.row;
        let instead = if self.on { instead_of_true } else { instead_of_false };
        format!("remove {name} from the feature gates; {instead}")
    }
}

impl fmt::Display for RemovedGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Removed { name, proposal, since, .. } = self.row;
        write!(f, "the feature gate {name} ")?;
        if let Some((proposal, real)) = proposal {
            write!(f, "({proposal}'s name for {real}) ")?;
        }
        write!(f, "was removed in Kubernetes {since}")
    }
}

/// Each name once, with its last value, in the order in which the names first stand there.
fn entries<'a>(
    text: &'a str,
    components: &[KubernetesComponent],
) -> Result<Vec<(&'a str, bool)>, GatesError> {
    let mut entries: Vec<(&str, bool)> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, value) =
            entry.split_once('=').ok_or_else(|| GatesError::NoValue { gate: entry.into() })?;
        let (name, value) = (unprefixed(name.trim(), components), value.trim());
        let on = go_bool(value)
            .ok_or_else(|| GatesError::NotABool { gate: name.into(), value: value.into() })?;
        match entries.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = on,
            None => entries.push((name, on)),
        }
    }
    Ok(entries)
}

/// An API server's gates may name the component that they are of; Kubernetes' own is `kube`.
fn unprefixed<'a>(name: &'a str, components: &[KubernetesComponent]) -> &'a str {
    let may_be_prefixed = components.contains(&KubernetesComponent::ApiServer);
    name.strip_prefix("kube:").filter(|_| may_be_prefixed).unwrap_or(name)
}

/// Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Why a text is not a list of gates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GatesError {
    /// A gate has no value.
    #[error("missing bool value for {gate}: write {gate}=true or {gate}=false")]
    NoValue {
        /// The gate.
        gate: String,
    },
    /// A gate's value is not a boolean.
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

    fn kubelet(text: &str) -> ParsedGates {
        FeatureGates::parse(text, &[KubernetesComponent::Kubelet]).unwrap()
    }

    /// The gates in the order of their table.
    fn switches(text: &str) -> [bool; 4] {
        let mut gates = kubelet(text).gates;
        GATES.map(|gate| *(gate.switch)(&mut gates))
    }

    #[test]
    fn gates_are_read_as_components_read_them() {
        for (text, expected) in [
            ("", [true; 4]),
            ("KubeletServiceAccountTokenForCredentialProviders=f", [false, true, true, true]),
            (
                " ServiceAccountTokenForKubeletCredentialProviders = false ,",
                [false, true, true, true],
            ),
            ("ServiceAccountNodeAudienceRestriction=0", [true, true, false, true]),
            ("PodCertificateRequest=F", [true, true, true, false]),
            ("KubeletEnsureSecretPulledImages=true,AllBeta=false", [false, true, false, true]),
            ("AllBeta=false,AllBeta=true", [true; 4]),
            (
                "ServiceAccountTokenForKubeletCredentialProviders=true,AllBeta=false",
                [true, false, false, true],
            ),
            (
                "AllBeta=false,ServiceAccountTokenForKubeletCredentialProviders=true",
                [true, false, false, true],
            ),
            ("AllAlpha=false", [true; 4]),
        ] {
            assert_eq!(switches(text), expected, "{text}");
        }
    }

    #[test]
    fn a_real_name_wins_over_a_proposals() {
        let real = "KubeletServiceAccountTokenForCredentialProviders";
        for text in
            [format!("{PROPOSED}=false,{real}=true"), format!("{real}=true,{PROPOSED}=false")]
        {
            let parsed = kubelet(&text);
            assert!(parsed.gates.service_account_token, "{text}");
            assert_eq!(parsed.proposed, [PROPOSED], "{text}");
        }
    }

    #[test]
    fn a_removed_gate_is_told_with_its_version_and_what_to_do() {
        let told = |text: &str| match &kubelet(text).removed[..] {
            [gate] => (gate.to_string(), gate.help()),
            other => panic!("{other:?}"),
        };
        let (why, help) = told("KubeletCredentialProviders=false");
        assert_eq!(
            why,
            "the feature gate KubeletCredentialProviders was removed in Kubernetes 1.28"
        );
        assert_eq!(
            help,
            "remove KubeletCredentialProviders from the feature gates; to turn credential providers off, remove \
             --image-credential-provider-config and --image-credential-provider-bin-dir as well"
        );
        let (why, help) = told("KubeletCredentialProvider=true");
        assert_eq!(
            why,
            "the feature gate KubeletCredentialProvider (KEP-2133's name for KubeletCredentialProviders) was removed in \
             Kubernetes 1.28"
        );
        assert!(help.ends_with("; credential providers are always on since 1.26"), "{help}");
        let (why, help) = told("DisableKubeletCloudCredentialProviders=false");
        assert!(why.ends_with("was removed in Kubernetes 1.33"), "{why}");
        assert!(help.contains("install plugins in their place"), "{help}");
    }

    #[test]
    fn what_a_component_does_not_read_is_reported() {
        let text =
            "AllAlpha=true,GracefulNodeShutdown=true,ServiceAccountNodeAudienceRestriction=true";
        let parsed = kubelet(text);
        assert_eq!(parsed.unknown, ["GracefulNodeShutdown"]);
        assert_eq!(parsed.unread, ["ServiceAccountNodeAudienceRestriction"]);

        let text =
            "kube:ServiceAccountNodeAudienceRestriction=false,KubeletEnsureSecretPulledImages=true";
        let parsed = FeatureGates::parse(text, &[KubernetesComponent::ApiServer]).unwrap();
        assert!(!parsed.gates.node_audience_restriction);
        assert_eq!(parsed.unread, ["KubeletEnsureSecretPulledImages"]);
        let both = FeatureGates::parse(
            text,
            &[KubernetesComponent::Kubelet, KubernetesComponent::ApiServer],
        )
        .unwrap();
        assert!(both.unread.is_empty() && both.unknown.is_empty(), "{both:?}");
        assert_eq!(kubelet(text).unknown, ["kube:ServiceAccountNodeAudienceRestriction"]);
    }

    #[test]
    fn malformed_lists_are_refused() {
        let error = |text| {
            FeatureGates::parse(text, &[KubernetesComponent::Kubelet]).unwrap_err().to_string()
        };
        assert_eq!(
            error("AllBeta"),
            "missing bool value for AllBeta: write AllBeta=true or AllBeta=false"
        );
        assert_eq!(error("AllBeta=yes"), "invalid value of AllBeta=yes: write true or false");
    }
}
