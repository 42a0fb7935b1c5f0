//! `exchange-credential-provider` against services that trade tokens, each in its own way.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use clap::Parser as _;
use keyfob_api::CredentialProviderResponse;
use keyfob_exec::Clock as _;
use keyfob_plugin::{CacheKeyType, Margin, testing::Asking};
use keyfob_providers::{ProviderArgs as _, World, exchange::Args};
use keyfob_testkit::{
    FakeRunner, Internet, LeakCheck, ManualClock, MapEnvironment, Request, Response,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const POD_TOKEN: &str = "hunter2-pod";
const PASSWORD: &str = "hunter2-password";
const URL: &str = "https://auth.test/token";
const ISSUED: &str = r#"{"access_token":"hunter2-password","expires_in":900}"#;

/// A service that trades tokens, and the plugin that asks it.
struct Service {
    internet: Internet,
    _directory: TempDir,
    args: Vec<String>,
}

impl Service {
    fn new(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let internet = Internet::start(handler);
        let directory = tempfile::tempdir().unwrap();
        let args = ["--ca-file".to_owned(), internet.ca_file(directory.path())].to_vec();
        Self { internet, _directory: directory, args }
    }

    /// One that always says this.
    fn saying(body: impl Into<String>) -> Self {
        let body = body.into();
        Self::new(move |_| Response::json(body.clone()))
    }

    fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    async fn answer(&self, asking: Asking) -> Result<CredentialProviderResponse, String> {
        let command_line = ["exchange-credential-provider".to_owned()].into_iter();
        let args = Args::try_parse_from(command_line.chain(self.args.clone()))
            .map_err(|error| error.to_string())?;
        let proxy = self.internet.url();
        let environment = [("HTTPS_PROXY", &proxy), ("HTTP_PROXY", &proxy)];
        let environment: MapEnvironment = environment.into_iter().collect();
        let world = World::new(environment, FakeRunner::printing(""));
        let provider = args.provider(world).map_err(|failure| failure.to_string())?;
        let asking = asking.clock(Arc::new(ManualClock::default()));
        let answer = asking.of(provider).await.map_err(|refused| refused.to_string());
        LeakCheck::new([POD_TOKEN, PASSWORD])
            .text("the answer's Debug or the failure", &format!("{answer:?}"));
        answer
    }

    async fn failure(&self, asking: Asking) -> String {
        self.answer(asking).await.unwrap_err()
    }

    fn request(&self) -> Request {
        self.internet.requests().last().unwrap().clone()
    }
}

fn pod() -> Asking {
    Asking::about("r.test:5000/team/app").token(POD_TOKEN)
}

fn login(answer: &CredentialProviderResponse) -> [&str; 3] {
    let (key, auth) = &answer.auth[0];
    [key, &auth.username, auth.password.expose()]
}

fn duration(answer: &CredentialProviderResponse) -> Option<String> {
    answer.cache_duration.map(|duration| duration.to_string())
}

/// The fields of a form, in order.
fn form(body: &str) -> Vec<(String, String)> {
    let decode = |text: &str| text.replace("%3A", ":").replace("%2F", "/").replace('+', " ");
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

#[tokio::test]
async fn a_token_is_exchanged_as_the_standard_says() {
    let service = Service::saying(ISSUED).args(&[
        "--url",
        URL,
        "--username",
        "iam",
        "--audience",
        "{annotation:example.com/account}",
        "--resource",
        "https://r.test",
        "--scope",
        "pull push",
        "--requested-token-type",
        "urn:ietf:params:oauth:token-type:access_token",
        "--field",
        "tenant=t-1",
    ]);
    let answer = service.answer(pod().annotation("example.com/account", "aje-1")).await.unwrap();

    assert_eq!(login(&answer), ["r.test:5000", "iam", PASSWORD]);
    assert_eq!(answer.cache_key_type, CacheKeyType::Registry);
    assert_eq!(duration(&answer).as_deref(), Some("14m0s"));
    let request = service.request();
    assert_eq!(
        (request.host.as_str(), request.target.as_str(), request.tls),
        ("auth.test", "/token", true)
    );
    assert_eq!(request.header("Content-Type"), Some("application/x-www-form-urlencoded"));
    let expected = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("audience", "aje-1"),
        ("resource", "https://r.test"),
        ("scope", "pull push"),
        ("tenant", "t-1"),
        ("subject_token", POD_TOKEN),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(form(&request.body), expected);
}

#[tokio::test]
async fn a_token_is_sent_in_json_by_the_names_that_the_service_has() {
    let standard = Service::saying(r#"{"access_token":"hunter2-password","username":"ada"}"#);
    let standard = standard.args(&["--url", URL, "--style", "json", "--field", "provider_name=p"]);
    let answer = standard.answer(pod()).await.unwrap();
    assert_eq!(login(&answer), ["r.test:5000", "ada", PASSWORD]);
    assert_eq!(duration(&answer), None, "nobody said: the configuration decides");
    let expected = json!({
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "subject_token": POD_TOKEN,
        "provider_name": "p",
    });
    assert_eq!(standard.request().body.parse::<Value>().unwrap(), expected);

    let own = Service::saying(r#"{"token":"hunter2-password"}"#).args(&[
        "--url",
        URL,
        "--style=json",
        "--token-field=oidc_token",
        "--username=token",
        "--field=service_slug={annotation:cloudsmith.io/service-slug}",
        "--cache-key-type=image",
    ]);
    let answer =
        own.answer(pod().annotation("cloudsmith.io/service-slug", "puller-1")).await.unwrap();
    assert_eq!(login(&answer), ["r.test:5000", "token", PASSWORD]);
    assert_eq!(answer.cache_key_type, CacheKeyType::Image);
    let expected = json!({ "oidc_token": POD_TOKEN, "service_slug": "puller-1" });
    assert_eq!(own.request().body.parse::<Value>().unwrap(), expected);
}

#[tokio::test]
async fn a_token_is_sent_in_the_header() {
    let quay = Service::saying(r#"{"token":"hunter2-password"}"#).args(&[
        "--url=https://quay.test/oauth2/federation/robot/token",
        "--style=basic",
        "--username={annotation:quay.io/federated-robot-account}",
    ]);
    let answer = quay.answer(pod().annotation("quay.io/federated-robot-account", "org+bot")).await;
    assert_eq!(login(&answer.unwrap()), ["r.test:5000", "org+bot", PASSWORD]);
    let request = quay.request();
    assert_eq!((request.method.as_str(), request.body.as_str()), ("GET", ""));
    let both = BASE64_STANDARD.encode(format!("org+bot:{POD_TOKEN}"));
    assert_eq!(request.header("Authorization"), Some(format!("Basic {both}").as_str()));

    let bearer = Service::saying(ISSUED).args(&["--url", URL, "--style=bearer", "--username=x"]);
    bearer.answer(pod()).await.unwrap();
    let request = bearer.request();
    assert_eq!(request.header("Authorization"), Some("Bearer hunter2-pod"));
    assert_eq!((request.method.as_str(), request.body.as_str()), ("GET", ""));

    let with_body = bearer.args(&["--method=post", "--field=ttl=600"]);
    with_body.answer(pod()).await.unwrap();
    assert_eq!(with_body.request().body, r#"{"ttl":"600"}"#);
}

#[tokio::test]
async fn the_login_stands_where_the_command_line_says() {
    let body = json!({
        "data": { "user": "ada", "secret": PASSWORD, "ends": "2030-03-17T18:46:40Z" },
        "username": "not-this",
        "access_token": "not-this-either",
    });
    let service = Service::saying(body.to_string()).args(&[
        "--url",
        URL,
        "--username=nor-this",
        "--username-field=data.user",
        "--password-field=data.secret",
        "--expires-at-field=data.ends",
    ]);
    let answer = service.answer(pod()).await.unwrap();
    assert_eq!(login(&answer), ["r.test:5000", "ada", PASSWORD]);
    // It is 17:46:40 there.
    assert_eq!(duration(&answer).as_deref(), Some("59m0s"));
}

#[tokio::test]
async fn a_login_is_kept_until_the_margin_before_its_end() {
    let kept = async |life: i64, margin: &str| {
        let body = json!({ "access_token": PASSWORD, "expires_in": life }).to_string();
        let args = ["--url", URL, "--username=x", "--cache-margin", margin];
        Service::saying(body).args(&args).answer(pod()).await.map(|answer| duration(&answer))
    };
    assert_eq!(kept(900, "60").await, Ok(Some("14m0s".into())));
    assert_eq!(kept(3600, "300").await, Ok(Some("55m0s".into())));
    assert_eq!(kept(30, "60").await, Ok(Some("0s".into())));
    assert_eq!(kept(60, "60").await, Ok(Some("0s".into())));
    // Nothing is left of what has ended, and so it is no answer either.
    assert_eq!(Margin::Tenth.of(Duration::ZERO), Duration::ZERO);
    for life in [-5, 0] {
        assert!(
            kept(life, "60").await.unwrap_err().contains("the credential that was issued ended at")
        );
    }
}

#[tokio::test]
async fn a_password_that_is_a_jwt_knows_its_own_end() {
    let end = ManualClock::default().now() + Duration::from_mins(10);
    let claims = json!({ "exp": end.duration_since(UNIX_EPOCH).unwrap().as_secs() });
    let jwt = format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
    let service = Service::saying(json!({ "token": jwt }).to_string());
    let answer = service.args(&["--url", URL, "--username=x"]).answer(pod()).await.unwrap();
    assert_eq!(duration(&answer).as_deref(), Some("9m0s"));
}

#[tokio::test]
async fn an_annotation_chooses_neither_the_endpoint_nor_the_registry() {
    let service = Service::saying(ISSUED).args(&["--url", URL, "--username=x"]);
    let asking =
        ["quay.io/host-override", "quay.io/plain-http", "vault-address", "registry", "url"]
            .into_iter()
            .fold(pod(), |asking, key| asking.annotation(key, "https://evil.test/"));
    let answer = service.answer(asking.clone()).await.unwrap();
    assert_eq!(login(&answer)[0], "r.test:5000");
    assert_eq!(service.request().host, "auth.test");

    for url in ["https://{annotation:url}/token", "{annotation:url}"] {
        let service = Service::saying(ISSUED).args(&["--url", url, "--username=x"]);
        let failure = service.failure(asking.clone()).await;
        assert!(failure.contains("annotations cannot choose where a token is sent"), "{failure}");
        assert!(service.internet.requests().is_empty());
    }
}

#[tokio::test]
async fn an_annotation_is_made_of_harmless_characters() {
    let service =
        Service::saying(ISSUED).args(&["--url", URL, "--username=x", "--audience={annotation:k}"]);
    for value in ["", "a b", "a&scope=admin", "a:b", "a\"b", "a\nb", "é", &"a".repeat(257)] {
        let failure = service.failure(pod().annotation("k", value)).await;
        assert!(failure.contains("annotation k must be 1 to 256 letters"), "{value:?}: {failure}");
    }
    let failure = service.failure(pod()).await;
    assert!(failure.contains("the request has no annotation k"), "{failure}");
    assert!(service.internet.requests().is_empty());
}

#[tokio::test]
async fn a_token_is_sent_over_tls_unless_told() {
    for url in ["http://auth.test/token", "http://127.0.0.1/token"] {
        let service = Service::saying(ISSUED).args(&["--url", url, "--username=x"]);
        let failure = service.failure(pod()).await;
        assert!(failure.contains("--url: begins with http://"), "{failure}");
        assert!(service.internet.requests().is_empty());
    }
    let service = Service::saying(ISSUED);
    let service = service.args(&["--url=http://auth.test/token", "--username=x", "--allow-http"]);
    assert_eq!(login(&service.answer(pod()).await.unwrap())[2], PASSWORD);
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_the_token_goes_nowhere_else() {
    for status in [301, 302, 307, 308] {
        let service = Service::new(move |request| match request.host.as_str() {
            "auth.test" => Response::status(status).header("Location", "https://evil.test/token"),
            _ => Response::json(ISSUED),
        });
        let service = service.args(&["--url", URL, "--username=x"]);
        let failure = service.failure(pod()).await;
        assert!(failure.contains(&format!("status code {status}")), "{failure}");
        let hosts: Vec<_> =
            service.internet.requests().into_iter().map(|asked| asked.host).collect();
        assert_eq!(hosts, ["auth.test"]);
    }
}

#[tokio::test]
async fn a_request_without_a_token_says_what_to_configure() {
    let service = Service::saying(ISSUED).args(&["--url", URL, "--username=x"]);
    for asking in [Asking::about("r.test/a"), Asking::about("r.test/a").token("")] {
        assert!(service.failure(asking).await.contains("set tokenAttributes"));
    }
    assert!(service.internet.requests().is_empty());
}

#[tokio::test]
async fn only_registries_that_were_named_are_given_a_login() {
    let service = Service::saying(ISSUED);
    let service = service.args(&["--url", URL, "--username=x", "--registry=a.test,r.test:5000"]);
    assert_eq!(login(&service.answer(pod()).await.unwrap())[0], "r.test:5000");
    for image in ["evil.test/app", "r.test/app", "app"] {
        let answer = service.answer(Asking::about(image).token(POD_TOKEN)).await.unwrap();
        assert!(answer.auth.is_empty(), "{image}");
    }
    assert_eq!(service.internet.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_without_a_login_is_a_failure() {
    let rows = [
        (r#"{"access_token":""}"#, "the answer has no password"),
        (r#"{"access_token":" "}"#, "the answer has no password"),
        ("{}", "the answer has no password"),
        ("[]", "the answer has no password"),
        (
            r#"{"access_token":{"x":"hunter2-password"}}"#,
            "the answer's access_token is not a string",
        ),
        (r#"{"access_token":"hunter2-password","#, "the answer: invalid JSON at line 1"),
        (r#"{"token":"hunter2-password","expires_in":"soon"}"#, "is not a number of seconds"),
        (r#"{"token":"hunter2-password"}"#, "the answer names no user"),
        (r#"{"token":"hunter2-pod","username":"x"}"#, "the pod's own token"),
    ];
    for (body, reason) in rows {
        let failure = Service::saying(body).args(&["--url", URL]).failure(pod()).await;
        assert!(failure.contains(reason), "{body}: {failure}");
    }
    let named = Service::saying(ISSUED).args(&["--url", URL, "--username-field=user.name"]);
    assert!(named.failure(pod()).await.contains("the answer has no user name in user.name"));
}

#[tokio::test]
async fn a_command_line_that_cannot_work_is_refused_at_once() {
    let rows: [(&[&str], &str); 8] = [
        (&[], "--url"),
        (&["--url=https://ada:x@auth.test/"], "holds a user name or a password"),
        (&["--url", URL, "--style=basic"], "--username must say"),
        (&["--url", URL, "--method=get"], "needs post"),
        (&["--url", URL, "--style=bearer", "--field=a=b"], "add --method post"),
        (&["--url", URL, "--field=a"], "a field is written NAME=VALUE"),
        (&["--url", URL, "--password-field=a..b"], "names with dots"),
        (&["--url", URL, "--audience={annotation:"], "an annotation is written {annotation:KEY}"),
    ];
    for (args, reason) in rows {
        let failure = Service::saying(ISSUED).args(args).failure(pod()).await;
        assert!(failure.contains(reason), "{args:?}: {failure}");
    }
}

#[tokio::test]
async fn no_secret_gets_into_messages() {
    // `Service::answer` looks at every failure and every answer above as well.
    let service = Service::new(|_| {
        let body = json!({ "error": format!("no {POD_TOKEN}"), "access_token": PASSWORD });
        Response::json(body.to_string()).with_status(401)
    });
    let failure =
        service.args(&["--url", "https://auth.test/token?key=hunter2-password", "--username=x"]);
    let failure = failure.failure(pod()).await;
    assert!(
        failure.contains(
            "POST https://auth.test/token: responded with status code 401: no [redacted]"
        )
    );
    let args = Args::try_parse_from(["x", "--url", URL]).unwrap();
    LeakCheck::new([POD_TOKEN, PASSWORD]).debug("the arguments", &args);
}
