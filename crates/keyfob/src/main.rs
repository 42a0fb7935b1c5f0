//! The command line.
//!
//! stdout is for results, stderr for people. Exit codes: 0 yes, 1 no, 2 wrong input, 3 nothing was found, 4 the result
//! could not be written, 130 stopped by a signal.

mod agent;
mod agent_source;
mod api_args;
mod apiserver;
mod audience;
mod cli;
mod conformance;
mod demo;
mod explain;
mod gates_args;
mod get;
mod host_args;
mod identity_args;
mod kube;
mod logging;
mod lookup;
mod match_images;
mod namespaced;
#[cfg(feature = "otlp")]
mod otlp;
mod page;
mod provider;
mod pull;
mod records;
mod serve;
mod signals;
mod validate;

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::FromArgMatches as _;
use keyfob_exec::{forbid_core_dumps, printable, without_panics, write_stdout};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    // First: an agent of the same user can identify this process only as long as it is dumpable, which the relay sees to itself.
    if let Some(relayed) = relay() {
        return relayed;
    }
    forbid_core_dumps();
    without_panics("keyfob", run).unwrap_or(ExitCode::from(Verdict::WrongInput as u8))
}

/// Asks the agent, if this process was started by a link that has one of the relay's names.
#[expect(clippy::disallowed_methods, reason = "the relay takes the environment as it is")]
fn relay() -> Option<ExitCode> {
    let program = env::args_os().next()?;
    keyfob_relay::is_own_name(&program)
        .then(|| keyfob_relay::run(env::args_os(), |name| env::var_os(name)))
}

fn run() -> ExitCode {
    // A plugin is started for every pull: nothing of the rest is looked at.
    if let Some(plugin) = provider::asked_for() {
        return plugin;
    }
    if let Some(outcome) = kube::asked_for() {
        return outcome.print();
    }
    let typed = cli::command().try_get_matches();
    let command = match typed.and_then(|typed| Cli::from_arg_matches(&typed)) {
        Ok(cli) => cli.command,
        Err(error) => return Outcome::from(error).print(),
    };
    let outcome = match command {
        Command::Match(args) => match_images::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Records(command) => records::run(&command),
        Command::Serve(args) => serve::run(&args),
        Command::Agent(command) => agent::run(&command),
        Command::Provider(command) => provider::run(&command),
        Command::Conformance(args) => conformance::run(&args),
        Command::Audience(command) => audience::run(&command),
        Command::Kube(command) => kube::run(&command),
        Command::Apiserver(args) => apiserver::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions { shell } => completions(shell),
    };
    outcome.print()
}

/// What a command has to say, and how it went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    stdout: String,
    stderr: String,
    verdict: Verdict,
}

/// How a command went; the numbers are its exit codes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    #[default]
    Yes = 0,
    No = 1,
    WrongInput = 2,
    Nothing = 3,
    Unwritten = 4,
    Stopped = 130,
}

impl Outcome {
    fn wrong_input(error: &dyn Error) -> Self {
        let stderr = format!("keyfob: {error}\n");
        Self { stderr, verdict: Verdict::WrongInput, ..Self::default() }
    }

    /// A result that did not get out, whole, is a failure. What people read on stderr may quote what others wrote.
    fn print(&self) -> ExitCode {
        let (verdict, stderr) = match write_stdout(self.stdout.as_bytes()) {
            Ok(()) => (self.verdict, self.stderr.clone()),
            Err(error) => {
                (Verdict::Unwritten, format!("keyfob: the result could not be written: {error}\n"))
            }
        };
        // There is nowhere left to complain to.
        io::stderr().write_all(printable(&stderr).as_bytes()).unwrap_or_default();
        ExitCode::from(verdict as u8)
    }
}

/// What was asked for instead of a command (`--help`, `--version`), or what is wrong with what was typed.
impl From<clap::Error> for Outcome {
    fn from(error: clap::Error) -> Self {
        let text = error.to_string();
        if error.use_stderr() {
            Self { stderr: text, verdict: Verdict::WrongInput, ..Self::default() }
        } else {
            Self { stdout: text, ..Self::default() }
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "keyfob", &mut script);
    Outcome { stdout: String::from_utf8_lossy(&script).into_owned(), ..Outcome::default() }
}
