//! Which kubeconfig, user and plugin, and why it fails.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::{Home, Said, TOKEN, home, nobody, run};

fn explain(home: &Home, args: &[&str]) -> Said {
    let said = run(home, &[&["explain"], args].concat());
    assert_eq!(said.stderr, "");
    said
}

/// The only problem, and what to do about it.
fn told(home: &Home, code: i32) -> (String, String) {
    let said = explain(home, &["-o", "json"]);
    assert_eq!(said.code, code, "{}", said.stdout);
    let said = said.json();
    let [problem] = said["problems"].as_array().unwrap().as_slice() else { panic!("{said}") };
    let text = |name: &str| problem[name].as_str().unwrap().to_owned();
    (text("problem"), text("do"))
}

/// A home whose user's plugin is changed.
fn changed(script: &str, change: impl FnOnce(&mut Value)) -> Home {
    let home = Home::new();
    let mut user = home.plugin(script);
    change(&mut user["exec"]);
    home.kubeconfig(&nobody(), &user);
    home
}

#[test]
fn everything_is_told_about_a_plugin_that_works() {
    let home = Home::new();
    let mut user =
        home.answering(&json!({"token": TOKEN, "expirationTimestamp": "2130-01-01T00:00:00Z"}));
    user["exec"]["env"] =
        json!([{"name": "LAB_SECRET", "value": "hunter2-env"}, {"name": "HOME", "value": "/x"}]);
    user["exec"]["provideClusterInfo"] = json!(true);
    user["exec"]["args"].as_array_mut().unwrap().push(json!("hunter2-arg"));
    home.kubeconfig(&nobody(), &user);

    let said = home.run(&["explain", "--kubeconfig", "none:kubeconfig"]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    for line in [
        "the plugin /bin/sh gives a token, which ends in ",
        "  kubeconfig   none: missing\n               kubeconfig\n",
        "  context      lab (of kubeconfig)\n  cluster      here (of kubeconfig)\n  user         ada (of kubeconfig)\n",
        "  server       https://127.0.0.1:",
        "  namespace    default\n",
        "\nplugin /bin/sh\n  command      /bin/sh; found at /bin/sh\n  arguments    2, not shown\n",
        "  environment  LAB_SECRET=*** (set)\n               HOME=*** (set, in place of the host's)\n",
        "  version      client.authentication.k8s.io/v1\n",
        " bytes, with the cluster: https://127.0.0.1:",
        " bytes of certificates\n",
        "  interactive  Never: now it asks nobody, since it is never asked to\n",
        "  policy       AllowAll (no kuberc): it may be run\n  deadline     killed after 2m0s\n",
        "  cache        none: every kubectl runs it anew\n\nit answered in ",
        "  credential   from the plugin /bin/sh, generation 1\n  token        opaque",
        "  ends         2130-01-01T00:00:00Z: ends in ",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    assert!(!said.stdout.contains("hunter2"), "{}", said.stdout);
    assert_eq!(home.runs(), 1);
}

#[test]
fn json_has_the_documented_names() {
    let home = home(&json!({"token": TOKEN}));

    let said = explain(&home, &["-o", "json"]).json();

    assert_eq!(
        said["files"],
        json!([{"path": "kubeconfig", "state": "read", "ignored": [], "problem": null}])
    );
    assert_eq!(said["user"], json!({"name": "ada", "file": "kubeconfig"}));
    assert_eq!(said["ownCredentials"], json!([]));
    let plugin = &said["plugin"];
    assert_eq!((&plugin["command"], &plugin["program"]), (&json!("/bin/sh"), &json!("/bin/sh")));
    assert_eq!((&plugin["arguments"], &plugin["isUsed"]), (&json!(1), &json!(true)));
    assert_eq!(
        plugin["policy"],
        json!({"type": "AllowAll", "file": null, "allowed": true, "reason": null, "warnings": []})
    );
    assert_eq!(plugin["interactive"], json!(false));
    let info = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}\n";
    assert_eq!(plugin["info"], json!({"bytes": info.len(), "cluster": null}));
    assert_eq!((&said["run"]["error"], &said["run"]["stderr"]), (&json!(null), &json!(null)));
    assert!(said["run"]["tookMs"].as_f64().unwrap() > 0.0);
    assert_eq!(said["credential"]["token"]["kind"], "opaque");
    let help = home.run(&["explain", "--help"]).stdout;
    for name in said.as_object().unwrap().keys().chain(plugin.as_object().unwrap().keys()) {
        assert!(help.contains(&format!("\"{name}\"")), "{name}\n{help}");
    }
}

#[test]
fn a_plugin_is_not_run_if_nobody_wants_it() {
    let home = home(&json!({"token": TOKEN}));

    let said = explain(&home, &["--no-run"]);

    assert_eq!(said.code, 0);
    assert!(said.stdout.starts_with("the plugin /bin/sh would be run\n"), "{}", said.stdout);
    assert_eq!(home.runs(), 0);
}

#[test]
fn a_plugin_that_fails_is_told_with_the_end_of_what_it_said() {
    let script = "echo '{\"token\":\"hunter2-printed\"}'; echo 'first line' >&2; echo 'it was hunter2-printed' >&2; exit 7";
    let home = changed(script, |_| ());

    let said = explain(&home, &[]);

    assert_eq!(said.code, 1);
    for line in [
        "the plugin /bin/sh gives no credential\n",
        "\nit failed after ",
        "  it said      first line\n               it was [redacted]\n",
        "  problem      exec: executable /bin/sh failed with exit code 7\n    do         see what it says",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
}

#[test]
fn where_a_name_was_looked_for_is_told() {
    let home = changed("", |exec| {
        exec["command"] = json!("lab-login");
        exec["installHint"] = json!("ask ada for it");
    });
    let on_path = |path: &str| -> Said {
        let mut command = home.kube(&["explain", "--kubeconfig", "kubeconfig"]);
        command.env("PATH", path).output().unwrap().into()
    };
    fs::create_dir(home.path("bin")).unwrap();
    let bin = home.path("bin").display().to_string();

    let said = on_path(&bin);
    assert_eq!(said.code, 1);
    for words in [
        format!("  command      lab-login; lab-login was not found on PATH ({bin})\n"),
        "exec: executable lab-login not found".into(),
        "ask ada for it".into(),
        "    do         install it into a directory of PATH".into(),
    ] {
        assert!(said.stdout.contains(&words), "{words}\n{}", said.stdout);
    }

    symlink("/bin/sh", home.path("lab-login")).unwrap();
    let said = on_path(".:/bin");
    assert_eq!(said.code, 1);
    assert!(
        said.stdout.contains("./lab-login lies below the current directory and is not run"),
        "{}",
        said.stdout
    );

    fs::write(home.path("bin/lab-login"), "").unwrap();
    let said = on_path(&bin);
    assert!(
        said.stdout.contains("lab-login: permission denied; is its execute bit set?"),
        "{}",
        said.stdout
    );
}

#[test]
fn an_install_hint_is_printed_as_the_lines_that_it_has() {
    let hint = "lab-login is needed.\n\nInstall it:\n\tapt-get install lab-login\n\u{1b}[31mred\r\u{202e}\n";
    let home = changed("", |exec| {
        exec["command"] = json!("lab-login");
        exec["installHint"] = json!(hint);
    });

    let said = explain(&home, &[]);

    assert_eq!(said.code, 1);
    let lines = "  problem      exec: executable lab-login not found\n\
                 \n\
                 \x20              It looks like you are trying to use a client-go credential plugin that is not installed.\n";
    assert!(said.stdout.contains(lines), "{}", said.stdout);
    let lines = "               lab-login is needed.\n\
                 \n\
                 \x20              Install it:\n\
                 \x20                  apt-get install lab-login\n\
                 \x20              U+001B[31mred\\rU+202E\n";
    assert!(said.stdout.contains(lines), "{}", said.stdout);
    assert!(!said.stdout.contains("\\n"), "{}", said.stdout);
}

#[test]
fn an_extension_that_has_no_effect_is_told_with_what_to_do() {
    let explained = |name: &str, is_told: bool| {
        let home = Home::new();
        let mut user = home.answering(&json!({"token": TOKEN}));
        user["exec"]["provideClusterInfo"] = json!(is_told);
        let extensions = json!([{"name": name, "extension": {"audience": "x"}}]);
        home.kubeconfig_for(
            &json!({"server": "https://127.0.0.1:1", "extensions": extensions}),
            &user,
        );
        let text = explain(&home, &["--no-run"]).stdout;
        let lines = text.lines().skip_while(|line| !line.starts_with("  info "));
        let lines = lines.skip(1).take_while(|line| !line.starts_with("  interactive "));
        let json = explain(&home, &["--no-run", "-o", "json"]).json();
        let lines: Vec<_> = lines.map(|line| line.trim().to_owned()).collect();
        (lines, json["plugin"]["extension"]["isSent"].as_bool().unwrap())
    };
    let today = "client.authentication.k8s.io/exec";
    let add = "not sent to the plugin: add `provideClusterInfo: true` to exec of user ada";
    let rename = format!("exec: kubectl does not know this name of KEP-541: call it {today}");
    let labelled = |line: &str| format!("extension    {line}");

    assert_eq!(explained(today, true), (vec![], true));
    assert_eq!(explained(today, false), (vec![labelled(&format!("{today}: {add}"))], false));
    assert_eq!(explained("exec", true), (vec![labelled(&rename)], true));
    let both = vec![labelled(&format!("exec: {add}")), rename];
    assert_eq!(explained("exec", false), (both, false));
}

#[test]
fn a_relative_command_is_told_as_it_is_written_and_as_it_is_found() {
    let home = changed("exit 1", |exec| exec["command"] = json!("./bin/../bin/lab-login"));
    fs::create_dir(home.path("bin")).unwrap();
    let path = home.path("bin/lab-login").display().to_string();
    let (problem, remedy) = told(&home, 1);
    assert_eq!(problem, format!("exec: fork/exec {path}: no such file or directory"));
    assert!(remedy.starts_with("install it there"), "{remedy}");

    symlink("/bin/sh", &path).unwrap();
    let said = explain(&home, &["--no-run"]);
    let line = format!("  command      ./bin/../bin/lab-login, which is {path}; found at {path}\n");
    assert!(said.stdout.contains(&line), "{line}\n{}", said.stdout);
}

#[test]
fn what_the_user_has_of_its_own_stands_in_the_plugins_way() {
    let home = Home::new();
    let mut user = home.plugin("exit 1");
    user["token"] = json!(TOKEN);
    home.kubeconfig(&nobody(), &user);

    let said = explain(&home, &[]);

    assert_eq!(said.code, 0);
    for line in [
        "the user has a token of its own; no plugin is run\n",
        "  its own      token\n",
        "  not run      the user's own token comes first\n",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    assert_eq!(home.runs(), 0);
    let said = explain(&home, &["--server", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 1);
    assert!(
        said.stdout.contains("  not run      no credential is shown to a server that is not https"),
        "{}",
        said.stdout
    );
}

#[test]
fn the_policy_is_told_with_its_file_and_its_verdict() {
    let home = changed("exit 1", |_| ());
    home.file("kuberc", "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: lab-login}]\n");

    for run in [&[][..], &["--no-run"]] {
        let said = explain(&home, &[run, &["--kuberc", "kuberc"]].concat());
        assert_eq!(said.code, 1);
        let line = "  policy       Allowlist (of kuberc): it may not be run: plugin path \"/bin/sh\" is not permitted by the credential plugin allowlist\n";
        assert!(said.stdout.contains(line), "{}", said.stdout);
    }
    assert_eq!(home.runs(), 0);
    home.file("kuberc", "kind: [");
    let said = explain(&home, &["--kuberc", "kuberc"]);
    assert_eq!(said.code, 2);
    assert!(said.stdout.contains("no plugin is run without its policy"), "{}", said.stdout);
    assert!(said.stdout.contains("\nplugin /bin/sh\n"), "{}", said.stdout);
}

#[test]
fn a_plugin_that_must_ask_somebody_is_told_that_nobody_is_there() {
    let home = changed("exit 1", |exec| exec["interactiveMode"] = json!("Always"));

    let (problem, remedy) = told(&home, 1);

    assert_eq!(
        problem,
        "exec plugin cannot support interactive mode: standard input is not a terminal"
    );
    assert!(remedy.starts_with("run this in a terminal"), "{remedy}");
    let said = explain(&home, &["--no-run"]);
    assert_eq!(said.code, 1);
    let line =
        "  interactive  Always: it cannot be run now, since standard input is not a terminal\n";
    assert!(said.stdout.contains(line), "{}", said.stdout);
}

#[test]
fn a_cache_around_a_plugin_is_recognised() {
    let home = changed("", |exec| {
        exec["command"] = json!("/usr/bin/keyfob");
        exec["args"] = json!(["kube", "exec-cache", "--", "/bin/sh", "-c", "hunter2"]);
    });

    let said = explain(&home, &["--no-run"]);

    let line =
        "  cache        keyfob kube exec-cache keeps the answers of /bin/sh; found at /bin/sh\n";
    assert!(said.stdout.contains(line), "{}", said.stdout);
}

#[test]
fn files_that_cannot_be_used_are_told_one_by_one() {
    let home = home(&json!({"token": TOKEN}));
    home.file("bad", "users: [{user: {token: hunter2");

    let said = home.run(&["explain", "-o", "json", "--kubeconfig", "bad:none:kubeconfig"]);

    assert_eq!((said.code, said.stderr.as_str()), (2, ""));
    let said = said.json();
    let states: Vec<_> =
        said["files"].as_array().unwrap().iter().map(|file| &file["state"]).collect();
    assert_eq!(states, ["unusable", "missing", "read"]);
    assert!(said["files"][0]["problem"].as_str().unwrap().starts_with("invalid YAML"), "{said}");
    assert!(
        said["verdict"] == "nothing can be asked with this" && said["plugin"].is_null(),
        "{said}"
    );
    assert!(!said.to_string().contains("hunter2"), "{said}");
    assert_eq!(home.runs(), 0);

    home.file("odd", "kind: Config\nuserz: []\n");
    let said = home.run(&["explain", "--kubeconfig", "odd:kubeconfig", "--no-run"]);
    assert_eq!(said.code, 0);
    assert!(said.stdout.contains("  ignored    "), "{}", said.stdout);
}
