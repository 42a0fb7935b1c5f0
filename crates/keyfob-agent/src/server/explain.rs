//! `GET /v1/explain`: which rule decides, and why the others do not apply. Runs nothing.
//!
//! Everybody to whom the rules could allow something may ask about themselves; root on the host may ask about anybody (`as=`). All others
//! are not told which providers and rules there are, as if they had asked for credentials.

use std::collections::BTreeMap;

use http::Response;
use keyfob_agent_config::{Action, HostSubject, Program, Subject, group_id, user_id};
use keyfob_host::Pull;
use serde::Serialize;

use super::{Body, json};
use crate::{
    access::{ProviderDecision, Requester},
    agent::Shared,
    error::{ApiError, ErrorCode},
    repository::Repository,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained<'a> {
    image: &'a str,
    caller: String,
    providers: Vec<ExplainedProvider>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainedProvider {
    provider: String,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Why the rule applies, if its callers do not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    not_applied: Vec<NotApplied>,
}

#[derive(Debug, Serialize)]
struct NotApplied {
    rule: String,
    reason: String,
}

pub(super) async fn explain(
    shared: &Shared,
    requester: &Requester,
    query: &str,
) -> Result<Response<Body>, ApiError> {
    let mut query: BTreeMap<String, String> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let Some(name) = query.remove("image") else {
        return Err(ApiError::new(ErrorCode::BadRequest, "the query has no image")
            .help("ask for /v1/explain?image=registry.example/app"));
    };
    let (subject, caller) = match query.remove("as") {
        None => (requester.subject(), requester.described()),
        Some(_) if !requester.is_root_on_host() => {
            let message = "only root may ask about other callers";
            return Err(
                ApiError::new(ErrorCode::Denied, message).help("use sudo, or leave out --as")
            );
        }
        Some(other) => {
            // Names of users may be looked up in the network.
            let caller = other.clone();
            let subject = tokio::task::spawn_blocking(move || parse_subject(&caller)).await;
            let failed = |_| ApiError::new(ErrorCode::Unavailable, "the caller could not be read");
            (subject.map_err(failed)??, other)
        }
    };
    let repository = Repository::of_image_or_registry(&name)?;
    if !requester.is_root_on_host() && !shared.may_have_anything(requester) {
        let message = format!("no rule allows anything to {}", requester.described());
        return Err(ApiError::new(ErrorCode::Denied, message)
            .help(format!("root sees why: {}", requester.explain_command(repository.as_str()))));
    }
    let pull = Pull::of_repository(repository.as_str());
    let decisions = match pull.target() {
        Some(target) => shared.decide(&subject, &pull, target),
        None => Vec::new(),
    };
    let providers = decisions.into_iter().map(Into::into).collect();
    Ok(json(&Explained { image: &name, caller, providers }))
}

impl From<ProviderDecision> for ExplainedProvider {
    fn from(decision: ProviderDecision) -> Self {
        let ProviderDecision { provider, rule, precaution, others } = decision;
        let not_applied =
            others.into_iter().map(|(rule, why)| NotApplied { rule, reason: why.to_string() });
        Self {
            provider: provider.to_string(),
            decision: rule.as_ref().map_or(Action::Deny, |(_, action)| *action).as_str(),
            rule: rule.map(|(name, _)| name),
            reason: precaution.map(|why| why.to_string()),
            not_applied: not_applied.collect(),
        }
    }
}

/// A caller as it is written on a command line: `uid:1000`, `user:alice,unit:docker.service`, `pod:NAMESPACE/ACCOUNT`,
/// `pod:NAMESPACE/ACCOUNT,uid:1000`, `container`, `unknown-pod` (a pod that the agent does not know, such as a static pod).
fn parse_subject(text: &str) -> Result<Subject, ApiError> {
    let bad = |why: String| {
        ApiError::new(ErrorCode::BadRequest, why)
            .help("write uid:1000, user:NAME, gid:50, group:NAME, unit:UNIT, executable:PATH (with commas), pod:NAMESPACE/ACCOUNT, pod:NAMESPACE/ACCOUNT,uid:1000, container or unknown-pod")
    };
    if text == "container" {
        return Ok(Subject::Container { uid: None, may_be_pod: false });
    }
    if text == "unknown-pod" {
        return Ok(Subject::Container { uid: None, may_be_pod: true });
    }
    if let Some(pod) = text.strip_prefix("pod:") {
        return parse_pod(pod).map_err(bad);
    }
    let (mut process, mut uid) = (HostSubject::default(), None);
    for part in text.split(',') {
        let Some((name, value)) = part.split_once(':') else {
            return Err(bad(format!("{part:?} is not a caller")));
        };
        let unknown = || bad(format!("there is no {name} {value:?} on this node"));
        match name {
            "uid" => uid = Some(value.parse().map_err(|_| unknown())?),
            "user" => uid = Some(user_id(value).ok_or_else(unknown)?),
            "gid" => process.gids.push(value.parse().map_err(|_| unknown())?),
            "group" => process.gids.push(group_id(value).ok_or_else(unknown)?),
            "unit" => process.unit = Some(value.to_owned()),
            "executable" => process.program = Some(Program::Supposed(value.into())),
            _ => return Err(bad(format!("{name:?} is not a property of a caller"))),
        }
    }
    process.uid =
        uid.ok_or_else(|| bad("a process on the host has a user: add uid:NUMBER".to_owned()))?;
    Ok(Subject::Host(process))
}

/// `NAMESPACE/ACCOUNT`, with a user as the host sees it if rules that deny by user shall be looked at too: `NAMESPACE/ACCOUNT,uid:1000`.
fn parse_pod(text: &str) -> Result<Subject, String> {
    let (pod, user) = text.split_once(',').map_or((text, None), |(pod, user)| (pod, Some(user)));
    let uid = match user {
        None => None,
        Some(user) => {
            let uid = user.strip_prefix("uid:").and_then(|uid| uid.parse().ok());
            Some(uid.ok_or_else(|| format!("{user:?} is not uid:NUMBER"))?)
        }
    };
    match pod.split_once('/') {
        Some((namespace, account)) if !namespace.is_empty() && !account.is_empty() => {
            Ok(Subject::Pod {
                namespace: namespace.to_owned(),
                service_account: account.to_owned(),
                uid,
            })
        }
        _ => Err(format!("{pod:?} is not NAMESPACE/ACCOUNT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_written_as_its_properties() {
        let process = HostSubject {
            uid: 1000,
            gids: vec![50],
            unit: Some("docker.service".to_owned()),
            program: Some(Program::Supposed("/usr/bin/docker".into())),
        };
        let text = "uid:1000,gid:50,unit:docker.service,executable:/usr/bin/docker";
        assert_eq!(parse_subject(text).unwrap(), Subject::Host(process));
        let pod = |uid| {
            let (namespace, service_account) = ("a".to_owned(), "b".to_owned());
            Subject::Pod { namespace, service_account, uid }
        };
        assert_eq!(parse_subject("pod:a/b").unwrap(), pod(None));
        assert_eq!(parse_subject("pod:a/b,uid:1000").unwrap(), pod(Some(1000)));
        for (text, may_be_pod) in [("container", false), ("unknown-pod", true)] {
            let expected = Subject::Container { uid: None, may_be_pod };
            assert_eq!(parse_subject(text).unwrap(), expected);
        }
        for wrong in [
            "",
            "uid:x",
            "pod:a",
            "gid:5",
            "colour:red",
            "user:no-such-user-here",
            "pod:a/b,uid:x",
            "pod:a/b,gid:5",
        ] {
            assert_eq!(parse_subject(wrong).unwrap_err().code, ErrorCode::BadRequest, "{wrong}");
        }
    }
}
