//! A hostile API server that repeats the token, in every encoding and wherever it can.

use keyfob_testkit::{EchoAt, Internet, LeakCheck, Response, echoes};
use serde_json::json;

use crate::{Home, TOKEN, run};

fn home(server: &Internet) -> Home {
    let home = Home::new();
    let user = home.answering(&json!({"token": TOKEN}));
    home.kubeconfig(server, &user);
    home
}

#[test]
fn a_token_that_the_server_echoes_is_not_printed_by_get() {
    for place in EchoAt::ALL {
        let home = home(&place.server(&[TOKEN]));

        let said = run(&home, &["get", "--raw", "/api/v1/pods"]);

        assert_eq!(said.code, 1, "{place:?}: {}{}", said.stdout, said.stderr);
        LeakCheck::new([TOKEN]).text("stdout", &said.stdout).text("stderr", &said.stderr);
        if matches!(place, EchoAt::StatusMessage | EchoAt::PlainBody) {
            assert!(said.stderr.contains("you sent [redacted]"), "{place:?}: {}", said.stderr);
        }
    }
}

#[test]
fn a_token_that_the_server_echoes_is_not_printed_by_whoami() {
    for place in EchoAt::ALL {
        let home = home(&place.server(&[TOKEN]));

        let said = run(&home, &["whoami", "--ask"]);

        assert_eq!(said.code, 1, "{place:?}: {}{}", said.stdout, said.stderr);
        LeakCheck::new([TOKEN]).text("stdout", &said.stdout).text("stderr", &said.stderr);
    }
}

#[test]
fn a_server_that_calls_the_user_by_the_token_is_not_believed() {
    let names: Vec<String> = echoes(TOKEN).into_iter().map(|(_, echo)| echo).collect();
    let extra = json!({"seen": names});
    let user = json!({"username": names[0], "uid": names[1], "groups": names, "extra": extra});
    let review = json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": {"userInfo": user},
    });
    let server = Internet::start(move |_| Response::json(review.to_string()).with_status(201));

    let said = run(&home(&server), &["whoami", "--ask"]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    LeakCheck::new([TOKEN]).text("stdout", &said.stdout).text("stderr", &said.stderr);
    assert!(said.stdout.contains("[redacted]"), "{}", said.stdout);
}
