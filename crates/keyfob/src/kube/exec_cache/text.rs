//! What people are told about what is kept.

use std::{borrow::Cow, ffi::OsString};

use keyfob_exec_cache::{
    EntryState, ExecQuestion, Explanation, IDENTITY_VARIABLES, KeyPart, LastRun,
};

use crate::{explain::command::arguments, get::aligned};

pub(super) fn help() -> String {
    let variables = IDENTITY_VARIABLES.join(" ");
    format!(
        "In a kubeconfig: command: keyfob, args: [kube, exec-cache, --, aws, eks, get-token, …].\n\
         The answer depends on the user, the program's file, its arguments, the version and the cluster that the client \
         tells, the current directory if the command or an argument is found there, and these variables: {variables}; \
         and on every variable that is named like a secret or that the kubeconfig sets.\n\
         A client that asks again for an answer that is still good was refused, and gets another.\n\
         Exit codes: 0 an answer, 1 the plugin has none, 2 wrong input, 4 the answer could not be written, 130 stopped by a \
         signal."
    )
}

pub(super) fn cleared(answers: usize) -> String {
    match answers {
        0 => "there was nothing to forget\n".to_owned(),
        1 => "1 answer forgotten\n".to_owned(),
        more => format!("{more} answers forgotten\n"),
    }
}

pub(super) fn explained(question: &ExecQuestion, found: &Explanation, args: &[OsString]) -> String {
    let row = |name: &str, text: String| [name.to_owned(), text];
    let mut rows = vec![
        row("file", found.file.display().to_string()),
        row("state", state(&found.state)),
        row("last run", found.last_run.as_ref().map_or("none".to_owned(), last_run)),
    ];
    for (file, other) in &found.others {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        rows.push(row("other key", format!("{name}: {}", state(other))));
    }
    let mut args = arguments(args.iter().map(|arg| arg.to_string_lossy().into_owned())).into_iter();
    let parts = question.parts().iter().map(|part| {
        let is_argument = part.name.starts_with("argument ");
        let shown = if is_argument { args.next().unwrap_or_default() } else { value(part) };
        [part.name.clone(), shown]
    });
    let parts = aligned(&parts.collect::<Vec<_>>());
    format!("{}\nThe key depends on:\n{parts}", aligned(&rows))
}

fn state(state: &EntryState) -> String {
    match state {
        EntryState::Fresh { until, stored, pid } => {
            format!("fresh until {until}, written {stored} by pid {pid}")
        }
        EntryState::NearEnd { until, stored, pid } => {
            format!("good until {until} and to be renewed, written {stored} by pid {pid}")
        }
        EntryState::Over { stored } => format!("expired, written {stored}"),
        _ => "none".to_owned(),
    }
}

fn last_run(run: &LastRun) -> String {
    let failure = run.failure.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("{} at {} by pid {}{failure}", run.state, run.at, run.pid)
}

/// What may be a secret is told by a few digits of its hash: enough to see that it is another than before.
fn value(part: &KeyPart) -> String {
    let is_open =
        ["user", "program", "program file", "version", "directory"].contains(&part.name.as_str());
    let text: Cow<'_, str> = String::from_utf8_lossy(part.value.expose());
    if is_open { text.into_owned() } else { format!("#{}", part.mark()) }
}
