//! A plugin that keeps the contract, to be broken in one place.

use std::{sync::Arc, time::Duration};

use keyfob_api::ImageRef;
use keyfob_contract::{Conformance, Grade, Report};
use keyfob_exec::{ProcessRunner, Program};
use keyfob_testkit::{LeakCheck, MapEnvironment, Script, Step, scripted_plugin};
use serde_json::{Value, json};

pub(crate) const IMAGE: &str = "registry.example/team/app:1";
pub(crate) const PASSWORD: &str = "hunter2-password-of-the-answer";
pub(crate) const TOKEN: &str = "hunter2-token-of-the-pod";

/// What it does for which request.
#[derive(Clone)]
pub(crate) struct Plugin {
    pub(crate) v1: Vec<Step>,
    /// Asked in an older version; `None` answers in that.
    pub(crate) older: Option<Vec<Step>>,
    pub(crate) unknown: Vec<Step>,
    pub(crate) no_request: Vec<Step>,
    /// As `v1` unless told.
    pub(crate) huge: Option<Vec<Step>>,
    pub(crate) extra: Option<Vec<Step>>,
    pub(crate) token: Option<Vec<Step>>,
    pub(crate) timeout: Duration,
}

impl Plugin {
    pub(crate) fn clean() -> Self {
        Self {
            v1: print(&line(&v1(&["registry.example"]))),
            older: None,
            unknown: print(&line(&v1(&[]))),
            no_request: failure("no request"),
            huge: None,
            extra: None,
            token: None,
            timeout: Duration::from_mins(1),
        }
    }

    /// One that prints this for every request that it can answer.
    pub(crate) fn printing(stdout: &str) -> Self {
        Self { v1: print(stdout), ..Self::clean() }
    }

    fn script(&self) -> Script {
        let answer = |version: &str| {
            let answer = response(version, &["registry.example"]);
            self.older.clone().unwrap_or_else(|| print(&line(&answer)))
        };
        let or_v1 = |steps: &Option<Vec<Step>>| steps.clone().unwrap_or_else(|| self.v1.clone());
        let heed = [
            ("nobody.keyfob.invalid", self.unknown.clone()),
            ("/v1beta1\"", answer("v1beta1")),
            ("/v1alpha1\"", answer("v1alpha1")),
            ("futureFlag", or_v1(&self.extra)),
            ("xxxxxxxxxxxxxxxx", or_v1(&self.huge)),
            ("serviceAccountToken", or_v1(&self.token)),
            ("kubelet.k8s.io/v1\"", self.v1.clone()),
        ];
        let heed = heed.map(|(text, steps)| (text.to_owned(), Script::new(steps)));
        Script::new([Step::Heed(heed.into())].into_iter().chain(self.no_request.clone()))
    }

    pub(crate) async fn report(&self) -> Report {
        self.report_with(|conformance| conformance).await
    }

    pub(crate) async fn report_with(
        &self,
        change: impl FnOnce(Conformance) -> Conformance,
    ) -> Report {
        let plugin = Conformance::of(Program::at(scripted_plugin()).unwrap(), IMAGE.parse_image())
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
pub(crate) async fn report(conformance: &Conformance) -> Report {
    let runner = ProcessRunner::new(MapEnvironment::default());
    let report = conformance.report(Arc::new(runner)).await;
    LeakCheck::new([PASSWORD, TOKEN])
        .debug("the report", &report)
        .text("its JSON", &serde_json::to_string(&report).unwrap())
        .debug("what was asked", conformance);
    report
}

pub(crate) fn v1(keys: &[&str]) -> Value {
    response("v1", keys)
}

fn response(version: &str, keys: &[&str]) -> Value {
    let login = || json!({"username": "robot", "password": PASSWORD});
    let auth: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), login())).collect();
    json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": format!("credentialprovider.kubelet.k8s.io/{version}"),
        "cacheKeyType": "Registry",
        "cacheDuration": "10m",
        "auth": auth,
    })
}

/// An answer with something else in one of its fields.
pub(crate) fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut answer = v1(&["registry.example"]);
    answer[field] = value.into();
    answer
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

pub(crate) trait ParseImage {
    fn parse_image(&self) -> ImageRef;
}

impl ParseImage for str {
    fn parse_image(&self) -> ImageRef {
        ImageRef::parse(self).unwrap()
    }
}
