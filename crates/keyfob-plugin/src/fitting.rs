//! The one login of an answer, for whoever can be told only one.

use keyfob_api::{AuthConfig, CredentialProviderResponse, ImageRef, MatchTarget, RegistryKey};

/// The login whose key fits the image best. The more exact of two keys sorts behind the other, as in a kubelet's keyring.
pub(crate) fn login<'a>(
    answer: &'a CredentialProviderResponse,
    image: &str,
) -> Option<&'a AuthConfig> {
    let target = target_of(image);
    let fits = |key: &RegistryKey| {
        let stands_for_docker_hub = key.is_docker_hub() && image.starts_with("docker.io/");
        stands_for_docker_hub || target.as_ref().is_some_and(|target| key.matches(target))
    };
    let fitting =
        answer.auth.iter().filter(|(key, _)| RegistryKey::parse(key).is_ok_and(|key| fits(&key)));
    fitting.max_by_key(|(key, _)| key).map(|(_, auth)| auth)
}

fn target_of(image: &str) -> Option<MatchTarget> {
    let named = ImageRef::parse(image).ok().and_then(|image| image.target().ok());
    named.or_else(|| MatchTarget::parse(image.trim_end_matches('/')).ok())
}
