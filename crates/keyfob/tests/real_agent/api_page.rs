//! The two clients that `docs/agent-api.md` shows, run against a real agent.

use std::{fs, path::Path};

use keyfob_agent::{AgentClient, AgentClientError};
use serde_json::json;

use crate::{
    agent::RunningAgent,
    docker_registry::{is_wanted, run},
    rotated::Rotation,
};

const PAGE: &str = include_str!("../../../../docs/agent-api.md");

/// The first block of the page in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_shell_client_prints_the_login_or_says_why_not() {
    if !is_wanted() {
        return;
    }
    let rotation = Rotation::start();
    let agent = RunningAgent::start(&[rotation.provider("1h")], &json!({}));
    let socket = agent.socket();
    let script = block("sh").replace("/run/keyfob/agent.sock", socket.to_str().unwrap());
    let file = agent.path("client.sh");
    fs::write(&file, script).unwrap();
    let ask = |image: &str| {
        let asked = run("sh", &[file.to_str().unwrap(), image]);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (asked.status.code(), text(asked.stdout), text(asked.stderr))
    };

    let (code, stdout, stderr) = ask(&rotation.image().reference());
    assert_eq!((code, stdout.as_str()), (Some(0), "first hunter2-0\n"), "{stderr}");
    let (code, stdout, stderr) = ask("quay.io/team/app");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("no provider matches quay.io/team/app\n"), "{stderr}");
}

#[test]
fn the_rust_client_gets_the_same_login() {
    if !is_wanted() {
        return;
    }
    let rotation = Rotation::start();
    let agent = RunningAgent::start(&[rotation.provider("1h")], &json!({}));
    let login = |image: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(login(&agent.socket(), image)).unwrap()
    };
    let expected = ("first".to_owned(), "hunter2-0".to_owned());
    assert_eq!(login(&rotation.image().reference()), Some(expected));
    assert_eq!(login("quay.io/team/app"), None);
}

/// Needs no real parts. A doctest of keyfob-testkit compiles the page's own.
#[test]
fn the_rust_client_of_the_page_is_the_one_below() {
    let (_, body) = block("rust").split_once("agent.sock\");\n").unwrap();
    let own = include_str!("api_page.rs");
    assert!(body.lines().count() > 5 && own.ends_with(body), "{body}");
}

async fn login(socket: &Path, image: &str) -> Result<Option<(String, String)>, AgentClientError> {
    let agent = AgentClient::new(socket);
    let answer = match agent.credentials(image).await {
        // No provider has any: the image may be public.
        Err(AgentClientError::Refused { status, .. }) if status == 404 => return Ok(None),
        answer => answer?,
    };
    let first = answer.credentials.into_iter().next();
    Ok(first.map(|login| (login.username, login.password.expose().clone())))
}
