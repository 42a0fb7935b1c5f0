//! What a plugin writes to its standard output.
//!
//! Upstream: `decodeResponse` and `provide` in `pkg/credentialprovider/plugin/plugin.go`; decoding is strict since 1.32.
//! Differs: upstream replaces every decoding error by one sentence, because details could hold secrets. Here the details
//! are kept and the secrets are not: no error quotes a value, an unknown name, or a key of `auth`.
//! Differs: an `apiVersion` of too many parts (`a/b/c`) is another version than the expected one (upstream: none).

mod error;

use std::collections::BTreeMap;

pub use error::ResponseError;
use error::refuse_issues;

use super::{CacheKeyType, CacheKeyTypeHint, ProviderVersion};
use crate::{
    GoDuration, JsonWriter, Secret,
    answer::{SeenName, TypeMeta},
    document::{Document, FieldTable, Reading, Shape},
};

const KIND: &str = "CredentialProviderResponse";

/// The credentials for an image, and how long they may be kept.
///
/// ```
/// use keyfob_api::{CacheKeyType, CredentialProviderResponse, ProviderVersion};
///
/// let stdout = br#"{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",
///     "cacheKeyType":"Registry","cacheDuration":"10m","auth":{"r.io":{"username":"u","password":"p"}}}"#;
/// let response = CredentialProviderResponse::decode(stdout, ProviderVersion::V1).unwrap();
/// assert_eq!(response.cache_key_type, CacheKeyType::Registry);
/// assert_eq!(response.auth[0].0, "r.io");
/// assert_eq!(response.auth[0].1.password.expose(), "p");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct CredentialProviderResponse {
    /// For which images the answer may be used again.
    pub cache_key_type: CacheKeyType,
    /// For how long; `None` leaves it to the provider's configuration, zero forbids it.
    pub cache_duration: Option<GoDuration>,
    /// Match patterns and their credentials, in the order of the answer.
    pub auth: Vec<(String, AuthConfig)>,
}

/// A user name and a password; either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct AuthConfig {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret<String>,
}

impl CredentialProviderResponse {
    /// Reads a plugin's output, in upstream's order: JSON, version, kind, fields, `cacheKeyType`.
    pub fn decode(stdout: &[u8], expected: ProviderVersion) -> Result<Self, ResponseError> {
        UncheckedResponse::decode(stdout, expected)?.check()
    }

    /// Reads an answer whatever version it says it is of: what else is wrong with one whose version is.
    pub fn decode_any_version(stdout: &[u8]) -> Result<Self, ResponseError> {
        let document = Document::read_json_of(stdout, &Fields::SHAPE)?;
        let meta = TypeMeta::sniff(&document.root)?;
        UncheckedResponse::of_document(&document, &meta)?.check()
    }

    /// An answer as a plugin prints it: Go's key order, `auth` sorted, a line break at the end.
    pub fn encode(&self, version: ProviderVersion) -> Secret<Vec<u8>> {
        let mut json = JsonWriter::object_of_kind(KIND, version.api_version());
        json.field("cacheKeyType").string(self.cache_key_type.as_str());
        if let Some(duration) = self.cache_duration {
            json.field("cacheDuration").string(&duration.to_string());
        }
        self.encode_auth(&mut json);
        json.close('}');
        json.finish_line()
    }

    fn encode_auth(&self, json: &mut JsonWriter) {
        if self.auth.is_empty() {
            return;
        }
        // The last of a repeated key, as in a map: our own decoder refuses repetitions.
        let entries: BTreeMap<_, _> = self.auth.iter().map(|(key, auth)| (key, auth)).collect();
        json.field("auth").open('{');
        for (key, auth) in entries {
            json.field(key).open('{');
            json.field("username").string(&auth.username);
            json.field("password").string(auth.password.expose());
            json.close('}');
        }
        json.close('}');
    }
}

/// An answer that was decoded, but whose `cacheKeyType` may be wrong.
///
/// A kubelet looks at the credentials of an answer before it looks at the `cacheKeyType`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncheckedResponse {
    /// For which images the answer may be used again, or what is wrong with what it says of that.
    pub cache_key_type: Result<CacheKeyType, CacheKeyTypeHint>,
    /// For how long, as in [`CredentialProviderResponse::cache_duration`].
    pub cache_duration: Option<GoDuration>,
    /// Match patterns and their credentials, in the order of the answer.
    pub auth: Vec<(String, AuthConfig)>,
}

impl UncheckedResponse {
    /// Reads a plugin's output, in upstream's order: JSON, version, kind, fields.
    pub fn decode(stdout: &[u8], expected: ProviderVersion) -> Result<Self, ResponseError> {
        let document = Document::read_json_of(stdout, &Fields::SHAPE)?;
        let meta = TypeMeta::sniff(&document.root)?;
        if meta.api_version != expected.api_version() {
            return Err(ResponseError::Version {
                expected,
                actual: SeenName::version(&meta.api_version),
            });
        }
        Self::of_document(&document, &meta)
    }

    /// Refuses a `cacheKeyType` that is none of the three.
    pub fn check(self) -> Result<CredentialProviderResponse, ResponseError> {
        Ok(CredentialProviderResponse {
            cache_key_type: self.cache_key_type.map_err(ResponseError::CacheKeyType)?,
            cache_duration: self.cache_duration,
            auth: self.auth,
        })
    }

    fn of_document(document: &Document, meta: &TypeMeta) -> Result<Self, ResponseError> {
        if meta.kind != KIND {
            return Err(ResponseError::Kind(SeenName::kind(&meta.kind)));
        }
        let mut fields = Fields::default();
        let reading = Reading::default();
        reading
            .root(&document.root)
            .read_fields(Fields::TABLE, &mut fields)
            .map_err(ResponseError::of_field)?;
        refuse_issues(&reading.into_issues())?;
        Ok(Self {
            cache_key_type: fields.cache_key_type.parse(),
            cache_duration: fields.cache_duration,
            auth: fields.auth,
        })
    }
}

/// The fields as they stand in the answer.
#[derive(Default)]
struct Fields {
    cache_key_type: String,
    cache_duration: Option<GoDuration>,
    auth: Vec<(String, AuthConfig)>,
}

impl Fields {
    const TABLE: &FieldTable<Self> = &[
        // Read before, when nothing else was; here only their type counts.
        ("kind", |_, item| item.string().map(drop)),
        ("apiVersion", |_, item| item.string().map(drop)),
        ("cacheKeyType", |fields, item| item.read_text(&mut fields.cache_key_type)),
        ("cacheDuration", |fields, item| {
            fields.cache_duration = item.duration()?;
            Ok(())
        }),
        ("auth", |fields, item| {
            item.entries(|key, entry| {
                let mut auth = AuthConfig::default();
                entry.read_fields(AUTH_CONFIG, &mut auth)?;
                fields.auth.push((key.expose().clone(), auth));
                Ok(())
            })
            .map(drop)
        }),
    ];

    const SHAPE: Shape = Shape::Object(&[
        ("kind", Shape::Scalar),
        ("apiVersion", Shape::Scalar),
        ("cacheKeyType", Shape::Scalar),
        ("cacheDuration", Shape::Scalar),
        (
            "auth",
            Shape::Map(&Shape::Object(&[("username", Shape::Scalar), ("password", Shape::Scalar)])),
        ),
    ]);
}

const AUTH_CONFIG: &FieldTable<AuthConfig> = &[
    ("username", |auth, item| item.read_text(&mut auth.username)),
    ("password", |auth, item| item.read_secret(&mut auth.password)),
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#""kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1""#;

    fn decode(rest: &str) -> Result<CredentialProviderResponse, ResponseError> {
        CredentialProviderResponse::decode(
            format!("{{{HEAD},\n{rest}}}").as_bytes(),
            ProviderVersion::V1,
        )
    }

    fn refusal(rest: &str) -> String {
        decode(rest).unwrap_err().to_string()
    }

    #[test]
    fn nothing_where_something_may_be_is_fine() {
        let response = decode(
            r#""cacheKeyType":"Image","cacheDuration":null,"auth":{"a":null,"b":{"username":null}}"#,
        );
        assert_eq!(
            response.unwrap(),
            CredentialProviderResponse {
                cache_key_type: CacheKeyType::Image,
                cache_duration: None,
                auth: vec![
                    ("a".into(), AuthConfig::default()),
                    ("b".into(), AuthConfig::default())
                ],
            }
        );
        assert_eq!(decode(r#""cacheKeyType":"Image","auth":null"#).unwrap().auth, []);
    }

    #[test]
    fn durations_may_be_zero_or_negative() {
        let duration = |text: &str| {
            decode(&format!(r#""cacheKeyType":"Image","cacheDuration":"{text}""#))
                .unwrap()
                .cache_duration
        };
        assert_eq!(duration("0s"), Some(GoDuration::ZERO));
        assert_eq!(duration("-1m"), Some(GoDuration::from_nanos(-60_000_000_000)));
    }

    #[test]
    fn strictness_says_where_and_quotes_nothing() {
        let cases = [
            (r#""cacheKeyType":"Image","hunter2":1"#, "unknown field (line 2, column 24)"),
            (
                r#""cacheKeyType":"Image","auth":{"hunter2":{"hunter2":1}}"#,
                "unknown field inside auth[0] (line 2, column 43)",
            ),
            (
                r#""cacheKeyType":"Image","auth":{"hunter2":{},"hunter2":{}}"#,
                "duplicate field auth[1] (line 2, column 45)",
            ),
            (
                r#""cacheKeyType":"Image","auth":{"hunter2":{"password":5}}"#,
                "auth[0].password: expected a string, found a number (line 2, column 54)",
            ),
            (
                r#""cacheDuration":"hunter2""#,
                "cacheDuration: not a Go duration such as \"10m\" (line 2, column 17)",
            ),
        ];
        for (rest, want) in cases {
            assert_eq!(refusal(rest), want);
        }
    }

    #[test]
    fn the_announcements_mistake_is_explained() {
        let want = "stands inside auth; it belongs at the top of the answer, beside auth";
        assert!(
            refusal(r#""auth":{"cacheDuration":"6h","r.io":{}}"#)
                .starts_with(&format!("cacheDuration {want}"))
        );
        let error = decode(r#""cacheKeyType":"Image","auth":{"r.io":{"cacheKeyType":"Image"}}"#)
            .unwrap_err();
        assert!(
            matches!(error, ResponseError::Misplaced { field: "cacheKeyType", inside, .. } if inside == "auth[0]")
        );
    }

    #[test]
    fn a_wrong_cache_key_type_gets_a_hint() {
        let cases = [
            ("", CacheKeyTypeHint::Empty),
            ("registry", CacheKeyTypeHint::Case("Registry")),
            ("ServiceAccount", CacheKeyTypeHint::ConfigurationWord),
            ("hunter2", CacheKeyTypeHint::Other),
        ];
        for (text, hint) in cases {
            assert_eq!(
                decode(&format!(r#""cacheKeyType":"{text}""#)),
                Err(ResponseError::CacheKeyType(hint))
            );
        }
    }

    #[test]
    fn version_and_kind_come_before_the_fields() {
        let error = CredentialProviderResponse::decode(
            br#"{"apiVersion":"v1","x":1}"#,
            ProviderVersion::V1,
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "apiVersion from credential plugin response did not match expected \
             apiVersion:credentialprovider.kubelet.k8s.io/v1, actual apiVersion:v1"
        );
        let other = r#"{"kind":"CredentialProviderResponse","apiVersion":"v1","cacheKeyType":""}"#;
        let error = CredentialProviderResponse::decode_any_version(other.as_bytes());
        assert_eq!(error, Err(ResponseError::CacheKeyType(CacheKeyTypeHint::Empty)));
        let text = r#"{"kind":"Secret","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}"#;
        let error =
            CredentialProviderResponse::decode(text.as_bytes(), ProviderVersion::V1).unwrap_err();
        assert_eq!(error.to_string(), "expected kind CredentialProviderResponse, found Secret");
    }

    #[test]
    fn an_answer_must_say_what_it_is() {
        let version = ProviderVersion::V1.api_version();
        let answer = format!(r#"{{"apiVersion":"{version}","cacheKeyType":"Image"}}"#);

        let refused = CredentialProviderResponse::decode(answer.as_bytes(), ProviderVersion::V1);

        assert!(matches!(refused, Err(ResponseError::Kind(_))), "{refused:?}");
    }

    #[test]
    fn a_version_that_is_no_text_is_named() {
        let refused =
            CredentialProviderResponse::decode(br#"{"apiVersion":5}"#, ProviderVersion::V1);

        let shown = "apiVersion: expected a string, found a number (line 1, column 15)";
        assert_eq!(refused.unwrap_err().to_string(), shown);
    }

    #[test]
    fn of_a_repeated_key_the_last_is_printed() {
        let login = |user: &str| {
            ("r.io".to_owned(), AuthConfig { username: user.into(), ..Default::default() })
        };
        let response = CredentialProviderResponse {
            cache_key_type: CacheKeyType::Image,
            cache_duration: None,
            auth: vec![login("first"), login("second")],
        };

        let printed = response.encode(ProviderVersion::V1);

        let read = CredentialProviderResponse::decode(printed.expose(), ProviderVersion::V1);
        assert_eq!(read.unwrap().auth, [login("second")]);
    }

    #[test]
    fn an_answer_is_printed_in_gos_order() {
        let response = CredentialProviderResponse {
            cache_key_type: CacheKeyType::Global,
            cache_duration: Some(GoDuration::from_nanos(600_000_000_000)),
            auth: vec![
                ("b".into(), AuthConfig { username: "u".into(), password: "p&".into() }),
                ("a".into(), AuthConfig::default()),
            ],
        };
        assert_eq!(
            String::from_utf8_lossy(response.encode(ProviderVersion::V1).expose()),
            format!(
                "{{{HEAD},\"cacheKeyType\":\"Global\",\"cacheDuration\":\"10m0s\",\"auth\":{{\
                 \"a\":{{\"username\":\"\",\"password\":\"\"}},\"b\":{{\"username\":\"u\",\"password\":\"p\\u0026\"}}}}}}\n"
            )
        );
    }
}
