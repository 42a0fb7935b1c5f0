//! The plugins of a kubeconfig.

mod answers;
mod plugin;
mod processes;

use keyfob_api::{ExecCluster, RawJson};
use keyfob_contract::{Grade, NoAnswer, client_checks};
use keyfob_testkit::Step;
use serde_json::json;

use self::plugin::{Plugin, answer, pem};
use crate::support::{Judged as _, all_pass, failure, line, only, print};

#[tokio::test]
async fn a_plugin_without_faults_passes_every_check() {
    let report = Plugin::clean().report().await;

    all_pass(&report, client_checks());
}

#[tokio::test]
async fn a_certificate_and_a_credential_without_an_end_are_answers_too() {
    let pair = json!({"clientCertificateData": pem("CERTIFICATE"), "clientKeyData": pem("EC PRIVATE KEY")});

    let report = Plugin::printing(&line(&answer("v1", &pair))).report().await;

    // The older version is answered with a token here.
    assert_eq!((report.count(Grade::Fail), report.count(Grade::Warn)), (0, 0), "{report:#?}");
}

#[tokio::test]
async fn a_plugin_may_refuse_an_older_version() {
    let report = Plugin { older: failure("not supported"), ..Plugin::clean() }.report().await;

    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");
}

#[tokio::test]
async fn a_plugin_may_need_the_cluster() {
    let steps = Some(Plugin::clean().v1);
    let plugin = Plugin {
        v1: failure("no cluster"),
        cluster: steps.clone(),
        extra: steps,
        ..Plugin::clean()
    };

    let report = plugin.report().await;

    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");
    let told = report.findings.iter().find(|it| it.check == "cluster-info").unwrap();
    assert_eq!(
        told.reason,
        "it needs it: the kubeconfig must say provideClusterInfo: true; the cluster's extension \
         client.authentication.k8s.io/exec (in KEP-541: exec) has no effect without provideClusterInfo: true"
    );
}

#[tokio::test]
async fn a_cluster_with_an_extension_is_judged_with_what_it_needs_in_a_kubeconfig() {
    let config = Some(RawJson::parse(r#"{"audience":"x"}"#).unwrap());
    let cluster = ExecCluster { config, ..Default::default() };

    let report = Plugin::clean().report_with(|it| it.cluster(cluster)).await;

    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");
    let told = report.findings.iter().find(|it| it.check == "cluster-info").unwrap();
    assert_eq!(
        told.reason,
        "it answers with and without; the cluster's extension client.authentication.k8s.io/exec (in KEP-541: exec) has \
         no effect without provideClusterInfo: true"
    );
}

#[tokio::test]
async fn the_cluster_that_is_given_is_told_of_and_must_do() {
    let cluster = ExecCluster { server: "https://given.example".into(), ..Default::default() };
    let plugin = Plugin { cluster: Some(failure("no such host")), ..Plugin::clean() };
    plugin.warns("cluster-info").await;

    let report = plugin.report_with(|it| it.cluster(cluster)).await;

    only(&report, "cluster-info", Grade::Fail);
}

#[tokio::test]
async fn no_answer_is_a_failure_unless_it_is_allowed() {
    let plugin = Plugin { v1: failure("please log in"), ..Plugin::clean() };
    plugin.fails("answer").await;

    let report = plugin.report_with(|it| it.no_answer(NoAnswer::MayBe)).await;

    assert_eq!((report.count(Grade::Fail), report.count(Grade::Warn)), (0, 0), "{report:#?}");
    let told = report.findings.iter().find(|finding| finding.check == "answer").unwrap();
    assert_eq!(told.grade, Grade::NotChecked);
    assert_eq!(told.reason, "exit code 1; it said: please log in");
}

#[tokio::test]
async fn an_older_version_answered_in_the_newest() {
    Plugin { older: Plugin::clean().v1, ..Plugin::clean() }.fails("older-version").await;
}

#[tokio::test]
async fn a_strict_decoder() {
    let extra = Some(failure("unknown field \"futureFlag\""));
    Plugin { extra, ..Plugin::clean() }.fails("extra-fields").await;
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for() {
    Plugin { no_info: Plugin::clean().v1, ..Plugin::clean() }.warns("no-info").await;
    Plugin { no_info: vec![Step::Exit(0)], ..Plugin::clean() }.fails("no-info").await;
    Plugin { no_info: print("usage: login\n"), ..Plugin::clean() }.fails("no-info").await;
    Plugin { no_info: vec![Step::Signal(9)], ..Plugin::clean() }.fails("no-info").await;
}
