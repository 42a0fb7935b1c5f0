//! The messages of the first proposal for out-of-tree providers, which never shipped.
//!
//! A plugin of that dialect is run as `NAME get-credentials`, is given an image and answers one credential.
//!
//! Upstream: none; the types are in the text of the KEP. Times are read as `metav1.Time` is.

use thiserror::Error;

use crate::{
    JsonWriter, Secret, Timestamp,
    answer::{InvalidField, SeenName, TypeMeta},
    document::{Document, FieldTable, JsonError, Reading, Shape},
};

const RESPONSE_KIND: &str = "RegistryCredentialPluginResponse";

/// What is read of an answer.
const SHAPE: Shape = Shape::Object(&[
    ("kind", Shape::Scalar),
    ("apiVersion", Shape::Scalar),
    ("expirationTimestamp", Shape::Scalar),
    ("username", Shape::Scalar),
    ("password", Shape::Scalar),
]);

/// Asks a plugin of the first dialect for the credential of an image.
///
/// ```
/// use keyfob_api::RegistryCredentialPluginRequest;
///
/// let request = RegistryCredentialPluginRequest { image: "r.io/app".into() };
/// assert_eq!(request.encode().expose(), b"{\"image\":\"r.io/app\"}\n");
/// assert_eq!(RegistryCredentialPluginRequest::decode(request.encode().expose()), Ok(request));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "mirrors a document that will not change any more")]
pub struct RegistryCredentialPluginRequest {
    /// The image that is being pulled.
    pub image: String,
}

impl RegistryCredentialPluginRequest {
    /// One line of JSON.
    pub fn encode(&self) -> Secret<Vec<u8>> {
        let mut json = JsonWriter::default();
        json.open('{').field("image").string(&self.image).close('}');
        json.finish_line()
    }

    /// Reads a request. Unknown fields are ignored.
    pub fn decode(stdin: &[u8]) -> Result<Self, FirstKepError> {
        let document = Document::read_json(stdin)?;
        let mut request = Self::default();
        let reading = Reading::default();
        let root = reading.root(&document.root);
        root.object(&["image"], |_, item| item.read_text(&mut request.image))
            .map_err(InvalidField::from)?;
        Ok(request)
    }
}

/// The answer of a plugin of the first dialect.
///
/// ```
/// use keyfob_api::RegistryCredentialPluginResponse;
///
/// let stdout = br#"{"expirationTimestamp":"2030-01-01T00:00:00Z","username":"u","password":"p"}"#;
/// let response = RegistryCredentialPluginResponse::decode(stdout).unwrap();
/// assert_eq!(response.password.expose(), "p");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "mirrors a document that will not change any more")]
pub struct RegistryCredentialPluginResponse {
    /// Until when the credential is good; `None` means unknown.
    pub expiration: Option<Timestamp>,
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret<String>,
}

impl RegistryCredentialPluginResponse {
    const FIELDS: &FieldTable<Self> = &[
        ("expirationTimestamp", |response, item| item.read_timestamp(&mut response.expiration)),
        ("username", |response, item| item.read_text(&mut response.username)),
        ("password", |response, item| item.read_secret(&mut response.password)),
    ];

    /// One line of JSON.
    pub fn encode(&self) -> Secret<Vec<u8>> {
        let mut json = JsonWriter::default();
        json.open('{').field("kind").string(RESPONSE_KIND);
        if let Some(expiration) = self.expiration {
            json.field("expirationTimestamp").string(&expiration.to_string());
        }
        json.field("username").string(&self.username);
        json.field("password").string(self.password.expose()).close('}');
        json.finish_line()
    }

    /// Reads an answer. Kind and version may be absent; unknown fields are ignored.
    pub fn decode(stdout: &[u8]) -> Result<Self, FirstKepError> {
        let document = Document::read_json_of(stdout, &SHAPE)?;
        let meta = TypeMeta::sniff(&document.root)?;
        if !meta.kind.is_empty() && meta.kind != RESPONSE_KIND {
            return Err(FirstKepError::Kind(SeenName::kind(&meta.kind)));
        }
        let mut response = Self::default();
        let reading = Reading::default();
        reading
            .root(&document.root)
            .read_fields(Self::FIELDS, &mut response)
            .map_err(InvalidField::from)?;
        response.expiration = response.expiration.filter(|time| !time.is_zero());
        Ok(response)
    }
}

/// Why a message of the first dialect cannot be read. It never quotes the message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FirstKepError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It is some other message.
    #[error("expected kind {RESPONSE_KIND}, found {0}")]
    Kind(SeenName),
    /// A field is of the wrong type, or not a time.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let response = RegistryCredentialPluginResponse {
            expiration: Some(Timestamp::parse("2030-01-01T00:00:00Z").unwrap()),
            username: "u".into(),
            password: "p".into(),
        };
        assert_eq!(
            RegistryCredentialPluginResponse::decode(response.encode().expose()),
            Ok(response)
        );
    }

    #[test]
    fn kind_and_version_are_ignored_unless_clearly_another() {
        let decode = |text: &str| RegistryCredentialPluginResponse::decode(text.as_bytes());
        assert!(decode(r#"{"apiVersion":"v1alpha1","username":"u"}"#).is_ok());
        assert_eq!(
            decode(r#"{"kind":"CredentialProviderResponse"}"#).unwrap_err().to_string(),
            "expected kind RegistryCredentialPluginResponse, found CredentialProviderResponse"
        );
        assert_eq!(
            decode(r#"{"expirationTimestamp":"hunter2"}"#).unwrap_err().to_string(),
            "expirationTimestamp: not an RFC 3339 time (line 1, column 24)"
        );
    }
}
