//! What a kubelet's configuration says about verification.
//!
//! Upstream: `SetDefaults_KubeletConfiguration`, and `ValidateKubeletConfiguration` in
//! `pkg/kubelet/apis/config/validation/validation.go`.

use keyfob_api::{
    FeatureGates, Quoted,
    document::{Document, DocumentError, FieldError, FieldTable, Item, Reading},
};
use thiserror::Error;

use super::{Allowlist, AllowlistError, VerificationPolicy};

/// The two fields of a `KubeletConfiguration` that are about verification, as they stand there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct VerificationSettings {
    /// `imagePullCredentialsVerificationPolicy`; empty if it is not set.
    pub policy: String,
    /// `preloadedImagesVerificationAllowlist`.
    pub allowlist: Vec<String>,
}

impl VerificationSettings {
    /// Reads them out of the text of a `KubeletConfiguration`, YAML or JSON. What else it says is not judged.
    pub fn read(text: &[u8]) -> Result<Self, VerificationSettingsError> {
        const FIELDS: &FieldTable<(String, String, VerificationSettings)> = &[
            ("kind", |(kind, ..), item| item.read_text(kind)),
            ("apiVersion", |(_, api_version, _), item| item.read_text(api_version)),
            (POLICY, |(.., settings), item| item.read_text(&mut settings.policy)),
            (ALLOWLIST, |(.., settings), item| read_texts(item, &mut settings.allowlist)),
        ];
        let document = Document::read(text)?;
        let mut read = Default::default();
        Reading::default().root(&document.root).read_fields(FIELDS, &mut read)?;
        let (kind, api_version, settings) = read;
        if (kind.as_str(), api_version.as_str()) != (KIND, API_VERSION) {
            return Err(VerificationSettingsError::Kind);
        }
        Ok(settings)
    }

    /// The policy that they mean, or everything that is wrong with them; nothing if what is pulled is not recorded at all.
    pub fn policy(
        &self,
        gates: FeatureGates,
    ) -> Result<Option<VerificationPolicy>, Vec<InvalidVerificationSetting>> {
        if !gates.ensure_secret_pulled_images {
            let set = [(POLICY, !self.policy.is_empty()), (ALLOWLIST, !self.allowlist.is_empty())];
            let errors: Vec<_> = set
                .into_iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(field, _)| InvalidVerificationSetting::GateOff { field })
                .collect();
            return if errors.is_empty() { Ok(None) } else { Err(errors) };
        }
        match (self.named(), self.listed()) {
            (Ok(Named::Listed), Ok(list)) => {
                Ok(Some(VerificationPolicy::NeverVerifyAllowlistedImages(list)))
            }
            (Ok(Named::Alone(policy)), Ok(_)) => Ok(Some(policy)),
            (named, listed) => Err(named.err().into_iter().chain(listed.err()).collect()),
        }
    }

    fn named(&self) -> Result<Named, InvalidVerificationSetting> {
        match self.policy.as_str() {
            "" => Ok(Named::Alone(VerificationPolicy::default())),
            "NeverVerify" => Ok(Named::Alone(VerificationPolicy::NeverVerify)),
            "NeverVerifyPreloadedImages" => {
                Ok(Named::Alone(VerificationPolicy::NeverVerifyPreloadedImages))
            }
            LISTED => Ok(Named::Listed),
            "AlwaysVerify" => Ok(Named::Alone(VerificationPolicy::AlwaysVerify)),
            other => Err(InvalidVerificationSetting::Policy(other.to_owned())),
        }
    }

    fn listed(&self) -> Result<Allowlist, InvalidVerificationSetting> {
        if !self.allowlist.is_empty() && self.policy != LISTED {
            return Err(InvalidVerificationSetting::AllowlistUnused);
        }
        Ok(Allowlist::parse(&self.allowlist)?)
    }
}

/// What a policy's name means.
enum Named {
    Alone(VerificationPolicy),
    /// It is nothing without the list.
    Listed,
}

const KIND: &str = "KubeletConfiguration";
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const POLICY: &str = "imagePullCredentialsVerificationPolicy";
const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
const LISTED: &str = "NeverVerifyAllowlistedImages";

fn read_texts(item: Item<'_>, target: &mut Vec<String>) -> Result<(), FieldError> {
    target.clear();
    item.elements(|_, item| {
        let mut text = String::new();
        item.read_text(&mut text)?;
        target.push(text);
        Ok(())
    })?;
    Ok(())
}

/// Why a text is no `KubeletConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VerificationSettingsError {
    /// It is neither JSON nor YAML.
    #[error(transparent)]
    Syntax(#[from] DocumentError),
    /// It is something else.
    #[error("it is no {KIND} of {API_VERSION}; give the file that the kubelet's --config names")]
    Kind,
    /// A field is of the wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// A setting that a kubelet refuses, in its words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidVerificationSetting {
    /// There is no such policy.
    #[error(
        "invalid configuration: option {} specified for {POLICY}. Valid options are \"NeverVerify\", \"NeverVerifyPreloadedImages\", \"{LISTED}\" or \"AlwaysVerify\"",
        Quoted(.0)
    )]
    Policy(String),
    /// There is a list, and no policy that uses it. The misspelt name is upstream's.
    #[error(
        "invalid configuration: can't set `{ALLOWLIST}` if `imagePullCredentialsVertificationPolicy` is not \"{LISTED}\""
    )]
    AllowlistUnused,
    /// The list cannot be used.
    #[error("invalid configuration: invalid image pattern in `{ALLOWLIST}`: {0}")]
    Allowlist(#[from] AllowlistError),
    /// A field is set although the feature is off.
    #[error(
        "invalid configuration: `{field}` must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"
    )]
    GateOff {
        /// Which field.
        field: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";

    fn policy(rest: &str) -> Result<Option<VerificationPolicy>, Vec<String>> {
        let settings = VerificationSettings::read(format!("{HEAD}{rest}").as_bytes()).unwrap();
        let texts = |errors: Vec<_>| errors.iter().map(ToString::to_string).collect();
        settings.policy(FeatureGates::default()).map_err(texts)
    }

    #[test]
    fn a_kubelets_file_says_the_policy() {
        assert_eq!(policy("maxPods: [whatever]\n"), Ok(Some(VerificationPolicy::default())));
        assert_eq!(
            policy(&format!("{POLICY}: AlwaysVerify")),
            Ok(Some(VerificationPolicy::AlwaysVerify))
        );
        let listed = policy(&format!("{POLICY}: {LISTED}\n{ALLOWLIST}: [r.test/open/*]"));
        let list = Allowlist::parse(["r.test/open/*"]).unwrap();
        assert_eq!(listed, Ok(Some(VerificationPolicy::NeverVerifyAllowlistedImages(list))));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let errors = policy(&format!("{POLICY}: Sometimes\n{ALLOWLIST}: [r.test/a]")).unwrap_err();
        assert_eq!(errors.len(), 2);
        assert!(errors[0].contains("option \"Sometimes\" specified for"), "{errors:?}");
        let errors = policy(&format!("{POLICY}: {LISTED}\n{ALLOWLIST}: ['*']")).unwrap_err();
        assert!(errors[0].contains("`: not a valid wildcard pattern"), "{errors:?}");
    }

    #[test]
    fn with_the_gate_off_neither_may_be_set() {
        let mut gates = FeatureGates::default();
        gates.ensure_secret_pulled_images = false;
        assert_eq!(VerificationSettings::default().policy(gates), Ok(None));
        let settings = VerificationSettings { policy: "x".into(), allowlist: vec!["y".into()] };
        assert_eq!(settings.policy(gates).unwrap_err().len(), 2);
    }

    #[test]
    fn another_file_is_refused_without_being_quoted() {
        let refused =
            |text: &str| VerificationSettings::read(text.as_bytes()).unwrap_err().to_string();
        assert!(
            refused("kind: Secret\napiVersion: v1\ndata: {password: hunter2}").contains("--config")
        );
        assert!(refused("{hunter2").starts_with("invalid JSON at line 1, column 2: "));
        assert!(!refused("{hunter2").contains("hunter2"));
        let wrong = refused(&format!("{HEAD}{POLICY}: {{hunter2: 1}}"));
        assert!(wrong.starts_with(&format!("{POLICY}: expected a string")), "{wrong}");
    }
}
