//! A cluster's objects in memory, read from YAML.
//!
//! They are kept as the JSON they are served as, and read as types of the Kubernetes API where they are used.

mod admission;
mod check;
mod error;
mod kind;
mod reader;
mod tree;

use std::{collections::BTreeMap, path::PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::{admission::MIRROR_ANNOTATION, check::read};
pub use self::{
    admission::fill_in,
    check::decode,
    error::{ObjectsError, Place},
    kind::Kind,
    reader::{Ignored, Reader, named_uid},
};

/// Objects by kind, namespace (empty for those that have none) and name.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_name: BTreeMap<(Kind, String, String), Value>,
}

impl Objects {
    /// Reads files, and those with a name in `.yaml`, `.yml` or `.json` of directories. [`Reader`] has choices.
    pub fn read_files(paths: &[PathBuf]) -> Result<Self, ObjectsError> {
        let mut reader = Reader::default();
        for path in paths {
            reader.path(path)?;
        }
        Ok(reader.finish().0)
    }

    /// Reads a text that its user calls `name`: JSON, or YAML of any number of documents.
    pub fn read_text(text: impl AsRef<[u8]>, name: &str) -> Result<Self, ObjectsError> {
        let mut reader = Reader::default();
        reader.text(text.as_ref(), name)?;
        Ok(reader.finish().0)
    }

    /// An object as JSON.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.by_name.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    /// An object as a type of the API, such as `Pod`.
    pub fn read<T: DeserializeOwned>(&self, kind: Kind, namespace: &str, name: &str) -> Option<T> {
        read(self.get(kind, namespace, name)?).ok()
    }

    /// All objects of a kind, in the order of namespace and name.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = (&str, &str, &Value)> {
        let of_kind = self.by_name.iter().filter(move |((each, _, _), _)| *each == kind);
        of_kind.map(|((_, namespace, name), value)| (namespace.as_str(), name.as_str(), value))
    }

    /// Puts an object in, or in the place of the one that had its name.
    pub fn put(&mut self, kind: Kind, namespace: &str, name: &str, value: Value) -> Option<Value> {
        self.by_name.insert((kind, namespace.to_owned(), name.to_owned()), value)
    }

    /// Takes an object out.
    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        self.by_name.remove(&(kind, namespace.to_owned(), name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_put_listed_and_removed() {
        let mut objects = Objects::default();
        assert_eq!(objects.put(Kind::Pod, "ns", "b", json!(1)), None);
        assert_eq!(objects.put(Kind::Pod, "ns", "b", json!(2)), Some(json!(1)));
        objects.put(Kind::Pod, "a", "z", json!(3));
        objects.put(Kind::Node, "", "b", json!(4));
        let pods: Vec<_> =
            objects.list(Kind::Pod).map(|(namespace, name, _)| (namespace, name)).collect();
        assert_eq!(pods, [("a", "z"), ("ns", "b")]);
        assert_eq!(objects.remove(Kind::Pod, "ns", "b"), Some(json!(2)));
        assert_eq!(objects.get(Kind::Pod, "ns", "b"), None);
    }
}
