//! Pull secrets: the docker configurations that a pod brings along.
//!
//! Upstream: `MakeDockerKeyring` in `pkg/credentialprovider/secrets/secrets.go` (1.37).
//! Differs: the error for one that cannot be read names the secret and says where, and never quotes it.

mod file;

use std::{collections::BTreeMap, sync::Arc};

use keyfob_api::Secret;
use thiserror::Error;

pub use self::file::PullSecretFileError;
use crate::{DockerConfig, DockerConfigError, Logins, SecretCoordinates, Source};

/// A Kubernetes secret that may hold logins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct PullSecret {
    /// Which secret it is.
    pub coordinates: SecretCoordinates,
    /// Its `type`, which says what it holds.
    pub secret_type: String,
    /// What it holds.
    pub data: BTreeMap<String, Secret<Vec<u8>>>,
}

impl PullSecret {
    /// Its logins; `None` if it is no pull secret, or one without the data of its type.
    pub fn logins(&self) -> Result<Option<Logins>, PullSecretError> {
        let Some((form, text)) = self.docker_config() else {
            return Ok(None);
        };
        let config = (form.read)(text.expose()).map_err(|error| PullSecretError {
            secret: shown(&self.coordinates),
            key: form.key,
            source: error,
        })?;
        let source = Source::PullSecret(Arc::new(self.coordinates.clone()));
        Ok(Some(config.into_logins(source)))
    }

    /// The logins of all secrets of a pull, in their order, for one [`select`](crate::select). One that is no pull secret is
    /// left out; one that cannot be read fails the pull.
    pub fn all_logins<'a>(
        secrets: impl IntoIterator<Item = &'a Self>,
    ) -> Result<Vec<Arc<Logins>>, PullSecretError> {
        let logins = secrets.into_iter().filter_map(|secret| secret.logins().transpose());
        logins.map(|logins| logins.map(Arc::new)).collect()
    }

    fn docker_config(&self) -> Option<(&'static Form, &Secret<Vec<u8>>)> {
        let form = FORMS.iter().find(|form| form.secret_type == self.secret_type)?;
        let text = self.data.get(form.key)?;
        (!text.expose().is_empty()).then_some((form, text))
    }
}

/// A secret that says it is a pull secret, and holds something else.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "pull secret {secret}: its {key} is no docker configuration; make it anew, for example with \"kubectl create secret docker-registry\""
)]
#[non_exhaustive]
pub struct PullSecretError {
    /// The secret's namespace and name, with a slash between them.
    pub secret: String,
    /// Under which key it should hold one.
    pub key: &'static str,
    /// What is wrong with it.
    pub source: DockerConfigError,
}

fn shown(SecretCoordinates { namespace, name, .. }: &SecretCoordinates) -> String {
    if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") }
}

/// A type of pull secrets.
struct Form {
    secret_type: &'static str,
    key: &'static str,
    read: fn(&[u8]) -> Result<DockerConfig, DockerConfigError>,
}

const JSON: Form = Form {
    secret_type: "kubernetes.io/dockerconfigjson",
    key: ".dockerconfigjson",
    read: DockerConfig::read_json,
};
const LEGACY: Form = Form {
    secret_type: "kubernetes.io/dockercfg",
    key: ".dockercfg",
    read: DockerConfig::read_legacy,
};
const FORMS: &[Form] = &[JSON, LEGACY];

#[cfg(test)]
mod tests {
    use keyfob_testkit::LeakCheck;

    use super::*;

    fn secret(secret_type: &str, key: &str, text: &str) -> PullSecret {
        PullSecret {
            coordinates: SecretCoordinates {
                uid: "1".into(),
                namespace: "team".into(),
                name: "pull".into(),
            },
            secret_type: secret_type.into(),
            data: [(key.to_owned(), text.as_bytes().to_vec().into())].into(),
        }
    }

    #[test]
    fn type_and_data_must_go_together() {
        let (json, legacy) = (r#"{"auths":{"r.test":{}}}"#, r#"{"r.test":{}}"#);
        for (usable, secret) in [
            (true, secret(JSON.secret_type, JSON.key, json)),
            (true, secret(LEGACY.secret_type, LEGACY.key, legacy)),
            (false, secret(LEGACY.secret_type, JSON.key, json)),
            (false, secret(JSON.secret_type, LEGACY.key, legacy)),
            (false, secret(JSON.secret_type, JSON.key, "")),
            (false, secret("Opaque", JSON.key, json)),
        ] {
            let logins = secret.logins().unwrap();
            assert_eq!(logins.is_some(), usable, "{secret:?}");
            if let Some(logins) = logins {
                assert_eq!(logins.keys().next().unwrap().to_string(), "r.test");
                assert_eq!(logins.source().to_string(), "pull-secret:pull");
            }
        }
    }

    #[test]
    fn one_that_cannot_be_read_fails_all_and_is_named() {
        let good = secret(JSON.secret_type, JSON.key, r#"{"auths":{"r.test":{}}}"#);
        let bad = secret(JSON.secret_type, JSON.key, r#"{"auths":{"hunter2":{"auth":"hunter2"}}}"#);
        let ignored = secret("Opaque", "x", "hunter2");
        assert_eq!(PullSecret::all_logins([&good, &ignored, &good]).unwrap().len(), 2);

        let error = PullSecret::all_logins([&good, &bad]).unwrap_err();

        assert_eq!(
            error.to_string(),
            "pull secret team/pull: its .dockerconfigjson is no docker configuration; make it anew, for example with \
             \"kubectl create secret docker-registry\""
        );
        LeakCheck::new(["hunter2"]).error(&error).debug("a secret", &bad);
    }
}
