//! The file of the node agent.

use std::path::Path;

use keyfob_agent_config::{AgentConfig, AgentConfigError, AgentConfigProblem};
use keyfob_config::Config;
use keyfob_exec::read_bounded;
use serde_json::{Value, json};

use crate::{Outcome, Verdict, cli::Output, serve::problems};

const MAX_FILE: u64 = 1 << 20;

/// What is wrong with an agent's file; nothing if the file is something else.
pub(super) fn judged(path: &Path, output: Output) -> Option<Outcome> {
    let text = read_bounded(path, MAX_FILE).ok()?;
    if !AgentConfig::is_agent_config(text.expose()) {
        return None;
    }
    Some(match AgentConfig::parse(&path.to_string_lossy(), text.expose()) {
        Ok(config) => {
            let warnings = unknown_providers(path, text.expose(), &config);
            valid(path, &config, &warnings, output)
        }
        Err(error) => invalid(&error, output),
    })
}

/// Names in rules that no provider has; none if the providers cannot be read, which another command says better.
fn unknown_providers(path: &Path, text: &[u8], config: &AgentConfig) -> Vec<AgentConfigProblem> {
    let Ok(providers) = Config::read(&config.provider_config) else { return Vec::new() };
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
