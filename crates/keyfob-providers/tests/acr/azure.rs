//! An Azure on loopback, and the plugin that is pointed at it.

use std::{fs, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use clap::Parser as _;
use keyfob_api::CredentialProviderResponse;
use keyfob_exec::Clock as _;
use keyfob_plugin::{
    CacheKeyType,
    testing::{Asking, Refused},
};
use keyfob_providers::{ProviderArgs as _, World, acr};
use keyfob_testkit::{FakeRunner, Internet, ManualClock, MapEnvironment, Request, Response};
use tempfile::TempDir;

pub(crate) const IMAGE: &str = "foo.azurecr.io/team/app";
pub(crate) const SECRET: &str = "hunter2-secret";
pub(crate) const POD: &str = "hunter2-token-of-the-pod";
pub(crate) const NODE: &str = "hunter2-token-of-the-node";
pub(crate) const CLIENT: &str = "pod-client";
pub(crate) const TENANT: &str = "pod-tenant";
pub(crate) const ANNOTATED: [(&str, &str); 2] = [
    ("kubernetes.azure.com/acr-client-id", CLIENT),
    ("kubernetes.azure.com/acr-tenant-id", TENANT),
];
/// Of a refresh token, in seconds.
pub(crate) const LIFE: i64 = 3 * 3600;

/// Who stands where, and how the plugin was started.
pub(crate) struct Azure {
    internet: Internet,
    directory: TempDir,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Azure {
    pub(crate) fn new(config: impl AsRef<str>) -> Self {
        Self::with(config, |_| None)
    }

    /// One in which some requests are answered otherwise.
    pub(crate) fn with(
        config: impl AsRef<str>,
        otherwise: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let internet =
            Internet::start(move |request| otherwise(request).unwrap_or_else(|| respond(request)));
        let directory = tempfile::tempdir().unwrap();
        let azure = Self { internet, directory, flags: Vec::new(), variables: Vec::new() };
        let config_file = azure.file("azure.json", config.as_ref());
        let ca_file = azure.internet.ca_file(azure.directory.path());
        let url = azure.internet.url();
        azure
            .flag(&config_file)
            .flag(&format!("--ca-file={ca_file}"))
            .variable("HTTPS_PROXY", &url)
            .variable("AZURE_IMDS_ENDPOINT", &url)
    }

    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file, and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.internet.requests()
    }

    pub(crate) async fn answer(&self, asking: Asking) -> Answered {
        Answered::of(&self.ask(asking).await.unwrap())
    }

    /// The line on stderr.
    pub(crate) async fn failure(&self, asking: Asking) -> String {
        self.ask(asking).await.unwrap_err().to_string()
    }

    pub(crate) async fn ask(&self, asking: Asking) -> Result<CredentialProviderResponse, Refused> {
        let command_line = std::iter::once("acr-credential-provider");
        let args = command_line.chain(self.flags.iter().map(String::as_str));
        let args = acr::Args::try_parse_from(args).unwrap();
        let environment: MapEnvironment = self.variables.iter().cloned().collect();
        let provider = args.provider(World::new(environment, FakeRunner::printing(""))).unwrap();
        asking.clock(Arc::new(ManualClock::default())).of(provider).await
    }
}

/// What is to be compared of an answer.
pub(crate) struct Answered {
    logins: Vec<(String, String, String)>,
    pub(crate) seconds: u64,
    pub(crate) key_type: CacheKeyType,
}

impl Answered {
    fn of(answer: &CredentialProviderResponse) -> Self {
        let logins = answer.auth.iter().map(|(key, auth)| {
            (key.clone(), auth.username.clone(), auth.password.expose().clone())
        });
        let kept = answer.cache_duration.unwrap().to_std().unwrap();
        Self { logins: logins.collect(), seconds: kept.as_secs(), key_type: answer.cache_key_type }
    }

    pub(crate) fn logins(&self) -> Vec<(&str, &str, &str)> {
        let logins = self.logins.iter();
        logins
            .map(|(key, user, password)| (key.as_str(), user.as_str(), password.as_str()))
            .collect()
    }

    pub(crate) fn sorted(&self) -> Vec<(&str, &str, &str)> {
        let mut logins = self.logins();
        logins.sort_unstable();
        logins
    }
}

/// A registry's refresh token that ends so many seconds after the test's now.
pub(crate) fn refresh_token(life: i64) -> String {
    let now = ManualClock::default().now().duration_since(std::time::UNIX_EPOCH);
    let end = i64::try_from(now.map_or(Duration::ZERO, |now| now).as_secs()).unwrap() + life;
    let claims = URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{end},"aud":"foo.azurecr.io"}}"#));
    format!("hunter2.{claims}.c2ln")
}

fn respond(request: &Request) -> Response {
    let host = request.host.as_str();
    match (request.method.as_str(), request.path()) {
        ("GET", "/metadata/identity/oauth2/token") if host == "127.0.0.1" => metadata(request),
        ("POST", path) if host.starts_with("login.") && path.ends_with("/oauth2/v2.0/token") => {
            Response::json(
                r#"{"token_type":"Bearer","expires_in":3599,"access_token":"aad-of-login-hunter2"}"#,
            )
        }
        ("GET", "/metadata/endpoints") if host == "management.my.cloud" => Response::json(
            r#"[{"name":"AzureCloud","authentication":{"loginEndpoint":"https://login.microsoftonline.com/"},
                 "suffixes":{"acrLoginServer":"azurecr.io"}},
                {"name":"mine","authentication":{"loginEndpoint":"https://login.my.cloud/","audiences":["x"]},
                 "suffixes":{"acrLoginServer":"azurecr.my.cloud","storage":"s"}}]"#,
        ),
        ("GET", "/v2/") if host.contains(".azurecr.") => {
            let realm = format!(r#"Bearer realm="https://{host}/oauth2/token",service="{host}""#);
            Response::status(401).header("Www-Authenticate", &realm)
        }
        ("POST", "/oauth2/exchange") if host.contains(".azurecr.") && request.tls => {
            Response::json(format!(r#"{{"refresh_token":"{}"}}"#, refresh_token(LIFE)))
        }
        _ => Response::status(404),
    }
}

/// Without this header, the metadata service takes a request for one that was smuggled in.
fn metadata(request: &Request) -> Response {
    if request.header("metadata") != Some("true") {
        return Response::status(400);
    }
    Response::json(
        r#"{"access_token":"aad-of-node-hunter2","client_id":"c","expires_in":"86399","expires_on":"4000000000",
            "ext_expires_in":"86399","not_before":"1","resource":"https://containerregistry.azure.net","token_type":"Bearer"}"#,
    )
}
