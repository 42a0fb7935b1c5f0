//! `index.json`: which images there are. What is not ours is kept as it came.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::{Descriptor, Platform, manifest::OCI_INDEX};

/// The name of an image, as skopeo and others look for it.
pub(crate) const NAME: &str = "org.opencontainers.image.ref.name";

/// The digest that the name stood for when it was pulled: that of a list, if one of its images was chosen.
pub(crate) const PULLED: &str = "keyfob.pulled-digest";

/// The images of a layout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Index {
    document: Map<String, Value>,
}

impl Default for Index {
    fn default() -> Self {
        let document = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []});
        Self { document: document.as_object().cloned().unwrap_or_default() }
    }
}

impl Index {
    /// Nothing if it is no index.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let document: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let is_list = document.get("manifests").is_none_or(Value::is_array);
        is_list.then_some(Self { document })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        json!(self.document).to_string().into_bytes()
    }

    /// What it lists, as far as it can be read.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = Descriptor> {
        let entries = self.document.get("manifests").and_then(Value::as_array);
        entries.into_iter().flatten().filter_map(read)
    }

    /// Adds an image in the place of one that has its name and may have its platform, and before those that have its
    /// name and another platform: whoever does not ask for a platform takes the first.
    pub(crate) fn put(&mut self, new: &Descriptor) {
        let entries = self.document.entry("manifests").or_insert_with(|| json!([]));
        let Some(entries) = entries.as_array_mut() else { return };
        let namesake = |entry: &Value| {
            read(entry).filter(|old| old.annotations.get(NAME) == new.annotations.get(NAME))
        };
        let at = entries.iter().position(|entry| namesake(entry).is_some());
        let at = at.unwrap_or(entries.len());
        let may_be_for = |old: &Option<Platform>| {
            old.is_none() || new.platform.is_none() || *old == new.platform
        };
        entries.retain(|entry| !namesake(entry).is_some_and(|old| may_be_for(&old.platform)));
        entries.insert(at, json!(new));
    }
}

fn read(entry: &Value) -> Option<Descriptor> {
    Descriptor::deserialize(entry).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, platform: &str, content: &str) -> Descriptor {
        let mut image = Descriptor::of("x/y", content.as_bytes());
        image.annotations.insert(NAME.into(), name.into());
        image.platform = Platform::parse(platform).ok();
        image
    }

    /// `name platform` of each.
    fn listed(index: &Index) -> Vec<String> {
        let shown = |image: Descriptor| {
            let platform = image.platform.map(|platform| platform.to_string());
            let name = image.annotations.get(NAME).cloned().unwrap_or_default();
            format!("{name} {}", platform.unwrap_or_default())
        };
        index.descriptors().map(shown).collect()
    }

    #[test]
    fn a_name_and_platform_has_one_image_and_the_newest_of_a_name_is_first() {
        let mut index = Index::default();
        for (name, platform) in
            [("a", "linux/amd64"), ("b", ""), ("a", "linux/arm64"), ("c", ""), ("a", "linux/amd64")]
        {
            index.put(&image(name, platform, "first"));
        }
        assert_eq!(listed(&index), ["a linux/amd64", "a linux/arm64", "b ", "c "]);

        let newer = image("b", "linux/amd64", "second");
        index.put(&newer);
        assert_eq!(listed(&index), ["a linux/amd64", "a linux/arm64", "b linux/amd64", "c "]);
        assert_eq!(index.descriptors().nth(2), Some(newer));
    }

    #[test]
    fn what_others_wrote_is_kept() {
        let text = r#"{"annotations":{"x":"y"},"manifests":[{"digest":"blake3:00","new":[1]},7],"schemaVersion":2,"z":0}"#;
        let mut index = Index::read(text.as_bytes()).unwrap();
        assert_eq!(index.encode(), text.as_bytes());
        assert_eq!(index.descriptors().count(), 0);

        let ours = image("a", "", "");
        index.put(&ours);
        let expected = text.replace(",7]", &format!(",7,{}]", json!(ours)));
        assert_eq!(index.descriptors().collect::<Vec<_>>(), [ours]);
        assert_eq!(String::from_utf8(index.encode()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_index_is_not_written_over() {
        for other in ["", "[]", r#"{"manifests":7}"#, "{\"manifests\":["] {
            assert_eq!(Index::read(other.as_bytes()), None, "{other}");
        }
        assert_eq!(Index::read(b"{}").unwrap().descriptors().count(), 0);
    }
}
