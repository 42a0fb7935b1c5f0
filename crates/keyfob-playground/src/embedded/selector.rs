//! Which objects a list or a watch is for.
//!
//! Of field selectors the three that kubelets and `kubectl` use, of label selectors those without sets; others are refused.

use keyfob_api::Quoted;
use serde_json::Value;

use super::{metadata, status::Refusal};

/// A `fieldSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<Requirement>);

/// A `labelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Is(String),
    IsNot(String),
    Exists,
    Missing,
}

const NAME: &str = "metadata.name";
const NODE: &str = "spec.nodeName";

impl Fields {
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let requirements = requirements(text)?;
        for Requirement { key, test } in &requirements {
            if matches!(test, Test::Exists | Test::Missing) {
                let message =
                    format!("invalid selector: {}; can't understand {}", Quoted(text), Quoted(key));
                return Err(Refusal::bad_request(message));
            }
            if ![NAME, "metadata.namespace", NODE].contains(&key.as_str()) {
                return Err(Refusal::bad_request(format!("field label not supported: {key}")));
            }
        }
        Ok(Self(requirements))
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let value = match requirement.key.as_str() {
                NAME => metadata::get(object, "name"),
                NODE => {
                    object.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
                }
                _ => metadata::get(object, "namespace"),
            };
            requirement.test.holds(Some(value))
        })
    }

    /// The one name that is asked for.
    pub(super) fn name(&self) -> Option<&str> {
        self.exact(NAME)
    }

    /// The one node whose pods are asked for.
    pub(super) fn node(&self) -> Option<&str> {
        self.exact(NODE)
    }

    fn exact(&self, key: &str) -> Option<&str> {
        self.0.iter().find_map(|requirement| match &requirement.test {
            Test::Is(value) if requirement.key == key => Some(value.as_str()),
            _ => None,
        })
    }
}

impl Labels {
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        if text.contains(['(', ')', '<', '>']) {
            let message = format!(
                "unable to parse requirement: only =, ==, != and a label's name are served, not {}",
                Quoted(text)
            );
            return Err(Refusal::bad_request(message));
        }
        requirements(text).map(Self)
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.0.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key));
            requirement.test.holds(value.and_then(Value::as_str))
        })
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Is(wanted) => value == Some(wanted),
            Self::IsNot(unwanted) => value != Some(unwanted),
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
        }
    }
}

fn requirements(text: &str) -> Result<Vec<Requirement>, Refusal> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(requirement).collect()
}

fn requirement(text: &str) -> Result<Requirement, Refusal> {
    let (key, condition) = if let Some((key, value)) = text.split_once("!=") {
        (key, Test::IsNot(value.trim().to_owned()))
    } else if let Some((key, value)) = text.split_once('=') {
        (key, Test::Is(value.strip_prefix('=').unwrap_or(value).trim().to_owned()))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Test::Missing)
    } else {
        (text, Test::Exists)
    };
    let key = key.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(Refusal::bad_request(format!("unable to parse requirement: {}", Quoted(text))));
    }
    Ok(Requirement { key: key.to_owned(), test: condition })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web", "empty": ""}},
            "spec": {"nodeName": "n1"},
        })
    }

    #[test]
    fn fields_are_compared() {
        let matches = |text| Fields::read(text).unwrap().matches(&pod());
        assert!(matches(""));
        assert!(matches("spec.nodeName=n1,metadata.name==p"));
        assert!(matches("metadata.namespace!=other"));
        assert!(!matches("spec.nodeName=n2"));
        assert!(!matches("metadata.name!=p"));
    }

    #[test]
    fn labels_are_compared() {
        let matches = |text| Labels::read(text).unwrap().matches(&pod());
        assert!(matches("app=web, empty="));
        assert!(matches("app,!gone,gone!=x"));
        assert!(!matches("app!=web"));
        assert!(!matches("!app"));
        assert!(!matches("gone="));
    }

    #[test]
    fn what_is_not_served_is_refused() {
        for text in ["status.phase=Running", "metadata.name", "=x"] {
            assert!(Fields::read(text).is_err(), "{text}");
        }
        for text in ["app in (a,b)", "n>3", "a b", "=x"] {
            assert!(Labels::read(text).is_err(), "{text}");
        }
    }
}
