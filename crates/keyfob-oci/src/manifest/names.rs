//! Whether every program reads a manifest as we do.
//!
//! Go matches the names of fields whatever their case, and takes the last of several. A manifest with `layers` and `Layers`
//! names one list of layers to us, who prove access to them, and another one to whoever uses the image afterwards. So a
//! field that Go would take for a known one, and that is not spelled like it, is refused. So is a document whose fields cannot
//! be checked.

use std::fmt;

use keyfob_api::document::folded_name;
use keyfob_exec::{on_one_line, shortened};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::ManifestError;

const DOCUMENT: [&str; 8] = [
    "schemaVersion",
    "mediaType",
    "artifactType",
    "config",
    "layers",
    "manifests",
    "fsLayers",
    "annotations",
];
const DESCRIPTOR: [&str; 8] =
    ["mediaType", "artifactType", "digest", "size", "urls", "annotations", "data", "platform"];
const PLATFORM: [&str; 6] =
    ["architecture", "os", "os.version", "os.features", "variant", "features"];

/// Looks at the fields of a manifest or an index, of its descriptors and their platforms.
pub(super) fn check(document: &str) -> Result<(), ManifestError> {
    for (name, value) in fields(document, &DOCUMENT)? {
        match name.as_str() {
            "config" => check_descriptor(value.get())?,
            "layers" | "manifests" => {
                let entries: Option<Vec<&RawValue>> =
                    serde_json::from_str(value.get()).map_err(|_| ManifestError::Uncheckable)?;
                for entry in entries.into_iter().flatten() {
                    check_descriptor(entry.get())?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_descriptor(text: &str) -> Result<(), ManifestError> {
    for (name, value) in fields(text, &DESCRIPTOR)? {
        if name == "platform" {
            fields(value.get(), &PLATFORM)?;
        }
    }
    Ok(())
}

/// The fields of an object, in its order. `null` has none.
fn fields<'a>(
    text: &'a str,
    known: &[&'static str],
) -> Result<Vec<(String, &'a RawValue)>, ManifestError> {
    let fields: Option<Fields<'_>> =
        serde_json::from_str(text).map_err(|_| ManifestError::Uncheckable)?;
    let fields = fields.map(|Fields(fields)| fields).unwrap_or_default();
    for (name, _) in &fields {
        let folded = folded_name(name);
        let meant = known.iter().find(|known| **known != name && folded_name(known) == folded);
        if let Some(meant) = meant {
            return Err(ManifestError::Misspelt(on_one_line(&shortened(name, 100)), meant));
        }
    }
    Ok(fields)
}

struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry::<String, &RawValue>()? {
                    fields.push(entry);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_go_takes_for_another_is_refused() {
        for (document, meant) in [
            (r#"{"layers":[],"Layers":[]}"#, "layers"),
            ("{\"layers\":[],\"layer\u{17f}\":[]}", "layers"),
            (r#"{"layers":[],"layer\u017f":[]}"#, "layers"),
            (r#"{"CONFIG":{}}"#, "config"),
            (r#"{"config":{"digest":"a","Digest":"b"}}"#, "digest"),
            (r#"{"layers":[{"size":1},{"size":1,"siZe":2}]}"#, "size"),
            (r#"{"manifests":[{"platform":{"OS":"linux"}}]}"#, "os"),
        ] {
            let refused = check(document);
            assert!(
                matches!(&refused, Err(ManifestError::Misspelt(_, field)) if *field == meant),
                "{document}: {refused:?}"
            );
        }
        let fine = r#"{"layers":[{"digest":"a","annotations":{"Digest":"b"}}],"annotations":{"Layers":"x"},"subject":{}}"#;
        assert_eq!(check(fine), Ok(()));
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        for document in [r#"{"layers":[}"#, "[]", r#"{"layers":{}}"#, r#"{"config":[]}"#] {
            assert_eq!(check(document), Err(ManifestError::Uncheckable), "{document}");
        }
        assert_eq!(check(r#"{"config":null,"layers":null,"manifests":[null]}"#), Ok(()));
    }
}
