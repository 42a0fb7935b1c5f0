//! Whether a webhook says how it is.

use std::{sync::Mutex, time::Duration};

use keyfob_control::webhook::Options;
use keyfob_testkit::LogCapture;

use crate::reviews::{Webhook, World, asking_for};

fn webhook() -> Webhook {
    Webhook::new(World::default(), Options::default())
}

async fn ready(webhook: &Webhook) -> (u16, String) {
    let said = webhook.get("/readyz").await;
    (said.status.as_u16(), said.text)
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_while_the_api_server_answers() {
    let webhook = webhook();
    let down = |since| (503, format!("[+] certificate: ok\n[-] api-server: {since}\n"));
    assert_eq!(ready(&webhook).await, down("it has not answered yet"));

    let answers =
        Mutex::new(vec![Err("connection refused".to_owned()), Ok(vec!["api".to_owned()])]);
    let probe = webhook.health.probe(Duration::from_secs(10), || async {
        let next = answers.lock().unwrap().pop();
        next.unwrap_or_else(|| Err("connection reset".to_owned()))
    });
    let watch = async {
        tokio::task::yield_now().await;
        let well = (200, "[+] certificate: ok\n[+] api-server: ok\n".to_owned());
        assert_eq!(ready(&webhook).await, well);
        // It failed since, but it answered not long ago.
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(ready(&webhook).await, well);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(ready(&webhook).await, down("it last answered 35s ago: connection reset"));
    };
    tokio::select! {
        () = probe => panic!("a probe never ends"),
        () = watch => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_api_servers_audiences_is_logged() {
    let (webhook, logs) = (webhook(), LogCapture::start());
    let answers = Mutex::new(vec!["new", "old", "old"]);
    let probe = webhook.health.probe(Duration::from_secs(10), || async {
        let next = answers.lock().unwrap().pop();
        next.map(|audience| vec![audience.to_owned()]).ok_or_else(|| "gone".to_owned())
    });
    tokio::select! {
        () = probe => panic!("a probe never ends"),
        () = tokio::time::sleep(Duration::from_secs(35)) => {}
    }
    let logs = logs.text();
    let lines: Vec<&str> = logs.lines().filter(|line| line.contains("audiences=")).collect();
    assert_eq!(lines.len(), 2, "{logs}");
    assert!(lines[0].contains("old") && lines[1].contains("new"), "{logs}");
}

#[tokio::test]
async fn it_is_not_ready_with_a_certificate_that_has_expired() {
    let webhook = webhook();
    webhook.pki.clock.advance(Duration::from_hours(24 * 365 * 20));

    let (code, report) = ready(&webhook).await;

    assert_eq!(code, 503);
    assert!(report.starts_with("[-] certificate: it has expired\n"), "{report}");
    assert_eq!(webhook.get("/livez").await.status.as_u16(), 200);
}

#[tokio::test]
async fn its_metrics_count_decisions_and_show_the_end_of_the_certificate() {
    let webhook = webhook();
    webhook.review(&asking_for("vault")).await;
    webhook.review(&asking_for("other")).await;
    webhook.review(&asking_for("other")).await;

    let metrics = webhook.get("/metrics").await.text;

    for line in [
        "keyfob_audience_decisions_total{clause=\"projected-volume\",outcome=\"allowed\"} 1",
        "keyfob_audience_decisions_total{clause=\"not-authorized\",outcome=\"refused\"} 2",
        "keyfob_audience_duration_seconds_count 3",
        "keyfob_audience_certificate_expiry_timestamp_seconds 2208988800",
    ] {
        assert!(metrics.lines().any(|each| each == line), "{line}\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
}
