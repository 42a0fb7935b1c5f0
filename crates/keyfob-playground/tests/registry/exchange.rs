//! A pod's token is traded for a login.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use keyfob_api::{Claims, Secret};
use keyfob_exec::BoxFuture;
use keyfob_playground::registry::{
    Access, ImageToMake, Limits, Options, TokenVerifier, TokenVerifierError, Trust, User,
};
use serde_json::{Value, json};

use super::{PASSWORD, Reply, Rig, reply};

const SUBJECT: &str = "system:serviceaccount:team-a:puller";
const APP: &str = "/v2/team-a/app/manifests/v1";

/// Its own tokens have a certain signature.
#[derive(Debug)]
struct Issuer;

impl TokenVerifier for Issuer {
    fn verify<'a>(
        &'a self,
        token: &'a Secret<String>,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Claims, TokenVerifierError>> {
        assert_eq!(audience, "registry.example");
        Box::pin(async move {
            let is_genuine = token.expose().ends_with(".hunter2-signature");
            let claims = Claims::of(token).filter(|_| is_genuine);
            claims.ok_or_else(|| TokenVerifierError::new("the token is not from this cluster"))
        })
    }
}

/// One that never says anything.
#[derive(Debug)]
struct Silent;

impl TokenVerifier for Silent {
    fn verify<'a>(
        &'a self,
        _: &'a Secret<String>,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Claims, TokenVerifierError>> {
        Box::pin(std::future::pending())
    }
}

fn token(claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.hunter2-signature", part(&json!({"alg": "none"})), part(claims))
}

/// Ends this long after the clock's first time.
fn pod(subject: &str, audience: &str, seconds: i64) -> String {
    token(&json!({"sub": subject, "aud": [audience], "exp": 1_900_000_000 + seconds}))
}

async fn rig(trust: Option<Trust>) -> Rig {
    let users = vec![
        User::service_account("team-a", "puller").may_pull("team-a"),
        User::new("ada", PASSWORD).may_push(""),
    ];
    let limits = Limits { silence: Duration::from_millis(200), ..Limits::default() };
    let options = Options { access: Access::Basic, users, trust, limits, ..Options::default() };
    let mut rig = Rig::start(options).await;
    rig.secrets.push("hunter2".to_owned());
    for repository in ["team-a/app", "team-b/app"] {
        rig.registry.push_image(repository, "v1", &ImageToMake::default()).await.unwrap();
    }
    rig
}

fn trust() -> Trust {
    Trust::new("registry.example", Issuer)
}

impl Rig {
    async fn exchange(&self, token: &str) -> Reply {
        reply(self.ask(Method::POST, "/exchange").bearer_auth(token)).await
    }

    /// The name and the password that a token is worth.
    async fn login(&mut self, token: &str) -> (String, String) {
        let said = self.exchange(token).await;
        assert_eq!(said.status, 200, "{said:?}");
        self.login_in(&said)
    }

    fn login_in(&mut self, said: &Reply) -> (String, String) {
        let text = |name: &str| said.json()[name].as_str().unwrap().to_owned();
        let login = (text("username"), text("access_token"));
        self.secrets.push(login.1.clone());
        login
    }

    async fn with(&self, (name, password): &(String, String), path: &str) -> u16 {
        reply(self.ask(Method::GET, path).basic_auth(name, Some(password))).await.status
    }
}

#[tokio::test]
async fn a_token_is_worth_a_login_for_what_its_subject_may_have() {
    let mut rig = rig(Some(trust())).await;
    let said = rig.exchange(&pod(SUBJECT, "registry.example", 3600)).await;
    let fields = ["username", "expires_in", "token_type", "issued_token_type"];
    let issued = "urn:ietf:params:oauth:token-type:access_token";
    let want = [json!("team-a/puller"), json!(300), json!("N_A"), json!(issued)];
    assert_eq!(fields.map(|field| said.json()[field].clone()), want);
    let login = rig.login_in(&said);
    assert_eq!(rig.with(&login, APP).await, 200);
    assert_eq!(rig.with(&login, "/v2/team-b/app/manifests/v1").await, 403);
    let posted =
        ["POST /exchange 200 team-a/puller", "GET /v2/team-a/app/manifests/v1 200 team-a/puller"];
    assert_eq!(rig.seen()[..2], posted);
    rig.end().await;
}

#[tokio::test]
async fn a_token_is_sent_in_a_form_in_json_or_in_the_header() {
    let mut rig = rig(Some(trust())).await;
    let token = pod(SUBJECT, "registry.example", 3600);
    let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange";
    let form = format!("grant_type={grant}&subject_token_type=jwt&subject_token={token}");
    let as_form = rig.ask(Method::POST, "/exchange");
    let as_form = as_form.header("content-type", "application/x-www-form-urlencoded").body(form);
    let as_json = rig.ask(Method::POST, "/exchange").header("content-type", "application/json");
    let as_json = as_json.body(json!({"subject_token": token, "scope": "pull"}).to_string());
    for request in [as_form, as_json, rig.ask(Method::POST, "/exchange").bearer_auth(&token)] {
        let said = reply(request).await;
        let login = rig.login_in(&said);
        assert_eq!(rig.with(&login, APP).await, 200);
    }
    rig.end().await;
}

#[tokio::test]
async fn a_token_that_will_not_do_is_worth_nothing() {
    let rig = rig(Some(trust())).await;
    let genuine = pod(SUBJECT, "registry.example", 3600);
    let unnamed = "system:serviceaccount:team-a:other";
    let not_ours = "the token is not from this cluster";
    let audience = "the token is not for the audience registry.example";
    let ended = "the token has ended, or does not say when it ends";
    let missing = "no token: as subject_token in a form or in JSON, or as a bearer token";
    let rows = [
        (genuine.replace("signature", "forged"), not_ours.to_owned()),
        ("opaque".to_owned(), not_ours.to_owned()),
        (pod(SUBJECT, "kubernetes.default", 3600), audience.to_owned()),
        (pod(SUBJECT, "registry.example", 0), ended.to_owned()),
        (pod(SUBJECT, "registry.example", -60), ended.to_owned()),
        (token(&json!({"sub": SUBJECT, "aud": "registry.example"})), ended.to_owned()),
        (
            token(&json!({"aud": "registry.example", "exp": 1_900_003_600})),
            "the token has no subject".to_owned(),
        ),
        (
            pod(unnamed, "registry.example", 3600),
            format!("{unnamed} is not known to this registry"),
        ),
        (pod("ada", "registry.example", 3600), "ada is not known to this registry".to_owned()),
    ];
    for (token, why) in rows {
        let said = rig.exchange(&token).await;
        let want = json!({"error": "invalid_request", "error_description": why});
        assert_eq!((said.status, said.json()), (400, want));
    }
    for (kind, body) in [
        ("application/json", "{"),
        ("application/json", r#"{"subject_token":1}"#),
        ("application/x-www-form-urlencoded", "subject=x"),
        ("text/plain", ""),
    ] {
        let request = rig.ask(Method::POST, "/exchange").header("content-type", kind).body(body);
        assert_eq!(reply(request).await.json()["error_description"], missing, "{kind} {body}");
    }
    let long = rig.ask(Method::POST, "/exchange").body("x".repeat(100_000));
    assert_eq!(reply(long).await.status, 413);
    rig.end().await;
}

#[tokio::test]
async fn a_login_ends_with_its_token_or_before() {
    let mut rig = rig(Some(trust())).await;
    let long = rig.login(&pod(SUBJECT, "registry.example", 3600)).await;
    let short = rig.login(&pod(SUBJECT, "registry.example", 60)).await;
    assert_ne!(long.1, short.1);
    let mut seen = Vec::new();
    for seconds in [59, 1, 239, 1] {
        rig.clock.advance(Duration::from_secs(seconds));
        seen.push([rig.with(&short, APP).await, rig.with(&long, APP).await]);
    }
    assert_eq!(seen, [[200, 200], [401, 200], [401, 200], [401, 401]]);
    rig.end().await;
}

#[tokio::test]
async fn a_revoked_account_is_refused_and_so_are_the_logins_it_has() {
    let mut rig = rig(Some(trust())).await;
    let token = pod(SUBJECT, "registry.example", 3600);
    let login = rig.login(&token).await;
    assert!(rig.registry.revoke("team-a/puller"));
    assert_eq!(rig.with(&login, APP).await, 401);
    assert_eq!(rig.exchange(&token).await.status, 400);
    rig.registry.set_user(User::service_account("team-a", "puller"));
    let login = rig.login(&token).await;
    assert_eq!(rig.with(&login, APP).await, 403, "known, and not entitled any more");
    rig.end().await;
}

#[tokio::test]
async fn a_login_is_good_for_a_bearer_token() {
    let users = vec![User::service_account("team-a", "puller").may_pull("team-a")];
    let mut rig = Rig::start(Options { users, trust: Some(trust()), ..Options::default() }).await;
    rig.registry.push_image("team-a/app", "v1", &ImageToMake::default()).await.unwrap();
    let (name, password) = rig.login(&pod(SUBJECT, "registry.example", 3600)).await;
    let asked = rig.ask(Method::GET, "/token?scope=repository:team-a/app:pull");
    let said = reply(asked.basic_auth(&name, Some(&password))).await.json();
    let token = said["token"].as_str().unwrap().to_owned();
    assert_eq!(reply(rig.ask(Method::GET, APP).bearer_auth(&token)).await.status, 200);
    rig.secrets.push(token);
    rig.end().await;
}

#[tokio::test]
async fn without_trust_there_is_no_exchange_and_with_a_silent_judge_no_login() {
    let none = rig(None).await;
    assert_eq!(none.exchange("x").await.status, 404);
    none.end().await;
    let silent = rig(Some(Trust::new("registry.example", Silent))).await;
    assert_eq!(silent.exchange("hunter2").await.status, 500);
    silent.end().await;
}
