//! `keyfob conformance BIN`: does a plugin keep the contract? With `--client`, one of a kubeconfig.

mod client;
mod text;

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use keyfob_api::{ImageError, ImageRef, Secret};
use keyfob_contract::{Conformance, Grade, NoAnswer, Report};
use keyfob_exec::{LookupError, ProcessRunner, Program, Runner, SystemEnvironment};
use keyfob_plugin::LoadError;
use serde::Serialize;
use thiserror::Error;

use crate::{
    Outcome, Verdict,
    cli::Output,
    host_args::timeout,
    lookup::{LookupFailure, unless_stopped},
    signals::Workers,
};

/// Asked about when nothing else is given: enough for a plugin that knows every registry.
const SOME_IMAGE: &str = "registry.example/keyfob/conformance";

#[derive(Debug, Args)]
#[command(after_help = text::help())]
pub(crate) struct ConformanceArgs {
    /// It is a plugin of a kubeconfig's `exec` user, not of a kubelet.
    #[arg(long, conflicts_with_all = ["images", "token", "token_file", "annotations"])]
    client: bool,
    /// The plugin: a path, or a name on PATH.
    plugin: String,
    /// Its arguments. What follows the first of them is the plugin's; after `--` that may be a flag.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
    /// With --client: a file with an `ExecCredential`, as in `KUBERNETES_EXEC_INFO`, whose cluster the plugin is told of.
    /// Without one the cluster is made up. Clients tell of the cluster, and of its extension
    /// `client.authentication.k8s.io/exec` (in KEP-541: `exec`), only if the user has `provideClusterInfo: true`. Fields of
    /// the file that clients do not send are warned about and left out.
    #[arg(long, value_name = "FILE", requires = "client")]
    exec_info: Option<PathBuf>,
    /// An image that the plugin has a login for. May be repeated.
    #[arg(long = "image", value_name = "IMAGE", default_value = SOME_IMAGE)]
    images: Vec<String>,
    /// An argument for the plugin, as `args` in its configuration. May be repeated.
    #[arg(long = "arg", visible_alias = "args", value_name = "ARG", allow_hyphen_values = true)]
    args: Vec<String>,
    /// A variable for the plugin, over the environment of this command. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, Secret<String>)>,
    /// The token of a service account, sent with every request. Without one, a single request brings a made-up token.
    #[arg(long, conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with that token: others can see an argument.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// An annotation of the service account, sent with every request. May be repeated.
    #[arg(long = "annotation", value_name = "KEY=VALUE", value_parser = pair)]
    annotations: Vec<(String, String)>,
    /// When a run is killed, such as `30s`. A kubelet waits a minute.
    #[arg(long, value_name = "DURATION", value_parser = timeout, default_value = "1m")]
    timeout: Duration,
    /// The plugin may fail, or have nothing, as in a pipeline without a cloud or without a person. What needs an answer is
    /// then not checked; everything else is, and if it does answer, everything.
    #[arg(long)]
    allow_no_answer: bool,
    /// A warning counts as a failure.
    #[arg(long)]
    strict: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &ConformanceArgs) -> Outcome {
    let report = if args.client {
        args.client_conformance().map(|plugin| report(async |runner| plugin.report(runner).await))
    } else {
        args.conformance().map(|plugin| report(async |runner| plugin.report(runner).await))
    };
    match report {
        Ok(Ok(report)) => args.print(&report),
        Ok(Err(failure)) => failure.into(),
        Err(error) => Outcome::wrong_input(&error),
    }
}

fn report(examine: impl AsyncFnOnce(Arc<dyn Runner>) -> Report) -> Result<Report, LookupFailure> {
    let runtime = Workers::new()?;
    let runner = Arc::new(ProcessRunner::new(SystemEnvironment));
    runtime.block_on(unless_stopped(examine(runner)))?
}

impl ConformanceArgs {
    fn conformance(&self) -> Result<Conformance, WrongInput> {
        let program = self.program()?;
        let mut images = self.images.iter().map(|image| ImageRef::parse(image));
        let first = images.next().unwrap_or_else(|| ImageRef::parse(SOME_IMAGE))?;
        let mut conformance =
            Conformance::of(program, first).args(self.arguments()).timeout(self.timeout);
        for image in images {
            conformance = conformance.image(image?);
        }
        for (name, value) in &self.env {
            conformance = conformance.env(name, value.clone());
        }
        for (key, value) in &self.annotations {
            conformance = conformance.annotation(key, value);
        }
        if let Some(token) = self.token()? {
            conformance = conformance.token(token);
        }
        Ok(conformance.no_answer(self.no_answer()))
    }

    fn program(&self) -> Result<Program, WrongInput> {
        let program = Program::on_path(&self.plugin, &SystemEnvironment)?;
        if !program.path().exists() {
            return Err(LookupError::NotFound { path: program.path().into() }.into());
        }
        Ok(program)
    }

    fn arguments(&self) -> impl Iterator<Item = &String> {
        self.args.iter().chain(&self.words)
    }

    fn no_answer(&self) -> NoAnswer {
        if self.allow_no_answer { NoAnswer::MayBe } else { NoAnswer::Fails }
    }

    fn token(&self) -> Result<Option<Secret<String>>, WrongInput> {
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => Secret::from(token.as_str()),
            (None, Some(path)) => read_token(path)
                .map_err(|source| WrongInput::Token { path: path.clone(), source })?,
            (None, None) => return Ok(None),
        };
        if token.expose().is_empty() { Err(WrongInput::EmptyToken) } else { Ok(Some(token)) }
    }

    fn print(&self, report: &Report) -> Outcome {
        let Counts { failed, warnings, .. } = Counts::of(report);
        let conforms = failed == 0 && (warnings == 0 || !self.strict);
        let told = Told { plugin: &self.plugin, conforms, summary: Counts::of(report), report };
        let stdout = match self.output {
            Output::Table => text::print(&told),
            Output::Json => crate::page::json(&told),
        };
        let verdict = if conforms { Verdict::Yes } else { Verdict::No };
        Outcome { stdout, verdict, ..Outcome::default() }
    }
}

/// The documented answer.
#[derive(Debug, Serialize)]
struct Told<'a> {
    plugin: &'a str,
    conforms: bool,
    summary: Counts,
    #[serde(flatten)]
    report: &'a Report,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    passed: usize,
    warnings: usize,
    failed: usize,
    not_checked: usize,
}

impl Counts {
    fn of(report: &Report) -> Self {
        Self {
            passed: report.count(Grade::Pass),
            warnings: report.count(Grade::Warn),
            failed: report.count(Grade::Fail),
            not_checked: report.count(Grade::NotChecked),
        }
    }
}

/// One line break at the end is not part of it.
fn read_token(path: &Path) -> io::Result<Secret<String>> {
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    File::open(path)?.take(MOST).read_to_string(&mut text)?;
    let text = Secret::new(text);
    Ok(text.expose().trim_end_matches(['\r', '\n']).into())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write a name, an equals sign and a value")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn variable(text: &str) -> Result<(String, Secret<String>), String> {
    pair(text).map(|(name, value)| (name, value.into()))
}

/// Why nothing was run.
#[derive(Debug, Error)]
enum WrongInput {
    #[error(transparent)]
    Plugin(#[from] LookupError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("cannot read the token in {}: {source}", path.display())]
    Token { path: PathBuf, source: io::Error },
    #[error("the token is empty: leave it out, or give one")]
    EmptyToken,
    #[error("cannot read the request in {}: {source}", path.display())]
    ExecInfo { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Request { path: PathBuf, source: LoadError },
}
