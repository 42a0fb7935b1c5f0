//! The command line as its users see it: what is printed where, and the exit codes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    io::Write as _,
    process::{Output, Stdio},
};

use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn keyfob(args: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_keyfob")).args(args).output().unwrap()
}

/// Exit code, stdout and stderr.
fn said(args: &[&str]) -> (i32, String, String) {
    let output = keyfob(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same for a command that reads its stdin.
#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn told(args: &[&str], stdin: &str) -> (i32, String, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_keyfob"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().unwrap();
    program.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_plugin_that_gets_a_token_and_no_version_says_that_the_version_is_missing() {
    // As KEP-4412 prints it.
    let request = r#"{"image": "my-image", "serviceAccountToken": "hunter2", "serviceAccountAnnotations": {"domain.io/identity-id": "12345"}}"#;
    for plugin in [
        &["provider", "echo"][..],
        &["provider", "exchange", "--url", "https://broker.example", "--username", "token"],
    ] {
        let (code, stdout, stderr) = told(plugin, request);

        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        let why = "-credential-provider: the request has no apiVersion: write \"kind\":\"CredentialProviderRequest\",\
                   \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\" as a kubelet does\n";
        assert!(stderr.ends_with(why) && !stderr.contains("hunter2"), "{stderr}");
    }
}

#[test]
fn a_match_exits_with_0() {
    let (code, stdout, stderr) = said(&["match", "docker.io/library", "nginx", "alpine:3"]);

    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(
        stdout,
        "match     nginx (as docker.io/library/nginx): host, port and path match\n\
         match     alpine:3 (as docker.io/library/alpine): host, port and path match\n"
    );
}

#[test]
fn one_image_that_does_not_match_exits_with_1_and_the_reason() {
    let (code, stdout, _) = said(&["match", "r.io", "r.io/app", "r.io:5000/app"]);

    assert_eq!(code, 1);
    assert!(stdout.starts_with("match     r.io/app: "), "{stdout}");
    assert!(stdout.contains("no match  r.io:5000/app: port differs: "), "{stdout}");
}

#[test]
fn json_has_one_object_for_each_image() {
    let (code, stdout, _) = said(&["match", "-o", "json", "*.io/*", "r.io/app:v1", "r.io/*"]);

    assert_eq!(code, 2, "an image with a star is malformed");
    let rows: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    let row = &rows[0];
    assert_eq!((&row["pattern"], &row["image"]), (&json!("*.io/*"), &json!("r.io/app:v1")));
    assert_eq!((&row["repository"], &row["matches"]), (&json!("r.io/app"), &json!(false)));
    assert!(row["reason"].as_str().unwrap().starts_with("never matches because a star"), "{row}");
}

#[test]
fn json_fields_come_in_the_documented_order() {
    let (_, stdout, _) = said(&["match", "-o", "json", "r.io", "r.io/app"]);

    assert_eq!(
        stdout,
        "[{\"pattern\":\"r.io\",\"image\":\"r.io/app\",\"repository\":\"r.io/app\",\"matches\":true,\
         \"reason\":\"host, port and path match\"}]\n"
    );
}

#[test]
fn raw_takes_the_image_as_written() {
    assert_eq!(said(&["match", "docker.io", "nginx"]).0, 0);
    assert_eq!(said(&["match", "--raw", "docker.io", "nginx"]).0, 1);
    assert_eq!(said(&["match", "--raw", "r.io/*", "r.io/*"]).0, 0);
}

#[test]
fn a_malformed_pattern_or_image_exits_with_2_and_says_what_is_wrong() {
    let (code, stdout, stderr) = said(&["match", "r.io:80*", "r.io/app"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("invalid port \":80*\" after host"), "{stderr}");

    let (code, stdout, stderr) = said(&["match", "r.io", "r.io/App", "r.io/app"]);
    assert_eq!(code, 2);
    assert!(
        stdout.starts_with("match     r.io/app: "),
        "the good image is still answered: {stdout}"
    );
    assert!(stderr.contains("App"), "{stderr}");
}

#[test]
fn an_image_whose_registry_is_no_host_of_a_url_matches_nothing() {
    let (code, stdout, _) = said(&["match", "*", "[a:]/app"]);

    assert_eq!(code, 1);
    assert!(stdout.starts_with("no match  [a:]/app: no pattern can match a registry"), "{stdout}");
}

#[test]
fn json_is_a_list_even_when_nothing_could_be_answered() {
    assert_eq!(said(&["match", "-o", "json", "r.io:80*", "r.io/app"]).1, "[]\n");
    assert_eq!(said(&["match", "-o", "json", "r.io", "r.io/App"]).1, "[]\n");
}

#[test]
fn an_image_cannot_forge_a_line_of_the_answer() {
    let image = "r.io/a#\u{1b}[31m\nmatch     forged";

    let (_, stdout, _) = said(&["match", "--raw", "r.io", image]);

    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn a_result_that_cannot_be_written_is_neither_yes_nor_no() {
    let run = |stdout: Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_keyfob"));
        command.args(["match", "r.io", "r.io/app"]).stdout(stdout).output().unwrap()
    };

    let full = run(std::fs::File::create("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&full.stderr).contains("could not be written"));

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(run(writer.into()).status.code(), Some(4));

    // Whoever chooses /dev/null wants it, however it was opened.
    for reads in [false, true] {
        let null = std::fs::OpenOptions::new().read(reads).write(true).open("/dev/null").unwrap();
        assert_eq!(run(null.into()).status.code(), Some(0));
    }
}

#[test]
fn help_version_and_completions_are_there() {
    assert!(said(&["--help"]).1.contains("match"));
    assert!(said(&["match", "--help"]).1.contains("Exit codes: 0 every image matches"));
    assert_eq!(said(&["--version"]).1, concat!("keyfob ", env!("CARGO_PKG_VERSION"), "\n"));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(said(&["completions", shell]).1.contains("keyfob"), "{shell}");
    }
    assert_eq!(said(&["match"]).0, 2, "a missing argument is wrong input");
}

#[test]
fn a_value_that_a_plugin_refuses_is_not_shown() {
    let rows: [(&[&str], &str); 2] = [
        (&["gcp", "--sts-url=https://ada:hunter2@sts.example/"], "holds a user name or a password"),
        (
            &["exchange", "--url=x", "--field=secret=hunter2{annotation:"],
            "an annotation is written",
        ),
    ];
    for (args, reason) in rows {
        let (code, stdout, stderr) = said(&[&["provider"], args].concat());

        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(reason) && !stderr.contains("hunter2"), "{stderr}");
    }
}
