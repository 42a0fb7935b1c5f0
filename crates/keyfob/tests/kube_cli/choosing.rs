//! Which files, contexts, clusters and users count, and which plugins may be run.

use std::fs;

use serde_json::{Value, json};

use crate::{Home, TOKEN, home, nobody, run, with_kubeconfig};

/// A home with two contexts in two files, and a user of the same name in each.
fn two_files() -> Home {
    let home = Home::new();
    for (name, token) in [("one", "hunter2-one"), ("two", "hunter2-two")] {
        home.kubeconfig(&nobody(), &json!({"token": token}));
        let text = fs::read_to_string(home.path("kubeconfig")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["contexts"][0]["name"] = json!(name);
        config["current-context"] = json!(name);
        let mut second = config["users"][0].clone();
        second["name"] = json!(format!("only-{name}"));
        config["users"].as_array_mut().unwrap().push(second);
        home.file(name, &config.to_string());
    }
    home
}

#[test]
fn a_list_of_files_is_read_as_kubectl_reads_it() {
    let home = two_files();
    let token = |args: &[&str]| home.run(&[&["token"], args].concat()).stdout;

    assert_eq!(token(&["--kubeconfig", "one:two"]), "hunter2-one\n");
    assert_eq!(token(&["--kubeconfig", "none:two:one"]), "hunter2-two\n");
    // The context is the second file's, its user the first's.
    assert_eq!(token(&["--kubeconfig", "one:two", "--context", "two"]), "hunter2-one\n");
    assert_eq!(token(&["--kubeconfig", "one:two", "--user", "only-two"]), "hunter2-two\n");
    let mut by_variable = home.kube(&["token"]);
    let said = by_variable.env("KUBECONFIG", "none:two").output().unwrap();
    assert_eq!(said.stdout, b"hunter2-two\n");
    fs::create_dir(home.path(".kube")).unwrap();
    fs::copy(home.path("one"), home.path(".kube/config")).unwrap();
    assert_eq!(token(&[]), "hunter2-one\n");
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let home = two_files();
    home.file("bad", "users: [{user: {token: hunter2");
    home.file("empty", "");
    let in_home = home.path(".kube/config").display().to_string();
    for (args, why) in [
        (vec!["--kubeconfig", "none"], "the kubeconfig cannot be read: stat none: no such file or directory; name one with --kubeconfig or $KUBECONFIG".to_owned()),
        (vec!["--kubeconfig", "bad"], "error loading config file \"bad\": invalid YAML at line 2, column 1: expected `,` or `}`; `kubectl config view` reads it too".to_owned()),
        (vec!["--kubeconfig", "none:empty"], "there is no kubeconfig: none is missing, empty says nothing; name one with --kubeconfig or $KUBECONFIG".to_owned()),
        (vec![], format!("there is no kubeconfig: {in_home} is missing; name one with --kubeconfig or $KUBECONFIG")),
        (vec!["--kubeconfig", "one:two", "--context", "x"], "the kubeconfig one:two has no context x; it has: one, two".to_owned()),
        (vec!["--kubeconfig", "one", "--user", "x"], "the kubeconfig one has no user x; it has: ada, only-one".to_owned()),
        (vec!["--kubeconfig", "one", "--cluster", "x"], "the kubeconfig one has no cluster x; it has: here".to_owned()),
    ] {
        let said = home.run(&[&["token"], args.as_slice()].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}");
        assert_eq!(said.stderr, format!("keyfob: {why}\n"), "{args:?}");
    }
}

#[test]
fn a_context_must_be_chosen_and_lead_somewhere() {
    let home = two_files();
    let change = |name: &str, pointer: &str, value: Value| {
        let text = fs::read_to_string(home.path("one")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        *config.pointer_mut(pointer).unwrap() = value;
        home.file(name, &config.to_string());
    };
    change("none-chosen", "/current-context", json!(""));
    change("lost", "/contexts/0/context/cluster", json!("there"));
    change("nobodys", "/contexts/0/context/user", json!("eve"));
    change("serverless", "/clusters/0/cluster/server", json!(""));
    for (file, why) in [
        ("none-chosen", "has no current context; choose one with --context: one"),
        ("lost", "has no cluster there; it has: here"),
        ("nobodys", "has no user eve; it has: ada, only-one"),
        ("serverless", "no server found for cluster \"here\""),
    ] {
        let said = home.run(&["token", "--kubeconfig", file]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{file}");
        assert!(said.stderr.contains(why), "{}", said.stderr);
    }
    let chosen = home.run(&["token", "--kubeconfig", "none-chosen", "--context", "one"]);
    assert_eq!(chosen.stdout, "hunter2-one\n");
}

#[test]
fn no_credential_is_shown_to_a_server_without_tls() {
    let home = home(&json!({"token": TOKEN}));

    let said = run(&home, &["token", "--server", "http://ada:hunter2@127.0.0.1:1"]);

    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let why = "keyfob: no credential is shown to a server that is not https, as http://***@127.0.0.1:1 of cluster here is not; choose another with --context or --user\n";
    assert_eq!(said.stderr, why);
    assert_eq!(home.runs(), 0);
}

#[test]
fn a_kuberc_decides_which_plugins_are_run() {
    let home = home(&json!({"token": TOKEN}));
    let kuberc = |text: &str| {
        let head = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";
        home.file("kuberc", &format!("{head}{text}"))
    };
    let token = || with_kubeconfig(&home, &["token", "--kuberc", "kuberc"]);

    kuberc("credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: /bin/sh}]\n");
    assert_eq!(token().code, 0);
    kuberc("credentialPluginPolicy: DenyAll\n");
    let said = token();
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let why = "keyfob: plugin \"/bin/sh\" not allowed: policy set to \"DenyAll\"\n";
    assert!(said.stderr.starts_with(why), "{}", said.stderr);
    assert_eq!(home.runs(), 1);

    kuberc("credentialPluginPolcy: DenyAll\n");
    let said = token();
    assert_eq!(said.code, 0);
    let warning = "keyfob: warning: kuberc kuberc: unknown field \"credentialPluginPolcy\"";
    assert!(said.stderr.starts_with(warning), "{}", said.stderr);
}

#[test]
fn no_plugin_is_run_while_nobody_knows_which_may_be() {
    let home = home(&json!({"token": TOKEN}));
    fs::create_dir(home.path(".kube")).unwrap();
    home.file(".kube/kuberc", "kind: [");

    let said = run(&home, &["token"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("no plugin is run without its policy"), "{}", said.stderr);
    let said = run(&home, &["token", "--kuberc", "none"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert_eq!(home.runs(), 0);

    let mut off = home.kube(&["token", "--kubeconfig", "kubeconfig"]);
    assert!(off.env("KUBERC", "off").output().unwrap().status.success());
    // Who has no plugin needs no policy.
    home.kubeconfig(&nobody(), &json!({"token": TOKEN}));
    assert_eq!(with_kubeconfig(&home, &["token"]).code, 0);
}
