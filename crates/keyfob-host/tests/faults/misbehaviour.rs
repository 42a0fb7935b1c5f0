//! Every way a plugin can misbehave. Whatever it does, the healthy provider's credential is there.

use std::time::Duration;

use keyfob_host::Pull;
use keyfob_testkit::{Script, Step};
use serde_json::json;

use crate::rig::{Case, Did, FOREVER, IMAGE, PASSWORD, SOON, Seen, answer, answer_for, is_dead};

const NOT_JSON: &str = "the plugin's answer is not valid: invalid JSON";

fn print(text: &str) -> Step {
    Step::Print(text.into())
}

fn say(text: &str) -> Step {
    Step::Say(text.into())
}

#[tokio::test]
async fn a_good_plugin_is_asked_once() {
    let case = Case::new(|_| vec![Step::Answer(answer("faulty", "10m"))]);

    assert_eq!(case.ask().await, Seen::ran());
    assert_eq!(case.ask().await, Seen { faulty: Did::Remembered, ..Seen::ran() });
}

#[tokio::test]
async fn a_plugin_that_hangs_is_killed_at_its_providers_deadline() {
    // Long enough for a plugin that starts slowly to say it.
    let case = Case::within(Duration::from_secs(2), |_| vec![say("waiting"), FOREVER]);
    let killed = "DIR/plugins/faulty was killed after 2 s without an answer; it said: waiting";

    assert_eq!(case.ask().await, Seen::failed(killed));
    assert!((case.seconds() - 2.0).abs() < 1e-9, "{} s", case.seconds());

    let again = Seen { errors: 2, runs: 2, ..Seen::failed(killed) };
    assert_eq!(case.ask().await, again, "an error was remembered");
}

#[tokio::test]
async fn an_answer_of_a_plugin_that_then_hangs_is_not_used() {
    let answer = answer("faulty", "10m");
    let case = Case::within(SOON, |_| vec![Step::Answer(answer), FOREVER]);

    let killed = "DIR/plugins/faulty was killed after 0.5 s without an answer";
    assert_eq!(case.ask().await, Seen::failed(killed));
}

#[tokio::test]
async fn a_flood_on_stdout_is_cut_off_at_eight_mebibytes() {
    let case = Case::new(|_| vec![print(PASSWORD), Step::FloodStdout(usize::MAX)]);

    let cut_off = "DIR/plugins/faulty printed more than 8388608 bytes and was killed";
    assert_eq!(case.ask().await, Seen::failed(cut_off));
}

#[tokio::test]
async fn the_time_of_a_run_that_was_cut_off_is_observed() {
    let case = Case::new(|_| vec![Step::SleepMs(20), Step::FloodStdout(usize::MAX)]);

    case.ask().await;

    assert!(case.seconds() >= 0.02, "{} s", case.seconds());
}

#[tokio::test]
async fn a_flood_on_stderr_does_not_matter() {
    let answer = answer("faulty", "10m");
    let case =
        Case::new(|_| vec![Step::FloodStderr(20_000_000), say(PASSWORD), Step::Answer(answer)]);

    assert_eq!(case.ask().await, Seen::ran());
}

#[tokio::test]
async fn a_flood_on_stderr_before_a_failure_leaves_only_its_end() {
    let case =
        Case::new(|_| vec![Step::FloodStderr(20_000_000), say("\nno network\n"), Step::Exit(9)]);

    let failed = "DIR/plugins/faulty failed: exit code 9; it said: …no network";
    assert_eq!(case.ask().await, Seen::failed(failed));
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_keeps_no_answer_back_and_does_not_live_on() {
    let answer = answer("faulty", "10m");
    let case = Case::new(|folder| {
        let child = folder.path("child");
        let fork = Step::Fork(Script::new([Step::Record(child.clone()), FOREVER]));
        vec![fork, Step::Await(child), Step::Answer(answer)]
    });

    assert_eq!(case.ask().await, Seen::ran());
    assert!(is_dead(case.folder.witness("child").pid), "the child lives on");
}

#[tokio::test]
async fn a_plugin_that_lies_about_its_version_is_not_believed() {
    let mut lie = answer("faulty", "10m");
    lie["apiVersion"] = json!("credentialprovider.kubelet.k8s.io/v1beta1");
    let case = Case::new(|_| vec![Step::Answer(lie)]);
    let refused = "the plugin's answer is not valid: apiVersion from credential plugin response did not match expected \
        apiVersion:credentialprovider.kubelet.k8s.io/v1, actual apiVersion:credentialprovider.kubelet.k8s.io/v1beta1";

    assert_eq!(case.ask().await, Seen::invalid(refused));
    let again = Seen { runs: 2, ..Seen::invalid(refused) };
    assert_eq!(case.ask().await, again, "an invalid answer was remembered");
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let whole = answer("faulty", "10m").to_string();
    let half = whole[..whole.find(PASSWORD).unwrap() + PASSWORD.len()].to_owned();
    let end = half.len() + 1;
    let case = Case::new(|_| vec![Step::ReadStdin, print(&half)]);

    let refused = format!("{NOT_JSON} at line 1, column {end}: unexpected end");
    assert_eq!(case.ask().await, Seen::invalid(&refused));
}

#[tokio::test]
async fn no_answer_at_all_is_none() {
    let case = Case::new(|_| vec![Step::ReadStdin]);

    let refused = format!("{NOT_JSON} at line 1, column 1: unexpected end");
    assert_eq!(case.ask().await, Seen::invalid(&refused));
}

#[tokio::test]
async fn an_answer_for_other_hosts_gives_nothing_and_is_kept() {
    let other = answer_for("other.test", "faulty", "10m");
    let case = Case::new(|_| vec![Step::Answer(other)]);
    let nothing = || Seen { credentials: vec!["healthy".into()], ..Seen::ran() };

    assert_eq!(case.ask().await, nothing());
    assert_eq!(case.ask().await, Seen { faulty: Did::Remembered, ..nothing() });
}

#[tokio::test]
async fn a_plugin_that_dies_by_a_signal_gives_nothing_even_if_it_has_answered() {
    for (signal, name) in [(9, "SIGKILL"), (15, "SIGTERM")] {
        let answer = answer("faulty", "10m");
        let case = Case::new(|_| vec![Step::Answer(answer), Step::Signal(signal)]);

        let killed = format!("DIR/plugins/faulty failed: killed by {name}");
        assert_eq!(case.ask().await, Seen::failed(&killed));
    }
}

#[tokio::test]
async fn a_plugin_that_answers_and_fails_gives_nothing_and_shows_no_password() {
    let answer = answer("faulty", "10m");
    let said = say(&format!("could not store {PASSWORD} on disk\n"));
    let case = Case::new(|_| vec![Step::Answer(answer), said, Step::Exit(1)]);

    let failed =
        "DIR/plugins/faulty failed: exit code 1; it said: could not store [redacted] on disk";
    assert_eq!(case.ask().await, Seen::failed(failed));
}

#[tokio::test]
async fn a_plugin_that_never_reads_its_request_has_done_nothing_wrong() {
    // As long as a cache key allows, which is more than a pipe holds.
    let long = format!("{IMAGE}/{}", "x".repeat(65_500 - IMAGE.len()));
    for first in [Step::CloseStdin, print("")] {
        let answer = answer("faulty", "10m").to_string();
        let case = Case::new(|_| vec![first, print(&answer)]);

        assert_eq!(case.ask_about(&Pull::of_repository(&long)).await, Seen::ran());
    }
}

#[tokio::test]
async fn three_megabytes_of_a_valid_answer_are_accepted() {
    let [start, end] = {
        let answer = answer("faulty", "10m").to_string();
        let (start, end) = answer.split_once(PASSWORD).unwrap();
        [print(start), print(end)]
    };
    let case = Case::new(|_| vec![Step::ReadStdin, start, Step::FloodStdout(3_000_000), end]);

    assert_eq!(case.ask().await, Seen::ran());
    assert_eq!(case.ask().await, Seen { faulty: Did::Remembered, ..Seen::ran() });
}
