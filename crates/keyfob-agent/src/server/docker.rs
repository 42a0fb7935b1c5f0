//! The credential helper's requests: `POST /v1/docker/get` and `GET /v1/docker/list`.
//!
//! Docker names a registry, not an image; so a rule must allow the whole registry. A client that sends a path as well gets what
//! the rules say about that repository.

use std::{collections::BTreeMap, sync::Arc};

use http::Response;
use keyfob_agent_config::{Action, AgentConfig, decide, may_be_allowed};
use keyfob_api::server_address;
use serde::Serialize;
use tokio::task::yield_now;

use super::{Body, json};
use crate::{
    access::{Attempt, Requester, Wanted},
    agent::Shared,
    error::{ApiError, ErrorCode},
    repository::Repository,
};

/// How many logins are compared with the rules before other requests get their turn.
const DECISIONS_WITHOUT_A_PAUSE: usize = 256;

/// The longest server URL that is accepted.
const MAX_URL: usize = 2048;

pub(super) async fn get(
    shared: &Shared,
    attempt: &mut Attempt<'_>,
    requester: &Requester,
    body: &[u8],
) -> Result<Response<Body>, ApiError> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Login<'a> {
        #[serde(rename = "ServerURL")]
        server_url: &'a str,
        username: &'a str,
        secret: &'a str,
    }
    let url = std::str::from_utf8(body).ok().map(str::trim).filter(|url| url.len() <= MAX_URL);
    if url.is_some_and(is_of_namespace) {
        let message = "there are no credentials for one namespace of a mirror";
        return Err(ApiError::new(ErrorCode::NotFound, message));
    }
    let repository = url.and_then(repository);
    let (Some(url), Some(repository)) = (url, repository) else {
        return Err(ApiError::new(ErrorCode::BadRequest, "the body is not the URL of a registry")
            .help("send the URL as docker does, such as https://registry.example"));
    };
    let wanted = Wanted {
        repository: &repository,
        // Docker's builders keep a credential for a while.
        fresh_for: shared.config().warm.cached_client_lifetime,
        token: None,
    };
    let granted = shared.grant(attempt, requester, wanted).await?;
    let Some(first) = granted.credentials.first() else {
        return Err(ApiError::new(ErrorCode::NotFound, "there are no credentials"));
    };
    Ok(json(&Login {
        server_url: url,
        username: first.credential.username(),
        secret: first.credential.password().expose(),
    }))
}

/// The registries whose credentials are cached and that the caller may have, with their user names. Runs nothing.
pub(super) async fn list(
    shared: &Arc<Shared>,
    attempt: &mut Attempt<'_>,
    requester: &Requester,
) -> Result<Response<Body>, ApiError> {
    let subject = requester.subject();
    let _active = shared.activate(requester)?;
    let (mut registries, mut providers) = (BTreeMap::new(), Vec::new());
    // Docker's clients expect a list; the log says that the caller may have nothing.
    if !may_be_allowed(&shared.config().rules, &subject, &[Action::Allow]) {
        let message = format!("no rule allows anything to {}", requester.described());
        attempt.finish(Err(&ApiError::new(ErrorCode::Denied, message)));
        return Ok(json(&registries));
    }
    let logins = shared.cached_logins.get(shared, &requester.key()).await?;
    // During a reload, the logins may be of either configuration: both must allow them.
    let configs = [shared.config(), shared.next_config()];
    for (number, login) in logins.iter().enumerate() {
        if number % DECISIONS_WITHOUT_A_PAUSE == 0 {
            yield_now().await;
        }
        let is_allowed = |config: &Arc<AgentConfig>| {
            let rule = decide(&config.rules, &subject, &login.target, &login.provider);
            rule.is_some_and(|rule| rule.action == Action::Allow)
        };
        if configs.iter().all(is_allowed) {
            registries.entry(&*login.url).or_insert(&*login.username);
            providers.push(&login.provider);
        }
    }
    shared.attest_again(attempt, requester).await?;
    for provider in providers {
        attempt.add_provider(provider);
    }
    if registries.is_empty() {
        let message = "nothing is cached that the caller may have";
        attempt.finish(Err(&ApiError::new(ErrorCode::NotFound, message)));
    }
    Ok(json(&registries))
}

/// Whether a server URL is one of nerdctl's for a namespace of a mirror: a mirror that serves the images of another registry. nerdctl keeps
/// such logins apart from those of the mirror itself, so the mirror's own login is not what it asks for. Providers know no such
/// logins, and an error would end the pull, which may not need one.
fn is_of_namespace(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    url.starts_with("nerdctl-experimental://")
        || form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "ns")
}

/// The repository of a server URL. Without a path it is the whole registry, `registry.example/`: plugins would take a bare host for the name
/// of an image on Docker Hub.
fn repository(url: &str) -> Option<Repository> {
    let (registry, path) = server_address(url)?;
    Repository::new(&registry, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::{CREDENTIALS, Pods, agent, process_of_pod, write_status};

    /// Time stands still, so the list comes at once.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_exits_before_the_list_is_complete_gets_none() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent(&folder, Pods::Listed);
        let peer = process_of_pod(&folder, 1);
        let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
        let requester = attempt.identify().await.unwrap();
        assert!(list(&agent.shared, &mut attempt, &requester).await.is_ok());

        write_status(&folder, 1, "Z (zombie)", 0);

        let error = list(&agent.shared, &mut attempt, &requester).await.unwrap_err();
        let message =
            "the caller could not be identified: the process that opened the connection has exited";
        assert_eq!((error.code, &*error.message), (ErrorCode::Denied, message));
    }

    #[test]
    fn nerdctl_marks_logins_for_a_namespace_of_a_mirror() {
        for (url, expected) in [
            ("mirror.example:5000?ns=docker.io", true),
            ("https://mirror.example/v2/?x=1&ns=docker.io", true),
            ("mirror.example/?ns=", true),
            ("nerdctl-experimental://docker.io:443/host/mirror.example:443/v2", true),
            ("nerdctl-experimental://docker.io:443/?endpoint=mirror.example:443", true),
            ("mirror.example?x=ns", false),
            ("mirror.example/ns=docker.io", false),
            ("mirror.example", false),
        ] {
            assert_eq!(is_of_namespace(url), expected, "{url}");
        }
    }

    #[test]
    fn a_server_url_names_a_registry_and_perhaps_a_repository() {
        for (url, expected) in [
            ("https://registry.example", Some("registry.example/")),
            ("https://registry.example/", Some("registry.example/")),
            ("https://registry.example/v2/", Some("registry.example/")),
            ("http://127.0.0.1:5000", Some("127.0.0.1:5000/")),
            ("registry.example:5000", Some("registry.example:5000/")),
            ("registry.example/team/app", Some("registry.example/team/app")),
            ("https://index.docker.io/v1/", Some("docker.io/")),
            ("", None),
            ("https://", None),
            ("https://user:pass@registry.example", None),
            ("https://registry.example?x", None),
            ("https://REGISTRY.example", Some("registry.example/")),
            ("registry.example/team/../secret", None),
            ("registry.example/%74eam", None),
        ] {
            assert_eq!(repository(url).as_ref().map(Repository::as_str), expected, "{url}");
        }
    }
}
