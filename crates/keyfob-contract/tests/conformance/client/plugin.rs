//! A kubeconfig's plugin that keeps the contract, to be broken in one place.

use std::{sync::Arc, time::Duration};

use keyfob_contract::{ClientConformance, Report};
use keyfob_exec::Program;
use keyfob_testkit::{Script, Step, scripted_plugin};
use serde_json::{Value, json};

use crate::support::{Judged, failure, line, no_leak, print, processes};

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

    pub(crate) async fn report_with(
        &self,
        change: impl FnOnce(ClientConformance) -> ClientConformance,
    ) -> Report {
        let plugin = ClientConformance::of(Program::at(scripted_plugin()).unwrap())
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
pub(crate) async fn report(conformance: &ClientConformance) -> Report {
    let report = conformance.report(Arc::new(processes())).await;
    no_leak([TOKEN, KEY_LINE, VARIABLE], &report, conformance);
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
