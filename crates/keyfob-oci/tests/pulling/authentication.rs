//! Who is let in, and with what.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_api::Chain;
use keyfob_oci::{Client, PullError};
use keyfob_testkit::{LeakCheck, LogCapture, ManualClock, MapEnvironment, Request, Response};
use serde_json::json;

use crate::{
    Kind, Node, client, login,
    registry::{Contents, Registry, counter, noise},
};

/// The address that a registry has, once it has one.
type Address = Arc<OnceLock<String>>;

/// A registry that gives its tokens itself, at `/token`, `token-1` first, and accepts those that `is_good` accepts.
fn with_tokens(
    contents: Contents,
    token: impl Fn(&Request, usize) -> Response + Send + Sync + 'static,
    is_good: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Registry {
    let address = Address::default();
    let (own, count) = (Arc::clone(&address), counter());
    let registry = Registry::twisted(contents, move |request, honest| {
        if request.path() == "/token" {
            return token(request, count() + 1);
        }
        let shown = request.header("authorization").and_then(|shown| shown.strip_prefix("Bearer "));
        if shown.is_some_and(&is_good) { honest } else { challenge(own.get().unwrap()) }
    });
    address.set(registry.internet.url()).unwrap();
    registry
}

fn challenge(url: &str) -> Response {
    let challenge = format!(
        r#"Bearer realm="{url}/token?fixed=yes",service="the registry",scope="repository:team/app:pull""#
    );
    let said = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
    Response::json(said).with_status(401).header("WWW-Authenticate", &challenge)
}

fn token(number: usize) -> Response {
    Response::json(format!(r#"{{"token":"token-{number}","expires_in":300}}"#))
}

fn layers() -> Contents {
    Contents::image(&[b"one", b"two", b"three", b"four", b"five"])
}

#[tokio::test]
async fn a_token_is_asked_for_once_as_the_user_and_serves_the_whole_pull_and_the_next() {
    let registry = with_tokens(layers(), |_, number| token(number), |token| token == "token-1");
    let node = Node::new();
    let ada = login("ada", "hunter2");

    node.pull(&registry.image(), Some(&ada)).await.unwrap();
    node.pull(&registry.image(), Some(&ada)).await.unwrap();

    let requests = registry.internet.requests();
    let asked: Vec<_> = requests.iter().filter(|request| request.path() == "/token").collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(
        asked[0].target,
        "/token?fixed=yes&service=the+registry&scope=repository%3Ateam%2Fapp%3Apull"
    );
    let basic = format!("Basic {}", BASE64_STANDARD.encode("ada:hunter2"));
    assert_eq!(asked[0].header("authorization"), Some(basic.as_str()));
    let elsewhere = requests.iter().filter(|request| request.path() != "/token");
    assert!(elsewhere.into_iter().all(|request| request.header("authorization") != Some(&basic)));
}

#[tokio::test]
async fn each_user_and_nobody_get_tokens_of_their_own() {
    let registry = with_tokens(layers(), |_, number| token(number), |_| true);
    let node = Node::new();

    for login in [None, Some(&login("ada", "x")), Some(&login("bob", "x")), None] {
        node.pull(&registry.image(), login).await.unwrap();
    }

    assert_eq!(registry.asked_for("/token"), 3);
}

#[tokio::test]
async fn an_identity_token_is_exchanged_for_an_access_token() {
    let issue = |request: &Request, _| {
        let fields = "grant_type=refresh_token&service=the+registry&client_id=keyfob\
                      &scope=repository%3Ateam%2Fapp%3Apull&refresh_token=hunter2%2F%2B";
        let is_right = request.method == "POST" && request.body == fields;
        assert_eq!(request.header("authorization"), None);
        if is_right {
            Response::json(r#"{"access_token":"token-1"}"#)
        } else {
            Response::status(400)
        }
    };
    let registry = with_tokens(layers(), issue, |token| token == "token-1");

    Node::new().pull(&registry.image(), Some(&login("<token>", "hunter2/+"))).await.unwrap();
}

#[tokio::test]
async fn a_password_is_shown_to_a_registry_that_asks_for_it_and_only_then() {
    let basic = format!("Basic {}", BASE64_STANDARD.encode("ada:hunter2"));
    let expected = basic.clone();
    let registry = Registry::twisted(layers(), move |request, honest| {
        if request.header("authorization") == Some(expected.as_str()) {
            return honest;
        }
        Response::status(401).header("www-authenticate", "BASIC realm=\"x\"")
    });
    let node = Node::new();

    node.pull(&registry.image(), Some(&login("ada", "hunter2"))).await.unwrap();
    assert_eq!(registry.internet.requests()[0].header("authorization"), None);

    for login in [None, Some(&login("ada", "wrong"))] {
        let before = registry.internet.requests().len();
        let error = node.pull(&registry.image(), login).await.unwrap_err();
        assert_eq!(Kind::of(&error), Kind::Refused);
        let asked = registry.internet.requests().len() - before;
        assert_eq!(asked, if login.is_some() { 2 } else { 1 });
    }
}

type Says = fn() -> Response;

#[tokio::test]
async fn what_a_token_server_says_decides_whether_another_credential_may_do() {
    let rows: [(Says, &str, Kind, usize); 7] = [
        (
            || Response::json(r#"{"details":"incorrect username or password"}"#).with_status(401),
            "refused with status code 401: incorrect username or password",
            Kind::Refused,
            1,
        ),
        (|| Response::status(403), "refused with status code 403", Kind::Refused, 1),
        (
            || Response::json(r#"{"error":"invalid_grant"}"#).with_status(400),
            "refused with status code 400: invalid_grant",
            Kind::Refused,
            1,
        ),
        (
            || Response::status(503),
            "responded with status code 503 (tried 5 times)",
            Kind::Unavailable,
            5,
        ),
        (|| Response::status(302).header("Location", "/"), "status code 302", Kind::Other, 1),
        (|| Response::json("{}"), "the answer holds no token that can be sent", Kind::Other, 1),
        (|| Response::text(vec![b' '; 65537]), "the answer is larger than 64 KiB", Kind::Other, 1),
    ];
    for (answer, expected, kind, asked) in rows {
        let registry = with_tokens(layers(), move |_, _| answer(), |_| true);
        let error =
            Node::new().pull(&registry.image(), Some(&login("ada", "x"))).await.unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert_eq!((Kind::of(&error), registry.asked_for("/token")), (kind, asked), "{error}");
    }
}

#[tokio::test]
async fn a_token_that_is_new_and_refused_is_not_asked_for_again() {
    let registry = with_tokens(layers(), |_, number| token(number), |_| false);

    let error = Node::new().pull(&registry.image(), None).await.unwrap_err();

    assert!(matches!(error, PullError::Refused { status: 401, .. }), "{error}");
    assert!(error.to_string().ends_with(": UNAUTHORIZED: authentication required"), "{error}");
    assert_eq!(registry.asked_for("/token"), 1);
}

#[tokio::test]
async fn a_token_that_ends_in_the_middle_of_a_pull_is_renewed_once_for_all_layers() {
    let last = Arc::new(std::sync::Mutex::new("token-1".to_owned()));
    let (current, uses) = (Arc::clone(&last), counter());
    // The first token is good for the manifest and one blob.
    let registry = with_tokens(
        layers(),
        move |_, number| {
            *last.lock().unwrap() = format!("token-{number}");
            token(number)
        },
        move |token| *current.lock().unwrap() == token && (token != "token-1" || uses() < 2),
    );
    let node = Node::new();

    node.pull(&registry.image(), None).await.unwrap();

    assert_eq!(registry.asked_for("/token"), 2);
    assert!(node.has(b"five"));
}

#[tokio::test]
async fn a_token_is_not_used_after_its_time() {
    let clock = ManualClock::default();
    let registry = with_tokens(layers(), |_, number| token(number), |_| true);
    let node = Node::with(client().clock(Arc::new(clock.clone())));

    for (later, tokens) in [(0, 1), (200, 1), (200, 2)] {
        clock.advance(Duration::from_secs(later));
        node.pull(&registry.image(), None).await.unwrap();
        assert_eq!(registry.asked_for("/token"), tokens);
    }
    let shown = registry.internet.requests();
    let shown = shown.iter().rev().find_map(|request| request.header("authorization"));
    assert_eq!(shown, Some("Bearer token-2"));
}

#[tokio::test]
async fn no_login_goes_to_a_token_server_over_plain_http() {
    for realm in
        ["http://auth.example/token", "HTTP://10.0.0.1/token", "ftp://auth.example", "/token", ""]
    {
        let registry = Registry::twisted(layers(), move |_, _| {
            let challenge = format!("Bearer realm=\"{realm}\", Basic realm=x");
            // Without a realm there is only the password left, which this registry may see.
            Response::status(401).header("WWW-Authenticate", &challenge)
        });
        let node = Node::new();

        let error = node.pull(&registry.image(), Some(&login("ada", "hunter2"))).await.unwrap_err();

        match realm {
            "" => assert_eq!(Kind::of(&error), Kind::Refused),
            _ if realm.to_lowercase().starts_with("http:") => {
                assert!(matches!(error, PullError::PlainHttp { .. }), "{error}");
                assert!(error.to_string().contains("names it as its token server"), "{error}");
            }
            _ => assert_eq!(Kind::of(&error), Kind::Other, "{error}"),
        }
        let shown = registry.internet.requests();
        let shown = shown.iter().filter_map(|request| request.header("authorization")).count();
        assert_eq!(shown, usize::from(realm.is_empty()));
    }
}

#[tokio::test]
async fn whatever_a_server_sends_back_of_a_secret_is_not_told() {
    let logs = LogCapture::start();
    let password = "hunter2 with/a+space";
    let echo = |request: &Request, decoded: &str| {
        let said: Vec<_> = request.headers.iter().map(|(_, value)| value.as_str()).collect();
        let said = format!("{} {} {decoded}", said.join(" "), request.body);
        Response::json(json!({"errors": [{"code": "DENIED", "message": said}]}).to_string())
    };
    let mut told = Vec::new();
    for status in [400, 401, 403, 404, 429, 503] {
        for username in ["ada", "<token>"] {
            let says = move |request: &Request, _| echo(request, password).with_status(status);
            let registry = with_tokens(layers(), says, |_| true);
            let login = login(username, password);
            told.push(Node::new().pull(&registry.image(), Some(&login)).await.unwrap_err());
        }
        let registry =
            Registry::twisted(layers(), move |request, _| match request.header("authorization") {
                Some(_) => echo(request, password).with_status(status),
                None => Response::status(401).header("WWW-Authenticate", "Basic"),
            });
        let login = login("ada", password);
        told.push(Node::new().pull(&registry.image(), Some(&login)).await.unwrap_err());
        let address = Address::default();
        let own = Arc::clone(&address);
        let registry =
            Registry::twisted(layers(), move |request, _| match request.header("authorization") {
                _ if request.path() == "/token" => Response::json(r#"{"token":"a-token-of-ada"}"#),
                Some(_) => echo(request, "a-token-of-ada").with_status(status),
                None => challenge(own.get().unwrap()),
            });
        address.set(registry.internet.url()).unwrap();
        told.push(Node::new().pull(&registry.image(), None).await.unwrap_err());
    }
    let leaks = LeakCheck::new([
        password.to_owned(),
        "hunter2".to_owned(),
        BASE64_STANDARD.encode(format!("ada:{password}")),
        "a-token-of-ada".to_owned(),
    ]);
    for error in &told {
        leaks.error(error);
        assert!(error.to_string().contains("DENIED"), "{error}");
    }
    leaks.text("the log", &logs.text());
}

#[tokio::test]
async fn docker_hub_is_found_at_its_own_address_behind_a_proxy_and_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let contents = Contents::image(&[&noise(1000, 1)]);
    let registry = Registry::twisted(contents.clone(), move |request, _| {
        let path =
            request.target.replace("/v2/library/nginx/", "/v2/team/app/").replace("1.27", "v1");
        match (request.host.as_str(), request.tls, request.header("authorization")) {
            ("auth.docker.io", true, None) => Response::json(r#"{"token":"anonymous"}"#),
            ("registry-1.docker.io", true, Some("Bearer anonymous")) => {
                contents.answer(&Request { target: path, ..request.clone() })
            }
            ("registry-1.docker.io", true, None) => Response::status(401)
                .header("WWW-Authenticate", "Bearer realm=\"https://auth.docker.io/token\""),
            _ => Response::status(500),
        }
    });
    let proxy = [("HTTPS_PROXY", registry.internet.url())];
    let client = Client::builder(&proxy.into_iter().collect::<MapEnvironment>())
        .ca_file(Some(registry.internet.ca_file(directory.path()).into()));
    let node = Node::with(client);

    let image = node.pull("nginx:1.27", None).await.unwrap();

    assert_eq!(image.name.unwrap().to_string(), "docker.io/library/nginx:1.27");
    assert!(node.has(&noise(1000, 1)));
}

#[tokio::test]
async fn a_registry_with_a_certificate_of_strangers_is_shown_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (registry, stranger) = (Registry::honest(layers()), Registry::honest(layers()));
    let proxy = [("HTTPS_PROXY", registry.internet.url())];
    let client = Client::builder(&proxy.into_iter().collect::<MapEnvironment>())
        .ca_file(Some(stranger.internet.ca_file(directory.path()).into()));

    let error = Node::with(client).pull("r.io/team/app:v1", None).await.unwrap_err();

    assert!(matches!(error, PullError::Connection { .. }), "{error}");
    assert_eq!(Kind::of(&error), Kind::Other);
    let told = Chain(&error).to_string();
    assert!(told.contains("invalid peer certificate") && told.contains("--ca-file"), "{told}");
    assert_eq!(registry.internet.requests().len(), 0);
}
