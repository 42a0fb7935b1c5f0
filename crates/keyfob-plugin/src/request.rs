//! What a plugin is asked.

use std::collections::BTreeMap;

use keyfob_api::{CredentialProviderRequest, Secret, server_address};

use crate::{Call, Failure};

/// Credentials for this image, please.
#[derive(Debug, Clone)]
pub struct ImageRequest {
    image: String,
    registry: String,
    token: Option<Secret<String>>,
    annotations: BTreeMap<String, String>,
    call: Call,
}

impl ImageRequest {
    pub(crate) fn new(asked: CredentialProviderRequest, call: Call) -> Result<Self, Failure> {
        let registry = registry_of(&asked.image)?.to_owned();
        if let Some(token) = &asked.service_account_token {
            call.hide(token);
        }
        Ok(Self {
            image: asked.image,
            registry,
            token: asked.service_account_token,
            annotations: asked.service_account_annotations,
            call,
        })
    }

    /// For what follows the host in a server's address, as a docker credential helper is asked.
    pub(crate) fn for_server(server_url: &str, call: Call) -> Result<Self, Failure> {
        let (registry, path) = server_address(server_url)
            .ok_or_else(|| Failure::new("the server's address names no host"))?;
        let (token, annotations) = (None, BTreeMap::new());
        let (image, registry) = (format!("{registry}/{path}"), registry.into_owned());
        Ok(Self { image, registry, token, annotations, call })
    }

    /// The image as it was written; a kubelet sends it without tag and digest.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// The host, with its port, that the image is pulled from; `docker.io` when the image names none.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The token of the pod's service account, when the provider is configured to be sent it.
    pub fn service_account_token(&self) -> Option<&Secret<String>> {
        self.token.as_ref()
    }

    /// That token, for a provider that can do nothing without it.
    pub fn required_service_account_token(&self) -> Result<&Secret<String>, Failure> {
        self.token.as_ref().ok_or_else(|| {
            Failure::new(
                "the request has no service account token: set tokenAttributes with an audience for this plugin in the \
                 kubelet's CredentialProviderConfig; pods without a service account have none",
            )
        })
    }

    /// An annotation of the pod's service account, of those the provider is configured to be sent.
    ///
    /// Whoever may edit the service account chooses its value: never let it choose where a token is sent.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The run this is part of: its clock, its deadline, its secrets.
    pub fn call(&self) -> &Call {
        &self.call
    }
}

/// As container runtimes read a name: what stands before the first slash is a host when it looks like one.
fn registry_of(image: &str) -> Result<&str, Failure> {
    if image.is_empty() {
        return Err(Failure::new("image in plugin request was empty"));
    }
    if image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Failure::new("the image in the request has an invalid character in it"));
    }
    let host = image.split_once('/').map(|(host, _)| host);
    let host = host.filter(|host| *host == "localhost" || host.contains(['.', ':']));
    Ok(host.unwrap_or("docker.io"))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use keyfob_exec::SystemClock;

    use super::*;

    #[test]
    fn a_registry_is_what_looks_like_a_host() {
        let rows = [
            ("r.io/app:1", Some("r.io")),
            ("r.io:5000/team/app@sha256:01", Some("r.io:5000")),
            ("[::1]:5000/app", Some("[::1]:5000")),
            ("localhost/app", Some("localhost")),
            ("team/app", Some("docker.io")),
            ("app:1.36", Some("docker.io")),
            ("", None),
            ("a b", None),
            ("r.io/a\n", None),
        ];
        for (image, registry) in rows {
            assert_eq!(registry_of(image).ok(), registry, "{image:?}");
        }
    }

    #[test]
    fn a_server_is_asked_for_by_its_host() {
        let call = || Call::new(Arc::new(SystemClock), Duration::from_secs(1));
        let rows = [
            ("r.io", "r.io", "r.io/"),
            ("https://r.io:5000/v2/", "r.io:5000", "r.io:5000/"),
            ("r.io/team/app", "r.io", "r.io/team/app"),
            ("https://index.docker.io/v1/", "docker.io", "docker.io/"),
        ];
        for (server, registry, image) in rows {
            let request = ImageRequest::for_server(server, call()).unwrap();
            assert_eq!((request.registry(), request.image()), (registry, image), "{server}");
        }
        assert!(ImageRequest::for_server("https:///x", call()).is_err());
    }
}
