//! Where a node's identity comes from.

use std::time::{Duration, Instant};

use keyfob_testkit::{Request, Response};
use serde_json::json;

use crate::ecr::{IMAGE, NODE_SECRET, Node, ROLE_SECRET, SESSION_TOKEN, amazon};

const API: &str = "api.ecr.us-west-2.amazonaws.com";

/// The access key that ECR was asked with.
fn signer(node: &Node) -> String {
    let requests = node.internet.requests();
    let request = requests.iter().find(|request| request.host == API).unwrap();
    let signed = request.header("authorization").unwrap();
    let key = signed.split("Credential=").nth(1).unwrap();
    key.split('/').next().unwrap().to_owned()
}

fn printed() -> String {
    json!({"Version": 1, "AccessKeyId": "AKIAPROCESS", "SecretAccessKey": NODE_SECRET}).to_string()
}

#[test]
fn a_credential_process_is_run_without_a_shell() {
    // Neither a shell nor a PATH is there, and a shell would take this name apart.
    let node = Node::bare(amazon).file("a $(name); of keys.json", &printed()).file(
        "config",
        "[default]\ncredential_process = /bin/cat '{folder}/a $(name); of keys.json'\n",
    );
    let config = node.path("config");
    let node = node.env("AWS_CONFIG_FILE", &config).env("PATH", "");

    node.ask(IMAGE).answer();

    assert_eq!(signer(&node), "AKIAPROCESS");
}

#[test]
fn a_role_can_be_assumed_from_a_credential_process() {
    let node = Node::bare(amazon).file("keys.json", &printed()).file(
        "config",
        "[profile puller]\nrole_arn = arn:puller\nsource_profile = base\n\
         [profile base]\ncredential_process = \"/bin/cat\" {folder}/keys.json\n",
    );
    let config = node.path("config");
    let node = node.env("AWS_CONFIG_FILE", &config).env("AWS_PROFILE", "puller");

    node.ask(IMAGE).answer();

    assert_eq!(node.asked(), ["sts.us-west-2.amazonaws.com", API]);
    let requests = node.internet.requests();
    assert!(requests[0].header("authorization").unwrap().contains("AKIAPROCESS/"));
    assert_eq!(signer(&node), "ASIAROLE");
}

#[test]
fn a_process_is_not_run_when_the_environment_has_keys() {
    let node = Node::new(amazon).file("config", "[default]\ncredential_process = /bin/false\n");
    let config = node.path("config");

    let node = node.env("AWS_CONFIG_FILE", &config);

    node.ask(IMAGE).answer();
    assert_eq!(signer(&node), "AKIANODE");
}

#[test]
fn a_process_that_fails_is_named_with_what_it_said() {
    let rows = [
        ("/bin/cat /no/such/file", "No such file or directory"),
        ("/no/such/program", "cannot run /no/such/program: no such file"),
        ("/bin/echo hunter2-role-secret", "is not the JSON"),
        ("/bin/echo 'open", "a quote in it is not closed"),
    ];
    for (command, told) in rows {
        let config = format!("[profile p]\ncredential_process = {command}\n");
        let node = Node::bare(amazon).file("config", &config).env("AWS_PROFILE", "p");
        let config = node.path("config");

        let said = node.env("AWS_CONFIG_FILE", &config).ask(IMAGE);

        let failure = said.failure();
        assert!(failure.contains("credential_process of the profile p: "), "{failure}");
        assert!(failure.contains(told), "{told} in {failure}");
    }
}

#[test]
fn a_token_in_a_file_is_traded_for_a_role() {
    let node = Node::bare(amazon).file("token", "web-identity");
    let token = node.path("token");
    let node = node.env("AWS_WEB_IDENTITY_TOKEN_FILE", &token).env("AWS_ROLE_ARN", "arn:node");

    node.ask(IMAGE).answer();

    assert_eq!(node.asked(), ["sts.us-west-2.amazonaws.com", API]);
    assert_eq!(signer(&node), "ASIAROLE");
}

/// What the metadata services of instances and of containers hand out.
fn instance_credentials() -> Response {
    Response::json(
        json!({
            "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z",
            "AccessKeyId": "ASIAINSTANCE", "SecretAccessKey": ROLE_SECRET, "Token": SESSION_TOKEN,
            "Expiration": "2999-01-01T00:00:00Z",
        })
        .to_string(),
    )
}

#[test]
fn the_instance_has_an_identity() {
    let node = Node::bare(|request| {
        let with_token = request.header("x-aws-ec2-metadata-token") == Some("imds-token");
        match (request.method.as_str(), request.path()) {
            ("PUT", "/latest/api/token") => {
                Response::text("imds-token").header("x-aws-ec2-metadata-token-ttl-seconds", "21600")
            }
            ("GET", "/latest/meta-data/iam/security-credentials/") if with_token => {
                Response::text("the-role")
            }
            ("GET", "/latest/meta-data/iam/security-credentials/the-role") if with_token => {
                instance_credentials()
            }
            _ => amazon(request),
        }
    });
    let imds = node.internet.url();
    let node = node
        .env("AWS_EC2_METADATA_DISABLED", "false")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &imds);

    node.ask(IMAGE).answer();

    assert_eq!(signer(&node), "ASIAINSTANCE");
    let placement = |request: &Request| request.target.contains("placement");
    assert!(!node.internet.requests().iter().any(placement), "the host names the region");
}

#[test]
fn an_instance_service_that_does_not_answer_costs_seconds_not_the_deadline() {
    let node = Node::bare(|_| Response::never());
    let imds = node.internet.url();
    let node = node
        .env("AWS_EC2_METADATA_DISABLED", "false")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &imds);
    let began = Instant::now();

    let said = node.ask(IMAGE);

    assert!(
        said.failure().contains("loading AWS credentials: this node has none"),
        "{}",
        said.stderr
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_container_has_an_identity() {
    let node = Node::bare(|request| match (request.path(), request.header("authorization")) {
        ("/role", Some("container-token")) => instance_credentials(),
        _ => amazon(request),
    });
    let uri = format!("{}/role", node.internet.url());
    let node = node
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri)
        .env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token");

    node.ask(IMAGE).answer();

    assert_eq!(signer(&node), "ASIAINSTANCE");
}

#[test]
fn a_node_without_any_identity_is_told_where_it_was_looked_for() {
    let node = Node::bare(amazon);

    let said = node.ask(IMAGE);

    assert!(said.failure().contains("neither AWS_ACCESS_KEY_ID, a profile"), "{}", said.stderr);
    assert!(node.asked().is_empty());
}

#[test]
fn what_an_instance_service_answers_is_never_quoted() {
    let node = Node::bare(|request| match request.method.as_str() {
        "PUT" => Response::text(SESSION_TOKEN).header("x-aws-ec2-metadata-token-ttl-seconds", "9"),
        _ => Response::text(ROLE_SECRET).with_status(403).header("x-secret", ROLE_SECRET),
    });
    let imds = node.internet.url();
    let node = node
        .env("AWS_EC2_METADATA_DISABLED", "false")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &imds);

    let said = node.ask(IMAGE);

    let told = "the instance's metadata service responded with status code 403\n";
    assert!(said.failure().ends_with(told), "{}", said.stderr);
}
