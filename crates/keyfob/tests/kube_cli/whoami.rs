//! What is told of a credential.

use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

use crate::{Home, TOKEN, certificate, home, jwt, nobody, run};

/// The first second of 2130.
const END: u64 = 5_049_129_600;

fn claims() -> Value {
    json!({"sub": "ada", "iss": "https://issuer.example", "aud": ["lab", "lab \u{1b}[2J"], "exp": END})
}

#[test]
fn a_signed_token_says_whose_it_is_and_when_it_ends() {
    let status = json!({"token": jwt(&claims()), "expirationTimestamp": "2129-12-31T23:00:00Z"});
    let home = home(&status);

    let said = run(&home, &["whoami"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    for line in [
        "user ada of context lab\n",
        "  credential   from the plugin /bin/sh, generation 1\n",
        "  token        a JSON web token; what it claims is not verified here:\n",
        "    subject    ada\n",
        "    issuer     https://issuer.example\n",
        "    audiences  lab\n               \"lab \\u{1b}[2J\"\n",
        "    expires    2130-01-01T00:00:00Z: ends in ",
        "  ends         2129-12-31T23:00:00Z: ends in ",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }

    let said = run(&home, &["whoami", "-o", "json"]).json();
    let credential = &said["credential"];
    assert_eq!(said["user"], "ada");
    assert_eq!((&credential["source"], &credential["generation"]), (&json!("plugin"), &json!(1)));
    assert_eq!(credential["token"]["kind"], "jwt");
    assert_eq!(credential["token"]["claims"]["audiences"], claims()["aud"]);
    assert_eq!(credential["expirationTimestamp"], "2129-12-31T23:00:00Z");
    assert!(credential["expiresIn"].as_str().unwrap().ends_with('s'), "{said}");
    assert!(credential["certificate"].is_null() && said["serverSays"].is_null(), "{said}");
}

#[test]
fn a_certificate_says_whose_it_is_and_an_opaque_token_nothing() {
    let mut status = certificate("ada");
    status["token"] = json!(TOKEN);
    status["expirationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let home = home(&status);

    let said = run(&home, &["whoami"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for line in [
        "  token        opaque: only the server knows what it says\n",
        "  certificate  for the user ada\n",
        "    valid      from 1975-01-01T00:00:00Z until 4096-01-01T00:00:00Z: ends in ",
        "  ends         2020-01-01T00:00:00Z: ended ",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    let key = status["clientKeyData"].as_str().unwrap().lines().nth(1).unwrap();
    assert!(!said.stdout.contains(key));
    let said = run(&home, &["whoami", "-o", "json"]).json();
    assert_eq!(said["credential"]["certificate"]["commonName"], "ada");
    assert!(said["credential"]["expiresIn"].as_str().unwrap().starts_with('-'), "{said}");
}

#[test]
fn who_has_nothing_is_nobody() {
    let home = Home::new();
    home.kubeconfig(&nobody(), &json!({}));

    let said = run(&home, &["whoami"]);

    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(
        said.stderr.contains("the user ada has neither a plugin nor a token"),
        "{}",
        said.stderr
    );
}

/// Knows who has the token.
fn server(request: &Request) -> Response {
    assert_eq!(request.path(), "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let user = match request.header("authorization") {
        Some("Bearer hunter2-token") => {
            json!({"username": "ada@lab", "uid": "42", "groups": ["optics", "system:authenticated"], "extra": {"scopes": ["a", "b"]}})
        }
        _ => json!({"username": "system:anonymous"}),
    };
    let review: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(
        (&review["kind"], &request.method),
        (&json!("SelfSubjectReview"), &"POST".to_owned())
    );
    Response::json(json!({"metadata": {}, "status": {"userInfo": user}}).to_string())
        .with_status(201)
}

#[test]
fn the_server_is_asked_whom_it_takes_the_user_for() {
    let home = Home::new();
    let user = home.answering(&json!({"token": TOKEN}));
    home.kubeconfig(&Internet::start(server), &user);

    let said = run(&home, &["whoami", "--ask"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let told = "\nthe server takes it for ada@lab\n  uid          42\n  groups       optics\n               system:authenticated\n  extra        scopes: a, b\n";
    assert!(said.stdout.ends_with(told), "{}", said.stdout);
    assert_eq!(home.runs(), 1);
    let said = run(&home, &["whoami", "--ask", "-o", "json"]).json();
    assert_eq!(said["serverSays"]["groups"], json!(["optics", "system:authenticated"]));

    home.kubeconfig(&Internet::start(server), &json!({}));
    let said = run(&home, &["whoami", "--ask"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stdout.ends_with("\nthe server takes it for system:anonymous\n"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_server_that_does_not_say_is_told_beside_what_the_credential_says() {
    let status = json!({"kind": "Status", "message": "no such resource", "code": 404, "status": "Failure", "reason": "NotFound"});
    let server = Internet::start(move |_| Response::json(status.to_string()).with_status(404));
    let home = Home::new();
    let user = home.answering(&json!({"token": jwt(&claims())}));
    home.kubeconfig(&server, &user);

    let said = run(&home, &["whoami", "--ask"]);

    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("    subject    ada\n"), "{}", said.stdout);
    assert_eq!(
        said.stderr,
        "keyfob: the server does not say who it is: 404 Not Found: no such resource\n"
    );
}
