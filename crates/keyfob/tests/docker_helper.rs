//! Our plugins where docker looks for a credential helper: every word of that protocol, as processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use keyfob_testkit::LeakCheck;
use node::{Said, program};
use serde_json::{Value, json};
use tempfile::TempDir;

const NOT_FOUND: &str = "credentials not found in native keychain\n";

/// One of the ways in which a plugin is started.
struct Started {
    directory: TempDir,
    command: PathBuf,
    before: &'static [&'static str],
}

impl Started {
    fn by_link(name: &str) -> Self {
        let directory = docker_config();
        let command = directory.path().join(name);
        symlink(program().get_program(), &command).unwrap();
        Self { directory, command, before: &[] }
    }

    fn by_name(before: &'static [&'static str]) -> Self {
        Self { directory: docker_config(), command: program().get_program().into(), before }
    }

    /// The same plugin in all ways; only one that reads files has a login without a cloud.
    fn all() -> [Self; 4] {
        [
            Self::by_link("docker-config-credential-provider"),
            Self::by_link("docker-credential-docker-config"),
            Self::by_name(&["provider", "docker-config"]),
            Self::by_name(&["provider", "docker-config-credential-provider"]),
        ]
    }

    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    fn say(&self, words: &[&str], stdin: &str) -> Said {
        let mut child = Command::new(&self.command)
            .args(self.before)
            .args(words)
            .env("DOCKER_CONFIG", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Who does not read it has done nothing wrong.
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap_or_default();
        child.wait_with_output().unwrap().into()
    }
}

fn docker_config() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let login =
        |username: &str, password: &str| json!({"username": username, "password": password});
    let config = json!({"auths": {
        "registry.example.com": login("ada", "hunter2-ada"),
        "tokens.example.com": login("<token>", "hunter2-token"),
        "https://index.docker.io/v1/": login("hub", "hunter2-hub"),
    }});
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    directory
}

/// Exit code and stdout.
fn said(said: &Said) -> (i32, &str) {
    (said.code, said.stdout.as_str())
}

#[test]
fn get_answers_with_the_login_however_the_server_is_written() {
    for plugin in Started::all() {
        for (server, username) in [
            ("registry.example.com", "ada"),
            ("registry.example.com\r\n", "ada"),
            ("https://registry.example.com", "ada"),
            ("https://registry.example.com/v1/", "ada"),
            ("registry.example.com/team/app", "ada"),
            ("https://index.docker.io/v1/", "hub"),
            ("docker.io", "hub"),
        ] {
            let answer = plugin.say(&["get"], server);
            assert_eq!(
                (answer.code, answer.stderr.as_str()),
                (0, ""),
                "{server}: {}",
                answer.stdout
            );
            let login = answer.json();
            assert_eq!(login["ServerURL"], server.trim_end(), "{server}");
            assert_eq!(login["Username"], username, "{server}");
        }
    }
}

#[test]
fn what_is_not_known_is_said_in_the_exact_words() {
    for plugin in Started::all() {
        for unknown in ["unknown.example.com", "https://unknown.example.com:5000/v2/"] {
            assert_eq!(said(&plugin.say(&["get"], unknown)), (1, NOT_FOUND));
        }
        assert_eq!(said(&plugin.say(&["get"], "")), (1, "no credentials server URL\n"));
        assert_eq!(said(&plugin.say(&["get"], " \n")), (1, "no credentials server URL\n"));
    }
}

#[test]
fn an_identity_token_is_handed_to_docker_and_to_no_kubelet() {
    let plugin = Started::by_link("docker-config-credential-provider");
    let request = json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderRequest",
        "image": "tokens.example.com/app",
    });

    let docker = plugin.say(&["get"], "tokens.example.com").json();
    let kubelet = plugin.say(&[], &request.to_string());

    assert_eq!(
        (&docker["Username"], &docker["Secret"]),
        (&json!("<token>"), &json!("hunter2-token"))
    );
    assert_eq!(said(&kubelet), (1, ""));
    assert!(kubelet.stderr.contains("identity token"), "{}", kubelet.stderr);
}

#[test]
fn store_and_erase_succeed_quietly_and_check_what_they_are_given() {
    let login = |server: &str, username: &str| {
        json!({"ServerURL": server, "Username": username, "Secret": "hunter2-stored"}).to_string()
    };
    for plugin in Started::all() {
        let stored = plugin.say(&["store"], &login("https://registry.example.com/v1", "david"));
        assert_eq!(said(&stored), (0, ""));
        let nowhere = plugin.say(&["store"], &login("", "u"));
        assert_eq!(said(&nowhere), (1, "no credentials server URL\n"));
        assert_eq!(
            said(&plugin.say(&["store"], &login("x", ""))),
            (1, "no credentials username\n")
        );
        assert_eq!(plugin.say(&["store"], "hunter2-stored").code, 1);
        assert_eq!(said(&plugin.say(&["erase"], "registry.example.com")), (0, ""));
        assert_eq!(plugin.say(&["erase"], "").code, 1);
    }
}

#[test]
fn list_is_an_object_at_once() {
    for plugin in Started::all() {
        let listed = plugin.say(&["list"], "unused");
        assert_eq!((listed.code, listed.json()), (0, Value::Object(serde_json::Map::new())));
    }
}

#[test]
fn version_is_a_name_a_package_and_a_number() {
    for plugin in Started::all() {
        let version = plugin.say(&["version"], "");
        let words: Vec<_> = version.stdout.trim_end().split(' ').collect();
        let [name, package, number] = &words[..] else { panic!("{}", version.stdout) };
        assert_eq!((version.code, *name), (0, "docker-config-credential-provider"));
        assert!(package.starts_with('(') && package.ends_with(')'), "{package}");
        assert_eq!(*number, env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn flags_that_ask_about_the_program_are_answered_on_stdout() {
    for plugin in Started::all() {
        for flag in ["--version", "-v", "-V", "--help", "-h"] {
            let answer = plugin.say(&[flag], "");
            assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{flag}");
            assert!(answer.stdout.contains("docker-config-credential-provider"), "{flag}");
        }
    }
}

#[test]
fn what_is_no_word_of_the_protocol_fails() {
    for plugin in Started::all() {
        assert_eq!(plugin.say(&[], "").code, 1);
        assert_eq!(plugin.say(&["get", "extra"], "registry.example.com").code, 1);
        assert_eq!(said(&plugin.say(&["frob"], "")), (1, "unknown action: frob\n"));
    }
}

#[test]
fn every_plugin_answers_what_needs_no_cloud() {
    for (name, words) in [
        ("ecr", &["--version"][..]),
        ("gcp", &["-v"]),
        ("acr", &["--help"]),
        ("exchange", &["--version"]),
        ("echo", &["version"]),
        ("echo", &["list"]),
        ("exec", &["--version"]),
    ] {
        let link = Started::by_link(&format!("docker-credential-{name}"));
        assert_eq!(link.say(words, "").code, 0, "{name} {words:?}");
    }
    let echo = Started::by_name(&["provider", "echo", "--registry", "r.io"]);
    assert_eq!(said(&echo.say(&["get"], "unknown.example.com")), (1, NOT_FOUND));
    let without = echo.say(&["get"], "r.io");
    assert_eq!(without.code, 1);
    assert!(without.stdout.contains("service account token"), "{}", without.stdout);
}

#[test]
fn a_plugin_that_cannot_work_says_so_where_docker_looks() {
    let plugin = Started::by_name(&["provider", "gcp", "--identity-provider=https://c.example"]);

    let failed = plugin.say(&["get"], "gcr.io");

    assert_eq!((failed.code, failed.stderr.as_str()), (1, ""));
    assert!(failed.stdout.contains("needs --project-id"), "{}", failed.stdout);
    assert_eq!(said(&plugin.say(&["list"], "unused")), (0, "{}\n"));
}

#[test]
fn a_command_line_that_is_wrong_is_told_in_one_line() {
    for (name, word, shown) in [
        (
            "ecr",
            "--nope",
            "ecr-credential-provider: unexpected argument '--nope' found: try --help\n",
        ),
        ("ecr", "--fallback=x", "[possible values: node, none]: try --help\n"),
        ("exchange", "get", "exchange-credential-provider: the following required arguments"),
    ] {
        let failed = Started::by_link(&format!("docker-credential-{name}")).say(&[word], "");
        assert_eq!(said(&failed), (1, ""));
        assert!(failed.stderr.contains(shown), "{}", failed.stderr);
        assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    }
}

#[test]
fn a_deadline_that_clocks_cannot_count_to_is_refused() {
    let plugin = Started::by_link("docker-credential-docker-config");
    for deadline in ["--deadline=1", "--deadline=3600"] {
        let answer = plugin.say(&["get", deadline], "registry.example.com");
        assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{deadline}");
    }
    let refused = plugin.say(&["get", "--deadline=18446744073709551615"], "registry.example.com");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--deadline"), "{}", refused.stderr);
}

#[test]
fn a_kubelet_is_answered_in_its_own_protocol_also_with_fields_to_come() {
    let echo = Started::by_link("docker-credential-echo");
    let mut request = json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderRequest",
        "image": "registry.example.com/app",
        "serviceAccountToken": "service-account-token",
    });
    request["unknownField"] = json!(1);

    for words in [&[][..], &["get"], &["get-credentials"]] {
        let answer = echo.say(words, &request.to_string());
        assert_eq!(answer.code, 0, "{words:?}: {}", answer.stderr);
        let login = &answer.json()["auth"]["registry.example.com"];
        assert_eq!(*login, json!({"username": "jwt", "password": "service-account-token"}));
    }
}

#[test]
fn no_secret_stands_in_what_is_said_of_failures() {
    let check = LeakCheck::new(["hunter2-ada", "hunter2-hub", "hunter2-token", "hunter2-stored"]);
    let plugin = Started::by_link("docker-config-credential-provider");
    for (words, stdin) in [
        (&["get"][..], "unknown.example.com"),
        (&["store"], "hunter2-stored"),
        (&["get", "extra"], "registry.example.com"),
        (&[], "registry.example.com"),
    ] {
        let answer = plugin.say(words, stdin);
        check.text("stdout", &answer.stdout).text("stderr", &answer.stderr);
    }
}
