//! What the kubelet writes to a plugin's standard input.

use std::collections::BTreeMap;

use thiserror::Error;

use super::ProviderVersion;
use crate::{
    JsonWriter, Secret,
    answer::{InvalidField, SeenName, TypeMeta},
    document::{Document, FieldError, FieldTable, Item, JsonError, Reading},
};

const KIND: &str = "CredentialProviderRequest";

/// Asks a plugin for the credentials of an image.
///
/// ```
/// use keyfob_api::{CredentialProviderRequest, ProviderVersion};
///
/// let request = CredentialProviderRequest { image: "r.io/app".into(), ..Default::default() };
/// let stdin = request.encode(ProviderVersion::V1);
/// assert_eq!(
///     String::from_utf8_lossy(stdin.expose()),
///     "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
///      \"image\":\"r.io/app\"}\n"
/// );
/// assert_eq!(CredentialProviderRequest::decode(stdin.expose()).unwrap(), (ProviderVersion::V1, request));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct CredentialProviderRequest {
    /// The image that is being pulled.
    pub image: String,
    /// The token of the pod's service account, bound to the pod. Never empty.
    pub service_account_token: Option<Secret<String>>,
    /// The annotations of the service account that the provider's configuration names.
    pub service_account_annotations: BTreeMap<String, String>,
}

impl CredentialProviderRequest {
    const FIELDS: &FieldTable<Self> = &[
        ("image", Self::set_image),
        ("serviceAccountToken", Self::set_token),
        ("serviceAccountAnnotations", Self::set_annotations),
    ];

    /// The fields of versions that carry no service account.
    const IMAGE_ONLY: &FieldTable<Self> = &[("image", Self::set_image)];

    /// The exact bytes that upstream writes, with the line break at their end. What the version cannot carry is left out.
    pub fn encode(&self, version: ProviderVersion) -> Secret<Vec<u8>> {
        let mut json = JsonWriter::object_of_kind(KIND, version.api_version());
        json.field("image").string(&self.image);
        if version.carries_service_account() {
            self.encode_service_account(&mut json);
        }
        json.close('}');
        json.finish_line()
    }

    /// Reads a request, as a plugin does. Unknown fields are ignored.
    pub fn decode(stdin: &[u8]) -> Result<(ProviderVersion, Self), RequestError> {
        let document = Document::read_json(stdin)?;
        let meta = TypeMeta::sniff(&document.root)?;
        // First of all: without it nobody can tell what the other fields mean, nor in which version to answer.
        if meta.api_version.is_empty() {
            return Err(RequestError::NoVersion);
        }
        if meta.kind != KIND {
            return Err(RequestError::Kind(SeenName::kind(&meta.kind)));
        }
        let version = meta.api_version.parse::<ProviderVersion>();
        let version =
            version.map_err(|_| RequestError::Version(SeenName::version(&meta.api_version)))?;
        let mut request = Self::default();
        let reading = Reading::default();
        let fields =
            if version.carries_service_account() { Self::FIELDS } else { Self::IMAGE_ONLY };
        reading
            .root(&document.root)
            .read_fields(fields, &mut request)
            .map_err(InvalidField::from)?;
        Ok((version, request))
    }

    fn encode_service_account(&self, json: &mut JsonWriter) {
        if let Some(token) = &self.service_account_token {
            json.field_unless_empty("serviceAccountToken", token.expose());
        }
        if self.service_account_annotations.is_empty() {
            return;
        }
        json.field("serviceAccountAnnotations").open('{');
        for (key, value) in &self.service_account_annotations {
            json.field(key).string(value);
        }
        json.close('}');
    }

    fn set_image(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        item.read_text(&mut self.image)
    }

    fn set_token(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        if let Some(token) = item.string()? {
            self.service_account_token =
                Some(token.clone()).filter(|token| !token.expose().is_empty());
        }
        Ok(())
    }

    fn set_annotations(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        if item.is_null() {
            self.service_account_annotations.clear();
        }
        item.entries(|key, value| {
            let value = value.string()?.map(|value| value.expose().clone());
            self.service_account_annotations
                .insert(key.expose().clone(), value.unwrap_or_default());
            Ok(())
        })?;
        Ok(())
    }
}

/// Why a plugin cannot read what it was given. It never quotes the request, which may hold a token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It names no version.
    #[error(
        "the request has no apiVersion: write \"kind\":\"{KIND}\",\"apiVersion\":\"{}\" as a kubelet does",
        ProviderVersion::V1.api_version()
    )]
    NoVersion,
    /// It is some other message.
    #[error("expected kind {KIND}, found {0}")]
    Kind(SeenName),
    /// It is of no known version.
    #[error("group version {0} is not supported")]
    Version(SeenName),
    /// A field is of the wrong type.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_token() -> CredentialProviderRequest {
        CredentialProviderRequest {
            image: "r.io/a<b".into(),
            service_account_token: Some("tok".into()),
            service_account_annotations: [("b".into(), "2".into()), ("a".into(), "1".into())]
                .into(),
        }
    }

    #[test]
    fn only_v1_sends_the_service_account() {
        let text =
            |version| String::from_utf8(with_token().encode(version).expose().clone()).unwrap();
        assert!(text(ProviderVersion::V1).ends_with(
            "\"image\":\"r.io/a\\u003cb\",\"serviceAccountToken\":\"tok\",\"serviceAccountAnnotations\":{\"a\":\"1\",\"b\":\"2\"}}\n"
        ));
        assert!(text(ProviderVersion::V1Beta1).ends_with("\"image\":\"r.io/a\\u003cb\"}\n"));
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let bytes = with_token().encode(ProviderVersion::V1);
        assert_eq!(
            CredentialProviderRequest::decode(bytes.expose()),
            Ok((ProviderVersion::V1, with_token()))
        );
    }

    #[test]
    fn an_empty_token_is_none_and_null_empties_the_annotations() {
        let head = r#""kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1""#;
        let rest =
            r#""image":"r.io/a","serviceAccountToken":"","serviceAccountAnnotations":{"a":"1"}"#;
        let text = format!(r#"{{{head},{rest},"serviceAccountAnnotations":null}}"#);

        let (_, request) = CredentialProviderRequest::decode(text.as_bytes()).unwrap();

        assert_eq!(
            request,
            CredentialProviderRequest { image: "r.io/a".into(), ..Default::default() }
        );
    }

    #[test]
    fn refusals_are_typed() {
        let decode = |text: &str| {
            CredentialProviderRequest::decode(text.as_bytes()).unwrap_err().to_string()
        };
        let version = "credentialprovider.kubelet.k8s.io/v1";
        let no_version = "the request has no apiVersion: write \"kind\":\"CredentialProviderRequest\",\"apiVersion\":\
                          \"credentialprovider.kubelet.k8s.io/v1\" as a kubelet does";
        assert_eq!(decode("{}"), no_version);
        assert_eq!(decode(&format!(r#"{{"kind":"{KIND}"}}"#)), no_version);
        assert_eq!(
            decode(&format!(r#"{{"apiVersion":"{version}"}}"#)),
            "expected kind CredentialProviderRequest, found none"
        );
        assert_eq!(
            decode(r#"{"kind":"CredentialProviderRequest","apiVersion":"x.k8s.io/v1"}"#),
            "group version x.k8s.io/v1 is not supported"
        );
        assert_eq!(
            decode(&format!(
                r#"{{"kind":"{KIND}","apiVersion":"{version}",
"serviceAccountAnnotations":{{"k":5}}}}"#
            )),
            "serviceAccountAnnotations[0]: expected a string, found a number (line 2, column 34)"
        );
    }
}
