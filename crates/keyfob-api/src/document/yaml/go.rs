//! What Go says about a text that is not YAML.
//!
//! Upstream: `parser.fail`, `resolve` and `failf` in `go.yaml.in/yaml/v2`; `convertToJSONableObject` in `sigs.k8s.io/yaml`.
//! Differs: of several keys that JSON cannot have, the first is named (upstream: a random one).

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    Mark, YamlError, YamlProblem,
    compose::{Composed, Composite, Content, compose},
    parser::{Event, Parser, Scalar},
    resolve::{Resolved, go_float, resolve},
};
use crate::{document::MAX_VALUES, go_quote::Quoted};

/// How deep a key is written out.
const DEEPEST: usize = 32;

impl YamlError {
    /// The error in the words of Go's YAML libraries, for the text that was read. It may quote the text.
    pub fn go_message(&self, text: &[u8]) -> String {
        let said = match self.problem {
            YamlProblem::Syntax(_) | YamlProblem::TooDeep if self.go_line > 0 => {
                format!("line {}: {}", self.go_line, self.problem)
            }
            YamlProblem::UnknownAnchor => {
                format!("unknown anchor '{}' referenced", self.alias(text))
            }
            YamlProblem::SelfReference => {
                format!("anchor '{}' value contains itself", self.alias(text))
            }
            YamlProblem::InvalidKey => format!("invalid map key: {}", self.key(text)),
            YamlProblem::TagMismatch => self.tag_mismatch(text),
            YamlProblem::UnsupportedKey => return self.unsupported_key(text),
            YamlProblem::NotFinite => return self.not_finite(text),
            _ => self.problem.to_string(),
        };
        format!("yaml: {said}")
    }

    /// The scanner gave up here: Go's scanner names the line where it stands.
    pub(super) fn found_at(self, mark: Mark) -> Self {
        let found = matches!(self.problem, YamlProblem::Syntax(_) | YamlProblem::TooDeep);
        let line = if mark.line > 0 { mark.line + 1 } else { 0 };
        Self { go_line: if found { line } else { 0 }, ..self }
    }

    /// The name of the alias where the error is.
    fn alias(&self, text: &[u8]) -> String {
        let Ok(Some(mut parser)) = Parser::first_document(text) else { return String::new() };
        loop {
            match parser.next() {
                Ok((Event::Alias(name), mark)) if mark.position() == self.at => return name,
                Ok((Event::DocumentEnd, _)) | Err(_) => return String::new(),
                Ok(_) => {}
            }
        }
    }

    fn key(&self, text: &[u8]) -> String {
        let composed = compose(text, MAX_VALUES).unwrap_or_default();
        // A mapping may start where its first key does, and that key is right if it is a scalar.
        let is_wrong = |node: &&Composite| {
            let content = composed.behind(node).map(|node| &node.content);
            node.mark.position() == self.at && !matches!(content, Some(Content::Scalar(_)))
        };
        let node = composed.nodes.iter().rfind(is_wrong);
        node.map_or_else(String::new, |node| composed.go_syntax(node, DEEPEST))
    }

    fn tag_mismatch(&self, text: &[u8]) -> String {
        let composed = compose(text, MAX_VALUES).unwrap_or_default();
        let Some(Content::Scalar(scalar)) = composed.at(self).map(|node| &node.content) else {
            return self.problem.to_string();
        };
        let tag = String::from_utf8_lossy(&scalar.tag).replace("tag:yaml.org,2002:", "!!");
        let untagged = Scalar { text: scalar.text.clone(), tag: Vec::new(), implicit: true };
        let found = match resolve(&untagged) {
            Ok(Resolved::Null) => "!!null",
            Ok(Resolved::Bool(_)) => "!!bool",
            Ok(Resolved::Int(_) | Resolved::Large(_)) => "!!int",
            Ok(Resolved::Float(_)) => "!!float",
            Ok(Resolved::Text(_)) | Err(_) => "!!str",
        };
        format!("cannot decode {found} `{}` as a {tag}", scalar.text.expose())
    }

    fn unsupported_key(&self, text: &[u8]) -> String {
        let composed = compose(text, MAX_VALUES).unwrap_or_default();
        let here = |node: &&Composite| node.mark.position() == self.at;
        // The mapping where the error is, and then others: the key may have been merged into it.
        let (here, elsewhere): (Vec<_>, Vec<_>) = composed.nodes.iter().partition(here);
        let mut nodes = here.into_iter().chain(elsewhere);
        let described = nodes.find_map(|node| composed.unsupported_key(node));
        described.unwrap_or_else(|| self.problem.to_string())
    }

    fn not_finite(&self, text: &[u8]) -> String {
        let composed = compose(text, MAX_VALUES).unwrap_or_default();
        let number = match composed.at(self).map(|node| &node.content) {
            Some(Content::Scalar(scalar)) => resolve(scalar),
            _ => return self.problem.to_string(),
        };
        let sign = match number {
            Ok(Resolved::Float(number)) if number.is_nan() => "NaN",
            Ok(Resolved::Float(number)) if number < 0.0 => "-Inf",
            _ => "+Inf",
        };
        format!("json: unsupported value: {sign}")
    }
}

const NIL: &str = "interface {}(nil)";

impl Composed {
    /// The innermost node where the error is: a mapping starts where its first key does.
    fn at(&self, error: &YamlError) -> Option<&Composite> {
        self.nodes.iter().rfind(|node| node.mark.position() == error.at)
    }

    /// What Go says of the first key of a mapping that JSON cannot have; the last of equal keys counts.
    fn unsupported_key(&self, mapping: &Composite) -> Option<String> {
        let Content::Mapping(children) = &mapping.content else { return None };
        children.chunks_exact(2).rev().find_map(|pair| {
            let [key, value] = pair else { return None };
            let (key, value) = (self.nodes.get(*key)?, self.nodes.get(*value)?);
            let Content::Scalar(scalar) = &self.behind(key)?.content else { return None };
            let (kind, key) = match resolve(scalar) {
                Ok(Resolved::Null) => ("%!s(<nil>)", "<nil>".to_owned()),
                Ok(Resolved::Large(number)) => ("uint64", format!("{number:#x}")),
                _ => return None,
            };
            let value = self.go_syntax(value, DEEPEST);
            // Alone, nothing is written without its type.
            let value = if value == NIL { "<nil>".to_owned() } else { value };
            Some(format!("unsupported map key of type: {kind}, key: {key}, value: {value}"))
        })
    }

    /// What an alias stands for.
    fn behind<'a>(&'a self, node: &'a Composite) -> Option<&'a Composite> {
        match node.content {
            Content::Alias(target) => self.nodes.get(target),
            _ => Some(node),
        }
    }

    /// Go's `%#v` of the value.
    fn go_syntax(&self, node: &Composite, depth: usize) -> String {
        let child = |id: &usize| {
            let node = self.nodes.get(*id).filter(|_| depth > 0);
            node.map_or_else(String::new, |node| self.go_syntax(node, depth - 1))
        };
        match self.behind(node).map(|node| &node.content) {
            Some(Content::Scalar(scalar)) => scalar_syntax(scalar),
            Some(Content::Sequence(children)) => {
                let items: Vec<String> = children.iter().map(child).collect();
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            Some(Content::Mapping(children)) => {
                let mut entries = BTreeMap::new();
                self.add_entries(children, depth, &mut entries);
                let items: Vec<String> = entries.into_values().collect();
                format!("map[interface {{}}]interface {{}}{{{}}}", items.join(", "))
            }
            Some(Content::Alias(_)) | None => String::new(),
        }
    }

    /// The entries of a mapping, of equal keys the last.
    fn add_entries(&self, children: &[usize], depth: usize, entries: &mut BTreeMap<Key, String>) {
        for pair in children.chunks_exact(2) {
            let mut nodes = pair.iter().filter_map(|id| self.nodes.get(*id));
            let (Some(key), Some(value), 1..) = (nodes.next(), nodes.next(), depth) else { return };
            if is_merge(key) {
                self.merge(value, depth - 1, entries);
                continue;
            }
            let syntax = [key, value].map(|node| self.go_syntax(node, depth - 1)).join(":");
            let key = match self.behind(key).map(|node| &node.content) {
                Some(Content::Scalar(scalar)) => Key(resolve(scalar).unwrap_or(Resolved::Null)),
                _ => Key(Resolved::Null),
            };
            entries.insert(key, syntax);
        }
    }

    /// Of several mappings the first counts.
    fn merge(&self, value: &Composite, depth: usize, entries: &mut BTreeMap<Key, String>) {
        match self.behind(value).map(|node| &node.content) {
            Some(Content::Mapping(children)) => self.add_entries(children, depth, entries),
            Some(Content::Sequence(items)) if depth > 0 => {
                let items = items.iter().rev().filter_map(|id| self.nodes.get(*id));
                items.for_each(|item| self.merge(item, depth - 1, entries));
            }
            _ => {}
        }
    }
}

fn is_merge(key: &Composite) -> bool {
    matches!(&key.content, Content::Scalar(Scalar { text, tag, implicit })
        if text.expose() == "<<" && (*implicit || tag == b"tag:yaml.org,2002:merge"))
}

/// A key that is printed where Go prints it.
struct Key(Resolved);

impl Ord for Key {
    /// By type, in the order in which the types happen to lie in a kubelet's memory, then by value.
    fn cmp(&self, other: &Self) -> Ordering {
        use Resolved::{Bool, Float, Int, Large, Text};
        match (&self.0, &other.0) {
            (Text(a), Text(b)) => a.expose().cmp(b.expose()),
            (Large(a), Large(b)) => a.cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (Float(a), Float(b)) => a.total_cmp(b),
            (Bool(a), Bool(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl Key {
    fn rank(&self) -> u8 {
        match self.0 {
            Resolved::Null => 0,
            Resolved::Text(_) => 1,
            Resolved::Large(_) => 2,
            Resolved::Int(_) => 3,
            Resolved::Float(_) => 4,
            Resolved::Bool(_) => 5,
        }
    }
}

fn scalar_syntax(scalar: &Scalar) -> String {
    match resolve(scalar) {
        Ok(Resolved::Null) => NIL.to_owned(),
        Ok(Resolved::Bool(value)) => value.to_string(),
        Ok(Resolved::Int(number)) => number.to_string(),
        Ok(Resolved::Large(number)) => format!("{number:#x}"),
        Ok(Resolved::Float(number)) => go_float(number),
        Ok(Resolved::Text(text)) => Quoted(text.expose()).to_string(),
        Err(_) => Quoted(scalar.text.expose()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Document, YamlError};
    use crate::document::MAX_VALUES;

    fn read(text: &[u8]) -> Result<Document, YamlError> {
        super::super::read(text, MAX_VALUES)
    }

    #[test]
    fn refusals_are_told_in_gos_words() {
        let cases = [
            ("a: *.b", "yaml: did not find expected alphabetic or numeric character"),
            ("a: b\nc: *.b", "yaml: line 2: did not find expected alphabetic or numeric character"),
            ("a:\n\tb: c", "yaml: line 2: found character that cannot start any token"),
            ("a: b\nc: d: e", "yaml: line 2: mapping values are not allowed in this context"),
            ("a:\n  b: c\n d: e", "yaml: line 2: did not find expected key"),
            ("a: \u{1}", "yaml: control characters are not allowed"),
            ("a: *b-1", "yaml: unknown anchor 'b-1' referenced"),
            ("a:\r  b: *c", "yaml: unknown anchor 'c' referenced"),
            ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
            ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
            (
                "a: {{b}}",
                "yaml: invalid map key: map[interface {}]interface {}{\"b\":interface {}(nil)}",
            ),
            ("? [a, 1]\n: b", "yaml: invalid map key: []interface {}{\"a\", 1}"),
            ("? a: b\n: c", "yaml: invalid map key: map[interface {}]interface {}{\"a\":\"b\"}"),
            (
                "? {true: 1, 10: 2, 9: 3, \"b\": 4, a: 5, a: 6, ~: 7, 1.5: 8}\n: c",
                "yaml: invalid map key: map[interface {}]interface {}{interface {}(nil):7, \"a\":6, \"b\":4, 9:3, 10:2, 1.5:8, true:1}",
            ),
            (
                "? {a: 1, <<: [{a: 2}, {a: 3, b: 4}]}\n: c",
                "yaml: invalid map key: map[interface {}]interface {}{\"a\":2, \"b\":4}",
            ),
            ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
            ("~: x", "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\""),
            (
                "a: {~: x}\na: {~: z}",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"z\"",
            ),
            (
                "a: {<<: {~: x}}",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\"",
            ),
            ("a: [-.inf]", "json: unsupported value: -Inf"),
            ("a: [-.inf, .inf]\nb: .nan", "json: unsupported value: -Inf"),
            (
                "a: .nan\nb: {~: x}",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\"",
            ),
            ("a: !k!x b", "yaml: found undefined tag handle"),
            ("a: !k!x \"\\xq\"", "yaml: did not find expected hexdecimal number"),
        ];
        for (text, want) in cases {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(error.go_message(text.as_bytes()), want, "{text:?}");
        }
    }

    #[test]
    fn an_alias_is_named_in_any_encoding() {
        let text: Vec<u8> = "\u{feff}a: *b".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let error = read(&text).unwrap_err();
        assert_eq!(error.go_message(&text), "yaml: unknown anchor 'b' referenced");
    }
}
