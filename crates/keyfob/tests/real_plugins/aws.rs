//! aws-iam-authenticator and the AWS CLI, which log in to EKS.
//!
//! Their token is a presigned request to STS, which EKS sends to learn the caller's identity. Moto reads the access key only
//! from a header, so the cluster moves the signature from the query to a header. Moto does not verify signatures.

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_testkit::Request;

use crate::{
    built,
    cluster::{Cluster, Plugin},
    findings::ANSWERS_UNASKED,
    is_on,
    moto::{Moto, pass_on},
};

const CLUSTER: &str = "prod";
const ROLE: &str = "arn:aws:iam::123456789012:role/admin";

#[test]
fn aws_iam_authenticator_logs_in() {
    if !is_on() {
        return;
    }
    let authenticator = built("KEYFOB_AWS_IAM_AUTHENTICATOR");
    let args = ["token", "--cluster-id", CLUSTER, "--role", ROLE, "--session-name", "ada"];
    logs_in_with_a_role(Plugin::new(&authenticator, &args), "ada");
}

#[test]
fn the_aws_cli_logs_in() {
    if !is_on() {
        return;
    }
    let args = ["eks", "get-token", "--cluster-name", CLUSTER, "--role-arn", ROLE];
    logs_in_with_a_role(Plugin::new("aws", &args), "EKSGetTokenAuth");
}

/// The plugin assumes the role in each run, so each run gets a new token.
fn logs_in_with_a_role(plugin: Plugin, session: &str) {
    let moto = Moto::start(Path::new("moto_server"));
    let plugin = plugin
        .env("AWS_ACCESS_KEY_ID", "AKIAADA")
        .env("AWS_SECRET_ACCESS_KEY", "hunter2-secret-of-ada")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_DEFAULT_REGION", "us-west-2")
        .env("AWS_REGION", "us-west-2")
        .env("AWS_ENDPOINT_URL", format!("http://{}", moto.address));
    assert_eq!(plugin.findings(&[]), [ANSWERS_UNASKED]);

    let address = moto.address.clone();
    let cluster = Cluster::start(move |token| caller(&address, token));
    let user = format!("arn:aws:sts::123456789012:assumed-role/admin/{session}");
    cluster.assert_login(&plugin, &user);
}

/// The identity behind a token, from the STS at this address.
fn caller(sts: &str, token: &str) -> Option<String> {
    let signed = BASE64_URL_SAFE_NO_PAD.decode(token.strip_prefix("k8s-aws-v1.")?).ok()?;
    let signed = String::from_utf8(signed).ok()?;
    let query = signed.strip_prefix(&format!("http://{sts}/?"))?;
    let field = |name| query.split('&').find_map(|field| field.strip_prefix(name));
    let [credential, signature] = [field("X-Amz-Credential=")?, field("X-Amz-Signature=")?];
    // A signed cluster name keeps other clusters from accepting the token.
    let headers = field("X-Amz-SignedHeaders=").filter(|it| it.contains("x-k8s-aws-id"))?;
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}, SignedHeaders={headers}, Signature={signature}",
        credential.replace("%2F", "/"),
    );
    let body = format!("Action={}&Version=2011-06-15", field("Action=")?);
    let headers = [
        ("Authorization", authorization),
        ("Content-Type", "application/x-www-form-urlencoded".to_owned()),
        ("Content-Length", body.len().to_string()),
    ];
    let request = Request {
        host: sts.to_owned(),
        tls: false,
        method: "POST".to_owned(),
        target: "/".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        body,
    };
    let answer = String::from_utf8(pass_on(sts, &request).body).ok()?;
    let (_, arn) = answer.split_once("<Arn>")?;
    Some(arn.split_once("</Arn>")?.0.to_owned())
}
