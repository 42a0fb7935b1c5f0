//! What a plugin printed on stdout, as far as it must not be seen on stderr.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::names::speaks_of_a_secret;
use keyfob_document::{Document, Node, Secret, Value, documents};

/// A shorter text is hidden only if the name of its field says that it is a secret.
const SHORTEST: usize = 8;

/// The texts of what was printed.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// What a field's name says is a secret, however short.
    pub(super) secrets: Vec<Secret<String>>,
    /// Everything else of some length.
    pub(super) others: Vec<Secret<String>>,
}

impl Texts {
    /// Reads JSON and YAML as an answer is read; of anything else every word that could be a value.
    pub(super) fn of(stdout: &[u8]) -> Self {
        let mut texts = Self::default();
        let documents =
            documents(stdout).into_iter().map(Document::read).collect::<Result<Vec<_>, _>>();
        match documents {
            Ok(documents) if documents.iter().all(is_structured) => {
                for document in &documents {
                    texts.gather(&document.root);
                }
            }
            _ => texts.guess(&String::from_utf8_lossy(stdout)),
        }
        texts
    }

    fn gather(&mut self, root: &Node) {
        let mut nodes = vec![(root, false)];
        while let Some((node, is_secret)) = nodes.pop() {
            match &node.value {
                Value::List(items) => nodes.extend(items.iter().map(|item| (item, is_secret))),
                Value::Map(fields) => {
                    for field in fields {
                        let name = field.name.expose();
                        // The names of fields are letters; hosts and the like are the plugin's own words.
                        if !name.chars().all(|c| c.is_ascii_alphabetic()) {
                            self.add(name, false);
                        }
                        nodes.push((&field.node, speaks_of_a_secret(name)));
                    }
                }
                Value::String(text) => self.add(text.expose(), is_secret),
                Value::Number(text) => self.add(text, is_secret),
                Value::Null | Value::Bool(_) => {}
            }
        }
    }

    fn add(&mut self, text: &str, is_secret: bool) {
        if is_secret {
            self.secrets.extend(password_in(text));
            self.secrets.push(text.into());
        } else if text.len() >= SHORTEST {
            self.others.push(text.into());
        }
    }

    /// Half an answer, or none: what stands between quotes, what stands behind a colon, and the longer words.
    fn guess(&mut self, stdout: &str) {
        let words = stdout
            .split(|c: char| c.is_whitespace() || "\"'{}[],".contains(c))
            .filter(|word| word.len() >= 2 * SHORTEST);
        for word in words {
            self.add(word, false);
        }
        for line in stdout.lines() {
            let (name, value) = line.split_once(':').unwrap_or_default();
            let name = name.trim().trim_start_matches("- ").trim_matches(['"', '\'']);
            let value = value.split_once(" #").map_or(value, |(value, _)| value).trim();
            self.add(value, speaks_of_a_secret(name) && !value.is_empty());
            self.add(line.trim(), false);
        }
        for quote in ['"', '\''] {
            let mut rest = stdout;
            while let Some((_, inside)) = rest.split_once(quote) {
                let end = end_of_literal(inside, quote);
                let literal = inside.get(..end).unwrap_or_default();
                let read = Document::read_yaml(format!("{quote}{literal}{quote}").as_bytes());
                match read.as_ref().map(|document| &document.root.value) {
                    Ok(Value::String(text)) => self.add(text.expose(), false),
                    _ => self.add(literal, false),
                }
                rest = inside.get(end + 1..).unwrap_or_default();
            }
        }
    }
}

/// The password of a login in base64, as docker's configuration files have it.
fn password_in(text: &str) -> Option<Secret<String>> {
    let login = Secret::new(BASE64_STANDARD.decode(text.trim()).ok()?);
    let (_, password) = std::str::from_utf8(login.expose()).ok()?.split_once(':')?;
    Some(password.into())
}

fn is_structured(document: &Document) -> bool {
    matches!(document.root.value, Value::Map(_) | Value::List(_) | Value::Null)
}

/// Where the closing quote is, or would be. A single quote is escaped by another.
fn end_of_literal(inside: &str, quote: char) -> usize {
    let mut chars = inside.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_doubled = quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == quote);
        match c {
            '\\' if quote == '"' => drop(chars.next()),
            c if c == quote && is_doubled => drop(chars.next()),
            c if c == quote => return at,
            _ => {}
        }
    }
    inside.len()
}
