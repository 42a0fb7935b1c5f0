//! In whose name a registry is asked.

use keyfob_api::Secret;
use keyfob_plugin::{Failure, ImageRequest};

use super::{bindings::Bindings, mirror::Pulled};
use crate::fallback::Fallback;

pub(super) const CLIENT_ID: &str = "kubernetes.azure.com/acr-client-id";
pub(super) const TENANT_ID: &str = "kubernetes.azure.com/acr-tenant-id";

/// Whose name it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// The node's, as `azure.json` has it.
    Node,
    /// The pod's: Microsoft Entra ID trusts the cluster that issued its token.
    Pod { client_id: String, tenant_id: String, token: Secret<String> },
    /// The pod's, and the cluster's API server vouches for it.
    Bound {
        bindings: Bindings,
        client_id: String,
        tenant_id: Option<String>,
        token: Secret<String>,
    },
}

/// What the request says of the pod.
#[derive(Debug, Clone, Default)]
pub(super) struct Pod {
    token: Option<Secret<String>>,
    client_id: Option<String>,
    tenant_id: Option<String>,
}

impl Pod {
    /// An annotation without a value is none.
    pub(super) fn of(request: &ImageRequest) -> Self {
        let annotation = |key| request.annotation(key).filter(|value| !value.is_empty());
        Self {
            token: request.service_account_token().cloned(),
            client_id: annotation(CLIENT_ID).map(Into::into),
            tenant_id: annotation(TENANT_ID).map(Into::into),
        }
    }
}

impl Identity {
    /// A mirror is the node's business; the rest is the pod's if it comes with a token, or must be if the cluster has
    /// identity bindings. A pod that has a token but names no identity is the node's only if that is wanted.
    pub(super) fn chosen(
        pulled: &Pulled,
        bindings: Option<&Bindings>,
        pod: Pod,
        fallback: Fallback,
    ) -> Result<Self, Failure> {
        let names_none = pod.client_id.is_none() && pod.tenant_id.is_none();
        match (bindings, pod.token) {
            _ if pulled.source.is_some() => Ok(Self::Node),
            (None, None) => Ok(Self::Node),
            (None, Some(_)) if names_none && fallback == Fallback::Node => Ok(Self::Node),
            (None, Some(token)) => Ok(Self::Pod {
                client_id: required(pod.client_id, "client id", CLIENT_ID)?,
                tenant_id: required(pod.tenant_id, "tenant id", TENANT_ID)?,
                token,
            }),
            (Some(bindings), Some(token)) => Ok(Self::Bound {
                bindings: bindings.clone(),
                client_id: pod
                    .client_id
                    .or_else(|| bindings.client_id.clone())
                    .ok_or_else(no_client)?,
                tenant_id: pod.tenant_id.or_else(|| bindings.tenant_id.clone()),
                token,
            }),
            (Some(_), None) => Err(Failure::new(
                "identity bindings need the pod's token: set tokenAttributes for this provider in the kubelet's configuration",
            )),
        }
    }
}

fn required(value: Option<String>, what: &str, key: &str) -> Result<String, Failure> {
    value.ok_or_else(|| {
        Failure::new(format!(
            "the {what} annotation {key} of the pod's service account is missing or empty, or not among the annotations that \
             the kubelet is configured to send"
        ))
    })
}

fn no_client() -> Failure {
    Failure::new(format!(
        "identity bindings need a client id: annotate the pod's service account with {CLIENT_ID}, or set --ib-default-client-id"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acr::mirror::Mirrors;

    const ACR: &str = "test.azurecr.io/test:latest";
    const MIRROR: &str = "mcr.microsoft.com:test.azurecr.io";

    fn pod(token: Option<&str>, client_id: Option<&str>, tenant_id: Option<&str>) -> Pod {
        Pod {
            token: token.map(Into::into),
            client_id: client_id.map(Into::into),
            tenant_id: tenant_id.map(Into::into),
        }
    }

    fn chosen(
        image: &str,
        mirror: &str,
        bindings: Option<&Bindings>,
        pod: Pod,
    ) -> Result<Identity, String> {
        let pulled = Mirrors::parse(mirror).unwrap().apply(image);
        Identity::chosen(&pulled, bindings, pod, Fallback::None)
            .map_err(|failure| failure.to_string())
    }

    fn whole() -> Pod {
        pod(Some("tok"), Some("client"), Some("tenant"))
    }

    #[test]
    fn a_mirrored_image_is_always_the_nodes_business() {
        let image = "mcr.microsoft.com/azure-cli:latest";
        let bindings = Bindings::for_tests("test-sni-name");
        for bindings in [None, Some(&bindings)] {
            for pod in [whole(), pod(None, None, None)] {
                assert_eq!(chosen(image, MIRROR, bindings, pod), Ok(Identity::Node));
            }
        }
    }

    #[test]
    fn a_pod_with_a_token_speaks_for_itself() {
        let (client_id, tenant_id) = ("client".to_owned(), "tenant".to_owned());
        let expected = Identity::Pod { client_id, tenant_id, token: "tok".into() };
        for (image, mirror) in [
            (ACR, ""),
            (ACR, "mcr.microsoft.com:mirror.azurecr.io"),
            ("docker.io/library/nginx", MIRROR),
        ] {
            assert_eq!(chosen(image, mirror, None, whole()).as_ref(), Ok(&expected), "{image}");
        }
        assert_eq!(chosen(ACR, "", None, pod(None, None, None)), Ok(Identity::Node));
    }

    #[test]
    fn a_pod_must_say_who_it_is() {
        for (pod, expected) in [
            (pod(Some("tok"), None, Some("tenant")), "client id annotation"),
            (pod(Some("tok"), Some("client"), None), "tenant id annotation"),
        ] {
            let failure = chosen(ACR, "", None, pod).unwrap_err();
            assert!(failure.contains(expected), "{failure}");
        }
    }

    #[test]
    fn bindings_need_a_token_and_bring_their_own_defaults() {
        let bindings = Bindings::for_tests("test-sni-name");
        for image in [ACR, "docker.io/library/nginx:latest", "test.azurecr.io/azure-cli:latest"] {
            let failure =
                chosen(image, MIRROR, Some(&bindings), pod(None, None, None)).unwrap_err();
            assert!(failure.contains("identity bindings"), "{failure}");
        }
        let failure = chosen(ACR, "", Some(&bindings), pod(Some("tok"), None, None)).unwrap_err();
        assert!(failure.contains("client id"), "{failure}");
        let bindings = bindings.with_client("default");
        for (pod, client_id, tenant_id) in
            [(whole(), "client", Some("tenant")), (pod(Some("tok"), None, None), "default", None)]
        {
            let expected = Identity::Bound {
                bindings: bindings.clone(),
                client_id: client_id.into(),
                tenant_id: tenant_id.map(Into::into),
                token: "tok".into(),
            };
            assert_eq!(chosen(ACR, "", Some(&bindings), pod), Ok(expected));
        }
    }

    #[test]
    fn a_pod_that_names_no_identity_is_the_nodes_only_if_that_is_wanted() {
        let pulled = Mirrors::default().apply(ACR);
        let chosen = |pod| Identity::chosen(&pulled, None, pod, Fallback::Node);

        assert_eq!(chosen(pod(Some("tok"), None, None)).unwrap(), Identity::Node);
        // Half an identity is a mistake, not none.
        assert!(chosen(pod(Some("tok"), Some("client"), None)).is_err());
        assert!(chosen(pod(Some("tok"), None, Some("tenant"))).is_err());
    }
}
