//! Plugins that give nothing.

use std::{fs, process::Stdio};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::{Home, Said, home, nobody, run};

fn with_plugin(script: &str) -> Home {
    let home = Home::new();
    let user = home.plugin(script);
    home.kubeconfig(&nobody(), &user);
    home
}

#[test]
fn a_plugin_that_fails_is_told_with_what_it_said_and_without_what_it_printed() {
    let home = with_plugin("echo hunter2-printed\necho 'log in first' >&2\nexit 3");
    for command in [&["token"][..], &["whoami"], &["get", "--raw", "/version"]] {
        let said = run(&home, command);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{command:?}");
        let (live, rest) = said.stderr.split_once('\n').unwrap();
        assert_eq!(live, "log in first", "{command:?}");
        assert!(rest.contains("exec: executable /bin/sh failed with exit code 3"), "{rest}");
    }
    let said = run(&home, &["token"]);
    let advice = "keyfob: exec: executable /bin/sh failed with exit code 3\n\
                  see what it says, and run it by hand with the same arguments and environment; `keyfob kube explain` says more\n";
    assert!(said.stderr.ends_with(advice), "{}", said.stderr);
}

#[test]
fn a_plugin_that_hangs_is_killed_in_time() {
    let home = with_plugin("while :; do sleep 600; done");

    let said = run(&home, &["token", "--plugin-timeout", "200ms"]);

    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let why = "keyfob: exec: executable /bin/sh gave no answer within 0.2 s and was killed\n";
    assert!(said.stderr.starts_with(why), "{}", said.stderr);
    assert!(said.stderr.contains("run the command by hand to see what it waits for"));
    let said = run(&home, &["token", "--plugin-timeout", "-1s"]);
    assert_eq!(said.code, 2);
}

#[test]
fn answers_that_are_none_are_not_quoted() {
    for (answer, why) in [
        ("hunter2", "decoding stdout: "),
        (
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"hunter2"}}"#,
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/v1beta1",
        ),
        (
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientKeyData":"hunter2"}}"#,
            "exec plugin returned only certificate or key, not both",
        ),
        (
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2\n"}}"#,
            "the token has a byte that no header may have",
        ),
    ] {
        let said = run(&with_plugin(&format!("printf '%s' '{answer}'")), &["token"]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{answer}");
        assert!(said.stderr.contains(why), "{}", said.stderr);
    }
}

#[test]
fn whoever_stops_the_command_stops_the_plugin() {
    let home = Home::new();
    let pid = home.path("pid").display().to_string();
    let user = home
        .plugin(&format!("echo $$ >{pid}.new; mv {pid}.new {pid}; while :; do sleep 600; done"));
    home.kubeconfig(&nobody(), &user);
    let mut command = home.kube(&["token", "--kubeconfig", "kubeconfig"]);
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let plugin = until(|| fs::read_to_string(&pid).ok()?.trim().parse().ok());

    kill(Pid::from_raw(i32::try_from(started.id()).unwrap()), Signal::SIGTERM).unwrap();

    let said = Said::from(started.wait_with_output().unwrap());
    assert_eq!((said.code, said.stdout.as_str()), (130, ""));
    assert_eq!(said.stderr, "keyfob: stopped; the plugins that ran were killed\n");
    until(|| kill(Pid::from_raw(plugin), None).err());
}

/// Waits for something that takes a moment, and not for ever.
#[expect(clippy::disallowed_methods, reason = "another process cannot be told to use our clock")]
fn until<T>(mut happened: impl FnMut() -> Option<T>) -> T {
    let mut waits = (0..10_000).map(|_| std::thread::sleep(std::time::Duration::from_millis(2)));
    waits.find_map(|()| happened()).unwrap()
}

#[test]
fn a_configuration_that_cannot_be_used_is_wrong_input() {
    let home = home(&json!({"token": "hunter2"}));
    let mut user = home.plugin("exit 1");
    user["exec"]["apiVersion"] = json!("client.authentication.k8s.io/v1alpha1");
    home.kubeconfig(&nobody(), &user);
    let said = run(&home, &["token"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("exec plugin: invalid apiVersion"), "{}", said.stderr);

    user["exec"]["apiVersion"] = json!("client.authentication.k8s.io/v1");
    user["exec"]["interactiveMode"] = json!("");
    home.kubeconfig(&nobody(), &user);
    let said = run(&home, &["token"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("interactiveMode must be specified for ada"), "{}", said.stderr);
    assert_eq!(home.runs(), 0);
}
