//! A plugin's answer in a file, judged as a kubelet judges what a plugin prints.

use std::{fs::File, io::Read as _, path::Path};

use keyfob_api::{
    CacheKeyType, CredentialProviderResponse, MatchPattern, ProviderVersion, RegistryKey,
    ResponseError,
    document::{Document, Field, Position, Value, folded_name},
};
use keyfob_exec::MOST_OUTPUT;

use super::report::{Report, Trouble};

const KIND: &str = "CredentialProviderResponse";

/// What there is to say about the answer in a file; nothing if there is none in it.
pub(super) fn judged(path: &Path) -> Option<Report> {
    // Larger files were refused before; of these it is still worth saying what they are.
    const MOST_READ: u64 = 2 * MOST_OUTPUT as u64;
    let mut text = Vec::new();
    File::open(path).ok()?.take(MOST_READ).read_to_end(&mut text).ok()?;
    let document = Document::read(&text).ok()?;
    let said = Said::of(&document).filter(|said| said.text("kind") == KIND)?;
    let file = path.to_string_lossy();
    let mut report = Report::of_answer();
    if text.len() > MOST_OUTPUT {
        let message = format!("the answer is larger than {} MiB", MOST_OUTPUT >> 20);
        let help = "mend the plugin: no more is read of what it prints";
        let trouble = Trouble::new(&file, "Invalid", message.clone(), help);
        report.refuse(&message, [trouble].into_iter());
        return Some(report);
    }
    let errors = errors(&text, &said);
    if let Some(first) = errors.first() {
        report.refuse(&first.to_string(), errors.iter().map(|error| trouble(&file, error)));
    }
    report.warnings.extend(said.keys().iter().filter_map(|key| useless_key(&file, key)));
    Some(report)
}

/// The first is what a kubelet says; the others come to light when that is mended.
fn errors(text: &[u8], said: &Said<'_>) -> Vec<ResponseError> {
    let version = said.text("apiversion").parse().unwrap_or(ProviderVersion::V1);
    let mut errors = Vec::new();
    for decoded in [
        CredentialProviderResponse::decode(text, version),
        CredentialProviderResponse::decode_any_version(text),
    ] {
        errors.extend(decoded.err().filter(|error| !errors.contains(error)));
    }
    errors.extend(said.wrong_cache_key_type().filter(|error| {
        let is_said = |other: &ResponseError| {
            other == error
                || matches!(other, ResponseError::Misplaced { field: "cacheKeyType", .. })
        };
        !errors.iter().any(is_said)
    }));
    errors
}

/// The fields of an answer.
struct Said<'a>(&'a [Field]);

impl<'a> Said<'a> {
    fn of(document: &'a Document) -> Option<Self> {
        match &document.root.value {
            Value::Map(fields) => Some(Self(fields)),
            _ => None,
        }
    }

    /// The last field of a name, in lower case, counts.
    fn field(&self, wanted: &str) -> Option<&'a Value> {
        let mut named = self.0.iter().filter(|field| folded_name(field.name.expose()) == wanted);
        named.next_back().map(|field| &field.node.value)
    }

    fn text(&self, wanted: &str) -> &'a str {
        match self.field(wanted) {
            Some(Value::String(text)) => text.expose(),
            _ => "",
        }
    }

    /// It is looked at last, so that other errors hide it.
    fn wrong_cache_key_type(&self) -> Option<ResponseError> {
        let parsed = self.text("cachekeytype").parse::<CacheKeyType>();
        parsed.err().map(ResponseError::CacheKeyType)
    }

    /// What stands in `auth` and is a login.
    fn keys(&self) -> Vec<&'a Field> {
        let Some(Value::Map(fields)) = self.field("auth") else { return Vec::new() };
        let is_login = |field: &&Field| matches!(field.node.value, Value::Map(_) | Value::Null);
        fields.iter().filter(is_login).collect()
    }
}

/// About a key under which no image finds anything. One that is no key is not quoted: it may hold a password.
fn useless_key(file: &str, field: &Field) -> Option<Trouble> {
    let unused = |message: String, help: &str| {
        Some(Trouble::new(file, "", message, help).on(Some(field.at)))
    };
    let key = match RegistryKey::parse(field.name.expose()) {
        Ok(key) => key,
        Err(error) => return unused(format!("a key of auth is never used: {error}"), HOST),
    };
    if key.is_docker_hub() {
        return None;
    }
    let Some(pattern) = MatchPattern::parse(&key.to_string()).ok().filter(|_| !key.is_dead())
    else {
        return unused("a key of auth is never used".to_owned(), HOST);
    };
    let never = pattern.never_matches()?;
    let help = never.instead().map_or_else(|| HOST.to_owned(), |text| format!("write {text:?}"));
    unused(format!("the key {:?} never matches: {never}", key.to_string()), &help)
}

const HOST: &str = "write the registry's host, with port and path if need be";

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
