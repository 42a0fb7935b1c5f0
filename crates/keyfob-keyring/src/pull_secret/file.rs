//! Pull secrets in a file: what `kubectl get secret -o yaml` prints, or what docker writes.
//!
//! Upstream: none; a kubelet gets its secrets from the API server, which gives each a uid. Records of pulls know a secret by it
//! and believe that what it holds may change. Nobody answers for that of a file, so its uid is made of what it holds.

use std::collections::BTreeMap;

use keyfob_api::{
    InvalidField, Secret,
    document::{
        Document, DocumentError, FieldError, FieldTable, Item, Node, Reading, Value, documents,
    },
};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{JSON, LEGACY, PullSecret};
use crate::{SecretCoordinates, docker_config};

impl PullSecret {
    /// Reads a file that its user calls `name`: Secrets or lists of them in YAML (of several documents) or JSON, or a bare
    /// `config.json` or `.dockercfg`, which becomes a secret of that name. At least one must be a pull secret.
    pub fn parse_file(text: &[u8], name: &str) -> Result<Vec<Self>, PullSecretFileError> {
        let mut secrets = Vec::new();
        for (index, text) in documents(text).into_iter().enumerate() {
            let place = Place { name, document: index + 1 };
            let root = Document::read(text).map_err(|error| place.unreadable(error))?.root;
            match Contents::of(&root, text) {
                Contents::Nothing => {}
                Contents::Manifest => secrets.extend(manifest(&root, &place)?),
                Contents::DockerConfig => secrets.push(bare(&root, text, name)),
                Contents::SomethingElse => return Err(place.something_else()),
            }
        }
        if !secrets.iter().any(|secret| secret.docker_config().is_some()) {
            return Err(PullSecretFileError::NoPullSecret { name: name.to_owned() });
        }
        for secret in secrets.iter_mut().filter(|secret| secret.coordinates.uid.is_empty()) {
            secret.coordinates.uid = fingerprint(&secret.data);
        }
        Ok(secrets)
    }
}

/// Tells one secret from another that is called the same.
fn fingerprint(data: &BTreeMap<String, Secret<Vec<u8>>>) -> String {
    let mut hash = Sha256::new();
    for part in data.iter().flat_map(|(key, value)| [key.as_bytes(), value.expose()]) {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    format!("sha256:{}", hex::encode(hash.finalize()))
}

/// Why a file gives no pull secret. It never quotes the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PullSecretFileError {
    /// A field of a Secret cannot be what it must be.
    #[error(
        "{name}, document {document}: a field is wrong; compare with what \"kubectl get secret NAME -o yaml\" prints"
    )]
    Field {
        /// The file.
        name: String,
        /// Which of its documents, counted from 1.
        document: usize,
        /// Which field, and what is wrong with it.
        source: InvalidField,
    },
    /// There are secrets, or nothing at all, but none is for pulling.
    #[error(
        "{name} holds no pull secret: one has the type {} and the data {}, or {} and {}",
        JSON.secret_type, JSON.key, LEGACY.secret_type, LEGACY.key
    )]
    NoPullSecret {
        /// The file.
        name: String,
    },
    /// It is something else.
    #[error(
        "{name}, document {document}, is neither a Secret (apiVersion v1), nor a list of them, nor docker's config.json: \
         hand over one of these, such as \"kubectl get secret NAME -o yaml\" prints"
    )]
    SomethingElse {
        /// The file.
        name: String,
        /// Which of its documents, counted from 1.
        document: usize,
    },
    /// It is neither YAML nor JSON.
    #[error("{name}, document {document}, cannot be read")]
    Unreadable {
        /// The file.
        name: String,
        /// Which of its documents, counted from 1.
        document: usize,
        /// What is wrong, and where in the document.
        source: DocumentError,
    },
}

/// Where something was read, for errors.
struct Place<'a> {
    name: &'a str,
    document: usize,
}

impl Place<'_> {
    fn field(&self, error: FieldError) -> PullSecretFileError {
        let (name, document) = (self.name.to_owned(), self.document);
        PullSecretFileError::Field { name, document, source: error.into() }
    }

    fn something_else(&self) -> PullSecretFileError {
        let (name, document) = (self.name.to_owned(), self.document);
        PullSecretFileError::SomethingElse { name, document }
    }

    fn unreadable(&self, source: DocumentError) -> PullSecretFileError {
        let (name, document) = (self.name.to_owned(), self.document);
        PullSecretFileError::Unreadable { name, document, source }
    }
}

fn is_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

/// What a document is.
enum Contents {
    DockerConfig,
    Manifest,
    Nothing,
    SomethingElse,
}

impl Contents {
    fn of(root: &Node, text: &[u8]) -> Self {
        let Value::Map(fields) = &root.value else {
            return if matches!(root.value, Value::Null) {
                Self::Nothing
            } else {
                Self::SomethingElse
            };
        };
        let says_what_it_is = fields.iter().any(|field| {
            matches!(field.name.expose().as_str(), "kind" | "apiVersion")
                && matches!(field.node.value, Value::String(_))
        });
        match says_what_it_is {
            true => Self::Manifest,
            false if is_json(text) => Self::DockerConfig,
            false => Self::SomethingElse,
        }
    }
}

fn bare(root: &Node, text: &[u8], name: &str) -> PullSecret {
    let form = if docker_config::is_legacy(root) { LEGACY } else { JSON };
    PullSecret {
        coordinates: SecretCoordinates { name: name.to_owned(), ..SecretCoordinates::default() },
        secret_type: form.secret_type.to_owned(),
        data: [(form.key.to_owned(), text.to_vec().into())].into(),
    }
}

fn manifest(root: &Node, place: &Place<'_>) -> Result<Vec<PullSecret>, PullSecretFileError> {
    let reading = Reading::default();
    let root = reading.root(root);
    let object = Object::read(root).map_err(|error| place.field(error))?;
    match object.kind.as_str() {
        "Secret" if object.api_version == "v1" => Ok(vec![object.secret()]),
        "List" | "SecretList" => items(root).map_err(|error| place.field(error)),
        _ => Err(place.something_else()),
    }
}

/// The Secrets of a list. A list of everything says of each item what it is, a list of Secrets need not.
fn items(list: Item<'_>) -> Result<Vec<PullSecret>, FieldError> {
    let mut secrets = Vec::new();
    list.object(&["items"], |_, items| {
        let one = |_, item: Item<'_>| {
            let object = Object::read(item)?;
            if matches!(object.kind.as_str(), "Secret" | "") {
                secrets.push(object.secret());
            }
            Ok(())
        };
        items.elements(one).map(drop)
    })?;
    Ok(secrets)
}

const COORDINATES: &FieldTable<SecretCoordinates> = &[
    ("uid", |secret, item| item.read_text(&mut secret.uid)),
    ("namespace", |secret, item| item.read_text(&mut secret.namespace)),
    ("name", |secret, item| item.read_text(&mut secret.name)),
];

/// An object that may be a Secret.
#[derive(Default)]
struct Object {
    api_version: String,
    kind: String,
    secret: PullSecret,
    plain: BTreeMap<String, Secret<Vec<u8>>>,
}

impl Object {
    const META: &FieldTable<Self> = &[
        ("apiVersion", |object, item| item.read_text(&mut object.api_version)),
        ("kind", |object, item| item.read_text(&mut object.kind)),
    ];

    const SECRET: &FieldTable<Self> = &[
        ("metadata", |object, item| {
            item.read_fields(COORDINATES, &mut object.secret.coordinates).map(drop)
        }),
        ("type", |object, item| item.read_text(&mut object.secret.secret_type)),
        ("data", |object, item| item.entries(|key, value| object.data(key, value)).map(drop)),
        ("stringData", |object, item| {
            item.entries(|key, value| object.string_data(key, value)).map(drop)
        }),
    ];

    /// Reads the fields of a Secret. If it is something else, they are not there or not read.
    fn read(item: Item<'_>) -> Result<Self, FieldError> {
        let mut object = Self::default();
        item.read_fields(Self::META, &mut object)?;
        if matches!(object.kind.as_str(), "Secret" | "") {
            item.read_fields(Self::SECRET, &mut object)?;
        }
        Ok(object)
    }

    /// As the API server stores it: `stringData` over `data`.
    fn secret(mut self) -> PullSecret {
        self.secret.data.append(&mut self.plain);
        self.secret
    }

    fn data(&mut self, key: &Secret<String>, value: Item<'_>) -> Result<(), FieldError> {
        let bytes = value.bytes()?.unwrap_or_default();
        self.secret.data.insert(key.expose().clone(), bytes);
        Ok(())
    }

    fn string_data(&mut self, key: &Secret<String>, value: Item<'_>) -> Result<(), FieldError> {
        let text = value.string()?.map(|text| text.expose().as_bytes().to_vec());
        self.plain.insert(key.expose().clone(), text.unwrap_or_default().into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::LeakCheck;

    use super::*;

    const MANIFEST: &str = "
apiVersion: v1
kind: Secret
metadata: {name: pull, namespace: team, uid: '7', creationTimestamp: null}
type: kubernetes.io/dockerconfigjson
data:
  .dockerconfigjson: eyJhdXRocyI6eyJyLnRlc3QiOnsiYXV0aCI6ImRUcHcifX19
";

    /// `namespace/name: key`, for each secret with logins.
    fn shown(text: &str) -> Vec<String> {
        let secrets = PullSecret::parse_file(text.as_bytes(), "a.yaml").unwrap();
        let show = |secret: &PullSecret| {
            let logins = secret.logins().unwrap()?;
            let keys: Vec<String> = logins.keys().map(ToString::to_string).collect();
            let SecretCoordinates { namespace, name, .. } = &secret.coordinates;
            Some(format!("{namespace}/{name}: {}", keys.join(" ")))
        };
        secrets.iter().filter_map(show).collect()
    }

    fn refusal(text: &str) -> PullSecretFileError {
        PullSecret::parse_file(text.as_bytes(), "a.yaml").unwrap_err()
    }

    #[test]
    fn a_manifest_is_what_kubectl_prints() {
        assert_eq!(shown(MANIFEST), ["team/pull: r.test"]);
        let [secret] = &PullSecret::parse_file(MANIFEST.as_bytes(), "a.yaml").unwrap()[..] else {
            panic!("one secret")
        };
        assert_eq!(secret.coordinates.uid, "7");
        let json = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"type":"kubernetes.io/dockercfg",
            "data":{".dockercfg":"e30="},"stringData":{".dockercfg":"{\"s.test\":{}}"}}"#;
        assert_eq!(shown(json), ["/x: s.test"], "stringData goes before data");
    }

    #[test]
    fn lists_and_several_documents_are_taken_apart() {
        let item = MANIFEST.trim().replace('\n', "\n  ");
        let others = "- {apiVersion: v1, kind: ConfigMap, data: {a: b}}\n- {apiVersion: v1, kind: Secret, type: Opaque}";
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {item}\n{others}\n");
        assert_eq!(shown(&list), ["team/pull: r.test"]);
        let untyped = item.replace("kind: Secret", "immutable: true");
        let list = format!("apiVersion: v1\nkind: SecretList\nitems:\n- {untyped}\n");
        assert_eq!(shown(&list), ["team/pull: r.test"]);
        let two = format!("# both\n---\n{MANIFEST}--- # second\n{MANIFEST}\n---\n");
        assert_eq!(shown(&two), ["team/pull: r.test"; 2]);
    }

    #[test]
    fn a_bare_docker_configuration_is_a_secret_of_the_files_name() {
        assert_eq!(shown(r#"{"auths":{"r.test":{}}}"#), ["/a.yaml: r.test"]);
        assert_eq!(shown(r#"{"r.test":{"auth":"dTpw"}}"#), ["/a.yaml: r.test"]);
        assert_eq!(shown(r#"{"auths":{},"kind":{"auth":"dTpw"}}"#), ["/a.yaml: "]);
    }

    #[test]
    fn secrets_without_a_uid_are_one_only_if_they_hold_the_same() {
        let uid = |text: &str| {
            let secrets = PullSecret::parse_file(text.as_bytes(), "/dev/fd/63").unwrap();
            secrets[0].coordinates.uid.clone()
        };
        let without_uid = MANIFEST.replace("uid: '7'", "labels: {}");
        let other = without_uid.replace("ImRUcHcifX19", "ImRUcDMifX19");
        assert_eq!(uid(&without_uid), uid(&without_uid.replace("team", "other")));
        assert_ne!(uid(&without_uid), uid(&other));
        assert_ne!(uid(r#"{"auths":{"r.test":{}}}"#), uid(r#"{"auths":{"s.test":{}}}"#));
        assert!(uid(&without_uid).starts_with("sha256:"), "{}", uid(&without_uid));
    }

    #[test]
    fn what_is_no_pull_secret_is_told_so() {
        let opaque = MANIFEST.replace("kubernetes.io/dockerconfigjson", "Opaque");
        for text in [opaque.as_str(), "", "# nothing\n", "kind: List\n"] {
            let none = PullSecretFileError::NoPullSecret { name: "a.yaml".into() };
            assert_eq!(refusal(text), none, "{text}");
        }
        let config_map = MANIFEST.replace("Secret", "ConfigMap");
        let other_group = MANIFEST.replace("v1", "example.test/v1");
        for text in [config_map.as_str(), &other_group, "[1]", "hunter2", "a: b"] {
            let else_ = PullSecretFileError::SomethingElse { name: "a.yaml".into(), document: 1 };
            assert_eq!(refusal(text), else_, "{text}");
        }
        let second = format!("{MANIFEST}---\na: [\n");
        assert_eq!(refusal(&second).to_string(), "a.yaml, document 2, cannot be read");
    }

    #[test]
    fn errors_say_where_and_quote_nothing() {
        let leaks = LeakCheck::new(["hunter2"]);
        let replaced = |to: &str| MANIFEST.replace(".dockerconfigjson: eyJ", to);
        for text in [
            replaced("hunter2: hunter2-eyJ"),
            replaced("hunter2: [hunter2]\n  a: eyJ"),
            replaced("hunter2: *hunter2\n  a: eyJ"),
            MANIFEST.replace("name: pull", "name: [hunter2]"),
            MANIFEST.replace("Secret", "hunter2"),
            r#"{"auths": hunter2"#.to_owned(),
        ] {
            leaks.error(&refusal(&text));
        }
        let error = refusal(&replaced("hunter2: hunter2-eyJ"));
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "data[0]: invalid base64 (line 7, column 12)");
    }
}
