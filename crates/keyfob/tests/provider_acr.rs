//! `acr-credential-provider` as a kubelet and a docker client start it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use keyfob_testkit::{Internet, LeakCheck, Response};
use tempfile::TempDir;

const REQUEST: &str = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"foo.azurecr.io/app"}"#;
const ANSWER: &str = concat!(
    r#"{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","#,
    r#""cacheDuration":"1h0m0s","auth":{"foo.azurecr.io":{"username":"00000000-0000-0000-0000-000000000000","#,
    r#""password":"hunter2-refresh"}}}"#,
    "\n"
);
const LOGIN: &str = concat!(
    r#"{"ServerURL":"https://foo.azurecr.io","Username":"00000000-0000-0000-0000-000000000000","Secret":"hunter2-refresh"}"#,
    "\n"
);

/// A node whose plugin is a link to the program, with an Azure around it.
struct Node {
    directory: TempDir,
    internet: Internet,
}

#[derive(Debug, PartialEq, Eq)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Node {
    fn new(config: &str) -> Self {
        let internet = Internet::start(|request| match request.path() {
            "/metadata/identity/oauth2/token" => Response::json(
                r#"{"access_token":"hunter2-aad","expires_on":"4000000000","token_type":"Bearer","resource":"r"}"#,
            ),
            "/v2/" => Response::status(401).header(
                "Www-Authenticate",
                r#"Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io""#,
            ),
            "/oauth2/exchange" => Response::json(r#"{"refresh_token":"hunter2-refresh"}"#),
            _ => Response::status(404),
        });
        let directory = tempfile::tempdir().unwrap();
        internet.ca_file(directory.path());
        fs::write(directory.path().join("azure.json"), config).unwrap();
        let node = Self { directory, internet };
        symlink(env!("CARGO_BIN_EXE_keyfob"), node.plugin()).unwrap();
        node
    }

    fn plugin(&self) -> PathBuf {
        self.directory.path().join("acr-credential-provider")
    }

    /// In the node's directory, so that the files have short names.
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    fn run(&self, args: &[&str], stdin: &str) -> Said {
        let mut running = Command::new(self.plugin())
            .args(args)
            .arg("--ca-file=ca.pem")
            .current_dir(self.directory.path())
            .env_clear()
            .env("HTTPS_PROXY", self.internet.url())
            .env("AZURE_IMDS_ENDPOINT", self.internet.url())
            .env("AZURE_ENVIRONMENT_FILEPATH", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        running.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap_or_default();
        let output = running.wait_with_output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        LeakCheck::new(["hunter2"]).text("stderr", &stderr);
        Said { code: output.status.code(), stdout, stderr }
    }

    fn failure(&self, args: &[&str], stdin: &str) -> String {
        let Said { code, stdout, stderr } = self.run(args, stdin);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(1), "", 1), "{stderr}");
        stderr
    }
}

const MANAGED: &str = r#"{"useManagedIdentityExtension":true}"#;

fn answered(stdout: &str) -> Said {
    Said { code: Some(0), stdout: stdout.into(), stderr: String::new() }
}

#[test]
fn the_command_lines_of_existing_configurations_work() {
    let node = Node::new(MANAGED);
    for args in [
        &["azure.json"][..],
        &["get-credentials", "azure.json"],
        &["azure.json", "-v=5", "--logging-format", "json", "--log-json-split-stream"],
        &["--v=2", "-r", "mcr.microsoft.com:foo.azurecr.io", "azure.json"],
    ] {
        assert_eq!(node.run(args, REQUEST), answered(ANSWER), "{args:?}");
    }
}

#[test]
fn a_docker_client_is_answered_too() {
    let node = Node::new(MANAGED);

    assert_eq!(node.run(&["azure.json", "get"], "https://foo.azurecr.io\n"), answered(LOGIN));
}

#[test]
fn what_cannot_work_is_told_on_one_line() {
    let node = Node::new("{hunter2");
    let bindings = ["azure.json", "--ib-sni-name=api.example", "--ib-apiserver-ip=999.999.999.999"];
    for (args, stdin, expected) in [
        (
            &["azure.json"][..],
            REQUEST,
            "acr-credential-provider: failed to load config azure.json: ",
        ),
        (&["missing.json"], REQUEST, "failed to load config missing.json: No such file"),
        (&[], REQUEST, "failed to load config /etc/kubernetes/azure.json: "),
        (&["azure.json"], "", "stdin is empty"),
        (&["azure.json", "azure.yaml"], REQUEST, "several were named"),
        (&["azure.json", "--ib-default-tenant-id=t"], REQUEST, "ib-sni-name must be set"),
        (&bindings, REQUEST, "must be a valid IP address or resolvable FQDN"),
    ] {
        let failure = node.failure(args, stdin);
        assert!(failure.contains(expected), "{failure}");
    }
    assert_eq!(node.internet.requests().len(), 0);
}

#[test]
fn what_is_no_file_is_not_read() {
    let federated = r#"{"tenantId":"t","aadClientId":"c","aadFederatedTokenFile":"/dev/null"}"#;
    let stack = r#"{"cloud":"AzureStackCloud"}"#;
    for (node, args, expected) in [
        (MANAGED, &["/dev/null"][..], "failed to load config /dev/null: it is no regular file"),
        (federated, &["azure.json"], "the federated token /dev/null: it is no regular file"),
        (stack, &["azure.json"], "the cloud's description in /dev/null: it is no regular file"),
    ] {
        let failure = Node::new(node).failure(args, REQUEST);
        assert!(failure.contains(expected), "{failure}");
    }
}

#[test]
fn the_api_server_is_asked_past_the_proxy_of_the_environment() {
    let api_server = Internet::start(|_| Response::json(r#"{"access_token":"hunter2-aad"}"#));
    let node = Node::new("{}");
    fs::write(node.directory.path().join("api-server.crt"), api_server.ca_pem()).unwrap();
    let address = format!("--ib-apiserver-ip={}", api_server.address());
    let args = [
        "azure.json",
        "--ib-sni-name=tokens.my-cluster.example",
        "--ib-ca-file=api-server.crt",
        "--ib-default-client-id=client",
        &address,
    ];
    let request = REQUEST.replace('}', r#","serviceAccountToken":"hunter2-pod"}"#);

    assert_eq!(node.run(&args, &request), answered(ANSWER));
    assert_eq!(api_server.requests().len(), 1);
}

#[test]
fn a_deadline_that_no_clock_can_reach_is_refused() {
    let said = Node::new(MANAGED).run(&["azure.json", "--deadline=18446744073709551615"], REQUEST);

    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(said.stderr.contains("--deadline <SECONDS>"), "{}", said.stderr);
}
