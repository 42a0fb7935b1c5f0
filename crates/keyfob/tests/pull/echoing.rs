//! A hostile registry that repeats logins: the one it is shown, in every encoding and wherever it can, and those that it was shown
//! before.

use std::sync::Mutex;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::{EchoAt, Internet, LeakCheck, Response};
use serde_json::json;

use crate::{
    machine::Machine,
    node::{Node, Said, answer},
};

const PASSWORD: &str = "Correct-Horse/Battery+7";

#[test]
fn a_login_that_the_registry_echoes_is_not_printed() {
    for place in EchoAt::ALL {
        let (machine, registry) =
            (Machine::new(), place.server(&[PASSWORD, "ada:Correct-Horse/Battery+7"]));
        let host = registry.address().to_string();
        let login = machine.login("login.json", &host, "ada", PASSWORD);
        for verbosity in [&[][..], &["-vvv"], &["-vvv", "-o", "json"]] {
            let args = [&["--pull-secret", &login, "--retries", "0"], verbosity].concat();

            let said = machine.pull(&format!("{host}/team/app:v1"), &args);

            assert_eq!(said.code, 1, "{place:?}: {}{}", said.stdout, said.stderr);
            let leaks = LeakCheck::new([PASSWORD, &PASSWORD.to_ascii_lowercase()]);
            leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
            let all = said.stdout + &said.stderr;
            // What is no JSON is not shown at all.
            let is_shown = place != EchoAt::PlainBody && place != EchoAt::StatusMessage;
            assert!(!is_shown || all.contains("[redacted]"), "{place:?}: {all}");
        }
    }
}

const FIRST: &str = "First-Password/9911";
const SECOND: &str = "Second-Password+7722";

const QUIET_AND_LOUD: [&[&str]; 3] = [&[], &["-vvv"], &["-vvv", "-o", "json"]];

/// A registry that refuses whoever shows a login, and tells each what those before were called. `to_nobody` is what it says to
/// somebody without a login, once it has seen one.
fn gossip(status: u16, to_nobody: u16) -> Internet {
    let seen = Mutex::new(Vec::new());
    Internet::start(move |request| {
        let mut seen = seen.lock().unwrap();
        let login = request.header("authorization");
        seen.extend(login.map(str::to_owned));
        let status = match login {
            Some(_) => status,
            None if seen.is_empty() => 401,
            None => to_nobody,
        };
        let said = format!("before you there were {}", decoded(&seen).join(" and "));
        let errors = json!({"errors": [{"code": "DENIED", "message": said}]});
        let refusal = Response::json(errors.to_string()).with_status(status);
        refusal.header("WWW-Authenticate", "Basic realm=\"r\"")
    })
}

fn decoded(headers: &[String]) -> Vec<String> {
    let login =
        |header: &String| BASE64_STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
    headers.iter().map(|header| String::from_utf8(login(header)).unwrap()).collect()
}

fn assert_unseen(said: &Said) {
    let leaks = LeakCheck::new([FIRST, SECOND]);
    leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
    let all = format!("{}{}", said.stdout, said.stderr);
    assert!(all.contains("[redacted]"), "{all}");
    assert_eq!(said.code, 1, "{all}");
}

#[test]
fn the_answer_to_one_pull_secret_does_not_show_another() {
    for args in QUIET_AND_LOUD {
        let (machine, registry) = (Machine::new(), gossip(403, 401));
        let host = registry.address().to_string();
        let first = machine.login("first.json", &host, "ada", FIRST);
        let second = machine.login("second.json", &host, "bob", SECOND);
        let secrets = ["--pull-secret", &first, "--pull-secret", &second];

        let said = machine.pull(&format!("{host}/team/app:v1"), &[&secrets, args].concat());

        assert_unseen(&said);
    }
}

#[test]
fn the_answer_to_one_pull_secret_does_not_show_one_that_is_still_to_be_tried() {
    let body = json!({"errors": [{"code": "DENIED", "message": format!("not {SECOND}?")}]});
    let registry = Internet::start(move |request| match request.header("authorization") {
        None => Response::status(401).header("WWW-Authenticate", "Basic realm=\"r\""),
        Some(_) => Response::json(body.to_string()).with_status(503),
    });
    let (machine, host) = (Machine::new(), registry.address().to_string());
    let first = machine.login("first.json", &host, "ada", FIRST);
    let second = machine.login("second.json", &host, "bob", SECOND);
    let args = ["--pull-secret", &first, "--pull-secret", &second, "-vvv", "--retries", "1"];

    assert_unseen(&machine.pull(&format!("{host}/team/app:v1"), &args));
}

#[test]
fn the_answer_to_an_anonymous_attempt_does_not_show_the_login_before_it() {
    for args in QUIET_AND_LOUD {
        let (machine, registry) = (Machine::new(), gossip(401, 403));
        let host = registry.address().to_string();
        let login = machine.login("login.json", &host, "ada", FIRST);
        let secret = ["--pull-secret", &login, "--anonymous-last"];

        let said = machine.pull(&format!("{host}/team/app:v1"), &[&secret, args].concat());

        assert_unseen(&said);
    }
}

/// A plugin that gives another password the second time, and mentions the first one then.
fn rotating(host: &str, end_of_second: &str) -> Node {
    let node = Node::new();
    let count = node.path("count").display().to_string();
    let [first, second] = [FIRST, SECOND].map(|password| answer(&[[host, "ada", password]]));
    let script = format!(
        "if [ -e {count} ]; then echo 'rotated away from {FIRST}' >&2; {end_of_second}\n{second}\n\
         else touch {count}\n{first}\nfi"
    );
    node.with("rotating", &[host], &script)
}

#[test]
fn a_rotated_password_of_a_plugin_is_not_shown_with_the_answer_to_the_next() {
    for args in QUIET_AND_LOUD {
        let (machine, registry) = (Machine::new(), gossip(401, 401));
        let host = registry.address().to_string();
        let node = rotating(&host, "");

        assert_unseen(&machine.pull_on(&node, &format!("{host}/team/app:v1"), args));
        let logins = registry
            .requests()
            .into_iter()
            .filter_map(|request| request.header("authorization").map(str::to_owned));
        assert_eq!(decoded(&logins.collect::<Vec<_>>()).last(), Some(&format!("ada:{SECOND}")));
    }
}

#[test]
fn a_plugin_that_fails_does_not_show_what_it_answered_before() {
    for args in QUIET_AND_LOUD {
        let (machine, registry) = (Machine::new(), gossip(401, 401));
        let host = registry.address().to_string();
        let node = rotating(&host, "exit 1");

        let said = machine.pull_on(&node, &format!("{host}/team/app:v1"), args);

        assert_unseen(&said);
        let all = said.stdout + &said.stderr;
        assert!(all.contains("rotated away from [redacted]"), "{all}");
    }
}
