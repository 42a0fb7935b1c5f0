//! Faults of the process: how it starts, runs and ends, and what it says.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_contract::{ClientConformance, Grade};
use keyfob_exec::Program;
use keyfob_testkit::{FakeRunner, Script, Step};
use serde_json::json;

use super::plugin::{KEY_LINE, Plugin, TOKEN, VARIABLE, answer, pem, report, v1};
use crate::support::{Judged as _, ended, failure, failures, line, only};

#[tokio::test]
async fn no_program_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not-executable");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();

    let report = report(&ClientConformance::of(Program::at(&path).unwrap())).await;

    only(&report, "start", Grade::Fail);
    assert_eq!(report.count(Grade::Pass), 0, "{report:#?}");
}

#[tokio::test]
async fn waiting_for_a_person() {
    let v1 = vec![Step::Say("Password: ".into()), Step::SleepMs(600_000)];
    Plugin { v1, timeout: Duration::from_secs(1), ..Plugin::clean() }
        .fails("non-interactive")
        .await;
}

#[tokio::test]
async fn a_crash_and_an_endless_answer() {
    Plugin { v1: vec![Step::Signal(11)], ..Plugin::clean() }.fails("answer").await;
    Plugin { v1: vec![Step::FloodStdout(9 << 20)], ..Plugin::clean() }.fails("json").await;
}

#[tokio::test]
async fn children_that_hold_its_output() {
    let child = Step::Fork(Script::new([Step::SleepMs(600_000)]));
    let v1 = [vec![child], Plugin::clean().v1].concat();
    Plugin { v1, ..Plugin::clean() }.fails("leftovers").await;
}

#[tokio::test]
async fn chatter_when_all_is_well() {
    let v1 = [vec![Step::Say("logging in\n".into())], Plugin::clean().v1].concat();
    Plugin { v1, ..Plugin::clean() }.warns("stderr-noise").await;
}

#[tokio::test]
async fn secrets_on_stderr() {
    let leaking = failure(&format!("no info, but {TOKEN}"));
    Plugin { no_info: leaking, ..Plugin::clean() }.fails("stderr-secrets").await;

    let leaking =
        Plugin { no_info: failure(&format!("no info, but {VARIABLE}")), ..Plugin::clean() };
    let report = leaking.report_with(|it| it.env("LOGIN_PASSWORD", VARIABLE)).await;
    only(&report, "stderr-secrets", Grade::Fail);
}

#[tokio::test]
async fn a_line_of_a_key_on_stderr() {
    let pair =
        json!({"clientCertificateData": pem("CERTIFICATE"), "clientKeyData": pem("PRIVATE KEY")});
    let older = failure("not supported");
    let no_info = failure(&format!("cannot parse {KEY_LINE}"));
    Plugin { older, no_info, ..Plugin::printing(&line(&answer("v1", &pair))) }
        .fails("stderr-secrets")
        .await;
}

#[tokio::test]
async fn a_failure_without_a_word() {
    Plugin { no_info: vec![Step::Exit(1)], ..Plugin::clean() }.warns("failure-message").await;
}

#[tokio::test]
async fn a_failure_that_exits_well() {
    let v1 = vec![Step::Print("error: not logged in\n".into())];
    let report = Plugin { v1, ..Plugin::clean() }.report().await;

    assert_eq!(failures(&report), ["json", "api-version"]);
}

#[tokio::test]
async fn an_answer_that_nobody_could_read() {
    let (v1, v1beta1) = (line(&v1()), line(&answer("v1beta1", &v1()["status"])));
    let script = format!(
        "trap '' PIPE\ncase \"$KUBERNETES_EXEC_INFO\" in\n*v1beta1*) printf '%s' '{v1beta1}' ;;\n\
         *k8s.io*) printf '%s' '{v1}' 2>/dev/null ;;\n*) echo refused >&2; exit 1 ;;\nesac\nexit 0\n"
    );
    let plugin = ClientConformance::of(Program::at("/bin/sh").unwrap()).args([
        "-c",
        script.as_str(),
        "plugin",
    ]);

    let report = report(&plugin).await;

    only(&report, "closed-stdout", Grade::Warn);
}

/// What no script can tell apart: how long the request is, and how often the usual one came before.
async fn failures_if(
    fails: impl Fn(&str, usize) -> bool + Send + Sync + 'static,
) -> Vec<&'static str> {
    let usual = Mutex::new(0);
    let runner = FakeRunner::new(move |invocation| {
        let is_info = |(name, _): &&_| *name == "KUBERNETES_EXEC_INFO";
        let Some((_, info)) = invocation.variables().iter().find(is_info) else {
            return Ok(ended(invocation, None));
        };
        let info = info.to_str().unwrap();
        let version = if info.contains("v1beta1") { "v1beta1" } else { "v1" };
        let is_usual = !info.contains("cluster") && !info.contains("future") && version == "v1";
        let mut usual = usual.lock().unwrap();
        *usual += usize::from(is_usual);
        if fails(info, if is_usual { *usual } else { 0 }) {
            return Ok(ended(invocation, None));
        }
        Ok(ended(invocation, Some(line(&answer(version, &v1()["status"])))))
    });
    let plugin = ClientConformance::of(Program::at("/plugin").unwrap());
    failures(&plugin.report(Arc::new(runner)).await)
}

#[tokio::test]
async fn a_buffer_that_is_too_small() {
    let failing = failures_if(|info, _| info.len() > 65_536).await;
    assert_eq!(failing, ["large-authority"]);
}

#[tokio::test]
async fn an_answer_only_once() {
    assert_eq!(failures_if(|_, time| time == 2).await, ["repeated"]);
}

#[tokio::test]
async fn a_lock_that_is_not_waited_for() {
    assert_eq!(failures_if(|_, time| time > 5).await, ["concurrent"]);
    assert!(failures_if(|_, _| false).await.is_empty());
}
