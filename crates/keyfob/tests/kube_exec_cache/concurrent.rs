//! Many at once.

use std::{fs, process::Child};

use keyfob_testkit::LeakCheck;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    exec_cache::{TOKEN, Wrapped, answer, observe},
    node::Said,
    token,
};

fn all(children: Vec<Child>) -> Vec<Said> {
    children.into_iter().map(|child| child.wait_with_output().unwrap().into()).collect()
}

fn answering_at_the_gate() -> Wrapped {
    Wrapped::waiting(&answer(TOKEN, "2040-01-01T00:00:00Z"))
}

#[test]
fn fifty_processes_run_the_plugin_once() {
    let wrapped = answering_at_the_gate();
    let children: Vec<_> = (0..50).map(|_| wrapped.client(&[]).spawn().unwrap()).collect();
    wrapped.await_waiting(49);
    wrapped.open_gate();
    for said in all(children) {
        assert_eq!(token(&said), TOKEN);
        LeakCheck::new([TOKEN]).text("stderr", &said.stderr);
    }
    assert_eq!(wrapped.runs(), 1);
}

#[test]
fn fifty_children_of_one_client_are_one_run_too() {
    let wrapped = answering_at_the_gate();
    let children: Vec<_> = (0..50).map(|_| wrapped.command(&[]).spawn().unwrap()).collect();
    wrapped.await_waiting(49);
    wrapped.open_gate();
    for said in all(children) {
        assert_eq!(token(&said), TOKEN);
    }
    assert_eq!(wrapped.runs(), 1);
}

#[test]
fn ten_processes_share_a_failure() {
    let wrapped = Wrapped::waiting("echo 'cannot reach https://login.example' >&2\nexit 3\n");
    let children: Vec<_> = (0..10).map(|_| wrapped.client(&[]).spawn().unwrap()).collect();
    wrapped.await_waiting(9);
    wrapped.open_gate();
    let said = all(children);
    let told = |text: &str| said.iter().filter(|said| said.stderr.contains(text)).count();
    assert!(said.iter().all(|said| said.code == 1 && said.stdout.is_empty()));
    assert_eq!(told("cannot reach https://login.example"), 10);
    assert_eq!(told("failed: exit code 3"), 10);
    assert_eq!(told("keyfob: the keyfob that was waited for (pid "), 9);
    assert_eq!(wrapped.runs(), 1);
}

#[test]
fn when_the_one_that_runs_is_killed_one_of_those_who_wait_takes_over() {
    let wrapped = answering_at_the_gate();
    let mut first = wrapped.command(&[]).spawn().unwrap();
    observe(|| wrapped.runs() == 1);
    let others: Vec<_> = (0..3).map(|_| wrapped.command(&[]).spawn().unwrap()).collect();
    wrapped.await_waiting(3);

    kill(Pid::from_raw(first.id().try_into().unwrap()), Signal::SIGKILL).unwrap();

    first.wait().unwrap();
    observe(|| wrapped.runs() == 2);
    wrapped.open_gate();
    for said in all(others) {
        assert_eq!(token(&said), TOKEN);
    }
    assert_eq!(wrapped.runs(), 2);
}

#[test]
fn who_waits_too_long_says_for_whom() {
    let wrapped = answering_at_the_gate();
    let first = wrapped.command(&[]).spawn().unwrap();
    observe(|| wrapped.runs() == 1);

    let second = Said::from(wrapped.command(&["--lock-timeout", "50ms"]).output().unwrap());

    let expected = format!(
        "keyfob: another keyfob (pid {}) has been logging in with sh for more than 50ms; end it, or wait longer with \
         --lock-timeout\n",
        first.id()
    );
    assert_eq!((second.code, second.stdout.as_str()), (1, ""));
    assert_eq!(second.stderr, expected);
    wrapped.open_gate();
    assert_eq!(token(&first.wait_with_output().unwrap().into()), TOKEN);
}

#[test]
fn near_the_end_one_renews_and_the_others_use_what_there_is() {
    let wrapped = Wrapped::answering();
    assert_eq!(token(&wrapped.client(&[]).output().unwrap().into()), TOKEN);
    // Whatever is left of it is less than half of its life: it came long ago.
    wrapped.edit_answer(|text| {
        let from = text.find("\"stored\":\"").unwrap() + "\"stored\":\"".len();
        format!("{}1990{}", &text[..from], &text[from + 4..])
    });
    let ahead = ["--refresh-ahead", "1000000h"];
    wrapped.rewrite(&format!(
        "while [ ! -e \"$GATE\" ]; do sleep 0.01; done\n{}",
        answer("hunter2-new", "2040-01-01T00:00:00Z")
    ));
    let first = wrapped.client(&ahead).spawn().unwrap();
    observe(|| wrapped.runs() == 2);
    let other = Said::from(wrapped.client(&ahead).output().unwrap());
    assert_eq!((token(&other).as_str(), other.stderr.as_str()), (TOKEN, ""));
    wrapped.open_gate();
    assert_eq!(token(&first.wait_with_output().unwrap().into()), "hunter2-new");
    assert_eq!(token(&wrapped.client(&[]).output().unwrap().into()), "hunter2-new");
    assert_eq!((wrapped.runs(), fs::read_dir(wrapped.cache_dir()).unwrap().count()), (2, 3));
}
