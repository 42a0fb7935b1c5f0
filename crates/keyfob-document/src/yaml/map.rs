//! A mapping while it is converted: which keys are equal, and what they are called in JSON.

use std::collections::HashMap;

use super::parser::Scalar;
use super::resolve::{Resolved, go_float, key_float, resolve};
use super::{DuplicateKey, Mark, YamlProblem};
use crate::{Field, Node, Position, Secret, Value};

/// Stands for a mapping with a key that JSON cannot have, until it is clear that nothing replaces the mapping.
pub(super) const UNSUPPORTED_KEY: &str = "unsupported key";

/// A key: which one it is in YAML, and which one it becomes in JSON.
pub(super) struct Key {
    identity: Identity,
    name: Secret<String>,
    mark: Mark,
}

/// Keys are equal when type and value are, so `1` and `"1"` are two keys.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Identity {
    Text(Secret<String>),
    Bool(bool),
    Int(i64),
    Float(u64),
    /// Not equal to itself.
    NotANumber,
    /// JSON has no form for these.
    Null,
    Large(u64),
}

impl Key {
    pub(super) fn new(scalar: &Scalar, mark: Mark) -> Result<Self, YamlProblem> {
        let (identity, name) = match resolve(scalar)? {
            Resolved::Null => (Identity::Null, "<nil>".into()),
            Resolved::Large(number) => (Identity::Large(number), format!("{number:#x}").into()),
            Resolved::Bool(value) => (Identity::Bool(value), value.to_string().into()),
            Resolved::Int(number) => (Identity::Int(number), number.to_string().into()),
            Resolved::Float(number) if number.is_nan() => {
                (Identity::NotANumber, key_float(number).into())
            }
            // Adding zero makes -0 and 0 one.
            Resolved::Float(number) => {
                (Identity::Float((number + 0.0).to_bits()), key_float(number).into())
            }
            Resolved::Text(text) => (Identity::Text(text.clone()), text),
        };
        Ok(Self { identity, name, mark })
    }

    fn duplicate(&self, line: usize) -> DuplicateKey {
        let at = self.mark.position();
        match &self.identity {
            Identity::Text(text) => DuplicateKey::of_text(line, at, text.expose()),
            Identity::Float(bits) => {
                DuplicateKey { line, at, key: go_float(f64::from_bits(*bits)).into() }
            }
            _ => DuplicateKey { line, at, key: self.name.clone() },
        }
    }
}

#[derive(Default)]
pub(super) struct MapBuilder {
    fields: Vec<Field>,
    places: HashMap<Identity, usize>,
}

impl MapBuilder {
    /// Sets an entry, and reports it if the key was there already.
    pub(super) fn set(&mut self, key: Key, node: Node, line: usize) -> Option<DuplicateKey> {
        let place = self.places.get(&key.identity).filter(|_| key.identity != Identity::NotANumber);
        let earlier = place.and_then(|place| self.fields.get_mut(*place));
        if let Some(field) = earlier {
            let duplicate = key.duplicate(line);
            *field = Field { name: key.name, at: key.mark.position(), node };
            return Some(duplicate);
        }
        self.places.insert(key.identity, self.fields.len());
        self.fields.push(Field { name: key.name, at: key.mark.position(), node });
        None
    }

    /// Sorted by name; of equal names the last one stays. A key that JSON cannot have gives the node its place.
    pub(super) fn into_node(self, at: Position) -> Node {
        let unsupported = |key: &Identity| matches!(key, Identity::Null | Identity::Large(_));
        let places = self.places.iter().filter(|(key, _)| unsupported(key));
        let first = places.map(|(_, place)| *place).min();
        if let Some(field) = first.and_then(|place| self.fields.get(place)) {
            return Node::new(Value::Number(UNSUPPORTED_KEY.into()), field.at);
        }
        let mut fields = self.fields;
        fields.sort_by(|a, b| a.name.expose().cmp(b.name.expose()));
        fields.reverse();
        fields.dedup_by(|later, earlier| later.name == earlier.name);
        fields.reverse();
        Node::new(Value::Map(fields.into()), at)
    }
}
