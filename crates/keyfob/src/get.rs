//! `keyfob get`.

use clap::{Args, ValueEnum};
use keyfob_api::{Chain, ImageRef};
use keyfob_exec::on_one_line;
use keyfob_host::{CallError, IdentityError, ProviderOutcome};
use keyfob_keyring::{Credential, DockerConfig};
use serde::Serialize;

use crate::{
    Outcome, Verdict,
    agent_source::{AgentAnswer, AgentReport},
    host_args::{ALLOW_GLOBAL_ANSWERS, SourceArgs},
    identity_args::Puller,
    lookup::{Found, Sources},
    match_images::shown,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 there are credentials, 1 every provider that matches failed, or the agent denies, 2 the image or the \
                  configuration is wrong, or the agent cannot be reached, 3 there are no credentials, 4 the answer could not be written, 130 it was \
                  stopped by a signal."
)]
pub(crate) struct GetArgs {
    /// An image as in a pod: `nginx`, `registry.example:5000/team/app:v1`.
    image: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: GetOutput,
    /// Print passwords; without it they are `***`.
    #[arg(long)]
    show_secrets: bool,
    #[command(flatten)]
    sources: SourceArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum GetOutput {
    /// For people, in the order in which the credentials are tried.
    #[default]
    Table,
    /// For programs: `{"image","credentials":[{"provider","key","username","password"}],"errors":[{"provider","error"}]}`, with
    /// `"agent":{"socket","rule","error","help"}` if the agent was asked.
    Json,
    /// A docker `config.json` to pull the image with, always with its secrets, since it is of no use without.
    Docker,
}

pub(crate) fn run(args: &GetArgs) -> Outcome {
    let image = match ImageRef::parse(&args.image) {
        Ok(image) => image,
        Err(error) => return Outcome::wrong_input(&error),
    };
    let sources = match args.sources.open() {
        Ok(sources) => sources,
        Err(error) => return error.into(),
    };
    let mut outcome = match sources.find(&image) {
        Ok(found) => args.print(&image, &found, &sources),
        Err(failure) => failure.into(),
    };
    let are_refusals_told = args.output != GetOutput::Json;
    outcome.stderr += &sources.warnings_but_refusals(are_refusals_told);
    let unchecked = sources.puller.as_ref().and_then(Puller::unchecked);
    outcome.stderr.extend(unchecked.map(|what| format!("keyfob: {what}\n")));
    outcome
}

impl GetArgs {
    fn print(&self, image: &ImageRef, found: &Found, sources: &Sources) -> Outcome {
        let answer = Answer::new(self, found);
        let stdout = match self.output {
            GetOutput::Table => answer.table(),
            GetOutput::Json => crate::page::json(&answer),
            GetOutput::Docker => {
                let config = DockerConfig::of(image.registry(), found.credentials.first());
                config.encode().expose().clone() + "\n"
            }
        };
        let verdict = found.verdict();
        let stderr = match self.output {
            GetOutput::Json => String::new(),
            GetOutput::Table | GetOutput::Docker => {
                let failures = Failures::of(found, sources.puller.as_ref());
                let agent = found.agent.as_ref().map(AgentAnswer::lines).unwrap_or_default();
                agent + &failures.lines() + &answer.nothing(verdict)
            }
        };
        Outcome { stdout, stderr, verdict }
    }
}

/// The documented answer.
#[derive(Serialize)]
struct Answer<'a> {
    image: &'a str,
    credentials: Vec<Login<'a>>,
    errors: Vec<Failure<'a>>,
    /// The agent, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentReport>,
}

#[derive(Serialize)]
struct Login<'a> {
    provider: String,
    key: String,
    username: &'a str,
    password: &'a str,
}

#[derive(Serialize)]
struct Failure<'a> {
    provider: &'a str,
    error: String,
}

impl<'a> Answer<'a> {
    fn new(args: &'a GetArgs, found: &'a Found) -> Self {
        let login = |credential: &'a Credential| Login {
            provider: credential.source().to_string(),
            key: credential.key().to_string(),
            username: credential.username(),
            password: if args.show_secrets { credential.password().expose() } else { "***" },
        };
        let failure = |(provider, error)| Failure { provider, error };
        Self {
            image: &args.image,
            credentials: found.credentials.iter().map(login).collect(),
            errors: found.errors().map(failure).collect(),
            agent: found.agent.as_ref().map(AgentAnswer::report),
        }
    }

    /// Nothing at all if there are no credentials.
    fn table(&self) -> String {
        const TITLES: [&str; 5] = ["ORDER", "PROVIDER", "KEY", "USERNAME", "PASSWORD"];
        if self.credentials.is_empty() {
            return String::new();
        }
        let mut rows = vec![TITLES.map(str::to_owned)];
        for (index, login) in self.credentials.iter().enumerate() {
            let order = (index + 1).to_string();
            let [provider, key] = [&login.provider, &login.key].map(|text| shown(text).into());
            rows.push([
                order,
                provider,
                key,
                shown(login.username).into(),
                shown(login.password).into(),
            ]);
        }
        aligned(&rows)
    }

    /// For people: that there is nothing.
    fn nothing(&self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Yes => String::new(),
            // The agent has said it.
            _ if self.agent.as_ref().is_some_and(|agent| agent.error.is_some()) => String::new(),
            _ => format!(
                "keyfob: no credentials for {}; \"keyfob explain\" with the same flags says why\n",
                shown(self.image)
            ),
        }
    }
}

/// For people: who failed and why, and what to do about it.
#[derive(Default)]
struct Failures {
    causes: Vec<String>,
    remedies: Vec<String>,
}

impl Failures {
    fn of(found: &Found, puller: Option<&Puller>) -> Self {
        let mut all = Self::default();
        for report in &found.reports {
            let ProviderOutcome::Failed(error) = &report.outcome else { continue };
            let refused = puller.and_then(|puller| refused(error, puller));
            let (cause, remedies) =
                refused.unwrap_or_else(|| (Chain(&**error).to_string(), remedies(error)));
            all.causes.push(format!("provider {} failed: {cause}", shown(&report.provider)));
            for remedy in remedies {
                if !all.remedies.contains(&remedy) {
                    all.remedies.push(remedy);
                }
            }
        }
        all
    }

    fn lines(&self) -> String {
        let remedies = self.remedies.iter().map(|line| on_one_line(line));
        let lines = self.causes.iter().cloned().chain(remedies);
        lines.flat_map(|line| ["keyfob: ".to_owned(), line, "\n".to_owned()]).collect()
    }
}

/// What to do about failures that a flag of this command decides.
fn remedies(error: &CallError) -> Vec<String> {
    match error {
        CallError::GlobalAnswer => vec![ALLOW_GLOBAL_ANSWERS.to_owned()],
        _ => Vec::new(),
    }
}

/// That the node may not have the token.
fn refused(error: &CallError, puller: &Puller) -> Option<(String, Vec<String>)> {
    match error {
        CallError::Identity { audience, source: IdentityError::Forbidden(words), .. } => {
            puller.refused(audience, &words.to_string())
        }
        _ => None,
    }
}

/// Columns two spaces apart; nothing behind the last.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let line = |row: &[String; N]| {
        let cells = row.iter().enumerate();
        let padded = cells.map(|(column, cell)| format!("{cell:<width$}", width = width(column)));
        let line = padded.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
