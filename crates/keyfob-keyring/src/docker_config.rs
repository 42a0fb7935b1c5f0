//! Docker's configuration files, as far as they hold logins: `config.json` (under `auths`) and the older `.dockercfg`
//! (the same map at the top).
//!
//! Credential helpers and stores that a file may name are not asked; neither does a kubelet.
//! Upstream: `pkg/credentialprovider/config.go` (1.37), over Go's `encoding/json`: names in any case, unknown fields
//! ignored, the last of equal ones wins, `null` changes nothing (but empties `auths`).
//! Differs: an `auth` that decodes to bytes which are no text has U+FFFD in their place (upstream keeps the bytes, which no
//! container runtime accepts).

use std::{collections::HashSet, fmt};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use keyfob_api::{
    InvalidField, JsonWriter, Secret,
    document::{
        Document, FieldError, FieldTable, Item, JsonError, Kind, Node, Position, Reading, Value,
    },
};
use thiserror::Error;

use crate::{Credential, Login, Logins, Source};

/// The logins of a docker configuration file, each under the key that the file has, in the file's order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DockerConfig(Vec<(String, Login)>);

impl DockerConfig {
    /// Reads a `config.json`.
    pub fn read_json(text: &[u8]) -> Result<Self, DockerConfigError> {
        Self::read_with(text, |root, found| root.read_fields_in_any_case(Found::FIELDS, found))
    }

    /// Reads a `.dockercfg`.
    pub fn read_legacy(text: &[u8]) -> Result<Self, DockerConfigError> {
        Self::read_with(text, |root, found| found.map(root).map(|()| true))
    }

    /// Reads either: it is a `.dockercfg` if it has no `auths`, but a field that looks like a login.
    pub fn read(text: &[u8]) -> Result<Self, DockerConfigError> {
        let root = Document::read_json(text).map_err(DockerConfigProblem::Json)?.root;
        if is_legacy(&root) { Self::read_legacy(text) } else { Self::read_json(text) }
    }

    /// What docker and skopeo need to know to pull an image with a credential: they use exactly one, under the name that
    /// they know the registry by.
    pub fn of(registry: &str, credential: Option<&Credential>) -> Self {
        let registry = match registry {
            "docker.io" => "https://index.docker.io/v1/",
            other => other,
        };
        let login = |credential: &Credential| (registry.to_owned(), credential.login().clone());
        Self(credential.map(login).into_iter().collect())
    }

    /// The keys as written and their logins.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Login)> {
        self.0.iter().map(|(key, login)| (key.as_str(), login))
    }

    /// The logins as a source of credentials.
    pub fn into_logins(self, source: Source) -> Logins {
        Logins::new(source, self.0)
    }

    /// A `config.json`, its keys in byte order.
    pub fn encode(&self) -> Secret<String> {
        let mut entries: Vec<&(String, Login)> = self.0.iter().collect();
        entries.sort_by_key(|(key, _)| key);
        let mut json = JsonWriter::default();
        json.open('{').field("auths").open('{');
        for (key, login) in entries {
            json.field(key);
            write_entry(login, &mut json);
        }
        json.close('}').close('}');
        json.into_text()
    }

    fn read_with(
        text: &[u8],
        read: impl FnOnce(Item<'_>, &mut Found) -> Result<bool, FieldError>,
    ) -> Result<Self, DockerConfigError> {
        let document = Document::read_json(text).map_err(DockerConfigProblem::Json)?;
        let mut found = Found::default();
        read(Reading::default().root(&document.root), &mut found)
            .map_err(|error| DockerConfigProblem::Field(error.into()))?;
        match found.bad_auth {
            Some(at) => Err(DockerConfigProblem::Auth { at }.into()),
            None => Ok(Self(last_of_each_key(found.entries))),
        }
    }
}

impl<K: Into<String>> FromIterator<(K, Login)> for DockerConfig {
    fn from_iter<I: IntoIterator<Item = (K, Login)>>(entries: I) -> Self {
        Self(last_of_each_key(
            entries.into_iter().map(|(key, login)| (key.into(), login)).collect(),
        ))
    }
}

/// Keys may hold passwords, so not even they are shown.
impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DockerConfig({} entries)", self.0.len())
    }
}

/// A text that is no docker configuration. It displays as upstream's error; its source says what is wrong and where, but
/// quotes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("error occurred while trying to unmarshal json")]
pub struct DockerConfigError(#[from] DockerConfigProblem);

impl DockerConfigError {
    /// What is wrong.
    pub fn problem(&self) -> &DockerConfigProblem {
        &self.0
    }
}

/// What can be wrong with a docker configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DockerConfigProblem {
    /// An `auth` is not what docker writes.
    #[error("auth: expected \"USER:PASSWORD\" in base64 ({at})")]
    Auth {
        /// Where it starts.
        at: Position,
    },
    /// A field has a value of another type.
    #[error(transparent)]
    Field(InvalidField),
    /// It is not JSON.
    #[error(transparent)]
    Json(JsonError),
}

/// What was found so far.
#[derive(Default)]
struct Found {
    entries: Vec<(String, Login)>,
    bad_auth: Option<Position>,
}

/// A login's own fields; and `auth`, which has both in one, with its place.
const ENTRY: &FieldTable<(Login, Secret<String>, Position)> = &[
    ("username", |(login, ..), item| read_boxed(item, &mut login.username)),
    ("password", |(login, ..), item| item.read_secret(&mut login.password)),
    ("email", |(login, ..), item| read_boxed(item, &mut login.email)),
    ("auth", |(_, auth, at), item| {
        *at = item.node().at;
        item.read_secret(auth)
    }),
];

impl Found {
    const FIELDS: &FieldTable<Self> = &[
        ("auths", Self::map),
        // Nothing of them is kept, but they must be texts.
        ("HttpHeaders", |_, item| item.entries(|_, header| header.string().map(drop)).map(drop)),
    ];

    /// A map from keys to logins. A second one adds to the first, `null` takes it away.
    fn map(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        let is_map = item.entries(|key, entry| {
            let login = self.entry(entry)?;
            self.entries.push((key.expose().clone(), login));
            Ok(())
        })?;
        if !is_map {
            self.entries.clear();
        }
        Ok(())
    }

    /// A login; `null` is an empty one. A wrong `auth` is remembered and reading goes on.
    fn entry(&mut self, item: Item<'_>) -> Result<Login, FieldError> {
        let mut written = (Login::default(), Secret::default(), item.node().at);
        item.read_fields_in_any_case(ENTRY, &mut written)?;
        let (login, auth, at) = written;
        if auth.expose().is_empty() {
            return Ok(login);
        }
        let decoded = Login::from_auth(auth.expose()).unwrap_or_else(|| {
            self.bad_auth.get_or_insert(at);
            Login::default()
        });
        Ok(Login { email: login.email, ..decoded })
    }
}

fn read_boxed(item: Item<'_>, target: &mut Box<str>) -> Result<(), FieldError> {
    if let Some(text) = item.string()? {
        *target = text.expose().as_str().into();
    }
    Ok(())
}

/// As in a map of Go's: what comes later replaces what came before.
fn last_of_each_key(entries: Vec<(String, Login)>) -> Vec<(String, Login)> {
    let mut seen = HashSet::new();
    let mut kept: Vec<(String, Login)> =
        entries.into_iter().rev().filter(|(key, _)| seen.insert(key.clone())).collect();
    kept.reverse();
    kept
}

/// Whether a configuration without `auths` has a field that looks like a login.
pub(crate) fn is_legacy(root: &Node) -> bool {
    let Value::Map(fields) = &root.value else { return false };
    let is = |name: &Secret<String>, wanted: &str| name.expose().eq_ignore_ascii_case(wanted);
    let is_login = |node: &Node| match &node.value {
        Value::Map(fields) => {
            fields.iter().any(|field| ["auth", "username"].iter().any(|name| is(&field.name, name)))
        }
        _ => false,
    };
    !fields.iter().any(|field| is(&field.name, "auths") && field.node.kind() != Kind::Null)
        && fields.iter().any(|field| is_login(&field.node))
}

impl Login {
    /// Decodes the `auth` of a docker configuration: `USER:PASSWORD` in base64, padded or not, broken into lines or not.
    pub fn from_auth(auth: &str) -> Option<Self> {
        let padding = if auth.trim_end().ends_with('=') {
            DecodePaddingMode::RequireCanonical
        } else {
            DecodePaddingMode::RequireNone
        };
        // Big enough from the start: growing would leave a copy of a secret behind.
        let mut joined = String::with_capacity(auth.len());
        joined.extend(auth.chars().filter(|c| !matches!(c, '\r' | '\n')));
        let config = GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(padding);
        let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
        let bytes = Secret::new(engine.decode(Secret::new(joined).expose()).ok()?);
        let text = Secret::new(String::from_utf8_lossy(bytes.expose()).into_owned());
        let (username, password) = text.expose().split_once(':')?;
        Some(Self { username: username.into(), password: password.into(), email: "".into() })
    }
}

fn write_entry(login: &Login, json: &mut JsonWriter) {
    let (username, password) = (&login.username, login.password.expose());
    let both = Secret::new([username, ":", password].concat());
    json.open('{')
        .field_unless_empty("username", username)
        .field_unless_empty("password", password)
        .field_unless_empty("email", &login.email)
        .field("auth")
        .string(Secret::new(STANDARD.encode(both.expose())).expose())
        .close('}');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyfob_api::MatchTarget;
    use keyfob_testkit::LeakCheck;

    use super::*;
    use crate::select;

    fn login(username: &str, password: &str, email: &str) -> Login {
        Login { username: username.into(), password: password.into(), email: email.into() }
    }

    /// `key=user:password:email` for each entry.
    fn shown(config: &DockerConfig) -> Vec<String> {
        let show = |(key, login): (&str, &Login)| {
            format!("{key}={}:{}:{}", login.username, login.password.expose(), login.email)
        };
        config.entries().map(show).collect()
    }

    fn json(text: &str) -> Vec<String> {
        shown(&DockerConfig::read_json(text.as_bytes()).unwrap())
    }

    fn refusal(text: &str) -> String {
        let error = DockerConfig::read_json(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "error occurred while trying to unmarshal json");
        error.problem().to_string()
    }

    #[test]
    fn docker_finds_the_credential_under_its_own_name_of_the_registry() {
        let entry = |key: &str| (key.to_owned(), login("ada", "", ""));
        let logins = Logins::new(Source::provider("p"), [entry("*.io"), entry("docker.io")]);
        let logins = [Arc::new(logins)];
        let key = |image: &str| {
            let found = select(image, MatchTarget::parse(image).ok().as_ref(), &logins);
            let config = DockerConfig::of(image.split('/').next().unwrap(), found.first());
            config.entries().map(|(key, _)| key.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(key("r.io/team/app"), ["r.io"]);
        assert_eq!(key("docker.io/library/nginx"), ["https://index.docker.io/v1/"]);
        assert_eq!(key("r.example/app"), [""; 0]);
    }

    #[test]
    fn a_config_is_read_as_leniently_as_go_reads_it() {
        let cases: &[(&str, &[&str])] = &[
            ("null", &[]),
            ("{}", &[]),
            (r#"{"auths":null,"credsStore":["x"]}"#, &[]),
            (r#"{"AUTHS":{"r":{"UserName":"u","x":1}}}"#, &["r=u::"]),
            (r#"{"auths":{"r":null,"s":{}}}"#, &["r=::", "s=::"]),
            (r#"{"auths":{"r":{"username":"u"}},"auths":{"s":{}}}"#, &["r=u::", "s=::"]),
            (r#"{"auths":{"r":{"username":"u"}},"auths":null}"#, &[]),
            (r#"{"auths":{"r":{"username":"u"},"s":{},"r":{"password":"p"}}}"#, &["s=::", "r=:p:"]),
            (r#"{"auths":{"r":{"password":"p","password":"q","password":null}}}"#, &["r=:q:"]),
            (r#"{"auths":{"r":{"auth":"dTpwOng=","username":"x","email":"e"}}}"#, &["r=u:p:x:e"]),
            (r#"{"auths":{"r":{"auth":"","username":"x"}},"HttpHeaders":{"a":null}}"#, &["r=x::"]),
        ];
        for (text, expected) in cases {
            assert_eq!(json(text), *expected, "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_and_where() {
        let cases = [
            ("", "invalid JSON at line 1, column 1: unexpected end"),
            ("[]", "message: expected an object, found a list (line 1, column 1)"),
            (
                r#"{"auths":{"r":{"password":1}}}"#,
                "auths[0].password: expected a string, found a number (line 1, column 27)",
            ),
            (
                r#"{"HttpHeaders":{"a":1}}"#,
                "HttpHeaders[0]: expected a string, found a number (line 1, column 21)",
            ),
            (
                r#"{"auths":{"r":{"auth":"pants"}}}"#,
                r#"auth: expected "USER:PASSWORD" in base64 (line 1, column 23)"#,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refusal(text), expected, "{text}");
        }
    }

    #[test]
    fn auth_is_base64_with_or_without_padding_and_line_breaks() {
        let decoded = |auth| Login::from_auth(auth).map(|login| shown_auth(&login));
        let same = Some("ada:x:y".to_owned());
        for auth in
            ["YWRhOng6eQ==", "YWRhOng6eQ", "YWRh\r\nOng6eQ=\n=", "YWRhOng6eQ==\n", "YWRhOng6eR"]
        {
            assert_eq!(decoded(auth), same, "{auth:?}");
        }
        for auth in [
            "YWRhOng6eQ=",
            "YWRhOng6eQ== ",
            " YWRhOng6eQ",
            "YWRh",
            "YWRhOng6e",
            "",
            "\n",
            "=",
            "-_8=",
        ] {
            assert_eq!(decoded(auth), None, "{auth:?}");
        }
        assert_eq!(decoded("dTr/"), Some("u:\u{fffd}".to_owned()));
    }

    fn shown_auth(login: &Login) -> String {
        format!("{}:{}", login.username, login.password.expose())
    }

    #[test]
    fn either_form_is_told_from_the_other() {
        let read = |text: &str| shown(&DockerConfig::read(text.as_bytes()).unwrap());
        assert_eq!(read(r#"{"r":{"auth":"dTpw"},"s":{}}"#), ["r=u:p:", "s=::"]);
        assert_eq!(read(r#"{"auths":{"username":{"auth":"dTpw"}}}"#), ["username=u:p:"]);
        assert_eq!(read(r#"{"credHelpers":{"r":"ecr"}}"#), [""; 0]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let config: DockerConfig = [
            ("r.test", login("u", "p<", "e")),
            ("a\"b", Login::default()),
            ("r.test", login("ada", "x", "")),
        ]
        .into_iter()
        .collect();
        let text = config.encode();
        assert_eq!(
            text.expose(),
            r#"{"auths":{"a\"b":{"auth":"Og=="},"r.test":{"username":"ada","password":"x","auth":"YWRhOng="}}}"#
        );
        assert_eq!(DockerConfig::read(text.expose().as_bytes()).unwrap(), config);
    }

    #[test]
    fn nothing_shows_what_the_file_holds() {
        let leaks = LeakCheck::new(["hunter2", "aHVudGVyMg"]);
        for text in [
            r#"{"auths":{"hunter2":{"auth":"aHVudGVyMg=="}}}"#,
            r#"{"auths":{"hunter2":{"password":["hunter2"]}}}"#,
            r#"{"auths":{"hunter2":"hunter2"}}"#,
            r#"{"auths":hunter2"#,
            r#""hunter2""#,
        ] {
            leaks.error(&DockerConfig::read(text.as_bytes()).unwrap_err());
        }
        let config =
            DockerConfig::read_json(br#"{"auths":{"u:hunter2@r":{"password":"hunter2"}}}"#);
        leaks.debug("a configuration", &config.unwrap());
    }
}
