//! Faults that only another request than the usual brings to light.

use std::time::Duration;

use keyfob_contract::Grade;
use keyfob_testkit::Step;
use serde_json::json;

use super::plugin::{PASSWORD, Plugin, TOKEN, v1, with};
use crate::support::{Judged as _, failure, line, only, print};

#[tokio::test]
async fn an_older_version_answered_in_the_newest() {
    let plugin = Plugin { older: Some(Plugin::clean().v1), ..Plugin::clean() };

    let report = plugin.report().await;

    let fault = |check| report.findings.iter().filter(move |it| it.check == check);
    assert!(fault("older-versions").all(|it| it.grade == Grade::Fail), "{report:#?}");
    assert_eq!((report.count(Grade::Fail), report.count(Grade::Warn)), (2, 0), "{report:#?}");
}

#[tokio::test]
async fn credentials_for_whoever_asks() {
    let unknown = print(&line(&v1(&["nobody.keyfob.invalid"])));
    Plugin { unknown, ..Plugin::clean() }.warns("unknown-image").await;
    Plugin { unknown: vec![Step::Signal(9)], ..Plugin::clean() }.fails("unknown-image").await;
}

#[tokio::test]
async fn an_answer_without_a_request() {
    Plugin { no_request: Plugin::clean().v1, ..Plugin::clean() }.fails("no-stdin").await;
    Plugin { no_request: vec![Step::Exit(0)], ..Plugin::clean() }.fails("no-stdin").await;
}

#[tokio::test]
async fn waiting_for_a_request_that_does_not_come() {
    let (no_request, timeout) = (vec![Step::SleepMs(600_000)], Duration::from_secs(3));
    Plugin { no_request, timeout, ..Plugin::clean() }.fails("no-stdin").await;
}

#[tokio::test]
async fn a_buffer_that_is_too_small() {
    let huge = Some(failure("unexpected end of JSON input"));
    Plugin { huge, ..Plugin::clean() }.fails("huge-request").await;
}

#[tokio::test]
async fn a_strict_decoder() {
    let extra = Some(failure("unknown field \"futureFlag\""));
    Plugin { extra, ..Plugin::clean() }.fails("extra-fields").await;
    let extra = Some(print(&line(&with("cacheKeyType", "Global"))));
    Plugin { extra, ..Plugin::clean() }.warns("extra-fields").await;
}

#[tokio::test]
async fn the_pods_token_handed_out() {
    let login = |user: &str, password: &str| json!({"username": user, "password": password});
    let answering = |login| {
        let answer = with("auth", json!({"registry.example": login}));
        Plugin { token: Some(print(&line(&answer))), ..Plugin::clean() }
    };
    let rows = [
        (answering(login("jwt", TOKEN)), Grade::Warn),
        (answering(login(TOKEN, PASSWORD)), Grade::Fail),
    ];
    for (plugin, grade) in rows {
        let report = plugin.report_with(|it| it.token(TOKEN)).await;
        only(&report, "service-account", grade);
    }
}

#[tokio::test]
async fn a_token_that_it_cannot_use() {
    let refusing = Plugin { token: Some(failure("invalid signature")), ..Plugin::clean() };
    let report = refusing.report().await;
    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");

    let crashing = Plugin { token: Some(vec![Step::Signal(9)]), ..Plugin::clean() };
    crashing.fails("service-account").await;
}
