//! The scripted plugin reads the JSON it is documented to read, and says so when it cannot.

use keyfob_testkit::{Script, Step, scripted_plugin};

#[test]
fn a_script_is_plain_json() {
    let text = r#"[{"say":"hello"},{"sleepMs":5},"closeStdout",{"fork":[{"exit":3}]}]"#;
    let script = Script::new([
        Step::Say("hello".into()),
        Step::SleepMs(5),
        Step::CloseStdout,
        Step::Fork(Script::new([Step::Exit(3)])),
    ]);

    assert_eq!(script.to_arg(), text);
    assert_eq!(serde_json::from_str::<Script>(text).unwrap(), script);
}

#[test]
fn a_script_that_cannot_be_read_fails_the_plugin() {
    #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
    let ran = std::process::Command::new(scripted_plugin()).arg("[\"dance\"]").output().unwrap();

    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("unknown variant `dance`"));
}

#[test]
fn a_script_may_stand_in_a_file_and_count_its_runs() {
    let folder = std::env::temp_dir().join(format!("scripted-plugin-{}", std::process::id()));
    let (script, runs) = (folder.join("script"), folder.join("runs"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&script, Script::new([Step::Count(runs.clone())]).to_arg()).unwrap();

    for _ in 0..3 {
        #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
        let ran = std::process::Command::new(scripted_plugin()).arg(&script).status().unwrap();
        assert!(ran.success());
    }

    assert_eq!(std::fs::read(&runs).unwrap(), b"...");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn stdin_may_be_recorded() {
    let file = std::env::temp_dir().join(format!("scripted-plugin-stdin-{}", std::process::id()));
    #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
    let ran = std::process::Command::new(scripted_plugin())
        .arg(Script::new([Step::RecordStdin(file.clone())]).to_arg())
        .stdin(std::fs::File::open("Cargo.toml").unwrap())
        .status()
        .unwrap();
    assert!(ran.success());
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read("Cargo.toml").unwrap());
    std::fs::remove_file(file).unwrap();
}
