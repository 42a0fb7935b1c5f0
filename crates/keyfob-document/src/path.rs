//! The way to a field, while reading and in what is said about it.

use std::fmt;

use crate::Secret;

/// The way from the root to a field: `providers[0].name`. Names that a text chose may be secrets, so `Debug` hides them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<OwnedStep>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedStep {
    Field(Secret<String>),
    Index(usize),
    Key(usize, Secret<String>),
}

impl FieldPath {
    /// The path of a field of the root.
    pub fn of(name: &str) -> Self {
        Self(vec![OwnedStep::Field(name.into())])
    }

    /// The path with map keys given as numbers: `auth[2].password`. Only names that a type defines remain.
    pub fn without_keys(&self) -> String {
        self.render(|index, _| format!("[{index}]"))
    }

    /// The last field name or map key of the path, if it ends in one.
    pub fn last_name(&self) -> Option<&str> {
        match self.0.last() {
            Some(OwnedStep::Field(name) | OwnedStep::Key(_, name)) => Some(name.expose()),
            _ => None,
        }
    }

    /// The path without its last step.
    #[must_use]
    pub fn parent(&self) -> Self {
        let mut steps = self.0.clone();
        steps.pop();
        Self(steps)
    }

    fn render(&self, show_key: impl Fn(usize, &str) -> String) -> String {
        let mut out = String::new();
        for step in &self.0 {
            match step {
                OwnedStep::Field(name) if out.is_empty() => out.push_str(name.expose()),
                OwnedStep::Field(name) => out.extend([".", name.expose()]),
                OwnedStep::Index(index) => out.extend([format!("[{index}]")]),
                OwnedStep::Key(index, key) => out.push_str(&show_key(*index, key.expose())),
            }
        }
        out
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("document");
        }
        f.write_str(&self.render(|_, key| format!(".{key}")))
    }
}

/// A path while reading: each step lives in the caller's frame, so nothing is allocated unless something is wrong.
pub(super) struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(usize, &'a str),
}

impl Path<'_> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        self.then(Step::Field(name))
    }

    pub(super) fn index(&self, index: usize) -> Path<'_> {
        self.then(Step::Index(index))
    }

    pub(super) fn key<'b>(&'b self, index: usize, key: &'b str) -> Path<'b> {
        self.then(Step::Key(index, key))
    }

    fn then<'b>(&'b self, step: Step<'b>) -> Path<'b> {
        Path { parent: Some(self), step }
    }

    pub(super) fn to_owned(&self) -> FieldPath {
        let mut steps: Vec<OwnedStep> = std::iter::successors(Some(self), |path| path.parent)
            .filter_map(|path| match path.step {
                Step::Root => None,
                Step::Field(name) => Some(OwnedStep::Field(name.into())),
                Step::Index(index) => Some(OwnedStep::Index(index)),
                Step::Key(index, key) => Some(OwnedStep::Key(index, key.into())),
            })
            .collect();
        steps.reverse();
        FieldPath(steps)
    }
}
