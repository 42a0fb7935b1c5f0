//! What is run, without its secrets: values of variables are never shown, and of the arguments only what is none.

use std::ffi::OsStr;

use keyfob_api::{GoDuration, Secret};
use keyfob_exec::{Environment, Invocation, Redactor};

use super::report::{Command, Variable};

const HIDDEN: &str = "***";

/// An invocation for people. `known` are secrets that must not show, wherever they stand.
pub(super) fn describe(
    invocation: &Invocation,
    known: &[Secret<String>],
    host: &dyn Environment,
) -> Command {
    let variables = invocation.variables();
    let values = variables.iter().map(|(_, value)| Secret::new(lossy(value)));
    // Short values (`1`, `eu`) are no secrets, and without them no argument would be readable.
    let secrets: Vec<_> = values.chain(known.iter().cloned()).filter(is_long).collect();
    let redactor = Redactor::new(&secrets);
    Command {
        program: invocation.program().display().to_string(),
        args: arguments(invocation.arguments().iter().map(|arg| redactor.redact(&lossy(arg)))),
        environment: variables.iter().map(|(name, _)| variable(name, host)).collect(),
        deadline: invocation.killed_after().map(|after| GoDuration::from(after).to_string()),
    }
}

fn is_long(secret: &Secret<String>) -> bool {
    secret.expose().len() >= 6
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

fn variable(name: &OsStr, host: &dyn Environment) -> Variable {
    let name = lossy(name);
    Variable { replaces_the_hosts: host.var(&name).is_some(), name }
}

/// Hides what follows a name that speaks of a secret: `--token=…` and `--password …`.
fn arguments(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut next_is_secret = false;
    args.map(|arg| {
        if std::mem::take(&mut next_is_secret) && !arg.starts_with('-') {
            return HIDDEN.to_owned();
        }
        match arg.split_once('=') {
            Some((name, _)) if speaks_of_a_secret(name) => format!("{name}={HIDDEN}"),
            Some(_) => arg,
            None => {
                next_is_secret = arg.starts_with('-') && speaks_of_a_secret(&arg);
                arg
            }
        }
    })
    .collect()
}

fn speaks_of_a_secret(name: &str) -> bool {
    const WORDS: [&str; 7] =
        ["token", "secret", "password", "passwd", "passphrase", "private-key", "api-key"];
    let name = name.to_ascii_lowercase().replace('_', "-");
    let is_a_place =
        ["-file", "-path", "-dir", "-uri", "-url"].iter().any(|end| name.ends_with(end));
    WORDS.iter().any(|word| name.contains(word)) && !is_a_place
}

/// The command as a shell would read it.
pub(super) fn line(command: &Command) -> String {
    let words = std::iter::once(&command.program).chain(&command.args);
    words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if word.chars().any(char::is_control) {
        format!("{word:?}")
    } else if !word.is_empty() && word.replace(HIDDEN, "").chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[&str]) -> Vec<String> {
        arguments(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn an_argument_whose_name_speaks_of_a_secret_is_hidden() {
        assert_eq!(
            shown(&["--client-secret=x", "--token", "x", "--token-file", "f", "--api_key=x", "-v"]),
            ["--client-secret=***", "--token", "***", "--token-file", "f", "--api_key=***", "-v"]
        );
        assert_eq!(shown(&["--use-token", "--verbose", "x"]), ["--use-token", "--verbose", "x"]);
    }

    #[test]
    fn a_word_is_quoted_when_a_shell_needs_it() {
        assert_eq!(quoted("--region=eu-1"), "--region=eu-1");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("*.io"), "'*.io'");
    }
}
