//! What is run, as far as it may be shown: no value of a variable, and of the arguments nothing that looks like a secret.

use std::{ffi::OsStr, fmt::Write as _};

use keyfob_api::{GoDuration, Redactor, Secret, speaks_of_a_secret};
use keyfob_exec::{Environment, Invocation, steers};

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
        environment: variables.iter().map(|(name, _)| Variable::over(host, lossy(name))).collect(),
        deadline: invocation.killed_after().map(|after| GoDuration::from(after).to_string()),
    }
}

fn is_long(secret: &Secret<String>) -> bool {
    secret.expose().len() >= 6
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Hides what follows a name that speaks of a secret (`--token=…` and `--password …`), and who logs in to a URL.
pub(crate) fn arguments(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut next_is_secret = false;
    args.map(|arg| {
        if std::mem::take(&mut next_is_secret) && !arg.starts_with("--") {
            return HIDDEN.to_owned();
        }
        match arg.split_once('=') {
            Some((name, _)) if names_a_secret(name) => {
                format!("{}={HIDDEN}", without_user(name))
            }
            Some(_) => without_user(&arg),
            None => {
                next_is_secret = arg.starts_with('-') && names_a_secret(&arg);
                without_user(&arg)
            }
        }
    })
    .collect()
}

/// In a URL, what stands before a `=` is the name of a parameter.
fn names_a_secret(name: &str) -> bool {
    speaks_of_a_secret(name.rsplit(['?', '&', '/']).next().unwrap_or_default())
}

/// `https://user:password@host/` as `https://***@host/`.
pub(crate) fn without_user(arg: &str) -> String {
    let mut pieces = arg.split("://");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let authority = piece.find(['/', '?', '#']).unwrap_or(piece.len());
        let user = piece.get(..authority).and_then(|authority| authority.rfind('@'));
        shown += "://";
        shown += if user.is_some() { HIDDEN } else { "" };
        shown += piece.get(user.unwrap_or_default()..).unwrap_or_default();
    }
    shown
}

/// The command as a shell would read it.
pub(super) fn line(command: &Command) -> String {
    let args = command.args.iter().map(|arg| quoted(arg));
    std::iter::once(program(&command.program)).chain(args).collect::<Vec<_>>().join(" ")
}

/// In front of a command, `a=b/plugin` would set a variable.
fn program(path: &str) -> String {
    let word = quoted(path);
    if word == path && path.contains('=') { format!("'{path}'") } else { word }
}

/// A word that a shell takes as it is, whatever is in it. Nothing in it steers a terminal.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if word.chars().any(steers) {
        format!("$'{}'", word.chars().map(escaped).collect::<String>())
    } else if !word.is_empty() && word.replace(HIDDEN, "").chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A character between `$'` and `'`. A shell that does not know these quotes reads them as plain ones, so that no other
/// quote may stand between them.
fn escaped(c: char) -> String {
    if !steers(c) && !matches!(c, '\'' | '\\') {
        return c.to_string();
    }
    let (mut bytes, mut text) = ([0; 4], String::new());
    for byte in c.encode_utf8(&mut bytes).bytes() {
        write!(text, "\\x{byte:02x}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[&str]) -> Vec<String> {
        arguments(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn an_argument_whose_name_speaks_of_a_secret_is_hidden() {
        for (arg, want) in [
            ("--client-secret=x", "--client-secret=***"),
            ("--api_key=x", "--api_key=***"),
            ("--access-key=x", "--access-key=***"),
            ("--pass=x", "--pass=***"),
            ("--db-pwd=x", "--db-pwd=***"),
            ("--basic-auth=u:p", "--basic-auth=***"),
            ("--credential=x", "--credential=***"),
            ("https://r.io/?token=x", "https://r.io/?token=***"),
            ("--author=x", "--author=x"),
            ("--authority=x", "--authority=x"),
            ("--credentials-file=x", "--credentials-file=x"),
            ("--keyring=x", "--keyring=x"),
            ("https://auth.r.io/?a=b", "https://auth.r.io/?a=b"),
        ] {
            assert_eq!(shown(&[arg]), [want]);
        }
    }

    #[test]
    fn the_word_after_a_secrets_name_is_hidden_unless_it_is_a_name_too() {
        assert_eq!(shown(&["--token", "x", "-v"]), ["--token", "***", "-v"]);
        assert_eq!(shown(&["--token", "-x", "y"]), ["--token", "***", "y"]);
        assert_eq!(shown(&["--token-file", "f"]), ["--token-file", "f"]);
        assert_eq!(shown(&["--use-token", "--verbose", "x"]), ["--use-token", "--verbose", "x"]);
        assert_eq!(shown(&["--use-token", "--", "x"]), ["--use-token", "--", "x"]);
    }

    #[test]
    fn who_logs_in_to_a_url_is_hidden() {
        for (arg, want) in [
            ("https://u:p@r.io/a@b", "https://***@r.io/a@b"),
            ("--proxy=http://u:p@ss@r.io", "--proxy=http://***@r.io"),
            ("--token-url=https://u:p@r.io?x", "--token-url=https://***@r.io?x"),
            ("https://r.io/a@b", "https://r.io/a@b"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(shown(&[arg]), [want]);
        }
    }

    #[test]
    fn a_word_is_quoted_when_a_shell_needs_it() {
        assert_eq!(quoted("--region=eu-1"), "--region=eu-1");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("*.io"), "'*.io'");
        assert_eq!(quoted("\u{1b}'$(x)\\"), r"$'\x1b\x27$(x)\x5c'");
        assert_eq!(quoted("\u{202e}"), r"$'\xe2\x80\xae'");
        assert_eq!(program("a=b/plugin"), "'a=b/plugin'");
    }
}
