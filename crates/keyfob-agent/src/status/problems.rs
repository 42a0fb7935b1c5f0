//! What somebody must look at, the most important first.

use std::time::SystemTime;

use serde::Serialize;

use super::{
    model::{AuditStatus, ProviderState, ProviderStatus, ReloadStatus},
    time::Moment,
};
use crate::sockets::UnavailablePort;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    /// In one sentence.
    pub(crate) summary: String,
    /// Why, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What it means for those who ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Moment>,
    pub(crate) help: String,
    /// A command that shows more, for root on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
}

/// What sort of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProblemKind {
    ProviderFailing,
    ConfigurationRejected,
    RestartNeeded,
    AuditEventsLost,
    PortUnavailable,
}

/// What is looked at.
pub(crate) struct Looked<'a> {
    pub(crate) now: SystemTime,
    pub(crate) config_file: &'a str,
    pub(crate) providers: &'a [ProviderStatus],
    pub(crate) reloads: &'a ReloadStatus,
    pub(crate) audit: AuditStatus,
    pub(crate) port: Option<&'a UnavailablePort>,
}

pub(crate) fn problems(looked: &Looked<'_>) -> Vec<Problem> {
    let failing = looked.providers.iter().filter(|each| each.state == ProviderState::Failing);
    let mut problems: Vec<_> = failing.map(|provider| failing_provider(provider, looked)).collect();
    problems.extend(rejected(looked));
    problems.extend(restart_needed(looked.reloads));
    problems.extend(lost_events(looked.audit));
    problems.extend(looked.port.map(unavailable_port));
    problems
}

fn failing_provider(provider: &ProviderStatus, looked: &Looked<'_>) -> Problem {
    let name = &provider.name;
    let times = match provider.failures_in_a_row {
        1 => "once".to_owned(),
        many => format!("{many} times in a row"),
    };
    let effect = match (provider.cached_answers, provider.next_expiry) {
        (0, _) | (_, None) => {
            "Nothing of it is cached: pulls that need it get no credentials.".to_owned()
        }
        (1, Some(_)) => "Its cached answer is still given out until it expires.".to_owned(),
        (many, Some(_)) => {
            format!("Its {many} cached answers are still given out until they expire.")
        }
    };
    let error = provider.last_error.as_ref();
    Problem {
        kind: ProblemKind::ProviderFailing,
        summary: format!("Provider {name} is failing: it failed {times}."),
        reason: error.map(|error| error.explanation.message.clone()),
        effect: Some(effect),
        since: provider.failing_since.or(Some(Moment(looked.now))),
        help: error.map(|error| error.explanation.help.clone()).unwrap_or_default(),
        command: error.map(|error| format!("sudo keyfob explain {}", error.image)),
    }
}

fn rejected(looked: &Looked<'_>) -> Option<Problem> {
    let error = looked.reloads.last_error.as_ref()?;
    Some(Problem {
        kind: ProblemKind::ConfigurationRejected,
        summary: "The new configuration is not used.".to_owned(),
        reason: Some(error.clone()),
        effect: Some(
            "The old configuration stays in use; changes of the files have no effect.".to_owned(),
        ),
        since: looked.reloads.last,
        help: "correct the files; the agent reads them again by itself".to_owned(),
        command: Some(format!("sudo keyfob validate {}", looked.config_file)),
    })
}

fn restart_needed(reloads: &ReloadStatus) -> Option<Problem> {
    (!reloads.restart_needed.is_empty()).then(|| Problem {
        kind: ProblemKind::RestartNeeded,
        summary: "The agent must be restarted for changed fields to take effect.".to_owned(),
        reason: Some(format!("changed: {}", reloads.restart_needed.join(", "))),
        effect: None,
        since: reloads.last,
        help: "restart it; clients wait for a moment, and nothing else is lost".to_owned(),
        command: Some("sudo systemctl restart keyfob-agent".to_owned()),
    })
}

fn lost_events(audit: AuditStatus) -> Option<Problem> {
    (audit.lost > 0).then(|| Problem {
        kind: ProblemKind::AuditEventsLost,
        summary: match audit.lost {
            1 => "1 audit event was lost since the start.".to_owned(),
            many => format!("{many} audit events were lost since the start."),
        },
        reason: None,
        effect: Some("Credentials are given out all the same.".to_owned()),
        since: None,
        help: "make sure that the audit log can be written: is the disk full, or the journal not running?".to_owned(),
        command: None,
    })
}

fn unavailable_port(port: &UnavailablePort) -> Problem {
    let UnavailablePort { address, error, since } = port;
    Problem {
        kind: ProblemKind::PortUnavailable,
        summary: format!("Metrics and the status page cannot be served on {address}."),
        reason: Some(error.clone()),
        effect: Some("Prometheus cannot scrape this agent. Credentials are given out all the same.".to_owned()),
        since: Some(Moment(*since)),
        help: "end what listens there, or write another address under listeners.http and restart the agent".to_owned(),
        command: Some(format!("sudo ss --listening --tcp --numeric --processes 'sport = :{}'", address.port())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reloads() -> ReloadStatus {
        ReloadStatus {
            succeeded: 0,
            failed: 0,
            last: None,
            last_error: None,
            restart_needed: Vec::new(),
            history: Vec::new(),
        }
    }

    fn kinds(reloads: &ReloadStatus, lost: u64) -> Vec<ProblemKind> {
        let looked = Looked {
            now: SystemTime::UNIX_EPOCH,
            config_file: "/etc/keyfob/agent.yaml",
            providers: &[],
            reloads,
            audit: AuditStatus { written: 1, lost },
            port: None,
        };
        problems(&looked).iter().map(|problem| problem.kind).collect()
    }

    #[test]
    fn each_problem_is_reported_for_as_long_as_it_lasts() {
        assert_eq!(kinds(&reloads(), 0), []);
        let rejected = ReloadStatus { last_error: Some("line 3".into()), ..reloads() };
        assert_eq!(kinds(&rejected, 0), [ProblemKind::ConfigurationRejected]);
        let restart = ReloadStatus { restart_needed: vec!["listeners"], ..reloads() };
        let both = [ProblemKind::RestartNeeded, ProblemKind::AuditEventsLost];
        assert_eq!(kinds(&restart, 3), both);
    }
}
