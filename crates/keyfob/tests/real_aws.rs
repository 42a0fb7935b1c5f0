//! `ecr-credential-provider` against moto, which plays AWS.
//!
//! It needs `moto_server`, of `moto[server]` from Python's index: `.ci/run e2e` installs it and sets `KEYFOB_E2E`, without which nothing
//! is run. Moto's tokens all ended in 2015, so whoever wants a login asks through somebody who corrects that.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/ecr.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod ecr;
#[path = "support/moto.rs"]
mod moto;

use std::path::Path;

use ecr::{IMAGE, Node, now};
use moto::{Moto, corrected};
use serde_json::json;

#[test]
fn moto_logs_in_whom_it_should() {
    if std::env::var_os("KEYFOB_E2E").is_none() {
        println!("KEYFOB_E2E is not set: NO moto was asked");
        return;
    }
    let moto = Moto::start(Path::new("moto_server"));
    let address = moto.address.clone();
    let node = Node::new(move |request| corrected(&address, request, now() + 3600));

    let answer = node.ask(IMAGE).answer();
    let login = json!({"username": "AWS", "password": "123456789012-auth-token"});
    let host = IMAGE.split('/').next().unwrap();
    assert_eq!(answer["auth"], json!({host: login}));
    assert!(answer["cacheDuration"].as_str().unwrap().starts_with("29m5"), "{answer}");

    let role = json!({"eks.amazonaws.com/ecr-role-arn": "arn:aws:iam::123456789012:role/pull"});
    let answer = node.ask_for_pod(IMAGE, &role).answer();
    assert_eq!(answer["auth"], json!({host: login}), "with a role that STS gave");

    let direct = node.env("AWS_ENDPOINT_URL", &format!("http://{}", moto.address));
    let said = direct.ask(IMAGE);
    let told = "the credential that was issued ended at 2015-01-01T00:00:00Z";
    assert!(said.failure().contains(told), "{}", said.stderr);
    let said = direct.ask("public.ecr.aws/nginx/nginx");
    assert!(said.failure().contains("it responded with status code 500"), "{}", said.stderr);
}
