//! A kubeconfig's plugin that keeps the contract, to be broken in one place.

use std::{sync::Arc, time::Duration};

use keyfob_contract::{ClientConformance, Grade, Report};
use keyfob_exec::{ProcessRunner, Program};
use keyfob_testkit::{LeakCheck, MapEnvironment, Script, Step, scripted_plugin};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "hunter2-token-of-the-answer";
/// Of a key that is none.
pub(crate) const KEY_LINE: &str =
    "MIGHAgEAMBMGByqGSM49AgEGCCqGhunter2linesOfaKeyThatIsNoKeyAAAAAAA";
pub(crate) const VARIABLE: &str = "hunter2-value-of-a-variable";

/// What it does for which request.
#[derive(Clone)]
pub(crate) struct Plugin {
    pub(crate) v1: Vec<Step>,
    /// Asked in v1beta1.
    pub(crate) older: Vec<Step>,
    pub(crate) no_info: Vec<Step>,
    /// As `v1` unless told.
    pub(crate) cluster: Option<Vec<Step>>,
    pub(crate) extra: Option<Vec<Step>>,
    pub(crate) timeout: Duration,
}

impl Plugin {
    pub(crate) fn clean() -> Self {
        Self::printing(&line(&v1()))
    }

    /// One that prints this for every request of v1.
    pub(crate) fn printing(stdout: &str) -> Self {
        Self {
            v1: print(stdout),
            older: print(&line(&answer("v1beta1", &lasting()))),
            no_info: failure("KUBERNETES_EXEC_INFO is not set"),
            cluster: None,
            extra: None,
            timeout: Duration::from_mins(1),
        }
    }

    fn script(&self) -> Script {
        let or_v1 = |steps: &Option<Vec<Step>>| steps.clone().unwrap_or_else(|| self.v1.clone());
        let heed = [
            ("futureFlag", or_v1(&self.extra)),
            ("k8s.io/v1beta1\"", self.older.clone()),
            ("\"cluster\":", or_v1(&self.cluster)),
            ("k8s.io/v1\"", self.v1.clone()),
        ];
        let heed = heed.map(|(text, steps)| (text.to_owned(), Script::new(steps)));
        let heed = Step::HeedVariable("KUBERNETES_EXEC_INFO".into(), heed.into());
        Script::new([heed].into_iter().chain(self.no_info.clone()))
    }

    pub(crate) async fn report(&self) -> Report {
        self.report_with(|conformance| conformance).await
    }

    pub(crate) async fn report_with(
        &self,
        change: impl FnOnce(ClientConformance) -> ClientConformance,
    ) -> Report {
        let plugin = ClientConformance::of(Program::at(scripted_plugin()).unwrap())
            .args([self.script().to_arg()])
            .timeout(self.timeout);
        report(&change(plugin)).await
    }

    /// Exactly this check fails, and nothing is warned about.
    #[track_caller]
    pub(crate) fn fails(&self, check: &'static str) -> impl Future<Output = ()> {
        self.graded(check, Grade::Fail)
    }

    /// Exactly this check warns, and nothing fails.
    #[track_caller]
    pub(crate) fn warns(&self, check: &'static str) -> impl Future<Output = ()> {
        self.graded(check, Grade::Warn)
    }

    async fn graded(&self, check: &'static str, grade: Grade) {
        only(&self.report().await, check, grade);
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

/// Runs real processes; the report is searched for secrets.
pub(crate) async fn report(conformance: &ClientConformance) -> Report {
    let runner = ProcessRunner::new(MapEnvironment::default());
    let report = conformance.report(Arc::new(runner)).await;
    LeakCheck::new([TOKEN, KEY_LINE, VARIABLE])
        .debug("the report", &report)
        .text("its JSON", &serde_json::to_string(&report).unwrap())
        .debug("what was asked", conformance);
    report
}

const END: &str = "2099-01-01T00:00:00Z";

fn lasting() -> Value {
    json!({"token": TOKEN, "expirationTimestamp": END})
}

/// A token that lasts.
pub(crate) fn v1() -> Value {
    answer("v1", &lasting())
}

pub(crate) fn answer(version: &str, status: &Value) -> Value {
    let version = format!("client.authentication.k8s.io/{version}");
    json!({"kind": "ExecCredential", "apiVersion": version, "status": status})
}

/// That answer with something else in a field of its status; `null` takes the field away.
pub(crate) fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut answer = v1();
    answer["status"][field] = value.into();
    answer
}

pub(crate) fn pem(label: &str) -> String {
    format!("-----BEGIN {label}-----\n{KEY_LINE}\nAAA=\n-----END {label}-----\n")
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
