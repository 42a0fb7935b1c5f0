//! `keyfob agent`: asks a running agent how it is and what it decides.

mod status;

use std::{fmt::Write as _, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use keyfob_agent::{AgentClient, AgentClientError};
use keyfob_api::Chain;
use keyfob_exec::SystemEnvironment;
use serde_json::Value;

use self::status::StatusArgs;
use crate::{
    Outcome, Verdict,
    agent_source::{self, Inspectable},
    cli::Output,
    signals::Workers,
};

/// Where the agent listens unless its file says otherwise.
pub(crate) const AGENT_SOCKET: &str = "/run/keyfob/agent.sock";
const ADMIN_SOCKET: &str = "/run/keyfob/admin.sock";
/// Where the agent of `deploy/agent` answers probes.
const HTTP_SOCKET: &str = "/run/keyfob-pod/http.sock";

#[derive(Debug, Args)]
pub(crate) struct AgentCommand {
    #[command(subcommand)]
    action: AgentAction,
}

#[derive(Debug, Subcommand)]
enum AgentAction {
    /// Show how the agent is doing: problems and what to do, providers, cache, recent decisions, configuration. Needs root.
    #[command(
        after_help = "Examples:\n  sudo keyfob agent status\n  sudo keyfob agent status --watch\n  sudo keyfob agent status -o json"
    )]
    Status(StatusArgs),
    /// Show which rule decides about an image, and why the others do not apply.
    #[command(after_help = "Examples:\n  keyfob agent explain registry.example/app\n  \
                            sudo keyfob agent explain --as uid:1000 registry.example/app\n  \
                            sudo keyfob agent explain --as pod:team-a/builder registry.example/app\n  \
                            keyfob agent explain registry.example/    (what docker asks for)\n\n\
                            Exit codes: 0 a rule allows it, 1 it is denied, 2 the agent cannot be asked.")]
    Explain(ExplainRuleArgs),
    /// Let the agent read its files again. Needs root.
    Reload(AdminArgs),
    /// Let the agent forget cached answers: all of them, or those of an image or a provider. Needs root.
    Forget(ForgetArgs),
    /// Ask the agent's own listener for HTTP whether it is ready or alive: for the probes of a pod, in whose image there is no other client.
    #[command(after_help = "Examples:\n  keyfob agent probe ready\n  keyfob agent probe alive\n\n\
                            Exit codes: 0 it is, 2 it is not.")]
    Probe(ProbeArgs),
    /// Print the JSON schema of the agent's file, for editors.
    Schema,
}

#[derive(Debug, Args)]
struct ProbeArgs {
    /// `ready`: the agent takes requests. `alive`: it answers, and somebody listens on the socket for credentials.
    #[arg(value_enum)]
    state: ProbedState,
    /// The socket of `listeners.http`, which belongs to this agent alone.
    #[arg(long, value_name = "PATH", default_value = HTTP_SOCKET)]
    http: PathBuf,
    /// The socket for credentials, which may belong to the agent that follows. Without it: `KEYFOB_AGENT_SOCKET`, or
    /// `/run/keyfob/agent.sock`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProbedState {
    Ready,
    Alive,
}

#[derive(Debug, Args)]
struct AdminArgs {
    /// The administrators' socket.
    #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
    socket: PathBuf,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Args)]
struct ExplainRuleArgs {
    /// The image, as in a pod; or a whole registry with a slash at the end, which is what docker asks for.
    image: String,
    /// Who asks: `uid:`, `user:`, `gid:`, `group:`, `unit:`, `executable:` (several with commas, such as `uid:1000,gid:999`),
    /// `pod:NAMESPACE/ACCOUNT` (also with `,uid:1000`), `container` or `unknown-pod`. Needs root. Without it: whoever runs this command.
    #[arg(long = "as", value_name = "CALLER")]
    other: Option<String>,
    /// The agent's socket. Without it: `KEYFOB_AGENT_SOCKET`, or `/run/keyfob/agent.sock`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    /// Only what is cached for this image and for its whole registry, which is what docker asks for; with a slash at the end, only
    /// the latter.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Only what this provider answered.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(command: &AgentCommand) -> Outcome {
    let asked = Workers::new().and_then(|workers| workers.block_on(ask(&command.action)));
    match asked {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => failed(&error, &command.action),
        Err(error) => Outcome::wrong_input(&error),
    }
}

async fn ask(action: &AgentAction) -> Result<Outcome, AgentClientError> {
    match action {
        AgentAction::Status(args) => args.run().await,
        AgentAction::Explain(args) => {
            let socket = agent_source::agent_socket(args.socket.as_deref(), &SystemEnvironment);
            let client = AgentClient::new(&socket);
            let _inspectable = Inspectable::by_agent(&socket);
            let explained = client.explain(&args.image, args.other.as_deref()).await?;
            let mut outcome = printed(&explained, args.output, explanation);
            if !is_allowed(&explained) {
                outcome.verdict = Verdict::No;
            }
            Ok(outcome)
        }
        AgentAction::Reload(args) => {
            let reloaded = AgentClient::new(&args.socket).reload().await?;
            Ok(printed(&reloaded, args.output, reloaded_text))
        }
        AgentAction::Forget(ForgetArgs { image, provider, admin }) => {
            let client = AgentClient::new(&admin.socket);
            let forgotten = client.forget(image.as_deref(), provider.as_deref()).await?;
            Ok(printed(&forgotten, admin.output, |forgotten| {
                format!("forgot {}\n", counted(field(forgotten, "forgotten"), "cached answer"))
            }))
        }
        AgentAction::Probe(args) => probe(args).await.map(|()| Outcome::default()),
        AgentAction::Schema => {
            let schema = keyfob_agent_config::agent_config_schema();
            let stdout = serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n";
            Ok(Outcome { stdout, ..Outcome::default() })
        }
    }
}

async fn probe(args: &ProbeArgs) -> Result<(), AgentClientError> {
    let client = AgentClient::new(&args.http);
    match args.state {
        ProbedState::Ready => client.ready().await,
        ProbedState::Alive => {
            client.alive().await?;
            // A socket that was removed or whose agent has ended is made anew by a restart.
            let socket = agent_source::agent_socket(args.socket.as_deref(), &SystemEnvironment);
            AgentClient::new(&socket).check_listening()
        }
    }
}

fn printed(value: &Value, output: Output, text: impl Fn(&Value) -> String) -> Outcome {
    let stdout = match output {
        Output::Table => text(value),
        Output::Json => serde_json::to_string_pretty(value).unwrap_or_default() + "\n",
    };
    Outcome { stdout, ..Outcome::default() }
}

/// What went wrong, and what to do about it.
fn failed(error: &AgentClientError, action: &AgentAction) -> Outcome {
    let otherwise = match action {
        AgentAction::Probe(_) => {
            "name its socket for HTTP with --http (for an address: curl http://127.0.0.1:9977/readyz)"
        }
        _ => "name its socket with --socket",
    };
    let help = agent_source::help(error, otherwise);
    let help = help.map(|help| format!("help: {help}\n")).unwrap_or_default();
    let stderr = format!("keyfob: {}\n{help}", Chain(error));
    Outcome { stderr, verdict: Verdict::WrongInput, ..Outcome::default() }
}

pub(crate) fn explanation(explained: &Value) -> String {
    let (image, caller) = (text(explained, "image"), text(explained, "caller"));
    let providers: Vec<_> = items(explained, "providers").collect();
    let mut page = if providers.is_empty() {
        let help = if image.contains('/') {
            "`keyfob match` shows why a pattern does not match".to_owned()
        } else {
            format!("for the whole registry, which is what docker asks for, write {image}/")
        };
        format!("no provider matches {image}\nhelp: {help}\n")
    } else if is_allowed(explained) {
        format!("allowed: {image} for {caller}\n")
    } else {
        format!("denied: {image} for {caller}\n")
    };
    for provider in providers {
        let name = text(provider, "provider");
        let decision = text(provider, "decision");
        match field(provider, "rule").as_str() {
            Some(rule) => {
                append(&mut page, format_args!("provider {name}: rule {rule:?} says {decision}\n"));
                if let Some(reason) = field(provider, "reason").as_str() {
                    append(&mut page, format_args!("  {reason}\n"));
                }
            }
            None => append(
                &mut page,
                format_args!("provider {name}: no rule applies, so it is denied\n"),
            ),
        }
        for other in items(provider, "notApplied") {
            let (rule, reason) = (text(other, "rule"), text(other, "reason"));
            append(&mut page, format_args!("  rule {rule:?} does not apply: {reason}\n"));
        }
    }
    page
}

fn is_allowed(explained: &Value) -> bool {
    let mut providers = items(explained, "providers");
    providers.any(|provider| {
        field(provider, "decision").as_str().is_some_and(|decision| decision != "Deny")
    })
}

fn reloaded_text(reloaded: &Value) -> String {
    let mut page = "the new configuration is in use\n".to_owned();
    for (name, label) in
        [("started", "new or changed"), ("removed", "removed"), ("kept", "unchanged")]
    {
        if field(reloaded, name).as_array().is_some_and(|names| !names.is_empty()) {
            append(&mut page, format_args!("  {label}: {}\n", joined(field(reloaded, name))));
        }
    }
    if field(reloaded, "restartNeeded").as_array().is_some_and(|fields| !fields.is_empty()) {
        let fields = joined(field(reloaded, "restartNeeded"));
        append(&mut page, format_args!("  restart the agent for changed fields: {fields}\n"));
    }
    page
}

/// What a field has; null if it is missing.
fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    field(value, name).as_str().unwrap_or_default()
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    field(value, name).as_array().into_iter().flatten()
}

fn joined(list: &Value) -> String {
    let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(", ")
}

fn counted(number: &Value, noun: &str) -> String {
    match number.as_u64().unwrap_or_default() {
        1 => format!("1 {noun}"),
        many => format!("{many} {noun}s"),
    }
}

fn append(text: &mut String, more: std::fmt::Arguments<'_>) {
    // A String takes everything.
    text.write_fmt(more).unwrap_or_default();
}
