//! What the plugins of both protocols share: what they do, how they are run, and what must be found.

use std::{fmt, time::Duration};

use keyfob_contract::{Grade, Report};
use keyfob_exec::{Finished, Invocation, ProcessRunner, Status, StderrTail};
use keyfob_testkit::{LeakCheck, MapEnvironment, Step};
use serde_json::Value;

/// A plugin that real processes play.
pub(crate) trait Judged {
    async fn report(&self) -> Report;

    /// Exactly this check fails, and nothing is warned about.
    async fn fails(&self, check: &str) {
        only(&self.report().await, check, Grade::Fail);
    }

    /// Exactly this check warns, and nothing fails.
    async fn warns(&self, check: &str) {
        only(&self.report().await, check, Grade::Warn);
    }
}

/// Exactly this check found a fault, and says what to do about it.
#[track_caller]
pub(crate) fn only(report: &Report, check: &str, grade: Grade) {
    let is_fault = |grade| matches!(grade, Grade::Warn | Grade::Fail);
    let faults: Vec<_> = report.findings.iter().filter(|it| is_fault(it.grade)).collect();
    let found: Vec<_> = faults.iter().map(|it| (it.check, it.grade)).collect();
    assert_eq!(found, [(check, grade)], "{report:#?}");
    assert!(faults.iter().all(|it| !it.advice.is_empty()), "{report:#?}");
}

/// There is a finding of each of these checks, and all pass.
#[track_caller]
pub(crate) fn all_pass(
    report: &Report,
    checks: impl Iterator<Item = (&'static str, &'static str)>,
) {
    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");
    let found: Vec<_> = report.findings.iter().map(|finding| finding.check).collect();
    for (name, _) in checks {
        assert!(found.contains(&name), "nothing is said of {name}");
    }
}

/// The checks that fail.
pub(crate) fn failures(report: &Report) -> Vec<&'static str> {
    let failures = report.findings.iter().filter(|it| it.grade == Grade::Fail);
    failures.map(|it| it.check).collect()
}

/// Runs real processes.
pub(crate) fn processes() -> ProcessRunner {
    ProcessRunner::new(MapEnvironment::default())
}

/// Neither the report nor what was asked for it shows a secret.
#[track_caller]
pub(crate) fn no_leak<const N: usize>(
    secrets: [&str; N],
    report: &Report,
    asked: &impl fmt::Debug,
) {
    LeakCheck::new(secrets)
        .debug("the report", report)
        .text("its JSON", &serde_json::to_string(report).unwrap())
        .debug("what was asked", asked);
}

/// A process that printed this, or failed.
pub(crate) fn ended(invocation: &Invocation, stdout: Option<String>) -> Finished {
    Finished {
        program: invocation.program().into(),
        status: Status::Exited(i32::from(stdout.is_none())),
        stdout: stdout.unwrap_or_default().into_bytes().into(),
        stderr: StderrTail::default(),
        elapsed: Duration::ZERO,
    }
}

pub(crate) fn line(answer: &Value) -> String {
    format!("{answer}\n")
}

pub(crate) fn print(text: &str) -> Vec<Step> {
    vec![Step::Print(text.to_owned())]
}

pub(crate) fn failure(text: &str) -> Vec<Step> {
    vec![Step::Say(format!("{text}\n")), Step::Exit(1)]
}
