//! What protects a plugin from requests that are not for it, for the plugin that runs if the agent is down.
//!
//! The kubelet asks the relay about many images and sends it what any provider of the agent may want. So the relay does what the kubelet
//! does for a provider of its own: it asks the plugin only about the images that its patterns match, and passes on the service account
//! only if the provider wants it.
//! Upstream: `isImageAllowed` and `provide` in `pkg/credentialprovider/plugin/plugin.go` (1.37).

use std::collections::BTreeMap;

use keyfob_api::{
    CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, GoDuration, MatchPattern,
    MatchTarget, RequestError, Secret,
};

/// When the plugin is asked, and what it is told.
#[derive(Default)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct FallbackPolicy {
    pub(crate) images: Vec<MatchPattern>,
    /// Nothing if the plugin gets neither token nor annotations.
    pub(crate) token: Option<TokenPolicy>,
}

/// What `tokenAttributes` say.
#[derive(Default)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct TokenPolicy {
    pub(crate) is_required: bool,
    pub(crate) required_annotations: Vec<String>,
    pub(crate) optional_annotations: Vec<String>,
}

/// What is to be done with a request.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum Decision {
    /// The plugin gets this request.
    Run(Secret<Vec<u8>>),
    /// The plugin is not asked, for this reason, and this is the response.
    Skip { why: String, response: Vec<u8> },
}

impl FallbackPolicy {
    /// Decides about a request, which has the version that the plugin speaks.
    pub(crate) fn decide(&self, stdin: &[u8]) -> Result<Decision, RequestError> {
        let (version, mut request) = CredentialProviderRequest::decode(stdin)?;
        match self.admit(&mut request) {
            Ok(()) => Ok(Decision::Run(request.encode(version))),
            Err(why) => {
                let nothing = CredentialProviderResponse {
                    cache_key_type: CacheKeyType::Image,
                    cache_duration: Some(GoDuration::ZERO),
                    auth: Vec::new(),
                };
                Ok(Decision::Skip { why, response: nothing.encode(version).expose().clone() })
            }
        }
    }

    /// Takes out of the request what the plugin does not get, or says why it gets nothing.
    fn admit(&self, request: &mut CredentialProviderRequest) -> Result<(), String> {
        // To a kubelet, what cannot be read matches no pattern.
        let target = MatchTarget::parse(&request.image).ok();
        let is_match = |target| self.images.iter().any(|pattern| pattern.matches(target));
        if !target.as_ref().is_some_and(is_match) {
            return Err(format!("none of its patterns matches {}", request.image));
        }
        match (&self.token, &request.service_account_token) {
            (Some(policy), Some(_)) => {
                policy.filter_annotations(&mut request.service_account_annotations)?;
            }
            (Some(TokenPolicy { is_required: true, .. }), None) => {
                return Err("it needs the token of a service account".to_owned());
            }
            _ => {
                request.service_account_token = None;
                request.service_account_annotations.clear();
            }
        }
        Ok(())
    }
}

impl TokenPolicy {
    /// Keeps the plugin's own annotations. An empty one is there.
    fn filter_annotations(&self, annotations: &mut BTreeMap<String, String>) -> Result<(), String> {
        let is_missing = |key: &&String| !annotations.contains_key(*key);
        if let Some(key) = self.required_annotations.iter().find(is_missing) {
            return Err(format!("it needs the annotation {key} of a service account"));
        }
        annotations.retain(|key, _| {
            self.required_annotations.contains(key) || self.optional_annotations.contains(key)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        r#""kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1""#;
    const NOTHING: &str = "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
                           \"cacheKeyType\":\"Image\",\"cacheDuration\":\"0s\"}\n";

    fn policy(patterns: &[&str], token: Option<TokenPolicy>) -> FallbackPolicy {
        let images = patterns.iter().map(|text| MatchPattern::parse(text).unwrap()).collect();
        FallbackPolicy { images, token }
    }

    /// What follows the head of the request that the plugin gets, or why it gets none.
    fn judged(policy: &FallbackPolicy, fields: &str) -> Result<String, String> {
        match policy.decide(format!("{{{HEAD},{fields}}}").as_bytes()).unwrap() {
            Decision::Run(request) => {
                let request = String::from_utf8(request.expose().clone()).unwrap();
                let fields = request.strip_prefix(&format!("{{{HEAD},")).unwrap();
                Ok(fields.strip_suffix("}\n").unwrap().to_owned())
            }
            Decision::Skip { why, response } => {
                assert_eq!(String::from_utf8(response).unwrap(), NOTHING);
                Err(why)
            }
        }
    }

    #[test]
    fn a_plugin_is_asked_about_its_images_alone() {
        let policy = policy(&["*.r.example/team", "s.example:5000"], None);
        for image in ["a.r.example/team/app", "a.r.example/teamwork", "s.example:5000/x"] {
            let fields = format!(r#""image":"{image}""#);
            assert_eq!(judged(&policy, &fields), Ok(fields));
        }
        for image in ["r.example/team/app", "a.r.example/other", "s.example/x", "", "%zz/x"] {
            let why = format!("none of its patterns matches {image}");
            assert_eq!(judged(&policy, &format!(r#""image":"{image}""#)), Err(why));
        }
    }

    #[test]
    fn a_plugin_without_token_attributes_gets_nothing_of_the_service_account() {
        let fields = r#""image":"r.example/a","serviceAccountToken":"hunter2","serviceAccountAnnotations":{"a":"1"}"#;
        let image = r#""image":"r.example/a""#;
        assert_eq!(judged(&policy(&["r.example"], None), fields), Ok(image.to_owned()));
    }

    #[test]
    fn a_plugin_with_token_attributes_gets_the_token_and_its_own_annotations() {
        let token = |is_required| TokenPolicy {
            is_required,
            required_annotations: vec!["a".into()],
            optional_annotations: vec!["b".into(), "c".into()],
        };
        let optional = policy(&["r.example"], Some(token(false)));
        let required = policy(&["r.example"], Some(token(true)));
        let fields = |annotations: &str| {
            format!(
                r#""image":"r.example/a","serviceAccountToken":"hunter2","serviceAccountAnnotations":{{{annotations}}}"#
            )
        };
        for policy in [&optional, &required] {
            let given = fields(r#""a":"","b":"2","d":"4""#);
            assert_eq!(judged(policy, &given), Ok(fields(r#""a":"","b":"2""#)));
            let why = "it needs the annotation a of a service account".to_owned();
            assert_eq!(judged(policy, &fields(r#""b":"2""#)), Err(why));
        }
        let image = r#""image":"r.example/a""#;
        assert_eq!(judged(&optional, image), Ok(image.to_owned()));
        let why = "it needs the token of a service account".to_owned();
        assert_eq!(judged(&required, image), Err(why));
    }

    #[test]
    fn the_version_stays() {
        let policy = policy(&["r.example"], None);
        let old = "credentialprovider.kubelet.k8s.io/v1alpha1";
        let request = |image| {
            format!(
                "{{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"{old}\",\"image\":\"{image}\"}}\n"
            )
        };
        let expected = Decision::Run(request("r.example/a").into_bytes().into());
        assert_eq!(policy.decide(request("r.example/a").as_bytes()), Ok(expected));
        let Ok(Decision::Skip { response, .. }) = policy.decide(request("s.example/a").as_bytes())
        else {
            panic!("it is asked");
        };
        assert!(String::from_utf8(response).unwrap().contains(old));
    }
}
