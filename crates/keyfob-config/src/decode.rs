//! One file's text to providers.
//!
//! Upstream: `decode` in `pkg/credentialprovider/plugin/config.go`, strict since 1.32.
//! Differs: KEP-4412's `serviceAccountAnnotationKeys` is read in v1 (upstream: an unknown field), and so is the first KEP's
//! configuration. A file that begins like Kubernetes' binary format is read as text (upstream: fails in another way).
//! Differs: a text that is neither JSON nor YAML and a value of a wrong type are told with line and column, in our own words
//! (upstream: Go's). Of several wrong values the first is told (upstream: a wrong duration before the others).
//! Differs: nothing of a file without `kind` or `apiVersion` is quoted (upstream: all of it).

use std::{mem, sync::Arc};

use keyfob_api::document::{
    Document, DocumentError, FieldError, Item, Node, Position, Reading, StrictIssue, StrictProblem,
    Value,
};

use super::{
    EnvVar, ErrorKind, Origin, Place, Protocol, ProviderConfig, ReadProblem, TokenAttributes,
    TokenDialect,
    dialect::{self, FIRST_KEP_FIELDS},
    fields::{Access, Field},
    help,
    meta::{Meta, NotOurs},
    provider_config::{PROVIDER_FIELDS, TOKEN_FIELDS, VARIABLE_FIELDS},
    read_error::{Fault, finding},
    schema::{CONFIG, FIRST_KEP, Object, Version},
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
    let object = if version == Version::FirstKep { &FIRST_KEP } else { &CONFIG };
    let providers = providers(reading.root(&document.root), object, version);
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

fn providers(
    root: Item<'_>,
    object: &'static Object,
    version: Version,
) -> Result<Vec<Provider>, FieldError> {
    let known: Vec<_> = version.fields(object).map(|field| field.0).collect();
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let mut providers = Vec::new();
    root.object(&known, |name, item| {
        if name == version.name("providers") {
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
    let (fields, protocol) = match version {
        Version::FirstKep => (FIRST_KEP_FIELDS, Protocol::FirstKep),
        Version::V1 | Version::V1Beta1 | Version::V1Alpha1 | Version::Internal => {
            (PROVIDER_FIELDS, Protocol::Kubelet)
        }
    };
    let mut provider = ProviderConfig { protocol, ..ProviderConfig::default() };
    let mut reader = Reader { version, origin: Origin::default(), kep_4412_keys: Vec::new() };
    reader.note("", item.node());
    reader.object(item, fields, "", &mut provider)?;
    let name = provider.name.clone();
    Ok((provider, Origin { name, ..reader.origin }))
}

/// Reads a provider, and notes where its values stand.
struct Reader {
    version: Version,
    origin: Origin,
    /// What `tokenAttributes` in KEP-4412's words have until they are translated.
    kep_4412_keys: Vec<String>,
}

impl Reader {
    /// Fills a struct by the table of its fields; says whether the object was there, and not `null`.
    fn object<T>(
        &mut self,
        item: Item<'_>,
        fields: &[Field<T>],
        path: &str,
        target: &mut T,
    ) -> Result<bool, FieldError> {
        let version = self.version;
        let fields = fields.iter().filter(|field| field.versions.contain(version));
        let fields: Vec<_> = fields.map(|field| (version.name(field.name), field)).collect();
        item.rows(&fields, |field, item| self.field(item, field, path, target))
    }

    fn field<T>(
        &mut self,
        item: Item<'_>,
        field: &Field<T>,
        path: &str,
        target: &mut T,
    ) -> Result<(), FieldError> {
        let path = if path.is_empty() { field.today } else { &format!("{path}.{}", field.today) };
        self.note(path, item.node());
        match &field.value {
            Access::Text(lens) => item.read_text((lens.get_mut)(target))?,
            Access::SecretText(lens) => item.read_secret((lens.get_mut)(target))?,
            Access::Texts(lens) => *(lens.get_mut)(target) = self.texts(&item, path)?,
            Access::Duration(lens) => *(lens.get_mut)(target) = item.duration()?,
            Access::Bool(lens) => *(lens.get_mut)(target) = item.bool()?,
            Access::Variables(lens) => *(lens.get_mut)(target) = self.variables(item, path)?,
            Access::TokenAttributes(lens) => {
                *(lens.get_mut)(target) = self.token_attributes(item, path)?;
            }
            Access::Kep4412Keys(lens) => {
                *(lens.get_mut)(target) = TokenDialect::Kep4412;
                self.kep_4412_keys = self.texts(&item, path)?;
            }
            Access::ExtraArguments(lens) => {
                *(lens.get_mut)(target) = dialect::extra_arguments(item)?;
            }
            Access::Ignored => drop(item.string()?),
        }
        Ok(())
    }

    fn texts(&mut self, item: &Item<'_>, path: &str) -> Result<Vec<String>, FieldError> {
        item.texts(|index, item| self.note(&format!("{path}[{index}]"), item.node()))
    }

    fn variables(&mut self, item: Item<'_>, path: &str) -> Result<Vec<EnvVar>, FieldError> {
        let mut variables = Vec::new();
        item.elements(|index, item| {
            let path = format!("{path}[{index}]");
            self.note(&path, item.node());
            let mut variable = EnvVar::default();
            self.object(item, VARIABLE_FIELDS, &path, &mut variable)?;
            variables.push(variable);
            Ok(())
        })?;
        Ok(variables)
    }

    fn token_attributes(
        &mut self,
        item: Item<'_>,
        path: &str,
    ) -> Result<Option<TokenAttributes>, FieldError> {
        let mut attributes = TokenAttributes::default();
        let is_there = self.object(item, TOKEN_FIELDS, path, &mut attributes)?;
        if attributes.dialect == TokenDialect::Kep4412 {
            dialect::complete(&mut attributes, mem::take(&mut self.kep_4412_keys));
        }
        Ok(is_there.then_some(attributes))
    }

    fn note(&mut self, path: &str, node: &Node) {
        self.origin.places.insert(path.to_owned(), node.at);
    }
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
            StrictProblem::UnknownField => {
                (ErrorKind::Unknown, help::unknown_field(&issue.path, version))
            }
        };
        let mut error = finding(kind, issue.to_string(), file, Some(issue.at), help);
        error.path = issue.path.to_string();
        errors.push(error);
    }
    if go.is_empty() { Ok(()) } else { Err(Fault::strict(&go, errors, document.more_duplicates)) }
}
