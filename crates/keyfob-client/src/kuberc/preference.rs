//! The `Preference` of a kuberc.

use keyfob_api::document::{
    Document, DocumentError, DuplicateKey, FieldError, FieldTable, Item, Reading, Value, documents,
};
use thiserror::Error;

use crate::PluginPolicy;

const GROUP: &str = "kubectl.config.k8s.io";
const KIND: &str = "Preference";
const POLICY: &str = "credentialPluginPolicy";
const ALLOWLIST: &str = "credentialPluginAllowlist";

/// The fields of each version; the older one has none about plugins.
const VERSIONS: [(&str, &FieldTable<Read>); 2] = [
    (
        "v1beta1",
        &[
            ("apiVersion", elsewhere),
            ("kind", elsewhere),
            ("defaults", elsewhere),
            ("aliases", elsewhere),
            (POLICY, |read, item| item.read_text(&mut read.policy)),
            (ALLOWLIST, Read::allowlist),
        ],
    ),
    (
        "v1alpha1",
        &[
            ("apiVersion", elsewhere),
            ("kind", elsewhere),
            ("overrides", elsewhere),
            ("aliases", elsewhere),
        ],
    ),
];

/// A field that is read before, or means nothing for plugins.
#[expect(clippy::unnecessary_wraps, reason = "a reader of a table")]
fn elsewhere(_: &mut Read, _: Item<'_>) -> Result<(), FieldError> {
    Ok(())
}

/// What a kuberc says about plugins, and what in it means nothing.
#[derive(Debug, Default)]
pub(super) struct Preference {
    pub(super) policy: PluginPolicy,
    pub(super) warnings: Vec<String>,
}

impl Preference {
    /// The first preference of a version that is known; `None` if the text is empty. What is no preference, or one of the
    /// years to come, is passed over; what cannot be read is not, for it may be the one that counts.
    pub(super) fn read(text: &[u8]) -> Result<Option<Self>, PreferenceError> {
        let mut is_empty = true;
        for (index, text) in documents(text).into_iter().enumerate() {
            let error = |problem| PreferenceError::Document { number: index + 1, problem };
            let document = Document::read(text).map_err(|it| error(it.into()))?;
            if matches!(document.root.value, Value::Null) {
                continue;
            }
            is_empty = false;
            if let Some(fields) = known_fields(&document).map_err(|it| error(it.into()))? {
                return Self::of(&document, fields).map(Some).map_err(error);
            }
        }
        if is_empty { Ok(None) } else { Err(PreferenceError::NoPreference) }
    }

    fn of(document: &Document, fields: &FieldTable<Read>) -> Result<Self, Problem> {
        let mut read = Read::default();
        let reading = Reading::default();
        reading.root(&document.root).read_fields(fields, &mut read)?;
        let duplicates = document.duplicates.iter().map(DuplicateKey::message);
        let issues = reading.into_issues();
        let more = Some(document.more_duplicates).filter(|more| *more > 0);
        let more = more.map(|more| format!("{more} more keys already set in map"));
        let warnings =
            duplicates.chain(more).chain(issues.iter().map(ToString::to_string)).collect();
        Ok(Self { policy: read.policy()?, warnings })
    }
}

/// The fields that a document may have, if it is a preference.
fn known_fields(document: &Document) -> Result<Option<&'static FieldTable<Read>>, FieldError> {
    const FIELDS: &FieldTable<(String, String)> = &[
        ("apiVersion", |(api_version, _), item| item.read_text(api_version)),
        ("kind", |(_, kind), item| item.read_text(kind)),
    ];
    let mut read = Default::default();
    Reading::default().root(&document.root).read_fields_in_any_case(FIELDS, &mut read)?;
    let (api_version, kind) = read;
    let version = match api_version.split_once('/') {
        Some((GROUP, version)) if kind == KIND => version,
        _ => return Ok(None),
    };
    Ok(VERSIONS.into_iter().find(|(known, _)| *known == version).map(|(_, fields)| fields))
}

/// The fields as they are written.
#[derive(Default)]
struct Read {
    policy: String,
    entries: Option<Vec<Entry>>,
}

#[derive(Default)]
struct Entry {
    /// How 1.35 spells it.
    name: String,
    command: String,
}

impl Read {
    fn allowlist(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        let mut entries = Vec::new();
        let is_list = item.elements(|_, item| {
            let mut entry = Entry::default();
            item.read_fields(Entry::FIELDS, &mut entry)?;
            entries.push(entry);
            Ok(())
        })?;
        self.entries = is_list.then_some(entries);
        Ok(())
    }

    fn policy(self) -> Result<PluginPolicy, Problem> {
        let commands = |entries: Vec<Entry>| {
            entries.into_iter().enumerate().map(|(index, entry)| entry.command(index)).collect()
        };
        let allowlist = self.entries.map(commands).transpose()?;
        Ok(PluginPolicy { policy_type: self.policy.as_str().into(), allowlist })
    }
}

impl Entry {
    const FIELDS: &FieldTable<Self> = &[
        ("name", |entry, item| item.read_text(&mut entry.name)),
        ("command", |entry, item| item.read_text(&mut entry.command)),
    ];

    /// Both may be said if they say the same. That neither is, is for whoever validates the policy.
    fn command(self, index: usize) -> Result<String, Problem> {
        let Self { name, command } = self;
        match (name.is_empty(), command.is_empty()) {
            (false, false) if name != command => Err(Problem::TwoNames { number: index + 1 }),
            (_, true) => Ok(name),
            (_, false) => Ok(command),
        }
    }
}

/// What is wrong with a kuberc. It shows names of fields, and no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PreferenceError {
    /// There is something, and no preference that is known.
    #[error("no valid preferences found (kind {KIND}, version {GROUP}/v1beta1 or v1alpha1)")]
    NoPreference,
    /// One of its documents cannot be read.
    #[error("document {number}: {problem}")]
    Document {
        /// Which, from 1.
        number: usize,
        /// Why not. Part of the sentence, so it is no source.
        problem: Problem,
    },
}

/// What is wrong with a document of a kuberc.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// It is neither YAML nor JSON.
    #[error(transparent)]
    Syntax(#[from] DocumentError),
    /// A field is of the wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// An entry says two things.
    #[error(
        "{ALLOWLIST}: entry #{number} has a name and a command that differ; name is deprecated, write command only"
    )]
    TwoNames {
        /// Which, from 1.
        number: usize,
    },
}
