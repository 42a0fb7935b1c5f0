//! `ecr-credential-provider` as a process, and an Amazon that is all on loopback.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyfob_testkit::{Internet, LeakCheck, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const IMAGE: &str = "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/app";
pub(crate) const PASSWORD: &str = "hunter2-registry";
pub(crate) const POD_TOKEN: &str = "hunter2-pod-token";
pub(crate) const NODE_SECRET: &str = "hunter2-node-secret";
pub(crate) const ROLE_SECRET: &str = "hunter2-role-secret";
pub(crate) const SESSION_TOKEN: &str = "hunter2-session-token";
const SECRETS: [&str; 5] = [PASSWORD, POD_TOKEN, NODE_SECRET, ROLE_SECRET, SESSION_TOKEN];

/// A node with the plugin on it.
pub(crate) struct Node {
    pub(crate) internet: Internet,
    pub(crate) folder: TempDir,
    env: Vec<(String, String)>,
    args: Vec<String>,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Node {
    /// A node with AWS credentials in its environment, and these answers to whatever it asks.
    pub(crate) fn new(answers: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let node = Self::bare(answers);
        node.env("AWS_ACCESS_KEY_ID", "AKIANODE").env("AWS_SECRET_ACCESS_KEY", NODE_SECRET)
    }

    /// One without any.
    pub(crate) fn bare(answers: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let internet = Internet::start(answers);
        let folder = tempfile::tempdir().unwrap();
        let args = vec!["--ca-file".to_owned(), internet.ca_file(folder.path())];
        let proxy = internet.url();
        Self { internet, folder, env: Vec::new(), args }
            .env("HTTPS_PROXY", &proxy)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/no/such/config")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/no/such/credentials")
    }

    /// The last value of a name counts.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// With a file, whose path the text may hold as `{folder}`.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let text = text.replace("{folder}", self.folder.path().to_str().unwrap());
        fs::write(self.folder.path().join(name), text).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Asks about an image, as a kubelet that sends no tokens.
    pub(crate) fn ask(&self, image: &str) -> Said {
        self.request(&request(image))
    }

    /// Asks for a pod whose service account has these annotations.
    pub(crate) fn ask_for_pod(&self, image: &str, annotations: &Value) -> Said {
        let mut request = request(image);
        request["serviceAccountToken"] = json!(POD_TOKEN);
        request["serviceAccountAnnotations"] = annotations.clone();
        self.request(&request)
    }

    pub(crate) fn request(&self, request: &Value) -> Said {
        self.run(&request.to_string())
    }

    /// Runs it with this on stdin. What it says to people never holds a secret.
    pub(crate) fn run(&self, stdin: &str) -> Said {
        let mut child = Command::new(env!("CARGO_BIN_EXE_keyfob"))
            .args(["provider", "ecr"])
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        LeakCheck::new(SECRETS).text("stderr", &stderr);
        Said { code: output.status.code(), stdout, stderr }
    }

    /// The hosts that were asked, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.internet.requests().into_iter().map(|request| request.host).collect()
    }
}

impl Said {
    /// The answer, which there must be.
    pub(crate) fn answer(&self) -> Value {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The one line of a failure, which there must be.
    pub(crate) fn failure(&self) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(1), ""), "{}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        &self.stderr
    }
}

pub(crate) fn request(image: &str) -> Value {
    json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": image,
    })
}

/// An Amazon that grants everything: tokens of twelve hours, and any role.
pub(crate) fn amazon(request: &Request) -> Response {
    match request.host.as_str() {
        host if host.starts_with("sts") => role(request),
        host if host.contains("ecr-public") => public_token(&login(), Some(TWELVE_HOURS)),
        host if host.contains("ecr") => token(&login(), Some(TWELVE_HOURS)),
        _ => Response::status(404),
    }
}

pub(crate) const TWELVE_HOURS: i64 = 12 * 60 * 60;

/// What ECR hands out, before it is encoded.
pub(crate) fn login() -> String {
    format!("AWS:{PASSWORD}")
}

/// The answer of ECR: a token that ends in so many seconds.
pub(crate) fn token(plain: &str, ends_in: Option<i64>) -> Response {
    amz_json(&json!({"authorizationData": [authorization_data(plain, ends_in)]}))
}

/// The answer of ECR Public, which has one where the other has a list.
pub(crate) fn public_token(plain: &str, ends_in: Option<i64>) -> Response {
    amz_json(&json!({"authorizationData": authorization_data(plain, ends_in)}))
}

fn authorization_data(plain: &str, ends_in: Option<i64>) -> Value {
    let mut data = json!({"authorizationToken": STANDARD.encode(plain)});
    if let Some(ends_in) = ends_in {
        data["expiresAt"] = json!(now().checked_add_signed(ends_in).unwrap());
    }
    data
}

pub(crate) fn amz_json(body: &Value) -> Response {
    Response::text(body.to_string()).header("Content-Type", "application/x-amz-json-1.1")
}

/// An error, as AWS's JSON services say it.
pub(crate) fn refusal(status: u16, code: &str, message: &str) -> Response {
    amz_json(&json!({"__type": code, "message": message})).with_status(status)
}

/// What STS answers to either way of assuming a role.
fn role(request: &Request) -> Response {
    let credentials = format!(
        "<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>{ROLE_SECRET}</SecretAccessKey>\
         <SessionToken>{SESSION_TOKEN}</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials>"
    );
    let action = request.body.split('&').find_map(|field| field.strip_prefix("Action=")).unwrap();
    let result = format!("<{action}Result>{credentials}</{action}Result>");
    Response::text(format!("<{action}Response>{result}</{action}Response>"))
        .header("Content-Type", "text/xml")
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}
