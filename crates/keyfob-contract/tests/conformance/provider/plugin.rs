//! A plugin that keeps the contract, to be broken in one place.

use std::{sync::Arc, time::Duration};

use keyfob_api::ImageRef;
use keyfob_contract::{Conformance, Report};
use keyfob_exec::Program;
use keyfob_testkit::{Script, Step, scripted_plugin};
use serde_json::{Value, json};

use crate::support::{Judged, failure, line, no_leak, print, processes};

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

    pub(crate) async fn report_with(
        &self,
        change: impl FnOnce(Conformance) -> Conformance,
    ) -> Report {
        let plugin = Conformance::of(Program::at(scripted_plugin()).unwrap(), IMAGE.parse_image())
            .args([self.script().to_arg()])
            .timeout(self.timeout);
        report(&change(plugin)).await
    }
}

impl Judged for Plugin {
    async fn report(&self) -> Report {
        self.report_with(|conformance| conformance).await
    }
}

/// Runs real processes; the report is searched for secrets.
pub(crate) async fn report(conformance: &Conformance) -> Report {
    let report = conformance.report(Arc::new(processes())).await;
    no_leak([PASSWORD, TOKEN], &report, conformance);
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

pub(crate) trait ParseImage {
    fn parse_image(&self) -> ImageRef;
}

impl ParseImage for str {
    fn parse_image(&self) -> ImageRef {
        ImageRef::parse(self).unwrap()
    }
}
