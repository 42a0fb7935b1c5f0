//! `keyfob kube exec-cache -- COMMAND…`: the wrapped plugin's answer, from a file if there is a good one.
//!
//! A warm answer needs neither a runtime nor TLS nor any configuration.

mod text;

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::{Args, FromArgMatches as _};
use keyfob_api::{Chain, GoDuration, Secret};
use keyfob_exec::{
    Environment, ProcessRunner, ProcessTerminal, SystemClock, SystemEnvironment, printable,
};
use keyfob_exec_cache::{
    ExecCache, ExecCacheError, ExecCacheNotice, ExecCacheOptions, ExecQuestion, ParentProcess,
    QuestionError, Surroundings, UnsafeDirectory, VariablePattern,
};
use thiserror::Error;

use crate::{
    Outcome, Verdict,
    lookup::{LookupFailure, unless_stopped},
    signals::Workers,
};

#[derive(Debug, Args)]
#[command(after_help = text::help())]
pub(crate) struct ExecCacheArgs {
    /// The plugin and its arguments, in the words of the kubeconfig.
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "clear")]
    command: Vec<OsString>,
    /// Where answers are kept: a directory that is its owner's alone [default: `$KEYFOB_EXEC_CACHE_DIR`,
    /// `$XDG_CACHE_HOME/keyfob/exec` or `~/.cache/keyfob/exec`].
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Use no answer longer than this. Without it an answer that has no expiry is not kept.
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    max_age: Option<Duration>,
    /// Renew an answer when it has less than this to live, but not in the first half of its life [default: a fifth of its
    /// life, at most 5m]; 0 never does.
    #[arg(long, value_name = "DURATION", value_parser = time)]
    refresh_ahead: Option<Duration>,
    /// How long to wait for another process that runs the plugin.
    #[arg(long, value_name = "DURATION", value_parser = some_time, default_value = "3m")]
    lock_timeout: Duration,
    /// When a plugin that cannot ask anybody is killed.
    #[arg(long, value_name = "DURATION", value_parser = some_time, default_value = "2m")]
    deadline: Duration,
    /// A variable on which the answer depends, beside the usual ones: `NAME`, or `PREFIX*` for all that begin so. May be
    /// repeated.
    #[arg(long = "env", value_name = "NAME")]
    variables: Vec<VariablePattern>,
    /// Forget the answers of COMMAND with these arguments, or all.
    #[arg(long)]
    clear: bool,
    /// Tell what the answer depends on, where it is and how long it is good. Nothing is run.
    #[arg(long, conflicts_with = "clear")]
    explain: bool,
}

/// The words after `kube exec-cache`.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<ExecCacheArgs, clap::Error> {
    let command = clap::Command::new("exec-cache").bin_name("keyfob kube exec-cache");
    let command = ExecCacheArgs::augment_args(command).no_binary_name(true);
    ExecCacheArgs::from_arg_matches(&command.try_get_matches_from(words)?)
}

pub(crate) fn run(args: &ExecCacheArgs) -> Outcome {
    match args.outcome() {
        Ok(stdout) => Outcome { stdout, ..Outcome::default() },
        Err(failure) => failure.into(),
    }
}

impl ExecCacheArgs {
    fn outcome(&self) -> Result<String, Failure> {
        let cache = self.open()?;
        let command = self.command.split_first();
        let Some((command, plugin_args)) = command else {
            return Ok(text::cleared(cache.clear(None).map_err(Failure::Clear)?));
        };
        let command = command.to_str().ok_or(Failure::NoText)?;
        if self.clear {
            let cleared = cache.clear(Some((command, plugin_args))).map_err(Failure::Clear)?;
            return Ok(text::cleared(cleared));
        }
        let question = self.question(command, plugin_args)?;
        if self.explain {
            return Ok(text::explained(&question, &cache.explain(&question), plugin_args));
        }
        let answer = match cache.ready(&question) {
            Some(answer) => answer,
            None => fetch(&cache, &question)?,
        };
        Ok(String::from_utf8_lossy(answer.expose()).into_owned())
    }

    fn open(&self) -> Result<ExecCache, Failure> {
        let options = ExecCacheOptions {
            max_age: self.max_age,
            refresh_ahead: self.refresh_ahead,
            lock_timeout: self.lock_timeout,
            deadline: self.deadline,
        };
        let runner = Arc::new(ProcessRunner::new(SystemEnvironment));
        let directory = self.directory(&SystemEnvironment).ok_or(Failure::Nowhere)?;
        Ok(ExecCache::open(&directory, options, Arc::new(SystemClock), runner, Arc::new(tell))?)
    }

    fn directory(&self, environment: &dyn Environment) -> Option<PathBuf> {
        let folder = |name| environment.var(name).map(PathBuf::from);
        let cache = |name| folder(name).filter(|path| path.is_absolute());
        let caches = || cache("XDG_CACHE_HOME").or_else(|| Some(cache("HOME")?.join(".cache")));
        let given = self.cache_dir.clone().or_else(|| folder("KEYFOB_EXEC_CACHE_DIR"));
        let given = given.filter(|path| !path.as_os_str().is_empty());
        given.or_else(|| Some(caches()?.join("keyfob/exec")))
    }

    fn question(&self, command: &str, args: &[OsString]) -> Result<ExecQuestion, QuestionError> {
        let (directory, parent) = (env::current_dir().ok(), ParentProcess::of_this_process());
        let around = Surroundings {
            environment: &SystemEnvironment,
            variables: &self.variables,
            directory: directory.as_deref(),
            parent: parent.as_ref(),
            terminal: &ProcessTerminal,
        };
        ExecQuestion::new(command, args.to_vec(), &around)
    }
}

/// Waits or runs. A plugin that has the terminal gets Ctrl-C itself, and must live to put the terminal in order; any other
/// ends with us.
fn fetch(cache: &ExecCache, question: &ExecQuestion) -> Result<Secret<Vec<u8>>, Failure> {
    let fetched = Workers::new().and_then(|runtime| {
        if question.is_interactive() {
            runtime.block_on(cache.fetch(question)).map(Ok)
        } else {
            runtime.block_on(unless_stopped(cache.fetch(question)))
        }
    });
    Ok(fetched.map_err(LookupFailure::from).flatten()??)
}

/// People read stderr; there is nowhere to complain to if they cannot.
fn tell(notice: &ExecCacheNotice<'_>) {
    let line = printable(&format!("{notice}\n"));
    io::stderr().write_all(line.as_bytes()).unwrap_or_default();
}

fn time(text: &str) -> Result<Duration, String> {
    let duration = GoDuration::parse(text).map_err(|error| error.to_string())?;
    duration.to_std().ok_or_else(|| "write a duration such as 5m".to_owned())
}

fn some_time(text: &str) -> Result<Duration, String> {
    let some = time(text).ok().filter(|duration| !duration.is_zero());
    some.ok_or_else(|| "write a duration such as 5m, more than nothing".to_owned())
}

/// Why there is nothing to print.
#[derive(Debug, Error)]
enum Failure {
    #[error("no directory to keep answers in: set HOME, or name one with --cache-dir")]
    Nowhere,
    #[error("the name of the plugin is no text")]
    NoText,
    #[error(transparent)]
    Directory(#[from] UnsafeDirectory),
    #[error(transparent)]
    Question(#[from] QuestionError),
    #[error("not all answers could be forgotten")]
    Clear(#[source] io::Error),
    #[error(transparent)]
    Fetch(#[from] ExecCacheError),
    #[error(transparent)]
    Wait(#[from] LookupFailure),
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        let verdict = match failure {
            Failure::Wait(failure) => return failure.into(),
            Failure::Clear(_) | Failure::Fetch(_) => Verdict::No,
            Failure::Nowhere | Failure::NoText | Failure::Directory(_) | Failure::Question(_) => {
                Verdict::WrongInput
            }
        };
        Self { stderr: format!("keyfob: {}\n", Chain(&failure)), verdict, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Variables(&'static [(&'static str, &'static str)]);

    impl Environment for Variables {
        fn var(&self, name: &str) -> Option<OsString> {
            self.0.iter().find(|(each, _)| *each == name).map(|(_, value)| value.into())
        }

        fn vars(&self) -> Vec<(OsString, OsString)> {
            Vec::new()
        }
    }

    #[test]
    fn answers_are_kept_where_caches_are() {
        let place = |typed: &[&str], variables| {
            let args = parse(typed.iter().chain(&["--", "plugin"]).map(OsString::from));
            args.unwrap().directory(&Variables(variables)).map(|path| path.display().to_string())
        };
        let named = &[("HOME", "/home/ada"), ("KEYFOB_EXEC_CACHE_DIR", "named")];
        assert_eq!(place(&["--cache-dir", "/given"], named).unwrap(), "/given");
        assert_eq!(place(&[], named).unwrap(), "named");
        let both = &[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/caches")];
        assert_eq!(place(&[], both).unwrap(), "/caches/keyfob/exec");
        let relative = &[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "caches")];
        assert_eq!(place(&[], relative).unwrap(), "/home/ada/.cache/keyfob/exec");
        assert_eq!(place(&[], &[]), None);
        assert_eq!(place(&[], &[("KEYFOB_EXEC_CACHE_DIR", ""), ("HOME", "")]), None);
    }

    #[test]
    fn everything_after_the_dashes_is_the_plugins() {
        let args = parse(
            ["--max-age", "5m", "--", "aws", "--clear", "-v"].map(OsString::from).into_iter(),
        )
        .unwrap();
        assert_eq!(args.command, ["aws", "--clear", "-v"]);
        assert_eq!((args.max_age, args.clear), (Some(Duration::from_mins(5)), false));
    }
}
