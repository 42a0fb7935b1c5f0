//! Commands in the foreground.

use std::process::{Command, Output};

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    succeed(Command::new(program).args(args))
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = output(command);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed with {}:\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr),
    );
    output
}

/// Runs a command to its end.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"))
}

/// What a successful command printed.
pub(crate) fn stdout(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}
