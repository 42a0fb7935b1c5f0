//! Who speaks, and in which dialect.

use keyfob_api::{CredentialProviderRequest, ProviderVersion, RegistryCredentialPluginRequest};
use serde::Deserialize;

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

/// What tells the dialects apart.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Marks {
    kind: String,
    api_version: String,
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
        let marks = serde_json::from_slice::<Marks>(stdin).unwrap_or_default();
        let unmarked = marks.kind.is_empty() && marks.api_version.is_empty();
        if unmarked && let Ok(asked) = RegistryCredentialPluginRequest::decode(stdin) {
            return Ok(Self::FirstKep(asked));
        }
        let (version, asked) = CredentialProviderRequest::decode(stdin)?;
        Ok(Self::Kubelet(version, asked))
    }
}
