//! The secrets of all runs: what must not be on stderr, and never is in a report.

use std::fmt::Display;

use keyfob_api::{
    Redactor, Secret,
    document::{Document, Node, Value},
};

use crate::{
    observe::{Heard, Observed, span},
    protocol::Protocol,
};

/// A text shorter than this stands in too many others to be told from them.
const SHORTEST: usize = 6;

/// What the plugin was given, and what it printed.
#[derive(Debug)]
pub(crate) struct Secrets {
    /// Each with what it is.
    known: Vec<(String, Secret<String>)>,
    /// What was printed and cannot be read as an answer: any of it may be one.
    unreadable: Vec<Secret<Vec<u8>>>,
}

impl Secrets {
    pub(crate) fn new(
        known: impl IntoIterator<Item = (String, Secret<String>)>,
        unreadable: impl IntoIterator<Item = Secret<Vec<u8>>>,
    ) -> Self {
        Self { known: known.into_iter().collect(), unreadable: unreadable.into_iter().collect() }
    }

    /// What a text holds that it must not.
    pub(crate) fn found_in(&self, text: &[u8]) -> Option<&str> {
        let text = String::from_utf8_lossy(text);
        let stands = |secret: &Secret<String>| {
            secret.expose().len() >= SHORTEST && text.contains(secret.expose().as_str())
        };
        self.known.iter().find(|(_, secret)| stands(secret)).map(|(what, _)| what.as_str())
    }

    /// What went wrong with a run that has no answer.
    pub(crate) fn failure<P: Protocol, R, E: Display>(
        &self,
        run: &Observed<P>,
        heard: &Heard<R, E>,
    ) -> String {
        match heard {
            Heard::Answer(_) => "it answered".to_owned(),
            Heard::Unreadable(error) => format!("its answer cannot be read: {error}"),
            Heard::Nothing => "exit code 0, and nothing on stdout".to_owned(),
            Heard::Failed(status) => format!("{status}{}", self.stderr_excerpt(run)),
            Heard::Hung(after) => {
                format!("it was still running after {}{}", span(*after), self.stderr_excerpt(run))
            }
            Heard::Flood => "it printed without end".to_owned(),
            Heard::NotStarted => "it could not be started".to_owned(),
        }
    }

    /// What a plugin said on stderr, as far as that may be shown.
    pub(crate) fn stderr_excerpt<P: Protocol>(&self, run: &Observed<P>) -> String {
        const MOST: usize = 300;
        let text = self.redact(&run.stderr_line);
        match text.char_indices().nth(MOST) {
            None if text.is_empty() => String::new(),
            None => format!("; it said: {text}"),
            Some((end, _)) => format!("; it said: {}…", text.get(..end).unwrap_or_default()),
        }
    }

    /// What a plugin said, without any of it.
    fn redact(&self, text: &str) -> String {
        let known = Redactor::new(self.known.iter().map(|(_, secret)| secret));
        self.unreadable.iter().fold(known.redact(text), |text, stdout| {
            Redactor::default().knowing(stdout.expose()).redact(&text)
        })
    }
}

/// Every password in what was printed, even if it is no answer.
pub(crate) fn passwords(stdout: &[u8]) -> Vec<Secret<String>> {
    let mut found = Vec::new();
    let Ok(document) = Document::read(stdout) else { return found };
    let mut nodes: Vec<&Node> = vec![&document.root];
    while let Some(node) = nodes.pop() {
        match &node.value {
            Value::List(items) => nodes.extend(items),
            Value::Map(fields) => {
                for field in fields {
                    match &field.node.value {
                        Value::String(text) if is_password(field.name.expose()) => {
                            found.push(text.clone());
                        }
                        _ => nodes.push(&field.node),
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn is_password(name: &str) -> bool {
    ["password", "secret", "token", "clientKeyData"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_whatever_can_be_read() {
        for stdout in [
            r#"{"auth":{"r.io":{"username":"u","password":"hunter2"}},"unknown":1}"#,
            "auth:\n  r.io:\n    Password: hunter2\n",
            r#"{"ServerURL":"r.io","Secret":"hunter2"}"#,
        ] {
            assert_eq!(passwords(stdout.as_bytes()), [Secret::from("hunter2")], "{stdout}");
        }
        assert_eq!(passwords(b"{"), []);
    }
}
