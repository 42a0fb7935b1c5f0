//! int128's kubelogin, which logs in by OIDC. The provider is oidc-provider-mock.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use keyfob_testkit::Request;
use serde_json::Value;

use crate::{
    built,
    cluster::{Cluster, Plugin},
    findings::ANSWERS_UNASKED,
    is_on, jwt,
    moto::pass_on,
};

const CLIENT: &str = "kubernetes";
/// A script that logs in in place of a person with a browser.
const BROWSER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_plugins/browser.sh");

#[test]
fn kubelogin_logs_in_with_a_browser() {
    if !is_on() {
        return;
    }
    let provider = Provider::start();
    let plugin = provider.kubelogin().arg(format!("--browser-command={BROWSER}"));
    assert_eq!(plugin.findings(&[]), [ANSWERS_UNASKED]);

    let address = provider.address.clone();
    let cluster = Cluster::start(move |token| subject(&address, token));
    cluster.assert_login(&plugin, "ada");
}

#[test]
fn kubelogin_waits_for_a_browser_even_if_nobody_is_there() {
    if !is_on() {
        return;
    }
    let provider = Provider::start();
    let plugin = provider.kubelogin().arg("--skip-open-browser");
    let hung = "fail non-interactive: it was still running after 2.0 s and was killed, though \"interactive\" is false \
                and stdin is empty; it said: Please visit the following URL in your browser";
    let found = plugin.findings(&["--allow-no-answer", "--timeout", "2s"]);
    assert!(found[0].starts_with(hung), "{found:#?}");

    // kubelogin's own deadline, by default three minutes.
    let impatient = plugin.arg("--authentication-timeout-sec=1");
    let found = impatient.findings(&["--allow-no-answer"]);
    assert!(found.iter().all(|it| it.starts_with("notChecked ")), "{found:#?}");
    assert!(found[0].ends_with("context deadline exceeded"), "{found:#?}");
}

struct Provider {
    server: Child,
    address: String,
}

impl Provider {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new("oidc-provider-mock")
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                unreachable!("oidc-provider-mock cannot be run, .ci/run e2e installs it: {error}")
            });
        let provider = Self { server, address: format!("127.0.0.1:{port}") };
        while TcpStream::connect(&provider.address).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        provider
    }

    /// The plugin without its own cache, so that each run logs in.
    fn kubelogin(&self) -> Plugin {
        Plugin::new(&built("KEYFOB_OIDC_KUBELOGIN"), &["get-token"])
            .arg(format!("--oidc-issuer-url=http://{}", self.address))
            .arg(format!("--oidc-client-id={CLIENT}"))
            .arg("--oidc-client-secret=hunter2-client-secret")
            .arg("--listen-address=127.0.0.1:0")
            .arg("--token-cache-storage=none")
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        drop(self.server.wait());
    }
}

/// The subject of a token, if the provider signed it for this cluster.
fn subject(provider: &str, token: &str) -> Option<String> {
    let keys = Request {
        host: provider.to_owned(),
        tls: false,
        method: "GET".to_owned(),
        target: "/jwks".to_owned(),
        headers: vec![("Host".to_owned(), provider.to_owned())],
        body: String::new(),
    };
    let mut keys: Value = serde_json::from_slice(&pass_on(provider, &keys).body).ok()?;
    // The provider's tokens have no key ID.
    keys["keys"][0].as_object_mut()?.remove("kid");
    let claims = jwt::verified(token, &keys);
    let is_ours = claims["iss"] == format!("http://{provider}") && claims["aud"][0] == CLIENT;
    is_ours.then(|| claims["sub"].as_str().unwrap_or_default().to_owned())
}
