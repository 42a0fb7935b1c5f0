//! Intents and records as they stand in their files: byte for byte as a kubelet writes them, and read as strictly.
//!
//! Upstream: `ImagePullIntent` and `ImagePulledRecord` of `k8s.io/kubelet/config` behind a strict codec, as
//! `fs_pullrecords.go` has it.

use std::borrow::Cow;

use keyfob_api::{
    JsonWriter,
    document::{Document, DocumentError, FieldError, Item, Reading, StrictIssue},
};
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};
use thiserror::Error;

use super::{PullAccess, PulledRecord, SecretAccess};

pub(super) const INTENT: &str = "ImagePullIntent";
pub(super) const RECORD: &str = "ImagePulledRecord";

/// The versions that are read. The first is written.
const VERSIONS: [(&str, Version); 3] = [
    ("kubelet.config.k8s.io/v1beta1", Version::Current),
    ("kubelet.config.k8s.io/v1alpha1", Version::Old),
    ("kubelet.config.k8s.io/__internal", Version::Internal),
];

/// A version of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Current,
    /// The same fields under an older name.
    Old,
    /// Go's own names for all fields. No kubelet writes it, and every kubelet reads it.
    Internal,
}

/// What a file holds.
#[derive(Debug)]
pub(super) struct Decoded<T> {
    pub(super) value: T,
    pub(super) version: Version,
}

/// Why a text is not what it should be. It quotes names of fields and images only.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is neither JSON nor YAML.
    #[error(transparent)]
    Syntax(#[from] DocumentError),
    /// It says that it is of another kind or version, or does not say.
    #[error("its kind or apiVersion is another")]
    Kind,
    /// A field is of the wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A field is unknown or repeated.
    #[error("{0}")]
    Strict(String),
}

/// The text of an intent.
pub(super) fn encode_intent(image: &str) -> String {
    let mut json = object(INTENT);
    json.field("image").string(image).close('}');
    line(json)
}

/// The text of a record.
pub(super) fn encode_record(record: &PulledRecord) -> String {
    let mut json = object(RECORD);
    json.field("lastUpdatedTime");
    match record.last_updated_time {
        Some(time) => json.string(&time.to_string()),
        None => json.raw("null"),
    };
    json.field("imageRef").string(&record.image_ref);
    if !record.credential_mapping.is_empty() {
        json.field("credentialMapping").open('{');
        for (name, access) in &record.credential_mapping {
            json.field(name);
            encode_access(&mut json, access);
        }
        json.close('}');
    }
    json.close('}');
    line(json)
}

fn encode_access(json: &mut JsonWriter, access: &PullAccess) {
    json.open('{');
    if !access.secrets.is_empty() {
        json.field("kubernetesSecrets").open('[');
        for SecretAccess { secret, credential_hash } in &access.secrets {
            let SecretCoordinates { uid, namespace, name } = secret;
            encode_coordinates(json, [uid, namespace, name]);
            json.field("credentialHash").string(credential_hash).close('}');
        }
        json.close(']');
    }
    if !access.service_accounts.is_empty() {
        json.field("kubernetesServiceAccounts").open('[');
        for ServiceAccountCoordinates { uid, namespace, name } in &access.service_accounts {
            encode_coordinates(json, [uid, namespace, name]);
            json.close('}');
        }
        json.close(']');
    }
    json.field_if_true("nodePodsAccessible", access.node_pods_accessible);
    json.close('}');
}

/// An object that is still open.
fn encode_coordinates(json: &mut JsonWriter, [uid, namespace, name]: [&str; 3]) {
    json.open('{').field("uid").string(uid);
    json.field("namespace").string(namespace).field("name").string(name);
}

fn object(kind: &str) -> JsonWriter {
    let [(api_version, _), ..] = VERSIONS;
    let mut json = JsonWriter::default();
    json.open('{').field("kind").string(kind).field("apiVersion").string(api_version);
    json
}

fn line(json: JsonWriter) -> String {
    let mut text = json.into_text().expose().clone();
    text.push('\n');
    text
}

/// Reads an intent: the image's name.
pub(super) fn decode_intent(text: &[u8]) -> Result<Decoded<String>, DecodeError> {
    decode(text, INTENT, |item, version| {
        let mut image = String::new();
        version.visit(item, &["kind", "apiVersion", "image"], |name, item| match name {
            "image" => item.read_text(&mut image),
            _ => item.string().map(drop),
        })?;
        Ok(image)
    })
}

/// Reads a record.
pub(super) fn decode_record(text: &[u8]) -> Result<Decoded<PulledRecord>, DecodeError> {
    const FIELDS: [&str; 5] =
        ["kind", "apiVersion", "lastUpdatedTime", "imageRef", "credentialMapping"];
    decode(text, RECORD, |item, version| {
        let mut record = PulledRecord::default();
        version.visit(item, &FIELDS, |name, item| {
            match name {
                "lastUpdatedTime" => {
                    record.last_updated_time = item.timestamp()?.filter(|time| !time.is_zero());
                }
                "imageRef" => item.read_text(&mut record.image_ref)?,
                "credentialMapping" => {
                    item.entries(|name, item| {
                        let access = access(item, version)?;
                        record.credential_mapping.insert(name.expose().clone(), access);
                        Ok(())
                    })?;
                }
                _ => drop(item.string()?),
            }
            Ok(())
        })?;
        Ok(record)
    })
}

fn decode<T>(
    text: &[u8],
    wanted: &str,
    read: impl FnOnce(Item<'_>, Version) -> Result<T, FieldError>,
) -> Result<Decoded<T>, DecodeError> {
    let document = Document::read(text)?;
    let version = Version::of(&document, wanted)?;
    let reading = Reading::default();
    let value = read(reading.root(&document.root), version)?;
    let strict = reading.into_issues().first().map(StrictIssue::to_string);
    match document.duplicates_message().or(strict) {
        None => Ok(Decoded { value, version }),
        Some(message) => Err(DecodeError::Strict(message)),
    }
}

fn access(item: Item<'_>, version: Version) -> Result<PullAccess, FieldError> {
    const FIELDS: [&str; 3] =
        ["kubernetesSecrets", "kubernetesServiceAccounts", "nodePodsAccessible"];
    let mut access = PullAccess::default();
    version.visit(item, &FIELDS, |name, item| {
        match name {
            "kubernetesSecrets" => {
                item.elements(|_, item| {
                    access.secrets.push(secret(item, version)?);
                    Ok(())
                })?;
            }
            "kubernetesServiceAccounts" => {
                item.elements(|_, item| {
                    access.service_accounts.push(service_account(item, version)?);
                    Ok(())
                })?;
            }
            _ => access.node_pods_accessible = item.bool()?.unwrap_or_default(),
        }
        Ok(())
    })?;
    Ok(access)
}

fn secret(item: Item<'_>, version: Version) -> Result<SecretAccess, FieldError> {
    let mut access = SecretAccess::default();
    version.visit(item, &["uid", "namespace", "name", "credentialHash"], |name, item| {
        item.read_text(match name {
            "uid" => &mut access.secret.uid,
            "namespace" => &mut access.secret.namespace,
            "name" => &mut access.secret.name,
            _ => &mut access.credential_hash,
        })
    })?;
    Ok(access)
}

fn service_account(
    item: Item<'_>,
    version: Version,
) -> Result<ServiceAccountCoordinates, FieldError> {
    let (mut uid, mut namespace, mut account) = <(String, String, String)>::default();
    version.visit(item, &["uid", "namespace", "name"], |name, item| {
        item.read_text(match name {
            "uid" => &mut uid,
            "namespace" => &mut namespace,
            _ => &mut account,
        })
    })?;
    Ok(ServiceAccountCoordinates { uid, namespace, name: account })
}

impl Version {
    /// What a document says it is; its field names may be in any case here, as in Go.
    fn of(document: &Document, wanted: &str) -> Result<Self, DecodeError> {
        let (mut kind, mut api_version) = (String::new(), String::new());
        let reading = Reading::default();
        reading
            .root(&document.root)
            .object_in_any_case(&["kind", "apiVersion"], |name, item| {
                item.read_text(if name == "kind" { &mut kind } else { &mut api_version })
            })?;
        let known = VERSIONS.iter().find(|(name, _)| *name == api_version);
        let version = known.filter(|_| kind == wanted).map(|(_, version)| *version);
        version.ok_or(DecodeError::Kind)
    }

    /// Visits fields by their JSON names, whatever they are called in this version.
    fn visit(
        self,
        item: Item<'_>,
        fields: &[&'static str],
        mut visit: impl FnMut(&'static str, Item<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, FieldError> {
        let names: Vec<Cow<'static, str>> =
            fields.iter().map(|field| self.name_of(field)).collect();
        let known: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        item.object(&known, |name, item| {
            let field = fields.iter().zip(&known).find(|(_, known)| **known == name);
            field.map_or(Ok(()), |(field, _)| visit(field, item))
        })
    }

    fn name_of(self, field: &'static str) -> Cow<'static, str> {
        match (self, field) {
            (Self::Current | Self::Old, _) | (_, "kind" | "apiVersion") => field.into(),
            (Self::Internal, "uid") => "UID".into(),
            (Self::Internal, _) => {
                let (first, rest) = field.split_at(1);
                (first.to_uppercase() + rest).into()
            }
        }
    }
}

#[cfg(test)]
mod tests;
