//! The HTTP client's rules, against servers that break them.

#![expect(clippy::indexing_slicing, reason = "a test fails where it stands")]
#![cfg(feature = "http")]

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use keyfob_plugin::{Answer, Failure, ImageCredentials, ImageRequest, testing::Asking};
use keyfob_providers::http::{Http, HttpArgs, HttpError, Reply};
use keyfob_testkit::{Internet, LeakCheck, MapEnvironment, Response};

/// A client in an environment, with the roots of a file.
fn client(ca_file: Option<String>, variables: &[(&str, &str)]) -> Http {
    let mut args = HttpArgs::default();
    args.ca_file = ca_file.map(Into::into);
    Http::new(&args, &variables.iter().copied().collect::<MapEnvironment>())
}

/// A provider that asks one address, to be part of a run.
struct Asks<'a> {
    http: &'a Http,
    url: String,
    patience: Duration,
}

impl ImageCredentials for Asks<'_> {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let asking = self.http.get(&self.url).attempt_limit(self.patience);
        let reply = asking.send(request.call()).await?.success()?;
        let password = String::from_utf8(reply.body().expose().clone())?;
        Ok(Answer::login(request.registry(), "robot", password))
    }
}

/// What comes of asking an address: the body, or the line on stderr.
async fn ask(http: &Http, url: &str, deadline: Duration) -> Result<String, String> {
    asked(Asks { http, url: url.into(), patience: MINUTE }, deadline).await
}

async fn asked(provider: Asks<'_>, deadline: Duration) -> Result<String, String> {
    let answer = Asking::about("r.io/app").deadline(deadline).of(provider).await;
    let answer = answer.map_err(|refused| refused.to_string())?;
    Ok(answer.auth[0].1.password.expose().clone())
}

const MINUTE: Duration = Duration::from_mins(1);
const MOMENT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_host_is_reached_through_the_proxy_with_the_roots_that_were_named() {
    let directory = tempfile::tempdir().unwrap();
    let internet = Internet::start(|request| Response::text(request.host.clone()));
    let proxy = internet.url();
    let ca_file = internet.ca_file(directory.path());
    let http = client(Some(ca_file), &[("HTTPS_PROXY", &proxy), ("http_proxy", &proxy)]);

    let secure = ask(&http, "https://login.example.com/x", MINUTE).await;
    let plain = ask(&http, "http://plain.example.com/x", MINUTE).await;

    assert_eq!(secure.unwrap(), "login.example.com");
    assert_eq!(plain.unwrap(), "plain.example.com");
    let tls: Vec<_> = internet.requests().iter().map(|request| request.tls).collect();
    assert_eq!(tls, [true, false]);
}

#[tokio::test]
async fn a_host_with_a_certificate_of_strangers_is_not_spoken_to() {
    let directory = tempfile::tempdir().unwrap();
    let internet = Internet::start(|_| Response::text("secret"));
    let stranger = Internet::start(|_| Response::text("secret"));
    let ca_file = stranger.ca_file(directory.path());
    let http = client(Some(ca_file), &[("https_proxy", &internet.url())]);

    let refused = ask(&http, "https://login.example.com/x", MINUTE).await.unwrap_err();

    assert!(refused.contains("GET https://login.example.com/x: "), "{refused}");
    assert!(refused.contains("invalid peer certificate: "), "{refused}");
    assert!(refused.contains("--ca-file") && !refused.contains("tried"), "{refused}");
    assert_eq!(internet.requests().len(), 0);
}

#[tokio::test]
async fn roots_are_read_when_tls_is_used_and_not_before() {
    let internet = Internet::start(|_| Response::text("plain"));
    let http = client(Some("/nowhere/ca.pem".into()), &[]);

    assert_eq!(ask(&http, &internet.url(), MINUTE).await.unwrap(), "plain");
    let refused = ask(&http, "https://r.io/", MINUTE).await.unwrap_err();
    assert!(refused.contains("cannot read /nowhere/ca.pem: No such file"), "{refused}");
}

#[tokio::test]
async fn this_machine_and_its_link_are_never_reached_through_a_proxy() {
    let internet = Internet::start(|request| Response::text(request.host.clone()));
    let elsewhere = Internet::start(|_| Response::text("from the proxy"));
    let http = client(None, &[("ALL_PROXY", &elsewhere.url())]);

    assert_eq!(ask(&http, &internet.url(), MINUTE).await.unwrap(), "127.0.0.1");
    for host in ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "metadata.google.internal."] {
        let outcome = ask(&http, &format!("http://{host}/"), MOMENT).await;
        assert!(outcome.is_err(), "{host}: {outcome:?}");
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_blamed_and_not_the_host_behind_it() {
    let http = client(None, &[("HTTPS_PROXY", "http://robot:hunter2-proxy@127.0.0.1:1")]);

    let refused = ask(&http, "https://login.example.com/x", MOMENT).await.unwrap_err();

    assert!(refused.contains("GET https://login.example.com/x: "), "{refused}");
    assert!(refused.contains("the proxy that the environment names: "), "{refused}");
    LeakCheck::new(["hunter2-proxy"]).text("the failure", &refused);
}

#[tokio::test]
async fn no_proxy_is_honoured() {
    let internet = Internet::start(|_| Response::text("from the proxy"));
    let http = client(None, &[("HTTP_PROXY", &internet.url()), ("NO_PROXY", "inside.invalid")]);

    assert_eq!(ask(&http, "http://outside.invalid/", MINUTE).await.unwrap(), "from the proxy");
    assert!(ask(&http, "http://inside.invalid/", MOMENT).await.is_err());
    assert_eq!(internet.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let internet = Internet::start(|request| match request.path() {
        "/" => Response::status(307).header("Location", "/elsewhere"),
        _ => Response::text("elsewhere"),
    });

    let refused = ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap_err();

    assert!(refused.contains("responded with status code 307"), "{refused}");
    assert_eq!(internet.requests().len(), 1);
}

#[tokio::test]
async fn a_body_without_end_is_cut() {
    let internet = Internet::start(|_| Response::text(vec![b'a'; 2 << 20]));

    let refused = ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap_err();

    assert!(refused.contains("the answer is larger than 1024 KiB"), "{refused}");
}

#[tokio::test]
async fn throttling_is_met_with_patience() {
    let asked = AtomicUsize::new(0);
    let internet = Internet::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Response::status(429).header("Retry-After", "0"),
        1 => Response::status(503),
        _ => Response::text("at last"),
    });

    assert_eq!(ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap(), "at last");
    assert_eq!(internet.requests().len(), 3);
}

#[tokio::test]
async fn patience_ends_before_the_deadline_does() {
    let internet = Internet::start(|_| Response::status(429).header("Retry-After", "3600"));

    let refused = ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap_err();

    assert!(refused.contains("status code 429"), "{refused}");
    assert_eq!(internet.requests().len(), 1);
}

#[tokio::test]
async fn what_the_caller_did_wrong_is_not_asked_again() {
    let said = r#"{"error":"invalid_grant","error_description":"no trust in this issuer"}"#;
    let internet = Internet::start(move |_| Response::json(said).with_status(400));

    let refused = ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap_err();

    let expected = "status code 400: invalid_grant: no trust in this issuer";
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(internet.requests().len(), 1);
}

#[tokio::test]
async fn an_error_shows_neither_query_nor_login_nor_body() {
    let leaks = LeakCheck::new(["hunter2", "the-body"]);
    let internet = Internet::start(|_| Response::text("the-body").with_status(403));
    let http = client(None, &[]);
    let address = internet.address();
    for url in [
        format!("http://{address}/token?key=hunter2"),
        format!("http://robot:hunter2@{address}/token"),
        "http://robot:hunter2@/".to_owned(),
        "no address@hunter2".to_owned(),
    ] {
        let refused = ask(&http, &url, MINUTE).await.unwrap_err();
        leaks.text("the line on stderr", &refused);
    }
    let asked = http::Request::get(format!("http://{address}/x?key=hunter2"));
    let reply = http.once(asked.body(Vec::new()).unwrap(), MINUTE).await;
    let error: HttpError = reply.and_then(Reply::success).unwrap_err();
    leaks.debug("an error", &error).text("an error", &error.to_string());
    assert_eq!(error.status(), Some(403));
}

#[tokio::test]
async fn a_server_that_is_silent_is_asked_again_and_not_waited_for() {
    let silent = AtomicUsize::new(1);
    let internet = Internet::start(move |_| match silent.swap(0, Ordering::SeqCst) {
        1 => Response::never(),
        _ => Response::text("at last"),
    });
    let http = client(None, &[]);
    let asks = || Asks { http: &http, url: internet.url(), patience: MOMENT };

    assert_eq!(asked(asks(), Duration::from_secs(10)).await.as_deref(), Ok("at last"));
    assert_eq!(internet.requests().len(), 2);
}

#[tokio::test]
async fn a_long_complaint_is_told_shortened() {
    let said = format!(r#"{{"error":"denied","message":"{}"}}"#, "because ".repeat(10_000));
    let internet = Internet::start(move |_| Response::json(said.clone()).with_status(403));

    let refused = ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap_err();

    assert!(refused.contains("403: denied: because because"), "{refused}");
    assert!(refused.len() < 500, "{} bytes", refused.len());
}

#[tokio::test]
async fn no_time_is_too_long_to_be_asked_to_wait() {
    let internet =
        Internet::start(|_| Response::status(429).header("Retry-After", &u64::MAX.to_string()));

    let refused = ask(&client(None, &[]), &internet.url(), MINUTE).await.unwrap_err();

    assert!(refused.contains("status code 429"), "{refused}");
}
