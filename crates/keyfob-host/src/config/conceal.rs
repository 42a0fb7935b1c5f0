//! Upstream's texts quote the file; here they quote it without its secrets.
//!
//! Differs: `[redacted]` stands where upstream's text would show the value of a field that may hold a secret. Where nobody
//! can tell what else is one (a comment, a second document, a text that is no YAML), all that is quoted is cut out.

use std::collections::BTreeSet;

use keyfob_api::{
    Secret,
    document::{Document, Node, Position, Value, YamlError, YamlProblem},
};
use keyfob_exec::{REDACTED, Redactor, speaks_of_a_secret};

/// Fields whose values, and all below them, may be secrets; in lower case.
const SECRETS: [&str; 13] = [
    "value",
    "password",
    "passwd",
    "auth",
    "identitytoken",
    "registrytoken",
    "serviceaccounttoken",
    "token",
    "secret",
    "data",
    "stringdata",
    "extraargs",
    "httpheaders",
];

/// Looking for more would take too long.
const MOST: usize = 1_000;

/// The text of a document, to be quoted.
pub(super) fn body(text: &[u8], document: &Document) -> String {
    let Ok(plain) = std::str::from_utf8(text) else { return REDACTED.to_owned() };
    let mut found = Found::default();
    found.walk(&document.root);
    if found.secrets.is_empty() && mentions(plain) <= found.fields.len() {
        return Redactor::default().redact(plain);
    }
    if found.values.len() > MOST
        || plain.contains(['\r', '\u{feff}', '\u{85}', '\u{2028}', '\u{2029}'])
    {
        return REDACTED.to_owned();
    }
    let shown = found.cut_out_of(plain);
    // What the tree does not show: comments, keys that were set again, further documents.
    if mentions(&shown) > found.fields.len() { REDACTED.to_owned() } else { shown }
}

/// What Go says about a text that is no YAML. There is no tree to look into, so if any field of the text may hold a
/// secret, nothing is quoted.
pub(super) fn yaml(text: &[u8], error: &YamlError) -> String {
    let said = error.go_message(text);
    let (before, behind) = match error.problem {
        YamlProblem::TagMismatch => ("`", "` as a "),
        YamlProblem::InvalidKey => ("invalid map key: ", ""),
        YamlProblem::UnsupportedKey => (", value: ", ""),
        YamlProblem::UnknownAnchor | YamlProblem::SelfReference => ("anchor '", "' "),
        _ => return said,
    };
    let text = String::from_utf8_lossy(text);
    if mentions(&text) == 0 && mentions_of(&text, &["env"]) == 0 {
        return said;
    }
    let Some((start, quoted)) = said.split_once(before) else { return said };
    let end = if behind.is_empty() { None } else { quoted.rfind(behind) };
    let end = end.and_then(|end| quoted.get(end..)).unwrap_or_default();
    format!("{start}{before}{REDACTED}{end}")
}

/// What a tree shows.
#[derive(Default)]
struct Found {
    /// Where names and values start.
    starts: BTreeSet<Position>,
    /// Where the fields are whose values may be secrets.
    fields: BTreeSet<Position>,
    secrets: BTreeSet<Position>,
    values: Vec<Secret<String>>,
}

impl Found {
    /// Goes through the tree without recursion, since a file may nest as deep as it likes.
    fn walk(&mut self, root: &Node) {
        let mut rest = vec![(root, Below::Open)];
        while let Some((node, below)) = rest.pop() {
            self.starts.insert(node.at);
            match &node.value {
                Value::Map(fields) => {
                    for field in fields {
                        self.starts.insert(field.at);
                        let name = field.name.expose().to_ascii_lowercase();
                        let is_secret = SECRETS.contains(&name.as_str());
                        if is_secret {
                            self.fields.insert(field.at);
                        }
                        rest.push((&field.node, below.field(&name, is_secret)));
                    }
                }
                Value::List(items) if below == Below::Arguments => {
                    rest.extend(arguments(items));
                }
                Value::List(items) => rest.extend(items.iter().map(|item| (item, below))),
                Value::String(text) if below.hides() || logs_in(text.expose()) => {
                    self.hide(node, text.clone());
                }
                Value::Number(text) if below.hides() => self.hide(node, text.as_str().into()),
                // YAML takes `y` for one, too.
                Value::Bool(_) if below.hides() => self.hide(node, Secret::default()),
                _ => {}
            }
        }
    }

    fn hide(&mut self, node: &Node, value: Secret<String>) {
        /// Shorter ones would be found all over the text.
        const SHORTEST: usize = 6;
        self.secrets.insert(node.at);
        if value.expose().len() >= SHORTEST {
            self.values.push(value);
        }
    }

    /// Each secret ends where the next name or value starts, and what stands between them stays.
    fn cut_out_of(&self, text: &str) -> String {
        let starts = offsets(text, &self.starts);
        let mut shown = String::new();
        let mut done = 0;
        for (index, (start, at)) in starts.iter().enumerate() {
            if !self.secrets.contains(at) {
                continue;
            }
            let end = starts.get(index + 1).map_or(text.len(), |(next, _)| *next);
            let secret = text.get(*start..end).unwrap_or_default();
            let between = secret.trim_end_matches(|c: char| " \n\t,}]-".contains(c)).len();
            shown += text.get(done..*start).unwrap_or_default();
            shown += REDACTED;
            done = start + between;
        }
        shown += text.get(done..).unwrap_or_default();
        Redactor::new(&self.values).redact(&shown)
    }
}

/// What a value stands below.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Open,
    Arguments,
    /// Whatever form it has: people write `[A=b]` and `{A: b}` too.
    Environment,
    Secret,
}

impl Below {
    fn field(self, name: &str, is_secret: bool) -> Self {
        match (self, name) {
            (Self::Environment, "name") => Self::Open,
            (Self::Environment | Self::Secret, _) => Self::Secret,
            _ if is_secret => Self::Secret,
            (_, "args") => Self::Arguments,
            (_, "env") => Self::Environment,
            _ => Self::Open,
        }
    }

    fn hides(self) -> bool {
        matches!(self, Self::Environment | Self::Secret)
    }
}

/// Whether it is a URL that may hold a password.
fn logs_in(text: &str) -> bool {
    text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'))
}

/// An argument is hidden if it speaks of a secret, or the one before it does.
fn arguments(items: &[Node]) -> impl Iterator<Item = (&Node, Below)> {
    let mut follows = false;
    items.iter().map(move |item| {
        let speaks = matches!(&item.value, Value::String(text) if names_a_secret(text.expose()));
        let below = if speaks || follows { Below::Secret } else { Below::Open };
        follows = speaks;
        (item, below)
    })
}

fn names_a_secret(argument: &str) -> bool {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    speaks_of_a_secret(name) || argument.contains("://")
}

/// The places in bytes, in order.
fn offsets(text: &str, places: &BTreeSet<Position>) -> Vec<(usize, Position)> {
    let mut wanted = places.iter().copied().peekable();
    let (mut line, mut column, mut found) = (1, 1, Vec::new());
    for (offset, c) in text.char_indices() {
        while let Some(at) = wanted.next_if(|at| (at.line, at.column) <= (line, column)) {
            found.push((offset, at));
        }
        (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    found.extend(wanted.map(|at| (text.len(), at)));
    found
}

/// How often a field that may hold a secret seems to be set.
fn mentions(text: &str) -> usize {
    mentions_of(text, &SECRETS)
}

fn mentions_of(text: &str, names: &[&str]) -> usize {
    let text = text.to_ascii_lowercase();
    let is_of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_set = |(at, name): (usize, &str)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let behind = text.get(at + name.len()..).unwrap_or_default();
        let behind = behind.trim_start_matches(|c: char| c.is_whitespace() || "\"'".contains(c));
        !before.is_some_and(is_of_a_word) && behind.starts_with(':')
    };
    names.iter().map(|name| text.match_indices(name).filter(|found| is_set(*found)).count()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Config, EnvVar, ProviderConfig};

    proptest! {
        #[test]
        fn whatever_stands_around_it_a_value_is_cut_out(before in ".{0,9}", behind in ".{0,9}", name in ".{0,9}") {
            let value = format!("{before}hunter2{behind}").into();
            let env = vec![EnvVar { name, value }];
            let provider = ProviderConfig { env, args: vec!["a".into()], ..Default::default() };
            let text = Config::new([provider]).migrate();
            let yaml = quoted(&text);
            prop_assert!(!yaml.contains("hunter2") && yaml.contains(REDACTED), "{yaml}");
        }
    }

    fn quoted(text: &str) -> String {
        body(text.as_bytes(), &Document::read(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_text_without_secrets_is_quoted_to_the_letter() {
        for text in ["", "a: b\r\n# c\n", "providers:\n- name: p\n  args: [--v=3]\n  env: []\n"] {
            assert_eq!(quoted(text), text);
        }
    }

    #[test]
    fn what_stands_under_a_secrets_name_is_cut_out() {
        let cases = [
            (
                "env:\n- name: A\n  value: hunter2\n- name: B\n",
                "env:\n- name: A\n  value: [redacted]\n- name: B\n",
            ),
            ("env: [{value: x, name: A}]", "env: [{value: [redacted], name: A}]"),
            ("value: |\n  a\n  b\nname: c\n", "value: [redacted]\nname: c\n"),
            ("data: {a: b, c: [d, 5]}", "data: {a: [redacted], c: [[redacted], [redacted]]}"),
            (
                "{\"auths\": {\"r.io\": {\"auth\": \"a\\\"b\"}}}",
                "{\"auths\": {\"r.io\": {\"auth\": [redacted]}}}",
            ),
            ("env: [A=x, {name: B, other: y}]", "env: [[redacted], {name: B, other: [redacted]}]"),
            ("{\"é日\": \"é\", \"value\": \"x\"}", "{\"é日\": \"é\", \"value\": [redacted]}"),
            ("env: {A: x}", "env: {A: [redacted]}"),
            ("? value\n: x\n", "? value\n: [redacted]\n"),
            ("value: x\n  y # z\nname: 'https://u:p@r.io'", "value: [redacted]\nname: [redacted]"),
            ("x: &a hunter2\nvalue: *a\n", "x: [redacted]\nvalue: *a\n"),
            ("Token: hunter2\nother: a hunter2\n", "Token: [redacted]\nother: a [redacted]\n"),
            ("args: [--v=3, --password, x, -q]", "args: [--v=3, [redacted], [redacted], -q]"),
        ];
        for (text, want) in cases {
            assert_eq!(quoted(text), want, "{text}");
        }
    }

    #[test]
    fn what_the_tree_does_not_show_hides_everything() {
        for text in [
            "a: b # value: hunter2\n",
            "value: hunter2\nvalue: x\n",
            "a: b\n---\npassword: hunter2\n",
            "a: b\r\ntoken: hunter2\r\n",
        ] {
            assert_eq!(quoted(text), REDACTED, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_yaml_quotes_nothing_beside_secrets() {
        let said = |text: &str| {
            let Err(error) = Document::read_yaml(text.as_bytes()) else { return String::new() };
            yaml(text.as_bytes(), &error)
        };
        let cases = [
            ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
            ("value: !!int x", "yaml: cannot decode !!str `[redacted]` as a !!int"),
            (
                "env:\n- ~: x",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: [redacted]",
            ),
            ("value: {{x}}", "yaml: invalid map key: [redacted]"),
            ("value: *x", "yaml: unknown anchor '[redacted]' referenced"),
            ("value: a: b", "yaml: mapping values are not allowed in this context"),
        ];
        for (text, want) in cases {
            assert_eq!(said(text), want, "{text}");
        }
    }
}
