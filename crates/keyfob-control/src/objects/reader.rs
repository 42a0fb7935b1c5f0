//! Manifests to objects: what `kubectl get -o yaml` prints, or what one would hand to `kubectl apply`.

use std::{fmt, fs, path::Path};

use keyfob_api::{
    Timestamp,
    document::{Document, Node, Value as Tree, documents},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Kind, Objects, ObjectsError, Place, admission, check::check, tree};

/// How many values a file may have. A list of all objects of a cluster has more than most documents: some hundred for each pod.
const MAX_VALUES: usize = 1 << 22;

type MakeUid = Box<dyn FnMut(Kind, &str, &str) -> String + Send>;

/// Reads manifests, and fills in what an API server would.
///
/// An object without a namespace is put into `default`; without a uid it gets one of [`named_uid`]. A pod without a uid
/// was never in a cluster: it gets a service account and, unless it declines, the volume with the account's token.
pub struct Reader {
    objects: Objects,
    ignored: Option<Vec<Ignored>>,
    uids: MakeUid,
    created: Option<Timestamp>,
    /// Pods that were never in a cluster, by namespace and name.
    new_pods: Vec<(String, String)>,
}

/// An object of a kind that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Where it was.
    pub place: Place,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its `kind`.
    pub kind: String,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            objects: Objects::default(),
            ignored: None,
            uids: Box::new(named_uid),
            created: None,
            new_pods: Vec::new(),
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// Passes over objects of kinds that are not known, and lists them, instead of refusing them.
    #[must_use]
    pub fn ignore_unknown(mut self) -> Self {
        self.ignored = Some(Vec::new());
        self
    }

    /// Makes the uids of objects that have none, from kind, namespace and name.
    #[must_use]
    pub fn uids(mut self, make: impl FnMut(Kind, &str, &str) -> String + Send + 'static) -> Self {
        self.uids = Box::new(make);
        self
    }

    /// When objects that do not say so were created. Without it, they go on not saying so.
    #[must_use]
    pub fn created(mut self, at: Timestamp) -> Self {
        self.created = Some(at);
        self
    }

    /// Reads a file, or the files of a directory in the order of their names.
    pub fn path(&mut self, path: &Path) -> Result<(), ObjectsError> {
        let failed = |source| ObjectsError::File { file: path.display().to_string(), source };
        if !path.is_dir() {
            let text = fs::read(path).map_err(failed)?;
            return self.text(&text, &path.display().to_string());
        }
        let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut files: Vec<_> = entries.map_err(failed)?.iter().map(fs::DirEntry::path).collect();
        files.sort();
        files.retain(|file| is_manifest(file) && !file.is_dir());
        files.iter().try_for_each(|file| self.path(file))
    }

    /// Reads a text that its user calls `name`.
    pub fn text(&mut self, text: &[u8], name: &str) -> Result<(), ObjectsError> {
        for (index, text) in documents(text).into_iter().enumerate() {
            let place = Place { file: name.to_owned(), document: index + 1, item: 0 };
            match Document::read_up_to(text, MAX_VALUES) {
                Ok(document) => self.document(&document.root, place)?,
                Err(source) => return Err(ObjectsError::Unreadable { place, source }),
            }
        }
        Ok(())
    }

    /// The objects, and those that were passed over.
    pub fn finish(mut self) -> (Objects, Vec<Ignored>) {
        for (namespace, name) in self.new_pods {
            if let Some(mut pod) = self.objects.remove(Kind::Pod, &namespace, &name) {
                self.objects.admit_pod(&namespace, &mut pod);
                self.objects.put(Kind::Pod, &namespace, &name, pod);
            }
        }
        (self.objects, self.ignored.unwrap_or_default())
    }

    /// One object, a list of them, or nothing.
    fn document(&mut self, root: &Node, place: Place) -> Result<(), ObjectsError> {
        if matches!(root.value, Tree::Null) {
            return Ok(());
        }
        let (api_version, kind) = type_of(root, &place)?;
        let of_items = match kind.strip_suffix("List") {
            Some(kind) if kind.is_empty() && api_version == "v1" => String::new(),
            Some(kind) if Kind::of(&api_version, kind).is_some() => kind.to_owned(),
            _ => return self.object(root, (api_version, kind), place),
        };
        let Some(Tree::List(items)) = tree::field(root, "items").map(|items| &items.value) else {
            return Ok(());
        };
        for (index, item) in items.iter().enumerate() {
            let place = Place { item: index + 1, ..place.clone() };
            // A list of one kind need not say of each item what it is.
            let its = match of_items.as_str() {
                "" => type_of(item, &place)?,
                kind => (api_version.clone(), kind.to_owned()),
            };
            self.object(item, its, place)?;
        }
        Ok(())
    }

    fn object(
        &mut self,
        node: &Node,
        (api_version, kind): (String, String),
        place: Place,
    ) -> Result<(), ObjectsError> {
        let Some(known) = Kind::of(&api_version, &kind) else {
            let Some(ignored) = &mut self.ignored else {
                return Err(ObjectsError::UnknownKind { place, api_version, kind });
            };
            ignored.push(Ignored { place, api_version, kind });
            return Ok(());
        };
        let json = tree::json(node);
        let mut json = json.ok_or_else(|| ObjectsError::TooDeep { place: place.clone() })?;
        put_field(&mut json, "apiVersion", api_version.into());
        put_field(&mut json, "kind", kind.into());
        check(known, &json, node, &place)?;
        self.keep(known, json, place)
    }

    fn keep(&mut self, kind: Kind, mut json: Value, place: Place) -> Result<(), ObjectsError> {
        let own = |field: &str| json.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
        let filled = |field: &str| own(field).filter(|text| !text.is_empty()).map(str::to_owned);
        let name = filled("name").ok_or(ObjectsError::Missing { place, field: "metadata.name" })?;
        let namespace = match filled("namespace") {
            _ if !kind.namespaced() => String::new(),
            Some(namespace) => namespace,
            None => "default".to_owned(),
        };
        let (uid, created) = (filled("uid"), filled("creationTimestamp"));
        if kind == Kind::Pod && uid.is_none() {
            self.new_pods.push((namespace.clone(), name.clone()));
        }
        let uid = uid.unwrap_or_else(|| (self.uids)(kind, &namespace, &name));
        let created = created.or_else(|| self.created.as_ref().map(ToString::to_string));
        if let Some(metadata) = json.get_mut("metadata") {
            put_field(metadata, "uid", uid.into());
            put_field(metadata, "creationTimestamp", created.into());
            put_field(metadata, "namespace", namespace.clone().into());
            if let (false, Some(metadata)) = (kind.namespaced(), metadata.as_object_mut()) {
                metadata.remove("namespace");
            }
        }
        admission::fill_in(&mut json);
        self.objects.put(kind, &namespace, &name, json);
        Ok(())
    }
}

/// A uid made of an object's kind and name: the same each time it is read.
pub fn named_uid(kind: Kind, namespace: &str, name: &str) -> String {
    let digest = Sha256::digest(format!("{}/{namespace}/{name}", kind.name()));
    let number =
        digest.iter().take(16).fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    // Version 8 is for uids made in one's own way.
    let number = number & !(0xf << 76) & !(0b11 << 62) | 0x8 << 76 | 0b10 << 62;
    let part = |shift: u32, digits: u32| number >> shift & !(!0 << (digits * 4));
    let (a, b, c) = (part(96, 8), part(80, 4), part(64, 4));
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", part(48, 4), part(0, 12))
}

fn is_manifest(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

fn put_field(object: &mut Value, name: &str, value: Value) {
    if let (Some(fields), false) = (object.as_object_mut(), value.is_null()) {
        fields.insert(name.to_owned(), value);
    }
}

fn type_of(node: &Node, place: &Place) -> Result<(String, String), ObjectsError> {
    let text = |name: &str| match tree::field(node, name).map(|node| &node.value) {
        Some(Tree::String(text)) if !text.expose().is_empty() => Some(text.expose().clone()),
        _ => None,
    };
    text("apiVersion")
        .zip(text("kind"))
        .ok_or_else(|| ObjectsError::NotAnObject { place: place.clone(), found: node.kind() })
}

#[cfg(test)]
mod tests;
