//! What the API server answers.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use keyfob_testkit::{Internet, Response};
use serde_json::json;

use crate::{Home, TOKEN, run};

/// A home whose server answers so, if the token is right.
fn home(answer: Response) -> (Home, Internet) {
    let home = Home::new();
    let server = Internet::start(move |request| match request.header("authorization") {
        Some("Bearer hunter2-token") => answer.clone(),
        _ => Response::status(401),
    });
    let user = home.answering(&json!({"token": TOKEN}));
    home.kubeconfig(&server, &user);
    (home, server)
}

#[test]
fn the_answer_is_printed_as_it_is() {
    let (home, server) = home(Response::text(b"no new\nline \xc3\xa9".as_slice()));

    let said = run(&home, &["get", "--raw", "/healthz?verbose=1"]);

    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "no new\nline é", ""));
    let [request] = &*server.requests() else { panic!("one request") };
    assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/healthz?verbose=1"));
    assert_eq!(home.runs(), 1);
}

#[test]
fn a_watch_is_printed_while_it_goes_on() {
    let event = "{\"type\":\"ADDED\"}\n";
    let (home, _server) =
        home(Response::json(format!("{event}more")).silent_after(event.len()).without_length());
    let mut command =
        home.kube(&["get", "--raw", "/api/v1/pods?watch=1", "--kubeconfig", "kubeconfig"]);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();

    let mut line = String::new();
    BufReader::new(watching.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();

    assert_eq!(line, event);
    assert_eq!(watching.try_wait().unwrap(), None);
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_refusal_is_told_in_the_servers_words() {
    let status = json!({"kind": "Status", "status": "Failure", "message": "pods is forbidden", "reason": "Forbidden", "code": 403});
    for (answer, told) in [
        (Response::json(status.to_string()).with_status(403), "403 Forbidden: pods is forbidden"),
        (
            Response::text("[-]etcd failed\n").with_status(500),
            "500 Internal Server Error: [-]etcd failed",
        ),
        (Response::status(302).header("Location", "https://elsewhere/"), "302 Found"),
        (Response::text(vec![b'x'; 100_000]).with_status(502), "502 Bad Gateway"),
    ] {
        let (home, server) = home(answer);
        let said = run(&home, &["get", "--raw", "/x"]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        let place = server.url().replace("http:", "https:");
        assert_eq!(said.stderr, format!("keyfob: {place}/: {told}\n"));
    }
}

#[test]
fn a_server_that_refuses_everything_costs_two_runs_whose_answers_are_both_sent() {
    let home = Home::new();
    let server = Internet::start(|_| Response::text("Unauthorized").with_status(401));
    let user = home.plugin(
        "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t%s\"}}' \
         $(wc -l <runs)",
    );
    home.kubeconfig(&server, &user);

    let said = run(&home, &["get", "--raw", "/version"]);

    assert_eq!((said.code, home.runs()), (1, 2), "{}", said.stderr);
    assert!(said.stderr.ends_with("/: 401 Unauthorized: Unauthorized\n"), "{}", said.stderr);
    let requests = server.requests();
    let tokens: Vec<_> = requests.iter().filter_map(|sent| sent.header("authorization")).collect();
    assert_eq!(tokens, ["Bearer t1", "Bearer t2"]);
}

#[test]
fn a_server_that_cannot_be_asked_or_breaks_off_is_told() {
    let (home, _server) = home(Response::text("half of it").cut_after(4));
    let said = run(&home, &["get", "--raw", "/x"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, "half"));
    assert!(said.stderr.contains(": the answer broke off: "), "{}", said.stderr);

    let said = run(&home, &["get", "--raw", "/x", "--server", "https://127.0.0.1:1"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(
        said.stderr.starts_with("keyfob: https://127.0.0.1:1/: the API server cannot be reached: "),
        "{}",
        said.stderr
    );
}

#[test]
fn only_paths_are_asked_for() {
    let (home, server) = home(Response::status(200));
    for path in ["version", "https://elsewhere/version", "/a b", ""] {
        let said = run(&home, &["get", "--raw", path]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{path}");
    }
    assert_eq!(run(&home, &["get"]).code, 2);
    assert_eq!(server.requests().len(), 0);
}
