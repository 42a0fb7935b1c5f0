//! What does a configuration give: an error, or which providers, and is it valid?

mod difference;
mod directory;
mod document;
mod tree;
mod yaml;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use keyfob_api::FeatureGates;
use keyfob_config::{Config as Read, FieldValue, Fields, Protocol, ProviderConfig};
use proptest::{prelude::Strategy as _, strategy::BoxedStrategy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::texts::Text;
use crate::Topic;

pub(crate) struct Config;

/// Files in a directory of their own.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    files: Vec<File>,
    /// What is read: a file of the directory, or the directory itself if it is empty.
    path: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct File {
    name: String,
    #[serde(flatten)]
    entry: Entry,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Entry {
    /// A file.
    Content(Text),
    /// A link to this path.
    Link(String),
    Directory(bool),
}

impl Topic for Config {
    const NAME: &'static str = "config";
    const QUESTIONS: u32 = 20_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        directory::questions().boxed()
    }

    fn ours(question: &Question) -> Value {
        let directory = tempfile::tempdir().unwrap();
        for file in &question.files {
            file.write(directory.path());
        }
        let place = directory.path().to_str().expect("it is text");
        let path = match question.path.as_str() {
            "" => place.to_owned(),
            path => format!("{place}/{path}"),
        };
        match Read::read(&PathBuf::from(path)) {
            Err(error) => json!({"error": error.to_string().replace(place, "DIR")}),
            Ok(config) => answer(&config),
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        difference::explain(question, ours, upstream)
    }

    fn sort(upstream: &Value) -> &'static str {
        const ERRORS: [(&str, &str); 8] = [
            ("yaml: ", "no YAML"),
            ("json parse error: json: cannot", "of wrong types"),
            ("json parse error: ", "no JSON"),
            ("strict decoding", "of unknown or repeated fields"),
            ("json: cannot unmarshal", "of wrong types"),
            ("no kind ", "of another kind or version"),
            (" is missing in ", "of no kind or version"),
            ("", "refused otherwise"),
        ];
        let text = |name: &str| upstream.get(name).and_then(Value::as_str);
        match (text("error"), text("invalid")) {
            (Some(error), _) => ERRORS
                .iter()
                .find_map(|(words, sort)| error.contains(words).then_some(*sort))
                .expect("the last one is in all"),
            (None, Some("")) => "valid",
            (None, _) => "read but invalid",
        }
    }
}

impl File {
    fn write(&self, directory: &Path) {
        let path = directory.join(&self.name);
        match &self.entry {
            Entry::Content(text) => fs::write(path, text.to_bytes()),
            Entry::Link(target) => symlink(target, path),
            Entry::Directory(_) => fs::create_dir(path),
        }
        .unwrap();
    }

    /// What is in it, if it is a file.
    fn bytes(&self) -> Vec<u8> {
        match &self.entry {
            Entry::Content(text) => text.to_bytes(),
            Entry::Link(_) | Entry::Directory(_) => Vec::new(),
        }
    }
}

fn answer(config: &Read) -> Value {
    let mut without_gate = FeatureGates::default();
    without_gate.service_account_token = false;
    let said = |gates| config.validate(gates).err().map(|invalid| invalid.to_string());
    json!({
        "hash": config.hash,
        "providers": config.providers.iter().map(provider).collect::<Vec<_>>(),
        "invalid": said(FeatureGates::default()).unwrap_or_default(),
        "invalid_without_gate": said(without_gate).unwrap_or_default(),
    })
}

fn provider(provider: &ProviderConfig) -> Value {
    let mut answer = object(provider.fields());
    if provider.protocol != Protocol::Kubelet {
        // Upstream has only one.
        let fields = answer.as_object_mut().expect("it is one");
        fields.insert("protocol".to_owned(), json!(format!("{:?}", provider.protocol)));
    }
    answer
}

fn object(fields: Fields<'_>) -> Value {
    fields.into_iter().map(|(name, field)| (name.to_owned(), value(field))).collect()
}

/// Variables are lists of their fields, without the names.
fn value(field: FieldValue<'_>) -> Value {
    let values = |fields: Fields<'_>| fields.into_iter().map(|(_, field)| value(field)).collect();
    match field {
        FieldValue::Text(text) => json!(text),
        FieldValue::Secret(text) => json!(text.expose()),
        FieldValue::Texts(texts) => json!(texts),
        FieldValue::Duration(duration) => json!(duration.map(|duration| duration.to_string())),
        FieldValue::Bool(truth) => json!(truth),
        FieldValue::Object(fields) => fields.map_or(Value::Null, object),
        FieldValue::Objects(objects) => {
            objects.into_iter().map(values).collect::<Vec<Value>>().into()
        }
    }
}
