//! Text with places for annotations of the pod's service account.
//!
//! Whoever may edit a service account chooses its annotations. What they choose stands in the body of a request or is a
//! user's name; it is never part of an address, and it is made of a few harmless characters.

use std::str::FromStr;

use keyfob_plugin::{Failure, ImageRequest};
use thiserror::Error;

const OPENING: &str = "{annotation:";
const LONGEST: usize = 256;

/// `team-{annotation:example.com/slug}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Annotation(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an annotation is written {{annotation:KEY}}")]
pub(super) struct NoTemplate;

impl FromStr for Template {
    type Err = NoTemplate;

    fn from_str(text: &str) -> Result<Self, NoTemplate> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPENING) {
            let (key, after) = after.split_once('}').ok_or(NoTemplate)?;
            if key.is_empty() {
                return Err(NoTemplate);
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Annotation(key.to_owned()));
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }
}

impl Template {
    /// The annotations that have a place in it.
    pub(super) fn annotations(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Annotation(key) => Some(key.as_str()),
        })
    }

    /// The text for the service account of a request.
    pub(super) fn fill(&self, request: &ImageRequest) -> Result<String, Failure> {
        let fill = |piece: &Piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Annotation(key) => annotation(request, key),
        };
        self.0.iter().map(fill).collect()
    }
}

fn annotation(request: &ImageRequest, key: &str) -> Result<String, Failure> {
    let value = request.annotation(key).ok_or_else(|| {
        Failure::new(format!(
            "the request has no annotation {key}: set it on the pod's service account, and name it in tokenAttributes \
             of the kubelet's CredentialProviderConfig"
        ))
    })?;
    let is_harmless =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '@' | '/');
    if value.is_empty() || value.len() > LONGEST || !value.chars().all(is_harmless) {
        return Err(Failure::new(format!(
            "annotation {key} must be 1 to {LONGEST} letters, digits and any of . _ - + @ /"
        )));
    }
    Ok(value.to_owned())
}

/// An extra field of a request: `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum NoField {
    #[error("a field is written NAME=VALUE")]
    Shape,
    #[error(transparent)]
    Value(#[from] NoTemplate),
}

impl FromStr for Field {
    type Err = NoField;

    fn from_str(text: &str) -> Result<Self, NoField> {
        let (name, value) = text.split_once('=').ok_or(NoField::Shape)?;
        if name.is_empty() || name.contains(OPENING) {
            return Err(NoField::Shape);
        }
        Ok(Self { name: name.to_owned(), value: value.parse()? })
    }
}

/// Whether a text has a place for an annotation.
pub(super) fn has_a_place(text: &str) -> bool {
    text.contains(OPENING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_text_and_annotations() {
        let (text, annotation) =
            (|text: &str| Piece::Text(text.into()), |key: &str| Piece::Annotation(key.into()));
        assert_eq!("plain {x}".parse(), Ok(Template(vec![text("plain {x}")])));
        assert_eq!(
            "a{annotation:k/x}b".parse(),
            Ok(Template(vec![text("a"), annotation("k/x"), text("b")]))
        );
        for wrong in ["{annotation:}", "{annotation:x"] {
            assert_eq!(wrong.parse::<Template>(), Err(NoTemplate), "{wrong}");
        }
    }

    #[test]
    fn a_field_has_a_name() {
        let field = Field { name: "a".into(), value: "b=c".parse().unwrap() };
        assert_eq!("a=b=c".parse(), Ok(field));
        for wrong in ["a", "=b", "{annotation:x}=b", "a={annotation:"] {
            assert!(wrong.parse::<Field>().is_err(), "{wrong}");
        }
    }
}
