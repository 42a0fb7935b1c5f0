//! A plugin as a program.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{
    Parser,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
};
#[cfg(any(feature = "docker-config", feature = "exec"))]
use keyfob_api::GoDuration;
use keyfob_plugin::{Answer, Failure, ImageCredentials, ImageRequest, Plugin};

use crate::World;

/// One of our plugins: its names, how a kubelet is told of it, and how it is run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Provider {
    /// After `keyfob provider`.
    pub name: &'static str,
    /// What a link to the binary is called.
    pub program: &'static str,
    /// In a few words.
    pub about: &'static str,
    /// `matchImages` of its configuration. Empty when only its user can know.
    pub match_images: &'static [&'static str],
    /// `defaultCacheDuration` of its configuration.
    pub default_cache_duration: &'static str,
    /// `args` of its configuration.
    pub args: &'static [&'static str],
    /// Whether it can do anything without the pod's token.
    pub needs_token: bool,
    pub(crate) run: fn(&'static Self, Vec<OsString>) -> ExitCode,
    pub(crate) annotations: fn(&[String]) -> Result<Vec<String>, Failure>,
}

impl Provider {
    /// Runs the plugin in this process: reads stdin, prints the answer. The arguments do not begin with the program's name.
    pub fn main(&'static self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        (self.run)(self, arguments.into_iter().collect())
    }

    /// The service account annotations that it reads with these arguments, when it is sent the pod's token. An error says
    /// why it cannot work with them, if no variable helps.
    pub fn annotations(&self, arguments: &[String]) -> Result<Vec<String>, Failure> {
        (self.annotations)(arguments)
    }
}

/// An hour: nobody waits for longer, and clocks can count to there.
const LONGEST_DEADLINE: u64 = 3600;

/// The flags that all plugins have.
#[derive(Debug, Clone, clap::Args)]
#[non_exhaustive]
pub struct CommonArgs {
    /// Give up after this many seconds; a kubelet waits for 60.
    #[arg(long, value_name = "SECONDS", default_value_t = 50, env = "KEYFOB_DEADLINE", hide_env_values = true, value_parser = clap::value_parser!(u64).range(1..=LONGEST_DEADLINE))]
    pub deadline: u64,
    /// `get-credentials`, as in many configurations; or `get`, as docker says it.
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
}

/// The command line of a plugin.
pub trait ProviderArgs: Parser {
    /// The flags that all have.
    fn common(&self) -> &CommonArgs;

    /// The words among the arguments, without those that mean something to this plugin alone.
    fn words(&self) -> Vec<String> {
        self.common().words.clone()
    }

    /// The service account annotations that it reads, when it is sent the pod's token.
    fn annotations(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the command line asks for. Nothing is read or asked yet that a request may not need.
    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure>;
}

/// The duration of a flag, as Go writes them: `90s`, `1h30m`, `0`.
#[cfg(any(feature = "docker-config", feature = "exec"))]
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = GoDuration::parse(text).map_err(|error| error.to_string())?;
    duration.to_std().ok_or_else(|| "it cannot be negative".to_owned())
}

/// Tries a command line where no variable is set.
pub(crate) fn annotations<A: ProviderArgs>(arguments: &[String]) -> Result<Vec<String>, Failure> {
    let command = A::command().mut_args(|arg| arg.env(Resettable::Reset));
    let words = std::iter::once(command.get_name().to_owned()).chain(arguments.iter().cloned());
    let matches = command.try_get_matches_from(words);
    let args = matches.and_then(|matches| A::from_arg_matches(&matches));
    // In words, because clap's own error has the values too, and one of them may be a secret.
    let args = args.map_err(|error| Failure::new(in_short(error)))?;
    let mut annotations = args.annotations();
    annotations.sort();
    annotations.dedup();
    args.provider(World::bare())?;
    Ok(annotations)
}

/// The first paragraph, on the one line that a kubelet writes to its log; tips and usage follow.
fn in_short(mut error: clap::Error) -> String {
    hide_value(&mut error);
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = first.trim_start_matches("error: ").split_whitespace().collect();
    keyfob_exec::on_one_line(&words.join(" "))
}

/// What has the wrong form may be a secret all the same, and whoever runs us keeps what is said in a log.
fn hide_value(error: &mut clap::Error) {
    if error.kind() == ErrorKind::ValueValidation {
        error.insert(ContextKind::InvalidValue, ContextValue::String(keyfob_api::REDACTED.into()));
    }
}

/// The whole of a plugin: its command line, then the conversation.
pub(crate) fn run<A: ProviderArgs>(
    this: &'static Provider,
    mut arguments: Vec<OsString>,
) -> ExitCode {
    // So docker's helpers are asked. With a value, it is the log level of other plugins.
    if arguments == ["-v"] {
        arguments = vec!["--version".into()];
    }
    let command_line = std::iter::once(OsString::from(this.program)).chain(arguments);
    let args = match A::try_parse_from(command_line) {
        Ok(args) => args,
        // Nobody is left to be told that nobody listens.
        Err(error) if error.use_stderr() => {
            let line = format!("{}: {}: try --help\n", this.program, in_short(error));
            io::stderr().write_all(line.as_bytes()).unwrap_or_default();
            return ExitCode::FAILURE;
        }
        Err(error) => {
            let written = keyfob_exec::write_stdout(error.to_string().as_bytes());
            return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(4) };
        }
    };
    let conversation = Conversation { this, deadline: args.common().deadline, words: args.words() };
    match args.provider(World::system()) {
        Ok(provider) => conversation.hold(provider),
        Err(failure) => conversation.hold(Unfit(failure.to_string())),
    }
}

/// What the command line says, whatever becomes of the provider.
struct Conversation {
    this: &'static Provider,
    deadline: u64,
    words: Vec<String>,
}

impl Conversation {
    fn hold(self, provider: impl ImageCredentials) -> ExitCode {
        Plugin::new(provider)
            .named(self.this.program, env!("CARGO_PKG_VERSION"))
            .words(self.words)
            .deadline(Duration::from_secs(self.deadline))
            .main()
    }
}

/// A provider that cannot work, which is told to whoever asks for a login, in the protocol that it asks in.
struct Unfit(String);

impl ImageCredentials for Unfit {
    async fn credentials(&self, _: &ImageRequest) -> Result<Answer, Failure> {
        Err(Failure::new(&self.0))
    }
}
