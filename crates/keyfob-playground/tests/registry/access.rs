//! Who gets in, and what the others are told.

use std::time::Duration;

use http::Method;
use keyfob_playground::registry::{
    Access, Grant, ImageToMake, Options, Registry, Right, StartError, User,
};
use serde_json::Value;

use super::{PASSWORD, Reply, Rig, refusal, reply};

const OTHER_PASSWORD: &str = "hunter2-other";

fn options(access: Access) -> Options {
    let users = vec![
        User::new("ada", PASSWORD).may_pull("team-a"),
        User::new("bob", OTHER_PASSWORD).may_push("team-b"),
    ];
    let anonymous = vec![Grant::new("public", Right::Pull)];
    Options { access, users, anonymous, ..Options::default() }
}

/// A registry with an image in three places.
async fn rig(access: Access) -> Rig {
    let mut rig = Rig::start(options(access)).await;
    rig.secrets.push(OTHER_PASSWORD.to_owned());
    for repository in ["team-a/app", "team-b/app", "public/app"] {
        let image = ImageToMake { layers: vec![b"layer".to_vec()], ..ImageToMake::default() };
        rig.registry.push_image(repository, "v1", &image).await.unwrap();
    }
    rig
}

impl Rig {
    async fn basic(&self, method: Method, path: &str, name: &str, password: &str) -> Reply {
        reply(self.ask(method, path).basic_auth(name, Some(password))).await
    }

    /// What the token service says.
    async fn token_reply(&self, login: Option<(&str, &str)>, query: &str) -> Reply {
        let request = self.ask(Method::GET, &format!("/token?service=keyfob-registry&{query}"));
        reply(match login {
            Some((name, password)) => request.basic_auth(name, Some(password)),
            None => request,
        })
        .await
    }

    async fn token(&mut self, login: Option<(&str, &str)>, scope: &str) -> String {
        let said = self.token_reply(login, &format!("scope={scope}")).await;
        assert_eq!(said.status, 200, "{scope}");
        let token = said.json()["token"].as_str().unwrap().to_owned();
        self.secrets.push(token.clone());
        token
    }

    async fn bearer(&self, method: Method, path: &str, token: &str) -> Reply {
        reply(self.ask(method, path).bearer_auth(token)).await
    }

    fn realm(&self) -> String {
        format!(r#"Bearer realm="{}/token",service="keyfob-registry""#, self.registry.url())
    }
}

const ADA: Option<(&str, &str)> = Some(("ada", PASSWORD));
const BOB: Option<(&str, &str)> = Some(("bob", OTHER_PASSWORD));
const TEAM_A: &str = "/v2/team-a/app/manifests/v1";
const TEAM_B: &str = "/v2/team-b/app/manifests/v1";
const PUBLIC: &str = "/v2/public/app/manifests/v1";

#[tokio::test]
async fn a_password_opens_what_its_owner_may_have() {
    let rig = rig(Access::Basic).await;
    let rows = [
        ("ada", PASSWORD, Method::GET, TEAM_A, 200),
        ("ada", PASSWORD, Method::HEAD, TEAM_A, 200),
        ("ada", PASSWORD, Method::GET, PUBLIC, 200),
        ("ada", PASSWORD, Method::GET, "/v2/", 200),
        ("ada", PASSWORD, Method::GET, "/v2/team-a/app/tags/list", 200),
        ("ada", PASSWORD, Method::GET, TEAM_B, 403),
        ("ada", PASSWORD, Method::POST, "/v2/team-a/app/blobs/uploads/", 403),
        ("ada", OTHER_PASSWORD, Method::GET, TEAM_A, 401),
        ("ada", "", Method::GET, TEAM_A, 401),
        ("eve", PASSWORD, Method::GET, TEAM_A, 401),
        ("eve", PASSWORD, Method::GET, PUBLIC, 401),
        ("bob", OTHER_PASSWORD, Method::GET, TEAM_B, 200),
        ("bob", OTHER_PASSWORD, Method::GET, TEAM_A, 403),
        ("bob", OTHER_PASSWORD, Method::POST, "/v2/team-b/new/blobs/uploads/", 202),
        ("bob", OTHER_PASSWORD, Method::POST, "/v2/public/app/blobs/uploads/", 403),
    ];
    for (name, password, method, path, want) in rows {
        let said = rig.basic(method.clone(), path, name, password).await;
        assert_eq!(said.status, want, "{name} {method} {path}");
        let challenge = if want == 401 { r#"Basic realm="keyfob-registry""# } else { "" };
        assert_eq!(said.header("www-authenticate"), challenge, "{name} {method} {path}");
    }
    assert_eq!(rig.get(PUBLIC).await.status, 200);
    for path in ["/v2/", TEAM_A, "/v2/no/such/manifests/x"] {
        assert_eq!(rig.get(path).await.refusal(), refusal(401, "UNAUTHORIZED"), "{path}");
    }
    assert_eq!(rig.get("/token").await.status, 404, "there are no tokens to be had");
    assert_eq!(rig.seen()[0], "GET /v2/team-a/app/manifests/v1 200 ada");
    assert_eq!(rig.seen()[5], "GET /v2/team-b/app/manifests/v1 403 ada");
    assert_eq!(rig.seen()[7], "GET /v2/team-a/app/manifests/v1 401 -", "a name is not a proof");
    rig.end().await;
}

#[tokio::test]
async fn a_token_opens_what_it_was_asked_for_and_no_more() {
    let mut rig = rig(Access::Bearer).await;
    let pull_a = rig.token(ADA, "repository:team-a/app:pull").await;
    let all_b = rig.token(BOB, "repository:team-b/app:pull,push").await;
    let none = rig.token(ADA, "").await;
    let anyone = rig.token(None, "repository:public/app:pull,push").await;
    let too_much =
        rig.token(ADA, "repository:team-b/app:pull repository:team-a/app:pull,push").await;
    let realm = rig.realm();
    let wants =
        |scope: &str, error: &str| format!(r#"{realm},scope="repository:{scope}",error="{error}""#);
    let upload_b = "/v2/team-b/app/blobs/uploads/";
    let rows = [
        (&pull_a, Method::GET, "/v2/", 200, String::new()),
        (&pull_a, Method::GET, TEAM_A, 200, String::new()),
        (&pull_a, Method::GET, TEAM_B, 403, String::new()),
        (&pull_a, Method::GET, PUBLIC, 401, wants("public/app:pull", "insufficient_scope")),
        (&pull_a, Method::PUT, TEAM_A, 403, String::new()),
        (&none, Method::GET, "/v2/", 200, String::new()),
        (&none, Method::GET, TEAM_A, 401, wants("team-a/app:pull", "insufficient_scope")),
        (&too_much, Method::GET, TEAM_A, 200, String::new()),
        (&too_much, Method::GET, TEAM_B, 403, String::new()),
        (&all_b, Method::GET, TEAM_B, 200, String::new()),
        (&all_b, Method::POST, upload_b, 202, String::new()),
        (
            &all_b,
            Method::GET,
            "/v2/team-b/b/manifests/v1",
            401,
            wants("team-b/b:pull", "insufficient_scope"),
        ),
        (&anyone, Method::GET, PUBLIC, 200, String::new()),
        (
            &anyone,
            Method::POST,
            "/v2/public/app/blobs/uploads/",
            401,
            wants("public/app:pull,push", "insufficient_scope"),
        ),
        (&anyone, Method::GET, TEAM_A, 401, wants("team-a/app:pull", "insufficient_scope")),
        (
            &"made-up".to_owned(),
            Method::GET,
            TEAM_A,
            401,
            wants("team-a/app:pull", "invalid_token"),
        ),
    ];
    for (token, method, path, want, challenge) in rows {
        let said = rig.bearer(method.clone(), path, token).await;
        assert_eq!(
            (said.status, said.header("www-authenticate")),
            (want, challenge.as_str()),
            "{method} {path}"
        );
    }
    let denied = rig.bearer(Method::GET, TEAM_B, &pull_a).await;
    assert_eq!(denied.refusal(), refusal(403, "DENIED"));
    rig.end().await;
}

#[tokio::test]
async fn a_stranger_is_told_where_to_get_a_token() {
    let rig = rig(Access::Bearer).await;
    let realm = rig.realm();
    for (method, path, challenge) in [
        (Method::GET, "/v2/", realm.clone()),
        (Method::GET, TEAM_A, format!(r#"{realm},scope="repository:team-a/app:pull""#)),
        (Method::GET, "/v2/a/tags/list", format!(r#"{realm},scope="repository:a:pull""#)),
        (
            Method::POST,
            "/v2/a/blobs/uploads/",
            format!(r#"{realm},scope="repository:a:pull,push""#),
        ),
        (Method::PUT, "/v2/a/manifests/v1", format!(r#"{realm},scope="repository:a:pull,push""#)),
    ] {
        let said = reply(rig.ask(method, path)).await;
        assert_eq!(said.refusal(), refusal(401, "UNAUTHORIZED"), "{path}");
        assert_eq!(said.header("www-authenticate"), challenge, "{path}");
    }
    let with_password = rig.basic(Method::GET, TEAM_A, "ada", PASSWORD).await;
    assert_eq!(with_password.status, 401, "a password is for the token service");
    rig.end().await;
}

#[tokio::test]
async fn the_token_service_wants_a_login() {
    let mut rig = rig(Access::Bearer).await;
    for (login, query) in [
        (None, "scope=repository:team-a/app:pull"),
        (None, ""),
        (Some(("ada", OTHER_PASSWORD)), "scope=repository:public/app:pull"),
        (Some(("eve", PASSWORD)), ""),
    ] {
        let said = rig.token_reply(login, query).await;
        assert_eq!(said.refusal(), refusal(401, "UNAUTHORIZED"), "{query}");
        assert_eq!(said.header("www-authenticate"), r#"Basic realm="keyfob-registry""#);
    }
    let elsewhere =
        rig.ask(Method::GET, "/token?service=elsewhere").basic_auth("ada", Some(PASSWORD));
    assert_eq!(reply(elsewhere).await.refusal(), refusal(400, "UNSUPPORTED"));

    let said = rig.token_reply(ADA, "scope=repository:team-a/app:pull&account=ada").await.json();
    let token = said["token"].as_str().unwrap().to_owned();
    assert_eq!(said["access_token"], Value::from(token.clone()));
    assert_eq!(
        (&said["expires_in"], &said["issued_at"]),
        (&300.into(), &"2030-03-17T17:46:40Z".into())
    );
    rig.secrets.push(token);
    rig.end().await;
}

#[tokio::test]
async fn several_scopes_may_stand_together_or_apart() {
    let mut rig = rig(Access::Bearer).await;
    for query in [
        "repository:team-a/app:pull&scope=repository:public/app:pull",
        "repository:team-a/app:pull%20repository:public/app:pull",
        "repository:team-a/app:pull+repository:public/app:pull",
    ] {
        let token = rig.token(ADA, query).await;
        for path in [TEAM_A, PUBLIC] {
            assert_eq!(rig.bearer(Method::GET, path, &token).await.status, 200, "{query}");
        }
    }
    rig.end().await;
}

#[tokio::test]
async fn a_token_ends_and_its_owner_can_have_another() {
    let mut rig = rig(Access::Bearer).await;
    let token = rig.token(ADA, "repository:team-a/app:pull").await;
    rig.clock.advance(Duration::from_secs(299));
    assert_eq!(rig.bearer(Method::GET, TEAM_A, &token).await.status, 200);
    rig.clock.advance(Duration::from_secs(1));
    let ended = rig.bearer(Method::GET, TEAM_A, &token).await;
    assert_eq!(ended.status, 401);
    assert!(ended.header("www-authenticate").ends_with(r#",error="invalid_token""#));
    let token = rig.token(ADA, "repository:team-a/app:pull").await;
    assert_eq!(rig.bearer(Method::GET, TEAM_A, &token).await.status, 200);
    rig.registry.end_tokens();
    assert_eq!(rig.bearer(Method::GET, TEAM_A, &token).await.status, 401);
    rig.end().await;
}

#[tokio::test]
async fn a_password_is_rotated_and_a_user_revoked() {
    let mut rig = rig(Access::Bearer).await;
    let token = rig.token(ADA, "repository:team-a/app:pull").await;
    rig.secrets.push("hunter2-new".to_owned());
    assert!(rig.registry.set_password("ada", "hunter2-new"));
    assert_eq!(rig.token_reply(ADA, "").await.status, 401);
    assert_eq!(rig.token_reply(Some(("ada", "hunter2-new")), "").await.status, 200);
    assert_eq!(rig.bearer(Method::GET, TEAM_A, &token).await.status, 200, "a token lives on");

    assert!(rig.registry.revoke("ada"));
    assert_eq!(rig.token_reply(Some(("ada", "hunter2-new")), "").await.status, 401);
    assert_eq!(rig.bearer(Method::GET, TEAM_A, &token).await.status, 401);
    assert!(!rig.registry.revoke("ada") && !rig.registry.set_password("ada", PASSWORD));

    rig.registry.set_user(User::new("ada", PASSWORD).may_pull("team-b"));
    let token = rig.token(ADA, "repository:team-b/app:pull").await;
    assert_eq!(rig.bearer(Method::GET, TEAM_B, &token).await.status, 200);
    rig.end().await;
}

#[tokio::test]
async fn nobody_mounts_what_they_may_not_pull() {
    let rig = rig(Access::Basic).await;
    let manifest = rig.basic(Method::GET, TEAM_A, "ada", PASSWORD).await.json();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap().to_owned();
    for (from, want) in [("team-a/app", 202), ("public/app", 201)] {
        let path = format!("/v2/team-b/other/blobs/uploads/?mount={layer}&from={from}");
        let said = rig.basic(Method::POST, &path, "bob", OTHER_PASSWORD).await;
        assert_eq!(said.status, want, "{from}");
    }
    rig.end().await;
}

#[tokio::test]
async fn a_registry_is_not_started_where_it_would_be_unsafe_or_could_not_speak() {
    let start = async |options| Registry::start(options).await.map(drop).unwrap_err();
    let listen = "0.0.0.0:0".parse().unwrap();
    let error = start(Options { listen, ..Options::default() }).await;
    assert!(matches!(error, StartError::NotLoopback(_)), "{error}");
    for users in [vec![User::new("a:b", PASSWORD)], vec![User::new("", PASSWORD)]] {
        let error = start(Options { users, ..Options::default() }).await;
        assert!(matches!(error, StartError::Unspeakable("name of a user")), "{error}");
    }
    let error = start(Options { service: "a\"b".into(), ..Options::default() }).await;
    assert!(matches!(error, StartError::Unspeakable("service")), "{error}");
    let running = Registry::start(Options::default()).await.unwrap();
    let error = start(Options { listen: running.address(), ..Options::default() }).await;
    assert!(matches!(error, StartError::Listen(..)), "{error}");
    running.stop().await;
}
