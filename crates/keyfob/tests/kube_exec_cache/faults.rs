//! What can be wrong: with the plugin, the client, the directory.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown, symlink},
};

use keyfob_testkit::LeakCheck;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{
    exec_cache::{TOKEN, Wrapped, answer, observe},
    node::Said,
    said, token,
};

#[test]
fn a_plugin_that_fails_is_heard_once_and_the_next_call_runs_it_again() {
    let wrapped = Wrapped::new("echo 'no login for ada' >&2\nexit 7\n");
    for run in 1..=2 {
        let said = said(&wrapped, &[]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        let (heard, failed) = said.stderr.split_once('\n').unwrap();
        assert_eq!(heard, "no login for ada");
        assert!(
            failed.starts_with("keyfob: /") && failed.ends_with("/sh failed: exit code 7\n"),
            "{failed}"
        );
        assert_eq!(wrapped.runs(), run);
    }
}

#[test]
fn a_plugin_that_hangs_is_killed() {
    let wrapped = Wrapped::new("sleep 1000\n");
    let said = said(&wrapped, &["--deadline", "50ms"]);
    assert_eq!(said.code, 1);
    let expected = "was killed after 50ms without an answer; give it longer with --deadline\n";
    assert!(said.stderr.ends_with(expected), "{}", said.stderr);
}

#[test]
fn bad_answers_are_errors_in_the_words_of_upstream() {
    let head = "\"apiVersion\":\"client.authentication.k8s.io/v1\"";
    let rows = [
        (
            format!(
                "{{{head},\"status\":{{\"token\":\"{TOKEN}\",\"clientKeyData\":\"{TOKEN}\"}}}}"
            ),
            "exec plugin returned only certificate or key, not both",
        ),
        (
            format!("{{{head},\"status\":{{}}}}"),
            "exec plugin didn't return a token or cert/key pair",
        ),
        (format!("{{{head}}}"), "exec plugin didn't return a status field"),
        (format!("{TOKEN}: ["), "decoding stdout: "),
        (String::new(), "client.authentication.k8s.io/__internal"),
    ];
    for (stdout, words) in rows {
        let wrapped = Wrapped::new(&format!("printf '%s' '{stdout}'\n"));
        let said = said(&wrapped, &[]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.contains(words), "{}", said.stderr);
        LeakCheck::new([TOKEN]).text("stderr", &said.stderr);
        assert_eq!(wrapped.files("json").len(), 0);
    }
}

#[test]
fn a_plugin_that_floods_is_stopped() {
    let wrapped = Wrapped::new("yes hunter2-flood\n");
    let said = said(&wrapped, &[]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(said.stderr.ends_with("printed more than 1048576 bytes and was killed\n"));
    LeakCheck::new(["hunter2"]).text("stderr", &said.stderr);
}

#[test]
fn secrets_that_are_handed_over_are_cut_out_of_what_the_plugin_says() {
    let wrapped = Wrapped::new(&format!(
        "echo \"$MY_PASSWORD $1 eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln\" >&2\n{}",
        answer(TOKEN, "2040-01-01T00:00:00Z")
    ));
    let mut client = wrapped.client(&[]);
    client.arg("--api-token=hunter2-argument").env("MY_PASSWORD", "hunter2-variable");
    let said = Said::from(client.output().unwrap());
    assert_eq!(token(&said), TOKEN);
    assert_eq!(said.stderr, "[redacted] --api-token=[redacted] [redacted]\n");
}

#[test]
fn what_cannot_be_asked_is_wrong_input() {
    let wrapped = Wrapped::answering();
    let run = |command: &mut std::process::Command| {
        let said = Said::from(command.output().unwrap());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        said.stderr
    };
    let info = run(wrapped.client(&[]).env("KUBERNETES_EXEC_INFO", "{\"hunter2\":"));
    assert!(info.starts_with("keyfob: KUBERNETES_EXEC_INFO: "), "{info}");
    LeakCheck::new(["hunter2"]).text("stderr", &info);
    let missing = run(wrapped.bare().args(["--", "keyfob-no-such-plugin"]));
    assert!(
        missing.starts_with("keyfob: keyfob-no-such-plugin was not found on PATH ("),
        "{missing}"
    );
    let missing = run(wrapped.bare().args(["--", "/no/such/plugin"]));
    assert!(missing.starts_with("keyfob: no plugin at /no/such/plugin: "), "{missing}");
    let nowhere = run(wrapped
        .client(&[])
        .env("KEYFOB_EXEC_CACHE_DIR", "")
        .env_remove("HOME")
        .env_remove("XDG_CACHE_HOME"));
    assert_eq!(
        nowhere,
        "keyfob: no directory to keep answers in: set HOME, or name one with --cache-dir\n"
    );
    for flags in
        [["--max-age", "0"], ["--deadline", "soon"], ["--env", "*"], ["--lock-timeout", "0s"]]
    {
        let wrong = run(&mut wrapped.client(&flags));
        assert!(wrong.contains(flags[0]), "{wrong}");
    }
    assert_eq!(wrapped.runs(), 0);
}

#[test]
fn a_directory_that_others_can_reach_is_refused() {
    let wrapped = Wrapped::answering();
    let refused = |flaw: &str| {
        let said = said(&wrapped, &[]);
        let expected =
            format!("keyfob: no answer can be kept in {}: {flaw}\n", wrapped.cache_dir().display());
        assert_eq!((said.code, said.stdout, said.stderr), (2, String::new(), expected));
    };
    fs::create_dir(wrapped.path("elsewhere")).unwrap();
    symlink(wrapped.path("elsewhere"), wrapped.cache_dir()).unwrap();
    refused("it is a link; name the directory itself");
    fs::remove_file(wrapped.cache_dir()).unwrap();
    fs::create_dir(wrapped.cache_dir()).unwrap();
    fs::set_permissions(wrapped.cache_dir(), Permissions::from_mode(0o755)).unwrap();
    refused("others have access to it (mode 0755); chmod it to 0700 or name another");
    fs::set_permissions(wrapped.cache_dir(), Permissions::from_mode(0o700)).unwrap();
    // Only root can give it to somebody else.
    if chown(wrapped.cache_dir(), Some(4242), None).is_ok() {
        refused("it belongs to user 4242; name a directory of your own");
    }
    assert_eq!(wrapped.runs(), 0);
}

#[test]
fn who_is_stopped_takes_the_plugin_along_and_leaves_the_lock() {
    let wrapped = Wrapped::new(&format!(
        "echo $$ >\"$RUNS.pid\"\nwhile [ ! -e \"$GATE\" ]; do sleep 0.01; done\n{}",
        answer(TOKEN, "2040-01-01T00:00:00Z")
    ));
    let first = wrapped.command(&[]).spawn().unwrap();
    let plugin = || {
        fs::read_to_string(wrapped.path("runs.pid")).ok()?.trim().parse().ok().map(Pid::from_raw)
    };
    observe(|| plugin().is_some());
    kill(Pid::from_raw(first.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let stopped = Said::from(first.wait_with_output().unwrap());
    assert_eq!((stopped.code, stopped.stdout.as_str()), (130, ""));
    assert!(kill(plugin().unwrap(), None).is_err(), "it is gone");
    wrapped.open_gate();
    assert_eq!(token(&wrapped.command(&[]).output().unwrap().into()), TOKEN);
    assert_eq!(wrapped.runs(), 2);
}
