//! One file's text to providers.
//!
//! Upstream: `decode` in `pkg/credentialprovider/plugin/config.go`, strict since 1.32.
//! Differs: KEP-4412's `serviceAccountAnnotationKeys` is read in v1 (upstream: an unknown field), and so is the first KEP's
//! configuration. A file that begins like Kubernetes' binary format is read as text (upstream: fails in another way).
//! Differs: a text that is neither JSON nor YAML and a value of a wrong type are told with line and column, in our own words
//! (upstream: Go's). Of several wrong values the first is told (upstream: a wrong duration before the others).
//! Differs: nothing of a file without `kind` or `apiVersion` is quoted (upstream: all of it).

use std::sync::Arc;

use keyfob_api::document::{
    Document, DocumentError, FieldError, Item, Node, Position, Reading, StrictIssue, StrictProblem,
    Value,
};

use super::{
    EnvVar, ErrorKind, Origin, Place, ProviderConfig, ReadProblem, TokenAttributes, TokenDialect,
    dialect, help,
    meta::{Meta, NotOurs},
    read_error::{Fault, finding},
    schema::{ANNOTATIONS, CONFIG, Object, PROVIDER, TOKENS, VARIABLE, Version},
};

pub(super) type Provider = (ProviderConfig, Origin);

/// What a file holds.
pub(super) struct Decoded {
    pub(super) providers: Vec<Provider>,
    /// Where `providers` stands, or would.
    pub(super) place: Place,
}

pub(super) fn decode(file: &Arc<str>, text: &[u8]) -> Result<Decoded, Fault> {
    let document = Document::read(text).map_err(|error| syntax(file, text, &error))?;
    let meta = Meta::of(&document.root)
        .map_err(|error| wrong_value(file, &error, Some(help::META.to_owned())))?;
    let version = meta.version().map_err(|why| not_ours(file, &meta, why))?;
    let reading = Reading::default();
    let providers = match version {
        Version::FirstKep => dialect::providers(reading.root(&document.root)),
        _ => providers(reading.root(&document.root), version),
    };
    let mut providers =
        providers.map_err(|error| wrong_value(file, &error, help::wrong_value(&error, version)))?;
    refuse_issues(file, &document, version, &reading.into_issues())?;
    for (_, origin) in &mut providers {
        origin.file = Some(file.clone());
    }
    let place = Place::new(file, Some(place_of_providers(&document.root)));
    Ok(Decoded { providers, place })
}

fn place_of_providers(root: &Node) -> Position {
    let Value::Map(fields) = &root.value else { return root.at };
    let mut fields = fields.iter();
    let named = fields.find(|field| field.name.expose().eq_ignore_ascii_case("providers"));
    named.map_or(root.at, |field| field.at)
}

fn providers(root: Item<'_>, version: Version) -> Result<Vec<Provider>, FieldError> {
    let mut providers = Vec::new();
    visit(root, &CONFIG, version, |name, item| {
        if name == "providers" {
            providers.clear();
            item.elements(|_, item| {
                providers.push(provider(item, version)?);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(providers)
}

fn provider(item: Item<'_>, version: Version) -> Result<Provider, FieldError> {
    let (mut provider, mut origin) = (ProviderConfig::default(), Origin::default());
    note(&mut origin, "", item.node());
    visit(item, &PROVIDER, version, |name, item| {
        note(&mut origin, name, item.node());
        match name {
            "name" => item.read_text(&mut provider.name)?,
            "matchImages" => read_texts(item, name, &mut provider.match_images, &mut origin)?,
            "defaultCacheDuration" => provider.default_cache_duration = item.duration()?,
            "apiVersion" => item.read_text(&mut provider.api_version)?,
            "args" => read_texts(item, name, &mut provider.args, &mut origin)?,
            "env" => provider.env = variables(item, version, &mut origin)?,
            _ => provider.token_attributes = token_attributes(item, version, &mut origin)?,
        }
        Ok(())
    })?;
    origin.name.clone_from(&provider.name);
    Ok((provider, origin))
}

fn variables(
    item: Item<'_>,
    version: Version,
    origin: &mut Origin,
) -> Result<Vec<EnvVar>, FieldError> {
    let mut variables = Vec::new();
    item.elements(|index, item| {
        let mut variable = EnvVar::default();
        note(origin, &format!("env[{index}]"), item.node());
        visit(item, &VARIABLE, version, |name, item| match name {
            "name" => item.read_text(&mut variable.name),
            _ => item.read_secret(&mut variable.value),
        })?;
        variables.push(variable);
        Ok(())
    })?;
    Ok(variables)
}

fn token_attributes(
    item: Item<'_>,
    version: Version,
    origin: &mut Origin,
) -> Result<Option<TokenAttributes>, FieldError> {
    let mut attributes = TokenAttributes::default();
    let mut annotations = Vec::new();
    let present = visit(item, &TOKENS, version, |name, item| {
        let path = format!("tokenAttributes.{name}");
        note(origin, &path, item.node());
        match name {
            "serviceAccountTokenAudience" => {
                item.read_text(&mut attributes.service_account_token_audience)?;
            }
            "cacheType" => item.read_text(&mut attributes.cache_type)?,
            "requireServiceAccount" => attributes.require_service_account = item.bool()?,
            "requiredServiceAccountAnnotationKeys" => {
                let keys = &mut attributes.required_service_account_annotation_keys;
                read_texts(item, &path, keys, origin)?;
            }
            ANNOTATIONS => {
                attributes.dialect = TokenDialect::Kep4412;
                read_texts(item, &path, &mut annotations, origin)?;
            }
            _ => {
                let keys = &mut attributes.optional_service_account_annotation_keys;
                read_texts(item, &path, keys, origin)?;
            }
        }
        Ok(())
    })?;
    if attributes.dialect == TokenDialect::Kep4412 {
        dialect::complete(&mut attributes, annotations);
    }
    Ok(present.then_some(attributes))
}

/// Visits the fields that an object has in a version, by their JSON names.
fn visit(
    item: Item<'_>,
    object: &'static Object,
    version: Version,
    mut visit: impl FnMut(&'static str, Item<'_>) -> Result<(), FieldError>,
) -> Result<bool, FieldError> {
    let fields: Vec<_> = version.fields(object).collect();
    let names: Vec<&str> = fields.iter().map(|field| field.0.as_ref()).collect();
    item.object(&names, |name, item| match fields.iter().find(|field| field.0 == name) {
        Some(field) => visit(field.1, item),
        None => Ok(()),
    })
}

pub(super) fn read_texts(
    item: Item<'_>,
    path: &str,
    target: &mut Vec<String>,
    origin: &mut Origin,
) -> Result<(), FieldError> {
    target.clear();
    item.elements(|index, item| {
        note(origin, &format!("{path}[{index}]"), item.node());
        let mut text = String::new();
        item.read_text(&mut text)?;
        target.push(text);
        Ok(())
    })?;
    Ok(())
}

pub(super) fn note(origin: &mut Origin, path: &str, node: &Node) {
    origin.places.insert(path.to_owned(), node.at);
}

fn syntax(file: &Arc<str>, text: &[u8], error: &DocumentError) -> Fault {
    let (plain, at) = match error {
        DocumentError::Json(error) => (format!("invalid JSON: {}", error.problem), error.at),
        DocumentError::Yaml(error) => (format!("invalid YAML: {}", error.problem), error.at),
        other => (other.to_string(), Position::START),
    };
    let finding = finding(ErrorKind::Syntax, plain, file, Some(at), help::syntax(text, error));
    Fault::new(ReadProblem::Syntax, error.to_string(), finding)
}

fn not_ours(file: &Arc<str>, meta: &Meta, why: NotOurs) -> Fault {
    let (text, at) = match why {
        NotOurs::MissingKind => ("Object 'Kind' is missing".to_owned(), None),
        NotOurs::MissingVersion => {
            ("Object 'apiVersion' is missing".to_owned(), meta.api_version_at)
        }
        NotOurs::Kind(text) if meta.is_wrong_in_its_version() => (text, meta.api_version_at),
        NotOurs::Kind(text) => (text, meta.kind_at.or(meta.api_version_at)),
    };
    let plain = text.split(" in scheme ").next().unwrap_or_default();
    let error = finding(ErrorKind::Kind, plain, file, at, Some(help::kind(meta)));
    Fault::new(ReadProblem::Kind, text, error)
}

fn wrong_value(file: &Arc<str>, error: &FieldError, help: Option<String>) -> Fault {
    let plain = format!("{}: {}", error.path, error.problem);
    let mut finding = finding(ErrorKind::Type, plain, file, Some(error.at), help);
    finding.path = error.path.to_string();
    Fault::new(ReadProblem::Type, error.to_string(), finding)
}

fn refuse_issues(
    file: &Arc<str>,
    document: &Document,
    version: Version,
    issues: &[StrictIssue],
) -> Result<(), Fault> {
    let (mut go, mut errors) = (Vec::new(), Vec::new());
    go.extend(document.duplicates_message());
    for duplicate in &document.duplicates {
        let (message, at) = (duplicate.message(), Some(duplicate.at));
        let help = Some(help::DUPLICATE.to_owned());
        errors.push(finding(ErrorKind::Duplicate, message, file, at, help));
    }
    for issue in issues {
        go.push(issue.to_string());
        let (kind, help) = match issue.problem {
            StrictProblem::DuplicateField => (ErrorKind::Duplicate, Some(help::DUPLICATE.into())),
            _ => (ErrorKind::Unknown, help::unknown_field(&issue.path, version)),
        };
        let mut error = finding(kind, issue.to_string(), file, Some(issue.at), help);
        error.path = issue.path.to_string();
        errors.push(error);
    }
    if go.is_empty() { Ok(()) } else { Err(Fault::strict(&go, errors, document.more_duplicates)) }
}
