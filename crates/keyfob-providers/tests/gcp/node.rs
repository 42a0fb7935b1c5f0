//! A node, its metadata service, and a Google of our own.

use std::{fs, sync::Arc, time::Duration};

use clap::Parser as _;
use keyfob_api::{CredentialProviderResponse, Timestamp};
use keyfob_exec::Clock as _;
use keyfob_plugin::testing::Asking;
use keyfob_providers::{ProviderArgs as _, World, gcp::Args};
use keyfob_testkit::{
    FakeRunner, Internet, LeakCheck, ManualClock, MapEnvironment, Request, Response,
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const IMAGE: &str = "us-central1-docker.pkg.dev/my-project/my-repo/my-image";
/// Google's own registries, in the order of an answer.
pub(crate) const GOOGLE: [&str; 4] =
    ["*.gcr.io", "*.pkg.dev", "container.cloud.google.com", "gcr.io"];
pub(crate) const NODE_TOKEN: &str = "hunter2-node";
pub(crate) const POD_TOKEN: &str = "hunter2-pod";
pub(crate) const FEDERATED: &str = "hunter2-federated";
pub(crate) const IMPERSONATED: &str = "hunter2-impersonated";
pub(crate) const SECRETS: [&str; 4] = [NODE_TOKEN, POD_TOKEN, FEDERATED, IMPERSONATED];
pub(crate) const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
pub(crate) const CLUSTER: &str = "https://container.googleapis.com/v1/projects/my-project/locations/us-central1/clusters/my-cluster";
pub(crate) const OPT_IN: &str = "iam.gke.io/enable-wi-image-pull";
pub(crate) const DOCKER_CONFIG: &str =
    r#"{"https://hello.kubernetes.io":{"email":"foo@bar.baz","auth":"Zm9vOmJhcg=="}}"#;

/// A node that is on the internet, and how the plugin is configured there.
pub(crate) struct Node {
    pub(crate) internet: Internet,
    pub(crate) directory: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) args: Vec<String>,
    pub(crate) vars: Vec<(&'static str, String)>,
}

impl Node {
    pub(crate) fn new(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        // Another test of this process may have been first.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        let internet = Internet::start(handler);
        let directory = tempfile::tempdir().unwrap();
        let args = ["--ca-file".to_owned(), internet.ca_file(directory.path())].to_vec();
        let vars = vec![
            ("GCE_METADATA_HOST", internet.address().to_string()),
            ("HTTPS_PROXY", internet.url()),
            ("HTTP_PROXY", internet.url()),
        ];
        Self { internet, directory, clock: ManualClock::default(), args, vars }
    }

    /// With Google as it is on a good day.
    pub(crate) fn usual() -> Self {
        Self::new(google)
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    pub(crate) fn var(mut self, name: &'static str, value: &str) -> Self {
        self.vars.push((name, value.to_owned()));
        self
    }

    pub(crate) fn with_workload_identity(self) -> Self {
        self.args(&["--identity-provider", CLUSTER, "--project-id", "my-project"])
    }

    pub(crate) fn file(&self, text: &Value) -> String {
        let path = self.directory.path().join("credentials.json");
        fs::write(&path, text.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) async fn answer(
        &self,
        asking: Asking,
    ) -> Result<CredentialProviderResponse, String> {
        let command_line = ["auth-provider-gcp", "get-credentials"].into_iter().map(str::to_owned);
        let args = Args::try_parse_from(command_line.chain(self.args.clone()))
            .map_err(|error| error.to_string())?;
        let environment: MapEnvironment = self.vars.iter().cloned().collect();
        let world = World::new(environment, FakeRunner::printing(""));
        let provider = args.provider(world).map_err(|failure| failure.to_string())?;
        let asking = asking.clock(Arc::new(self.clock.clone()));
        let answer = asking.of(provider).await.map_err(|refused| refused.to_string());
        let shown = format!("{answer:?}");
        LeakCheck::new(SECRETS).text("the answer's Debug or the failure", &shown);
        answer
    }

    pub(crate) async fn failure(&self, asking: Asking) -> String {
        self.answer(asking).await.unwrap_err()
    }

    /// `METHOD host/path` of what was asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        let show =
            |request: &Request| format!("{} {}{}", request.method, request.host, request.target);
        self.internet.requests().iter().map(show).collect()
    }
}

pub(crate) fn google(request: &Request) -> Response {
    match (request.host.as_str(), request.path()) {
        ("127.0.0.1", TOKEN_PATH) => issued(NODE_TOKEN),
        ("sts.googleapis.com", "/v1/token") => issued(FEDERATED),
        ("iamcredentials.googleapis.com", _) => {
            let end = Timestamp::from(ManualClock::default().now() + Duration::from_hours(1));
            let answer = json!({ "accessToken": IMPERSONATED, "expireTime": end.to_string() });
            Response::json(answer.to_string())
        }
        _ => Response::status(404),
    }
}

pub(crate) fn issued(token: &str) -> Response {
    let answer = json!({ "access_token": token, "expires_in": 3599, "token_type": "Bearer" });
    Response::json(answer.to_string())
}

pub(crate) fn pod() -> Asking {
    Asking::about(IMAGE).token(POD_TOKEN).annotation(OPT_IN, "true")
}

pub(crate) fn keys(answer: &CredentialProviderResponse) -> Vec<&str> {
    answer.auth.iter().map(|(key, _)| key.as_str()).collect()
}

pub(crate) fn password(answer: &CredentialProviderResponse) -> &str {
    answer.auth[0].1.password.expose()
}

pub(crate) fn duration(answer: &CredentialProviderResponse) -> Option<String> {
    answer.cache_duration.map(|duration| duration.to_string())
}
