//! `keyfob kube exec-cache` as processes: what a client sees of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod concurrent;
mod faults;

#[path = "../support/exec_cache.rs"]
mod exec_cache;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
};

use exec_cache::{INFO, TOKEN, Wrapped, answer, feed};
use keyfob_testkit::LeakCheck;
use node::{Said, keyfob};

/// What a client gets.
fn said(wrapped: &Wrapped, flags: &[&str]) -> Said {
    wrapped.client(flags).output().unwrap().into()
}

fn token(said: &Said) -> String {
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.json().pointer("/status/token").unwrap().as_str().unwrap().to_owned()
}

#[test]
fn one_run_serves_all_who_come_until_it_expires() {
    let wrapped = Wrapped::answering();
    for _ in 0..3 {
        let said = said(&wrapped, &[]);
        assert_eq!(token(&said), TOKEN);
        assert_eq!(said.json()["apiVersion"], "client.authentication.k8s.io/v1");
        assert_eq!(said.json()["kind"], "ExecCredential");
        assert_eq!(said.stderr, "");
    }
    assert_eq!(wrapped.runs(), 1);
    wrapped.edit_answer(|text| text.replace("2040-01-01", "2020-01-01"));
    assert_eq!(token(&said(&wrapped, &[])), TOKEN);
    assert_eq!(wrapped.runs(), 2);
}

#[test]
fn the_files_are_their_owners_alone() {
    let wrapped = Wrapped::answering();
    said(&wrapped, &[]);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(wrapped.cache_dir()), 0o700);
    let files: Vec<_> = fs::read_dir(wrapped.cache_dir()).unwrap().collect();
    assert_eq!(files.len(), 3);
    for file in files {
        assert_eq!(mode(file.unwrap().path()), 0o600);
    }
}

#[test]
fn a_client_that_asks_again_was_refused() {
    let wrapped = Wrapped::answering();
    assert_eq!(token(&said(&wrapped, &[])), TOKEN);
    let twice = wrapped.asking_twice().output().unwrap();
    assert!(twice.status.success());
    assert_eq!(wrapped.runs(), 2);
    assert_eq!(token(&said(&wrapped, &[])), TOKEN);
    assert_eq!(wrapped.runs(), 2, "and what came then is everybody's");
}

#[test]
fn the_plugin_is_told_what_the_client_told_as_it_is() {
    let wrapped = Wrapped::new(&format!(
        "printf '%s' \"$KUBERNETES_EXEC_INFO\" >\"$RUNS.info\"\nprintf '%s.' \"$@\" >\"$RUNS.args\"\n{}",
        answer(TOKEN, "2040-01-01T00:00:00Z")
    ));
    let info = INFO.replace(
        "\"spec\":{",
        "\"unknown\" : [1.0],\"spec\":{\"cluster\":{\"server\":\"https://c\",\"config\":null}, ",
    );
    let output = wrapped
        .client(&[])
        .args(["--clear", "a b", ""])
        .env("KUBERNETES_EXEC_INFO", &info)
        .output();
    assert_eq!(token(&output.unwrap().into()), TOKEN);
    assert_eq!(fs::read_to_string(wrapped.path("runs.info")).unwrap(), info);
    assert_eq!(fs::read_to_string(wrapped.path("runs.args")).unwrap(), "--clear.a b..");
}

#[test]
fn what_the_plugin_says_is_seen_while_it_runs() {
    let wrapped = Wrapped::new(&format!(
        "echo 'please visit https://login.example' >&2\nwhile [ ! -e \"$GATE\" ]; do sleep 0.01; done\n{}",
        answer(TOKEN, "2040-01-01T00:00:00Z")
    ));
    let mut child = wrapped.client(&[]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "please visit https://login.example\n");
    wrapped.open_gate();
    assert_eq!(token(&child.wait_with_output().unwrap().into()), TOKEN);
}

#[test]
fn only_a_plugin_that_may_ask_a_person_gets_what_is_typed() {
    let script = "read -r typed\nprintf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"got-%s\"}}' \"$typed\"\n";
    for (interactive, expected) in [("true", "got-password"), ("false", "got-")] {
        let wrapped = Wrapped::new(script);
        let info = INFO.replace("\"interactive\":false", &format!("\"interactive\":{interactive}"));
        let mut command = wrapped.client(&[]);
        let mut child =
            command.env("KUBERNETES_EXEC_INFO", info).stdin(Stdio::piped()).spawn().unwrap();
        feed(&mut child, "password\n");
        assert_eq!(token(&child.wait_with_output().unwrap().into()), expected);
    }
}

#[test]
fn without_a_word_of_the_client_it_can_be_tried_by_hand() {
    let wrapped = Wrapped::answering();
    for _ in 0..2 {
        let output = wrapped.command(&[]).env_remove("KUBERNETES_EXEC_INFO").output().unwrap();
        assert_eq!(token(&output.into()), TOKEN);
    }
    assert_eq!(wrapped.runs(), 1);
}

#[test]
fn what_is_kept_can_be_explained_and_forgotten() {
    let wrapped = Wrapped::answering();
    let run = |command: &mut std::process::Command| Said::from(command.output().unwrap());
    let explain = || run(&mut wrapped.command(&["--explain", "--env", "MYCORP_*"]));
    assert!(explain().stdout.contains("\nstate     none\n"), "{}", explain().stdout);
    said(&wrapped, &[]);
    let mut explained = wrapped.client(&["--explain", "--env", "MYCORP_*"]);
    explained
        .args(["--client-secret=hunter2"])
        .env("MYCORP_PIN", "hunter2")
        .env("AWS_PROFILE", "ada");
    let explained = run(&mut explained);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    for shown in [
        "argument 2",
        "--client-secret=***",
        "variable MYCORP_PIN",
        "variable AWS_PROFILE",
        "version",
    ] {
        assert!(explained.stdout.contains(shown), "{shown}: {}", explained.stdout);
    }
    let shown = said(&wrapped, &["--explain"]);
    assert!(
        shown.stdout.contains("fresh until 2040-01-01T00:00:00Z, written "),
        "{}",
        shown.stdout
    );
    LeakCheck::new(["hunter2"]).text("explain", &(explained.stdout + &shown.stdout));
    assert_eq!(wrapped.runs(), 1);

    let clear = |command: &mut std::process::Command| run(command).stdout;
    assert_eq!(clear(wrapped.command(&["--clear"]).arg("other")), "there was nothing to forget\n");
    assert_eq!(clear(&mut wrapped.command(&["--clear"])), "1 answer forgotten\n");
    said(&wrapped, &[]);
    assert_eq!(wrapped.runs(), 2);
    assert_eq!(clear(wrapped.bare().arg("--clear")), "1 answer forgotten\n");
    assert_eq!(fs::read_dir(wrapped.cache_dir()).unwrap().count(), 0);
}

#[test]
fn the_guide_names_the_variables_that_count() {
    let guide = include_str!("../../../../docs/kubeconfig.md");
    let (_, list) = guide.split_once("clouds and login tools read: ").unwrap();
    let (list, _) = list.split_once(';').unwrap();
    let named: Vec<_> = list.split_whitespace().map(|name| name.trim_matches('`')).collect();
    assert_eq!(named, keyfob_exec_cache::IDENTITY_VARIABLES);
}

#[test]
fn it_is_found_among_the_commands() {
    for words in [&["kube", "exec-cache", "--help"][..], &["help", "kube", "exec-cache"]] {
        let help = keyfob(words);
        assert!(help.stdout.contains("Usage: keyfob kube exec-cache [OPTIONS]"), "{}", help.stdout);
    }
    let nothing = keyfob(&["kube", "exec-cache"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("<COMMAND>..."), "{}", nothing.stderr);
}
