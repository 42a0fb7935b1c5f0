//! A plugin's answer in a file, judged as a kubelet judges what a plugin prints.

use std::{fs::File, io::Read as _, path::Path};

use keyfob_api::{
    CredentialProviderResponse, ProviderVersion, ResponseError,
    document::{Document, Position, Value, folded_name},
};

use super::report::{Report, Trouble};

const KIND: &str = "CredentialProviderResponse";

/// As much as a host reads of an answer.
const LARGEST: u64 = 1 << 20;

/// What there is to say about the answer in a file; nothing if there is none in it.
pub(super) fn judged(path: &Path) -> Option<Report> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    let said = Said::of(&text).filter(|said| said.kind == KIND)?;
    let file = path.to_string_lossy();
    let mut report = Report::new("a plugin's answer".to_owned(), String::new());
    let (version, corrected) = match said.api_version.parse() {
        Ok(version) => (version, None),
        Err(_) => (ProviderVersion::V1, Some(with_a_version(&text, &said.api_version))),
    };
    let mut errors = Vec::new();
    if let Err(error) = CredentialProviderResponse::decode(&text, version) {
        errors.push((error.to_string(), trouble(&file, &error)));
    }
    // Beside a wrong version there may be more.
    if let Some(Err(error)) =
        corrected.map(|text| CredentialProviderResponse::decode(&text, version))
    {
        errors.push((error.to_string(), trouble(&file, &error)));
    }
    if let Some((first, _)) = errors.first() {
        report.refuse(first.clone(), errors.into_iter().map(|(_, trouble)| trouble));
    }
    Some(report)
}

/// What a document says it is.
struct Said {
    kind: String,
    api_version: String,
}

impl Said {
    fn of(text: &[u8]) -> Option<Self> {
        let document = Document::read(text).ok()?;
        let Value::Map(fields) = &document.root.value else { return None };
        let field = |wanted: &str| {
            let mut named =
                fields.iter().filter(|field| folded_name(field.name.expose()) == wanted);
            match named.next_back().map(|field| &field.node.value) {
                Some(Value::String(text)) => text.expose().clone(),
                _ => String::new(),
            }
        };
        Some(Self { kind: field("kind"), api_version: field("apiversion") })
    }
}

/// The same text with a version that there is.
fn with_a_version(text: &[u8], found: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let version = format!("\"{}\"", ProviderVersion::V1);
    text.replacen(&format!("\"{found}\""), &version, 1).into_bytes()
}

fn trouble(file: &str, error: &ResponseError) -> Trouble {
    let (kind, help) = match error {
        ResponseError::Json(_) => {
            ("Syntax", "a plugin prints one JSON object on stdout, and nothing else")
        }
        ResponseError::Version { .. } => (
            "Unsupported",
            "the answer's apiVersion is the provider's in the configuration: credentialprovider.kubelet.k8s.io/v1, v1beta1 or v1alpha1",
        ),
        ResponseError::Kind(_) => ("Kind", "write \"kind\": \"CredentialProviderResponse\""),
        ResponseError::Field(_) => (
            "Type",
            "durations are texts such as \"10m\"; auth holds an object with username and password for each registry",
        ),
        ResponseError::UnknownField { .. } => (
            "Unknown",
            "at the top there are kind, apiVersion, cacheKeyType, cacheDuration and auth; each entry of auth has username and password",
        ),
        ResponseError::DuplicateField { .. } => ("Duplicate", "keep one of the two"),
        ResponseError::Misplaced { .. } => (
            "Forbidden",
            "move it out of auth; the announcement of Kubernetes 1.26 shows it in the wrong place",
        ),
        _ => ("Invalid", "cacheKeyType is required: Image, Registry or Global"),
    };
    let (text, at) = (error.to_string(), position(error));
    // The place stands in front already.
    let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
    let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    Trouble::new(file, kind, message, help).on(at)
}

fn position(error: &ResponseError) -> Option<Position> {
    match error {
        ResponseError::Json(error) => Some(error.at),
        ResponseError::Field(field) => Some(field.at),
        ResponseError::UnknownField { at, .. }
        | ResponseError::DuplicateField { at, .. }
        | ResponseError::Misplaced { at, .. } => Some(*at),
        _ => None,
    }
}
