//! What a credential proves about who may use an image.
//!
//! Upstream: `trackedToImagePullCreds` and `getPodCredentials` in `pkg/kubelet/images/image_manager.go`.

use keyfob_keyring::{Credential, Source};

use super::Attempt;
use crate::{PodCredentials, PullAccess, SecretAccess};

impl PullAccess {
    /// Who may use an image that was pulled with this. What is pulled without credentials, or with the node's own, is
    /// for every pod.
    pub fn of(credential: Option<&Credential>) -> Self {
        let Some(credential) = credential else { return Self::of_the_node() };
        match (credential.source(), credential.service_account()) {
            (Source::PullSecret(_), _) => {
                Self { secrets: secret(credential).into_iter().collect(), ..Self::default() }
            }
            (_, Some(account)) => {
                Self { service_accounts: vec![account.clone()], ..Self::default() }
            }
            (_, None) => Self::of_the_node(),
        }
    }

    fn of_the_node() -> Self {
        Self { node_pods_accessible: true, ..Self::default() }
    }
}

impl PodCredentials {
    /// What a pod that may try this can prove. The node's own credentials prove nothing about it.
    pub fn of(attempts: &[Attempt]) -> Self {
        let credentials = || attempts.iter().filter_map(|attempt| attempt.credential.as_ref());
        Self {
            secrets: credentials().filter_map(secret).collect(),
            service_account: credentials().find_map(Credential::service_account).cloned(),
        }
    }
}

fn secret(credential: &Credential) -> Option<SecretAccess> {
    let Source::PullSecret(secret) = credential.source() else { return None };
    Some(SecretAccess { secret: (**secret).clone(), credential_hash: credential.hash() })
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use keyfob_api::ImageRef;

    use super::*;
    use keyfob_keyring::{
        Login, Logins, ProviderSource, SecretCoordinates, ServiceAccountCoordinates, select,
    };

    fn credential(source: Source) -> Credential {
        let login = Login { username: "ada".into(), password: "word".into(), ..Login::default() };
        let logins = Arc::new(Logins::new(source, [("r.io", login)]));
        let image = ImageRef::parse("r.io/app").unwrap();
        select(image.repository(), image.target().ok().as_ref(), [&logins]).remove(0)
    }

    fn secret_source(name: &str) -> Source {
        Source::PullSecret(Arc::new(SecretCoordinates {
            name: name.into(),
            ..SecretCoordinates::default()
        }))
    }

    fn account(name: &str) -> ServiceAccountCoordinates {
        ServiceAccountCoordinates { name: name.into(), ..ServiceAccountCoordinates::default() }
    }

    fn account_source(name: &str) -> Source {
        let account = Some(Arc::new(account(name)));
        Source::Provider(Arc::new(ProviderSource { name: "exchange".into(), account }))
    }

    #[test]
    fn what_was_used_decides_who_may_use_the_image() {
        let node = PullAccess { node_pods_accessible: true, ..PullAccess::default() };
        let docker = Source::DockerConfig(Path::new("/root/.docker/config.json").into());
        assert_eq!(PullAccess::of(None), node);
        assert_eq!(PullAccess::of(Some(&credential(docker))), node);
        assert_eq!(PullAccess::of(Some(&credential(Source::provider("ecr")))), node);

        let used = credential(secret_source("pull"));
        let Source::PullSecret(coordinates) = used.source() else { panic!("{used:?}") };
        let secret = SecretAccess { secret: (**coordinates).clone(), credential_hash: used.hash() };
        let of_secret = PullAccess { secrets: vec![secret], ..PullAccess::default() };
        assert_eq!(PullAccess::of(Some(&used)), of_secret);

        let of_account =
            PullAccess { service_accounts: vec![account("cart")], ..PullAccess::default() };
        assert_eq!(PullAccess::of(Some(&credential(account_source("cart")))), of_account);
    }

    #[test]
    fn a_pod_proves_itself_by_its_secrets_and_its_first_account() {
        let sources = [
            secret_source("one"),
            Source::provider("ecr"),
            account_source("cart"),
            account_source("other"),
            secret_source("two"),
        ];
        let from = ImageRef::parse("r.io/app").unwrap();
        let mut attempts: Vec<Attempt> = sources
            .map(|source| Attempt { from: from.clone(), credential: Some(credential(source)) })
            .into();
        attempts.push(Attempt { from, credential: None });

        let proof = PodCredentials::of(&attempts);

        let names: Vec<&str> = proof.secrets.iter().map(|each| each.secret.name.as_str()).collect();
        assert_eq!((names, proof.service_account), (vec!["one", "two"], Some(account("cart"))));
    }
}
