//! What a webhook logs. One test, because whether a line is logged at all is decided for the whole process.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]
#![expect(dead_code, reason = "the other tests use the rest")]

#[path = "webhook/pki.rs"]
mod pki;
#[path = "webhook/reviews.rs"]
mod reviews;

use std::fs;

use keyfob_control::webhook::Options;
use keyfob_testkit::{LeakCheck, LogCapture};
use reviews::{TOKEN, Webhook, World, asking_for};

#[tokio::test]
async fn decisions_are_logged_with_their_clause_and_never_the_object() {
    let logs = LogCapture::start();
    let webhook = Webhook::new(World::default(), Options::default());
    let down = World { down: Some("connection refused"), ..World::default() };
    let long = "x".repeat(10_000);

    for audience in ["vault", "other", &long] {
        webhook.review(&asking_for(audience)).await;
    }
    Webhook::new(down, Options::default()).review(&asking_for("vault")).await;
    let mut strange = asking_for("a\nb");
    strange["request"]["uid"] = long.clone().into();
    webhook.review(&strange).await;
    let certificates = webhook.pki.load();
    fs::write(webhook.pki.path("tls.key"), &webhook.pki.pair(2041).key).unwrap();
    certificates.reload();
    certificates.reload();

    let fields = |clause, outcome, audience| {
        format!(
            "uid=\"review-1\" clause=\"{clause}\" outcome=\"{outcome}\" node=\"n\" namespace=\"team\" \
             service_account=\"builder\" pod=\"app\" audience=\"{audience}\""
        )
    };
    let expected = [
        ("DEBUG", "token allowed", fields("projected-volume", "allowed", "vault")),
        ("INFO", "token refused", fields("not-authorized", "refused", "other")),
        ("INFO", "token refused", fields("not-authorized", "refused", &"x".repeat(256))),
        ("WARN", "no decision about a token", fields("api-server-unanswered", "refused", "vault")),
        ("INFO", "token refused", format!("uid=\"{}\" clause", "x".repeat(256))),
        // A bad pair is said once, however often it is read.
        ("ERROR", "the old one stays", "the key in".to_owned()),
    ];
    let logs = logs.text();
    assert_eq!(logs.lines().count(), expected.len(), "{logs}");
    for (line, (level, sentence, fields)) in logs.lines().zip(expected) {
        assert!(
            line.contains(level) && line.contains(sentence) && line.contains(&fields),
            "{line}"
        );
    }
    LeakCheck::new([TOKEN]).text("the log", &logs);
}
