//! `keyfob kube token`, `whoami`, `get` and `explain`, with real plugins and an API server on loopback.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "../support/home.rs"]
mod home;

mod auth_provider;
mod choosing;
mod echoing;
mod explain;
mod failing;
mod get;
mod token;
mod whoami;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use home::{Home, Said};
use keyfob_testkit::{Internet, LeakCheck, Response};
use serde_json::{Value, json};

/// To be seen only where a token is asked for.
const TOKEN: &str = "hunter2-token";

/// A server that nobody asks.
fn nobody() -> Internet {
    Internet::start(|_| Response::status(500))
}

/// A home whose user's plugin gives this.
fn home(status: &Value) -> Home {
    let home = Home::new();
    let user = home.answering(status);
    home.kubeconfig(&nobody(), &user);
    home
}

/// Runs a command with the home's kubeconfig, in whose output no secret stands.
fn run(home: &Home, args: &[&str]) -> Said {
    let said = with_kubeconfig(home, args);
    let leaks = LeakCheck::new(["hunter2"]);
    leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
    said
}

fn with_kubeconfig(home: &Home, args: &[&str]) -> Said {
    home.run(&[args, &["--kubeconfig", "kubeconfig"]].concat())
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// A token that claims these.
fn jwt(claims: &Value) -> String {
    format!("e30.{}.hunter2-signature", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// A certificate and its key, as a status.
fn certificate(name: &str) -> Value {
    let (certificate, key) = keyfob_testkit::self_signed(name);
    json!({"clientCertificateData": certificate, "clientKeyData": key})
}
