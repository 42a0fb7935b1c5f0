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

#[test]
fn scripts_may_take_turns_which_are_a_file_of_what_was_asked() {
    let folder = std::env::temp_dir().join(format!("scripted-turns-{}", std::process::id()));
    let asked = folder.join("asked");
    std::fs::create_dir(&folder).unwrap();
    let turns = [Step::Print("a".into()), Step::Exit(3)].map(|step| Script::new([step]));
    let script = Script::new([Step::TakeTurns(asked.clone(), turns.into())]);

    let runs = ["one", "two", "three"].map(|request| {
        let request_file = folder.join(request);
        std::fs::write(&request_file, format!("{request}\n")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
        let ran = std::process::Command::new(scripted_plugin())
            .arg(script.to_arg())
            .stdin(std::fs::File::open(request_file).unwrap())
            .output()
            .unwrap();
        (ran.stdout, ran.status.code())
    });

    let (printed, failed) = ((b"a".to_vec(), Some(0)), (Vec::new(), Some(3)));
    assert_eq!(runs, [printed.clone(), failed, printed]);
    assert_eq!(std::fs::read_to_string(asked).unwrap(), "one\ntwo\nthree\n");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_script_may_depend_on_what_is_asked() {
    let file = std::env::temp_dir().join(format!("scripted-heed-{}", std::process::id()));
    let heard = |text: &str, code| (text.to_owned(), Script::new([Step::Exit(code)]));
    let script = Script::new([Step::Heed(vec![heard("one", 3), heard("on", 4)]), Step::Exit(5)]);

    let codes = ["one", "on", "none of them", "neither"].map(|request| {
        std::fs::write(&file, request).unwrap();
        #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
        let ran = std::process::Command::new(scripted_plugin())
            .arg(script.to_arg())
            .stdin(std::fs::File::open(&file).unwrap())
            .status()
            .unwrap();
        ran.code()
    });

    assert_eq!(codes, [Some(3), Some(4), Some(3), Some(5)]);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_script_may_give_the_requests_token_back_even_after_its_turn_came() {
    let folder = std::env::temp_dir().join(format!("scripted-token-{}", std::process::id()));
    let file = folder.join("request");
    std::fs::create_dir(&folder).unwrap();
    let answer = Script::new([Step::AnswerWithToken(serde_json::json!({"a": "<$TOKEN>"}))]);
    let script = Script::new([Step::TakeTurns(folder.join("asked"), vec![answer])]);

    let printed = [r#"{"serviceAccountToken":"a\"b"}"#, "{}"].map(|request| {
        std::fs::write(&file, request).unwrap();
        #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
        let ran = std::process::Command::new(scripted_plugin())
            .arg(script.to_arg())
            .stdin(std::fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap()
    });

    assert_eq!(printed, ["{\"a\":\"<a\\\"b>\"}\n", "{\"a\":\"<>\"}\n"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_variable_may_be_heeded_as_stdin_is() {
    let script = Script::new([
        Step::HeedVariable(
            "MOOD".into(),
            vec![("good".into(), Script::new([Step::Print("hello".into())]))],
        ),
        Step::Exit(3),
    ]);
    for (mood, code, stdout) in [("a good one", 0, &b"hello"[..]), ("bad", 3, b"")] {
        #[expect(clippy::disallowed_methods, reason = "tests the program itself, not the runner")]
        let ran = std::process::Command::new(scripted_plugin())
            .arg(script.to_arg())
            .env("MOOD", mood)
            .output()
            .unwrap();
        assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(code), stdout));
    }
}
