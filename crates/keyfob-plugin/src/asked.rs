//! Who speaks, and in which dialect.

use keyfob_api::{CredentialProviderRequest, ProviderVersion, RegistryCredentialPluginRequest};
use serde::{Deserialize, de::IgnoredAny};

use crate::{Failure, docker_helper::Action};

/// A question, in the words it was asked in.
#[derive(Debug)]
pub(crate) enum Asked {
    /// By a kubelet.
    Kubelet(ProviderVersion, CredentialProviderRequest),
    /// In the dialect of the first KEP.
    FirstKep(RegistryCredentialPluginRequest),
    /// By a docker client that takes the plugin for a credential helper.
    Docker(Action),
}

/// What tells the dialects apart: the first KEP's has no version and no service account.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Marks {
    kind: String,
    api_version: String,
    service_account_token: Option<IgnoredAny>,
    service_account_annotations: Option<IgnoredAny>,
}

impl Marks {
    fn are_of_the_first_kep(&self) -> bool {
        self.kind.is_empty()
            && self.api_version.is_empty()
            && self.service_account_token.is_none()
            && self.service_account_annotations.is_none()
    }
}

impl Asked {
    /// The words are the arguments that are no flags.
    pub(crate) fn read(words: &[String], stdin: &[u8]) -> Result<Self, Failure> {
        if let Some(action) = Action::of(words, stdin) {
            return Ok(Self::Docker(action));
        }
        if stdin.trim_ascii().is_empty() {
            return Err(Failure::new(
                "stdin is empty: a plugin is run by a kubelet, which writes a CredentialProviderRequest there",
            ));
        }
        let marks = serde_json::from_slice::<Marks>(stdin);
        if marks.is_ok_and(|marks| marks.are_of_the_first_kep())
            && let Ok(asked) = RegistryCredentialPluginRequest::decode(stdin)
        {
            return Ok(Self::FirstKep(asked));
        }
        let (version, asked) = CredentialProviderRequest::decode(stdin)?;
        Ok(Self::Kubelet(version, asked))
    }
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::LeakCheck;

    use super::*;

    fn read(stdin: &str) -> Result<Asked, String> {
        Asked::read(&[], stdin.as_bytes()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_request_with_a_service_account_and_no_version_is_refused_for_its_version() {
        for request in [
            // KEP-4412's example, which has neither kind nor apiVersion.
            r#"{"image":"r.io/app","serviceAccountToken":"hunter2","serviceAccountAnnotations":{"a.io/id":"1"}}"#,
            r#"{"image":"r.io/app","serviceAccountAnnotations":{"a.io/id":"1"}}"#,
            r#"{"kind":"CredentialProviderRequest","image":"r.io/app","serviceAccountToken":"hunter2"}"#,
        ] {
            let refused = read(request).unwrap_err();
            assert!(refused.starts_with("the request has no apiVersion: write "), "{refused}");
            LeakCheck::new(["hunter2"]).text("the refusal", &refused);
        }
    }

    #[test]
    fn a_request_without_service_account_and_version_is_of_the_first_kep() {
        for request in [
            r#"{"image":"r.io/app"}"#,
            r#"{"image":"r.io/app","serviceAccountToken":null,"more":1}"#,
        ] {
            let asked = read(request);
            assert!(
                matches!(&asked, Ok(Asked::FirstKep(asked)) if asked.image == "r.io/app"),
                "{asked:?}"
            );
        }
    }
}
