//! The demo does what it says, shows no secret and leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{fs, process::Output};

use keyfob_testkit::LeakCheck;

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn demo(directory: &str) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_keyfob"));
    command.arg("demo").env("TMPDIR", directory).output().unwrap()
}

#[test]
fn every_step_does_what_it_should() {
    let directory = tempfile::tempdir().unwrap();

    let output = demo(directory.path().to_str().unwrap());

    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("\n13 steps, 0 went wrong."), "{stdout}");
    assert_eq!(stdout.matches("\nok     ").count(), 13, "{stdout}");
    for told in ["ran for ", "from the cache, kept per Registry", "kept per Image", "port differs"]
    {
        assert!(stdout.contains(told), "{told} in {stdout}");
    }
    assert!(stdout.contains("it said: tried [redacted]: refused"), "{stdout}");
    LeakCheck::new(["demo-service-account-token", "demo-registry-password"])
        .text("stdout", &stdout);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "it cleans up");
}

#[test]
fn a_demo_that_cannot_be_set_up_fails_and_says_why() {
    let output = demo("/no/such/directory");

    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("WRONG  a temporary directory with plugins"), "{stdout}");
    assert!(stdout.contains("1 steps, 1 went wrong."), "{stdout}");
}
