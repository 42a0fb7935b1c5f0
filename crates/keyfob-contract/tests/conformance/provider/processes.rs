//! Faults of the process: how it starts, runs and ends, and what it says.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::CredentialProviderRequest;
use keyfob_contract::{Conformance, Grade};
use keyfob_exec::{Program, Stdin};
use keyfob_testkit::{FakeRunner, Script, Step};

use super::plugin::{IMAGE, PASSWORD, ParseImage as _, Plugin, TOKEN, report, v1};
use crate::support::{Judged as _, ended, failure, failures, line, only};

#[tokio::test]
async fn no_program_at_all() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, mode) in [
        ("not-executable", "#!/bin/sh\n", 0o644),
        ("no-program", "just text", 0o755),
        ("no-interpreter", "#!/nowhere/python\n", 0o755),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();

        let report =
            report(&Conformance::of(Program::at(&path).unwrap(), IMAGE.parse_image())).await;

        only(&report, "start", Grade::Fail);
        assert_eq!(report.count(Grade::Pass), 0, "{report:#?}");
    }
}

#[tokio::test]
async fn a_docker_credential_helper() {
    for text in [
        "Usage: docker-credential-x <store|get|erase|list|version>\n",
        "docker-credential-x: unknown action: get-credentials\n",
        "no credentials server URL\n",
    ] {
        let v1 = vec![Step::Print(text.into()), Step::Exit(1)];
        Plugin { v1, ..Plugin::clean() }.fails("protocol").await;
    }
}

#[tokio::test]
async fn no_end() {
    let (v1, timeout) = (vec![Step::SleepMs(600_000)], Duration::from_secs(1));
    Plugin { v1, timeout, ..Plugin::clean() }.fails("time").await;
}

#[tokio::test]
async fn children_that_hold_its_output() {
    let child = Step::Fork(Script::new([Step::SleepMs(600_000)]));
    let v1 = [vec![child], Plugin::clean().v1].concat();
    Plugin { v1, ..Plugin::clean() }.fails("leftovers").await;
}

#[tokio::test]
async fn chatter_when_all_is_well() {
    let v1 = [vec![Step::Say("I0000 asking the registry\n".into())], Plugin::clean().v1].concat();
    Plugin { v1, ..Plugin::clean() }.warns("stderr-noise").await;
}

#[tokio::test]
async fn secrets_on_stderr() {
    let leaking = |secret: &str| failure(&format!("401 for {secret}"));
    Plugin { unknown: leaking(PASSWORD), ..Plugin::clean() }.fails("stderr-secrets").await;

    let plugin = Plugin { unknown: leaking(TOKEN), ..Plugin::clean() };
    let report = plugin.report_with(|it| it.token(TOKEN)).await;
    only(&report, "stderr-secrets", Grade::Fail);

    let report = plugin.report_with(|it| it.env("REGISTRY_TOKEN", TOKEN)).await;
    only(&report, "stderr-secrets", Grade::Fail);
}

#[tokio::test]
async fn a_password_of_one_run_in_the_message_of_another() {
    let plugin = Plugin { extra: Some(failure(&format!("no {PASSWORD}!"))), ..Plugin::clean() };

    let report = plugin.report().await;

    let told = report.findings.iter().find(|it| it.check == "extra-fields").unwrap();
    assert_eq!(told.reason, "exit code 1; it said: no [redacted]!");
}

#[tokio::test]
async fn a_failure_without_a_word() {
    Plugin { no_request: vec![Step::Exit(1)], ..Plugin::clean() }.warns("failure-message").await;
}

#[tokio::test]
async fn an_answer_that_nobody_could_read() {
    let answer = line(&v1(&["registry.example"]));
    let nothing = line(&v1(&[]));
    let script = format!(
        "trap '' PIPE\ncase \"$(head -c 300)\" in\n\
         *nobody*) printf '%s' '{nothing}' ;;\n\
         *kubelet.k8s.io/v1\\\"*) printf '%s' '{answer}' 2>/dev/null ;;\n\
         *) echo refused >&2; exit 1 ;;\nesac\nexit 0\n"
    );
    let plugin = Conformance::of(Program::at("/bin/sh").unwrap(), IMAGE.parse_image())
        .args(["-c", script.as_str(), "plugin"])
        .env("PATH", "/usr/bin:/bin");

    let report = report(&plugin).await;

    only(&report, "closed-stdout", Grade::Warn);
}

/// What a fault depends on that no request shows: how often the usual one came before.
async fn failures_if(fails: impl Fn(usize) -> bool + Send + Sync + 'static) -> Vec<&'static str> {
    let usual = Mutex::new(0);
    let runner = FakeRunner::new(move |invocation| {
        let Stdin::Bytes(stdin) = invocation.input() else { return Ok(ended(invocation, None)) };
        let Ok((version, request)) = CredentialProviderRequest::decode(stdin.expose()) else {
            return Ok(ended(invocation, None));
        };
        let answers = request.image.starts_with("registry.example");
        let mut answer = v1(if answers { &["registry.example"] } else { &[] });
        answer["apiVersion"] = version.api_version().into();
        if answers && stdin.expose().len() < 160 && version.carries_service_account() {
            let mut usual = usual.lock().unwrap();
            *usual += 1;
            if fails(*usual) {
                return Ok(ended(invocation, None));
            }
        }
        Ok(ended(invocation, Some(line(&answer))))
    });
    let plugin = Conformance::of(Program::at("/plugin").unwrap(), IMAGE.parse_image());
    failures(&plugin.report(Arc::new(runner)).await)
}

#[tokio::test]
async fn an_answer_only_once() {
    assert_eq!(failures_if(|time| time == 2).await, ["repeated"]);
}

#[tokio::test]
async fn a_lock_that_is_not_waited_for() {
    assert_eq!(failures_if(|time| time > 5).await, ["concurrent"]);
    assert!(failures_if(|_| false).await.is_empty());
}
