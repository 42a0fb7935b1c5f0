//! The file of the node agent.

use std::{fs, io, path::Path};

use keyfob_agent_config::{AgentConfig, AgentConfigError, AgentConfigProblem};
use keyfob_config::Config;
use keyfob_exec::read_bounded;
use serde_json::{Value, json};

use super::report::Report;
use crate::{
    Outcome, Verdict,
    cli::{Output, Reader, ValidateArgs},
    serve::problems,
};

/// What is wrong with an agent's file; nothing if the file is something else.
pub(super) fn judged(path: &Path, args: &ValidateArgs) -> Option<Outcome> {
    let text = read_bounded(path, AgentConfig::MAX_BYTES).ok()?;
    if !AgentConfig::is_agent_config(text.expose()) {
        return None;
    }
    let config = match AgentConfig::parse(&path.to_string_lossy(), text.expose()) {
        Ok(config) => config,
        Err(error) => return Some(invalid(&error, args.output)),
    };
    let warnings = match Config::read(&config.provider_config) {
        Ok(providers) => {
            let report = super::judged(&providers, args, Reader::Keyfob);
            if report.verdict() != Verdict::Yes {
                return Some(invalid_providers(report, args.output));
            }
            unknown_providers(path, text.expose(), &providers)
        }
        Err(_) if is_missing(&config.provider_config) => {
            vec![missing(path, &config.provider_config)]
        }
        Err(error) => {
            let report = super::unread(&config.provider_config, &error, args, Reader::Keyfob);
            return Some(invalid_providers(report, args.output));
        }
    };
    Some(valid(path, &config, &warnings, args.output))
}

/// A file may be checked where it is not used, so files that it names may be missing there.
fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn missing(path: &Path, providers: &Path) -> AgentConfigProblem {
    let message = format!("{} does not exist; the agent needs it to start", providers.display());
    let help = "write it, for example with `keyfob provider install`, or name another file";
    AgentConfigProblem::new(path, "providerConfig", message, help)
}

fn invalid_providers(report: Report, output: Output) -> Outcome {
    let mut stdout = report.print(output);
    if matches!(output, Output::Table) {
        stdout += "keyfob: the agent would not start with these providers\n";
    }
    Outcome { stdout, verdict: Verdict::No, ..Outcome::default() }
}

/// Names in rules that no provider has.
fn unknown_providers(path: &Path, text: &[u8], providers: &Config) -> Vec<AgentConfigProblem> {
    let known: Vec<_> = providers.providers.iter().map(|provider| provider.name.as_str()).collect();
    AgentConfig::unknown_providers(&path.to_string_lossy(), text, &known)
}

fn valid(
    path: &Path,
    config: &AgentConfig,
    warnings: &[AgentConfigProblem],
    output: Output,
) -> Outcome {
    let warning = |problem: &AgentConfigProblem| {
        let help = problem.help.iter().map(|help| format!("help: {help}\n"));
        format!("keyfob: warning: {problem}\n{}", help.collect::<String>())
    };
    let stdout = match output {
        Output::Table => {
            warnings.iter().map(warning).collect::<String>()
                + &format!(
                    "{}: valid\n  the agent would serve on {} with {}\n{}  check its providers with: keyfob validate --bin-dir {} {}\n",
                    path.display(),
                    config.agent_socket.path.display(),
                    rules(config.rules.len()),
                    http(config),
                    config.plugin_directory.display(),
                    config.provider_config.display(),
                )
        }
        Output::Json => {
            printed(&json!({ "valid": true, "errors": [], "warnings": listed(warnings) }))
        }
    };
    Outcome { stdout, ..Outcome::default() }
}

fn http(config: &AgentConfig) -> String {
    let address = config.http_address.map(|address| format!("http://{address}"));
    let socket = config.http_socket.as_ref().map(|socket| socket.path.display().to_string());
    match (address, socket) {
        (Some(address), Some(socket)) => format!("  and metrics on {address} and {socket}\n"),
        (Some(place), None) | (None, Some(place)) => format!("  and metrics on {place}\n"),
        (None, None) => String::new(),
    }
}

fn rules(number: usize) -> String {
    if number == 1 { "1 rule".to_owned() } else { format!("{number} rules") }
}

fn invalid(error: &AgentConfigError, output: Output) -> Outcome {
    let stdout = match output {
        Output::Table => problems(error) + "keyfob: the agent would not start with this file\n",
        Output::Json => {
            printed(&json!({ "valid": false, "errors": listed(error.problems()), "warnings": [] }))
        }
    };
    Outcome { stdout, verdict: Verdict::No, ..Outcome::default() }
}

fn listed(problems: &[AgentConfigProblem]) -> Vec<Value> {
    let problem = |problem: &AgentConfigProblem| {
        json!({
            "path": problem.path,
            "message": problem.message,
            "help": problem.help,
            "file": &*problem.file,
            "line": problem.at.map(|at| at.line),
            "column": problem.at.map(|at| at.column),
        })
    };
    problems.iter().map(problem).collect()
}

fn printed(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
