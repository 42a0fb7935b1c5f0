//! What an exec plugin answers.
//!
//! Upstream: `refreshCredsLocked` in `plugin/pkg/client/auth/exec/exec.go`. Decoding is lenient: unknown fields are
//! ignored, repeated ones merge; but every known field must have its type, also in the ignored `spec`.
//! Differs: `decoding stdout: …` never quotes the output.
//! Differs: an answer that names no version (or `__internal`) is refused for that; upstream first checks the types of
//! fields with Go's names in it.
//!
//! A certificate and its key are handed over as they are: there is no cryptography here. `keyfob_client::Identity` reads them.

use thiserror::Error;

use super::{ExecCredentialSpec, ExecVersion, GROUP, KIND, spec::read_pointer};
use crate::{
    JsonWriter, Secret, Timestamp,
    answer::{InvalidField, SeenName, TypeMeta},
    document::{Document, DocumentError, FieldError, FieldTable, Item, Reading, Shape},
};

/// The `status` of an `ExecCredential`: a token, a certificate with its key, or both.
///
/// ```
/// use keyfob_api::{ExecCredentialStatus, ExecVersion};
///
/// let stdout = b"apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus: {token: abc}\n";
/// let status = ExecCredentialStatus::decode(stdout, ExecVersion::V1).unwrap();
/// assert_eq!(status.token.unwrap().expose(), "abc");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct ExecCredentialStatus {
    /// Until when the credential is good; `None` means forever.
    pub expiration: Option<Timestamp>,
    /// A bearer token. Never empty.
    pub token: Option<Secret<String>>,
    /// A certificate and its key.
    pub identity: Option<ClientIdentity>,
}

/// A client certificate and its key, as the plugin wrote them. Neither is empty; neither has been parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a certificate and its key")]
pub struct ClientIdentity {
    /// The certificate, and those above it, in PEM.
    pub certificate_pem: Secret<String>,
    /// The private key in PEM.
    pub key_pem: Secret<String>,
}

impl ExecCredentialStatus {
    /// Reads a plugin's output: JSON or YAML of the configured version.
    pub fn decode(stdout: &[u8], configured: ExecVersion) -> Result<Self, ExecAnswerError> {
        let answer = Answer::decode(stdout, configured)?;
        if answer.version != Some(configured) {
            return Err(ExecAnswerError::Version { configured, returned: answer.version });
        }
        answer.status.ok_or(ExecAnswerError::NoStatus)?.check()
    }

    /// An answer as a plugin prints it, with the line break at its end. A fraction of a second is cut.
    pub fn encode(&self, version: ExecVersion) -> Secret<Vec<u8>> {
        let mut json = JsonWriter::object_of_kind(KIND, version.api_version());
        ExecCredentialSpec::default().write(version, &mut json);
        json.field("status").open('{');
        if let Some(expiration) = self.expiration {
            json.field("expirationTimestamp").string(&expiration.to_string());
        }
        if let Some(token) = &self.token {
            json.field_unless_empty("token", token.expose());
        }
        if let Some(identity) = &self.identity {
            json.field_unless_empty("clientCertificateData", identity.certificate_pem.expose());
            json.field_unless_empty("clientKeyData", identity.key_pem.expose());
        }
        json.close('}').close('}');
        json.finish_line()
    }
}

/// Go's name for its own form of the object, which stands in for a missing version.
const INTERNAL: &str = "client.authentication.k8s.io/__internal";

/// The whole object. Upstream calls no version [`INTERNAL`].
struct Answer {
    version: Option<ExecVersion>,
    status: Option<StatusFields>,
}

impl Answer {
    const SHAPE: Shape = Shape::Object(&[
        ("kind", Shape::Scalar),
        ("apiVersion", Shape::Scalar),
        ("spec", Shape::Any),
        (
            "status",
            Shape::Object(&[
                ("expirationTimestamp", Shape::Scalar),
                ("token", Shape::Scalar),
                ("clientCertificateData", Shape::Scalar),
                ("clientKeyData", Shape::Scalar),
            ]),
        ),
    ]);

    fn decode(stdout: &[u8], configured: ExecVersion) -> Result<Self, ExecDecodingError> {
        if stdout.starts_with(b"k8s\0") {
            return Err(ExecDecodingError::Protobuf);
        }
        let document = Document::read_of(stdout, &Self::SHAPE)?;
        let meta = TypeMeta::sniff(&document.root)?;
        let version = version_of(&meta, configured)?;
        if !meta.kind.is_empty() && meta.kind != KIND {
            return Err(ExecDecodingError::OtherKind(SeenName::kind(&meta.kind)));
        }
        let mut answer = Self { version, status: None };
        if let Some(version) = version {
            let reading = Reading::default();
            let mut body = Body { version, status: None };
            reading
                .root(&document.root)
                .read_fields(Body::FIELDS, &mut body)
                .map_err(InvalidField::from)?;
            answer.status = body.status;
        }
        Ok(answer)
    }
}

/// What an answer of a known version has besides its kind.
struct Body {
    version: ExecVersion,
    status: Option<StatusFields>,
}

impl Body {
    const FIELDS: &FieldTable<Self> = &[
        // It means nothing here, but its fields must have their types.
        ("spec", |body, item| ExecCredentialSpec::default().read(body.version, item)),
        ("status", |body, item| read_pointer(&mut body.status, item, StatusFields::read)),
    ];
}

/// The version an answer is of. v1alpha1 is only known to those who ask for it.
fn version_of(
    meta: &TypeMeta,
    configured: ExecVersion,
) -> Result<Option<ExecVersion>, ExecDecodingError> {
    let unknown = || ExecDecodingError::UnknownVersion(SeenName::version(&meta.api_version));
    match meta.group_version().ok_or_else(unknown)? {
        ("" | GROUP, "") | (GROUP, "__internal") => return Ok(None),
        _ => {}
    }
    let version = meta.api_version.parse::<ExecVersion>().map_err(|_| unknown())?;
    if version == ExecVersion::V1Alpha1 && configured != ExecVersion::V1Alpha1 {
        return Err(unknown());
    }
    Ok(Some(version))
}

/// The fields as they stand in the answer; empty means absent.
#[derive(Default)]
struct StatusFields {
    expiration: Option<Timestamp>,
    token: Secret<String>,
    certificate: Secret<String>,
    key: Secret<String>,
}

impl StatusFields {
    const FIELDS: &FieldTable<Self> = &[
        ("expirationTimestamp", |status, item| item.read_timestamp(&mut status.expiration)),
        ("token", |status, item| item.read_secret(&mut status.token)),
        ("clientCertificateData", |status, item| item.read_secret(&mut status.certificate)),
        ("clientKeyData", |status, item| item.read_secret(&mut status.key)),
    ];

    fn read(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        item.read_fields(Self::FIELDS, self).map(drop)
    }

    fn check(self) -> Result<ExecCredentialStatus, ExecAnswerError> {
        let [token, certificate, key] = [self.token, self.certificate, self.key].map(filled);
        let identity = match (certificate, key) {
            (Some(certificate_pem), Some(key_pem)) => {
                Some(ClientIdentity { certificate_pem, key_pem })
            }
            (None, None) if token.is_none() => return Err(ExecAnswerError::NoCredential),
            (None, None) => None,
            _ => return Err(ExecAnswerError::HalfAnIdentity),
        };
        // Go's zero time is its way to say "none".
        let expiration = self.expiration.filter(|time| !time.is_zero());
        Ok(ExecCredentialStatus { expiration, token, identity })
    }
}

fn filled(text: Secret<String>) -> Option<Secret<String>> {
    (!text.expose().is_empty()).then_some(text)
}

/// Why a plugin's output is no credential. The sentences are upstream's; none quotes the output.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecAnswerError {
    /// It is not an `ExecCredential` at all.
    #[error("decoding stdout: {0}")]
    Decoding(ExecDecodingError),
    /// It is one of another version.
    #[error(
        "exec plugin is configured to use API version {configured}, plugin returned version {}",
        returned.map_or(INTERNAL, ExecVersion::api_version)
    )]
    Version {
        /// What the kubeconfig says.
        configured: ExecVersion,
        /// What the answer says.
        returned: Option<ExecVersion>,
    },
    /// It has no status.
    #[error("exec plugin didn't return a status field")]
    NoStatus,
    /// Its status has no credential.
    #[error("exec plugin didn't return a token or cert/key pair")]
    NoCredential,
    /// Its status has a certificate without its key, or a key without its certificate.
    #[error("exec plugin returned only certificate or key, not both")]
    HalfAnIdentity,
}

/// Not a `source`: the reason is part of upstream's sentence already.
impl From<ExecDecodingError> for ExecAnswerError {
    fn from(error: ExecDecodingError) -> Self {
        Self::Decoding(error)
    }
}

/// Why a plugin's output cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecDecodingError {
    /// It is protobuf, which this object has never had a form in.
    #[error("protobuf is not supported")]
    Protobuf,
    /// It is neither JSON nor YAML.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It is of a version that no one knows.
    #[error("version {0} is not known")]
    UnknownVersion(SeenName),
    /// It is some other object.
    #[error("expected kind {KIND}, found {0}")]
    OtherKind(SeenName),
    /// A field is of the wrong type, or not a time.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#""apiVersion":"client.authentication.k8s.io/v1""#;

    fn decode(rest: &str) -> Result<ExecCredentialStatus, ExecAnswerError> {
        ExecCredentialStatus::decode(format!("{{{HEAD},\n{rest}}}").as_bytes(), ExecVersion::V1)
    }

    fn token(text: &str) -> ExecCredentialStatus {
        ExecCredentialStatus { token: Some(text.into()), ..Default::default() }
    }

    /// JSON that the shape does not name is skipped before a table is looked at.
    #[test]
    fn the_shape_has_every_field_that_is_read() {
        let Shape::Object(fields) = Answer::SHAPE else { panic!("an answer is an object") };
        for (name, _) in Body::FIELDS {
            assert!(fields.iter().any(|field| field.0 == *name), "{name}");
        }
        let Some((_, Shape::Object(fields))) = fields.iter().find(|field| field.0 == "status")
        else {
            panic!("a status is an object")
        };
        for (name, _) in StatusFields::FIELDS {
            assert!(fields.iter().any(|field| field.0 == *name), "status.{name}");
        }
    }

    #[test]
    fn repeated_objects_merge_and_null_empties_pointers() {
        assert_eq!(decode(r#""status":{"token":"a"},"status":{"token":null}"#), Ok(token("a")));
        assert_eq!(
            decode(r#""status":{"token":"a"},"status":null"#),
            Err(ExecAnswerError::NoStatus)
        );
        assert_eq!(
            decode(
                r#""status":{"token":"a","expirationTimestamp":"2030-01-01T00:00:00Z","expirationTimestamp":null}"#
            ),
            Ok(token("a"))
        );
    }

    #[test]
    fn the_zero_time_is_no_expiry() {
        assert_eq!(
            decode(r#""status":{"token":"a","expirationTimestamp":"0001-01-01T00:00:00Z"}"#),
            Ok(token("a"))
        );
    }

    #[test]
    fn half_an_identity_is_refused_even_with_a_token() {
        assert_eq!(
            decode(r#""status":{"token":"a","clientKeyData":"k"}"#),
            Err(ExecAnswerError::HalfAnIdentity)
        );
        assert_eq!(decode(r#""status":{"token":""}"#), Err(ExecAnswerError::NoCredential));
    }

    #[test]
    fn versions_are_compared_after_decoding() {
        let cases = [
            (
                "{}",
                "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/__internal",
            ),
            (
                "apiVersion: client.authentication.k8s.io/v1beta1",
                "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/v1beta1",
            ),
            (
                "apiVersion: client.authentication.k8s.io/v1alpha1",
                "decoding stdout: version client.authentication.k8s.io/v1alpha1 is not known",
            ),
            ("apiVersion: a b", "decoding stdout: version something else is not known"),
            ("kind: Status", "decoding stdout: expected kind ExecCredential, found Status"),
            ("k8s\0", "decoding stdout: protobuf is not supported"),
        ];
        for (stdout, want) in cases {
            let error =
                ExecCredentialStatus::decode(stdout.as_bytes(), ExecVersion::V1).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn the_ignored_spec_must_have_its_types() {
        let error = decode(r#""spec":{"cluster":{"config":5,"server":5}},"status":{"token":"a"}"#)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "decoding stdout: spec.cluster.server: expected a string, found a number (line 2, column 40)"
        );
        assert_eq!(decode(r#""spec":{"response":5},"status":{"token":"a"}"#), Ok(token("a")));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let status = ExecCredentialStatus {
            expiration: Some(Timestamp::parse("2030-01-01T00:00:00Z").unwrap()),
            token: Some("t".into()),
            identity: Some(ClientIdentity { certificate_pem: "c\n".into(), key_pem: "k\n".into() }),
        };
        for version in ExecVersion::ALL {
            assert_eq!(
                ExecCredentialStatus::decode(status.encode(version).expose(), version).as_ref(),
                Ok(&status)
            );
        }
    }
}
