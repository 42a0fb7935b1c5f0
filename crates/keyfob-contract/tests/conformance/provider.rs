//! The plugins of a kubelet.

mod answers;
mod plugin;
mod processes;
mod requests;

use keyfob_contract::{Grade, NoAnswer, checks};

use self::plugin::{ParseImage as _, Plugin, TOKEN, v1};
use crate::support::{Judged as _, all_pass, failure, line, print};

#[tokio::test]
async fn a_plugin_without_faults_passes_every_check() {
    let report = Plugin::clean().report().await;

    all_pass(&report, checks());
}

#[tokio::test]
async fn a_plugin_may_refuse_what_it_does_not_know() {
    let plugin = Plugin { older: Some(failure("not supported")), ..Plugin::clean() };
    let plugin = Plugin { unknown: failure("not one of ours"), ..plugin };

    let report = plugin.report().await;

    assert_eq!(report.count(Grade::Pass), report.findings.len(), "{report:#?}");
}

#[tokio::test]
async fn no_answer_is_a_failure_unless_it_is_allowed() {
    let plugin = Plugin { v1: failure("no cloud here"), ..Plugin::clean() };
    plugin.fails("answer").await;

    let report = plugin.report_with(|it| it.no_answer(NoAnswer::MayBe)).await;

    assert_eq!((report.count(Grade::Fail), report.count(Grade::Warn)), (0, 0), "{report:#?}");
    let answer = report.findings.iter().find(|finding| finding.check == "answer").unwrap();
    assert_eq!(answer.grade, Grade::NotChecked);
    assert_eq!(answer.reason, "exit code 1; it said: no cloud here");
    let empty = Plugin { v1: print(&line(&v1(&[]))), ..Plugin::clean() };
    empty.fails("answer").await;
    let report = empty.report_with(|it| it.no_answer(NoAnswer::MayBe)).await;
    assert_eq!((report.count(Grade::Fail), report.count(Grade::Warn)), (0, 0), "{report:#?}");
}

#[tokio::test]
async fn an_answer_that_is_there_is_judged_even_if_none_is_needed() {
    let wrong = line(&v1(&["other.example"]));
    let plugin = Plugin { v1: print(&wrong), ..Plugin::clean() };

    let report = plugin.report_with(|it| it.no_answer(NoAnswer::MayBe)).await;

    assert_eq!(report.count(Grade::Fail), 1, "{report:#?}");
}

#[tokio::test]
async fn each_of_several_images_is_asked_about() {
    let other = "other.example/app".parse_image();

    let report = Plugin::clean().report_with(|it| it.image(other).token(TOKEN)).await;

    let keys: Vec<_> = report.findings.iter().filter(|it| it.check == "keys").collect();
    let told: Vec<_> = keys.iter().map(|it| (it.image.as_deref().unwrap(), it.grade)).collect();
    let want = [("registry.example/team/app", Grade::Pass), ("other.example/app", Grade::Fail)];
    assert_eq!(told, want);
}
