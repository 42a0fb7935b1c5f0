//! Docker's credential helper protocol, for docker, podman, skopeo, buildah and buildkit.
//!
//! A client reads stdout also if the helper fails, as the error message; it passes stderr to its own. One text is special,
//! [`NOT_FOUND`]: the client then continues without credentials.
//! Upstream: `client/client.go` and `credentials/error.go` of docker-credential-helpers.

use std::time::Duration;

use crate::{
    agent::{AskError, Reason},
    args::{AgentOptions, DockerAction},
    outcome::Outcome,
    stdin,
};

/// The text by which docker and containers/image recognise that there are no credentials.
const NOT_FOUND: &str = "credentials not found in native keychain\n";

/// What docker's own helpers say if nothing is asked for.
const NO_SERVER_URL: &str = "no credentials server URL\n";

/// `list` needs no login anywhere, so an agent that takes longer is as good as down.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(agent: &AgentOptions, action: DockerAction) -> Outcome {
    match action {
        DockerAction::Get => match stdin::read() {
            Ok(server) if server.trim_ascii().is_empty() => {
                Outcome::failure(format!("keyfob-relay: {NO_SERVER_URL}"))
                    .with_stdout(NO_SERVER_URL)
            }
            Ok(server) => get(agent.post("/v1/docker/get", "text/plain", &server)),
            Err(error) => error,
        },
        DockerAction::List => list(agent.get("/v1/docker/list", agent.timeout.min(LIST_TIMEOUT))),
        DockerAction::Store | DockerAction::Erase => {
            stdin::discard();
            unsupported()
        }
        DockerAction::Version => Outcome::success(concat!(
            "docker-credential-keyfob (",
            env!("CARGO_PKG_REPOSITORY"),
            ") ",
            env!("CARGO_PKG_VERSION"),
            "\n"
        )),
    }
}

/// A denied caller goes on without credentials, like one for which there are none: the image may be public, and podman asks
/// every configured helper about every registry. Only a denial is reported, because podman would otherwise print a line for
/// each registry that is not the agent's.
///
/// All other errors stop the client, so that an agent that is down does not look like a private image that does not exist.
fn get(answer: Result<Vec<u8>, AskError>) -> Outcome {
    match answer {
        Ok(credential) => Outcome::success(credential),
        Err(AskError::Refused { status: 404, .. }) => {
            Outcome::failure(String::new()).with_stdout(NOT_FOUND)
        }
        Err(error @ AskError::Refused { status: 403, .. }) => {
            Outcome::failure(error.report()).with_stdout(NOT_FOUND)
        }
        Err(error) => Outcome::failure(error.report()).with_stdout(shown(error.reason())),
    }
}

/// Never fails. If `list` fails, docker (`GetAllCredentials`, for builds) and podman's remote client (for every pull) use no
/// credentials at all or give up, also for registries of other helpers; with an empty list they use those. The credentials of
/// the agent are still found by `get`, which reports the same problem where it matters.
fn list(answer: Result<Vec<u8>, AskError>) -> Outcome {
    match answer {
        Ok(list) => Outcome::success(list),
        Err(error) => Outcome { stdout: b"{}\n".to_vec(), stderr: error.report(), code: 0 },
    }
}

/// Of `docker login` and `docker logout`.
fn unsupported() -> Outcome {
    let reason = Reason::new(
        "unsupported: keyfob-agent issues credentials itself; there is nothing to log in to or out of",
        "to log in to this registry by hand, remove its entry from credHelpers in docker's config.json",
    );
    let stdout = shown(&reason);
    Outcome::failure(AskError::Failed(reason).report()).with_stdout(stdout)
}

fn shown(reason: &Reason) -> String {
    format!("{}\n", reason.one_line())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Result<Vec<u8>, AskError> {
        Err(AskError::Refused { status, reason: Reason::new("no rule allows it", "add one") })
    }

    fn outcome(code: u8, stdout: &str, stderr: &str) -> Outcome {
        Outcome { stdout: stdout.into(), stderr: stderr.to_owned(), code }
    }

    const REPORT: &str = "keyfob-relay: no rule allows it\nhelp: add one\n";

    #[test]
    fn get_says_not_found_if_there_is_no_credential_or_no_permission() {
        assert_eq!(get(Ok(b"{}".to_vec())), outcome(0, "{}", ""));
        assert_eq!(get(refused(404)), outcome(1, NOT_FOUND, ""));
        assert_eq!(get(refused(403)), outcome(1, NOT_FOUND, REPORT));
    }

    #[test]
    fn get_reports_other_errors_on_stdout_too_because_docker_shows_that() {
        for status in [400, 429, 502, 503] {
            assert_eq!(get(refused(status)), outcome(1, "no rule allows it; add one\n", REPORT));
        }
        let down = || Reason::new("the agent is not running", "start it");
        let line = "the agent is not running; start it\n";
        assert_eq!(
            get(Err(AskError::Down(down()))),
            outcome(1, line, &format!("keyfob-relay: {line}"))
        );
        assert_eq!(
            get(Err(AskError::Failed(down()))),
            outcome(1, line, &format!("keyfob-relay: {line}"))
        );
    }

    #[test]
    fn list_is_empty_if_the_agent_gives_none() {
        assert_eq!(list(Ok(b"{\"a\":\"b\"}".to_vec())), outcome(0, "{\"a\":\"b\"}", ""));
        assert_eq!(list(refused(403)), outcome(0, "{}\n", REPORT));
    }
}
