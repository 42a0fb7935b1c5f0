//! Every way a plugin can misbehave, with real processes. Each case ends with the leak check: neither the token that
//! was handed over nor the password that was printed is in an error, a log, a `Debug` or the stderr tail.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use keyfob_exec::{
    Finished, Invocation, Limits, ProcessRunner, Program, RunError, Runner as _, Status, Stderr,
    Stdin,
};
use keyfob_testkit::{
    LeakCheck, LogCapture, MapEnvironment, Script, Step, Witness, echoes, scripted_plugin,
};
use nix::sys::signal::{SigSet, Signal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use tempfile::TempDir;

const TOKEN: &str = "token-3f9c1e77-handed-to-the-plugin";
const PASSWORD: &str = "password-77aa-printed-by-the-plugin";
const FOREVER: Step = Step::SleepMs(600_000);
const SOON: Duration = Duration::from_millis(300);

/// A plugin with a script, and a folder for what it records.
struct Case {
    folder: TempDir,
    invocation: Invocation,
}

impl Case {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with_folder(|_| steps.into_iter().collect())
    }

    /// A script that needs to know the folder.
    fn with_folder(steps: impl FnOnce(&Folder) -> Vec<Step>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Script::new(steps(&Folder(folder.path().into())));
        let invocation = Invocation::new(Program::at(scripted_plugin()).unwrap())
            .args([script.to_arg()])
            .stdin(Stdin::bytes(TOKEN))
            .redact(TOKEN);
        Self { folder, invocation }
    }

    fn with(mut self, change: impl FnOnce(Invocation) -> Invocation) -> Self {
        self.invocation = change(self.invocation);
        self
    }

    /// Runs it in at most two seconds and checks that nothing leaked.
    #[expect(clippy::disallowed_methods, reason = "how long it really takes is the question")]
    async fn run(&self) -> Result<Finished, RunError> {
        let (logs, started) = (LogCapture::start(), Instant::now());
        let ran = runner().run(&self.invocation).await;
        let leaks = LeakCheck::new([TOKEN, PASSWORD]);
        assert!(logs.text().contains("plugin"), "the log is empty, so it proves nothing");
        leaks.text("the log", &logs.text()).debug("the result", &ran);
        match &ran {
            Ok(finished) => leaks.text("stderr", &finished.stderr.to_string()),
            Err(error) => leaks.error(error),
        };
        assert!(started.elapsed() < Duration::from_secs(2), "took {:?}", started.elapsed());
        ran
    }

    fn witness(&self, name: &str) -> Witness {
        serde_json::from_slice(&std::fs::read(self.folder.path().join(name)).unwrap()).unwrap()
    }
}

struct Folder(PathBuf);

impl Folder {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn runner() -> ProcessRunner {
    ProcessRunner::new(MapEnvironment::default())
}

fn print(text: &str) -> Step {
    Step::Print(text.into())
}

fn say(text: &str) -> Step {
    Step::Say(text.into())
}

/// Whether a process that was killed is dead, waiting for the kernel if it must. (A zombie is dead.)
fn is_dead(pid: i32) -> bool {
    let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return true;
    };
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap() == 1
}

/// Whether there is still something in the process table, be it a zombie.
fn is_there(pid: i32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

#[tokio::test]
async fn a_good_plugin_is_heard() {
    let answer = serde_json::json!({"password": PASSWORD});
    let case = Case::new([say("working\n"), Step::Answer(answer.clone())]);

    let finished = case.run().await.unwrap();

    assert_eq!((finished.status, finished.stderr.text()), (Status::Exited(0), "working"));
    assert_eq!(finished.success().unwrap().expose(), format!("{answer}\n").as_bytes());
}

#[tokio::test]
async fn stdin_is_written_while_output_is_read() {
    let text = "0123456789".repeat(60_000);
    let case = Case::new([Step::Echo]).with(|it| it.stdin(Stdin::bytes(text.as_str())));

    let answer = case.run().await.unwrap().success().unwrap();

    assert!(answer.expose() == text.as_bytes(), "600 kB came back changed");
}

#[tokio::test]
async fn a_plugin_that_never_reads_a_large_request_has_done_nothing_wrong() {
    for first in [Step::CloseStdin, print("")] {
        let large = Stdin::bytes(vec![b'x'; 300_000]);
        let case = Case::new([first, print("{}")]).with(|it| it.stdin(large));

        assert_eq!(case.run().await.unwrap().success().unwrap().expose(), b"{}");
    }
}

#[tokio::test]
async fn without_a_request_stdin_is_empty() {
    let case = Case::new([Step::Echo]).with(|it| it.stdin(Stdin::Null));

    assert_eq!(case.run().await.unwrap().success().unwrap().expose(), b"");
}

#[tokio::test]
async fn at_the_deadline_the_whole_group_is_killed() {
    let case = Case::with_folder(|folder| {
        vec![
            Step::IgnoreSigterm,
            Step::Record(folder.file("child")),
            Step::Fork(Script::new([Step::Record(folder.file("grandchild")), FOREVER])),
            Step::Await(folder.file("grandchild")),
            say("ready"),
            FOREVER,
        ]
    })
    .with(|it| it.deadline(SOON));

    let error = case.run().await.unwrap_err();

    let RunError::TimedOut { after, stderr, .. } = &error else { panic!("{error}") };
    assert_eq!((*after, stderr.text()), (SOON, "ready"));
    let shown = "was killed after 0.3 s without an answer; it said: ready";
    assert!(error.to_string().ends_with(shown), "{error}");
    assert!(is_dead(case.witness("child").pid) && is_dead(case.witness("grandchild").pid));
}

#[tokio::test]
async fn half_an_answer_and_silence_is_a_timeout() {
    let half = print(&format!("{{\"password\":\"{PASSWORD}"));
    let case = Case::new([half, FOREVER]).with(|it| it.deadline(SOON));

    assert!(matches!(case.run().await, Err(RunError::TimedOut { .. })));
}

#[tokio::test]
async fn half_an_answer_and_a_clean_exit_is_handed_over_as_it_is() {
    let case = Case::new([print("{\"half\":")]);

    assert_eq!(case.run().await.unwrap().success().unwrap().expose(), b"{\"half\":");
}

#[tokio::test]
async fn a_flood_on_stdout_is_cut_off_at_once() {
    let case = Case::new([print(PASSWORD), Step::FloodStdout(usize::MAX)]);

    let error = case.run().await.unwrap_err();

    assert!(matches!(error, RunError::OutputTooLarge { limit: 1_048_576, .. }), "{error}");
}

#[tokio::test]
async fn the_limit_of_stdout_can_be_told() {
    let limits = |stdout| Limits { stdout, ..Limits::default() };
    let case =
        |limit| Case::new([Step::FloodStdout(3_000_000)]).with(|it| it.limits(limits(limit)));

    assert_eq!(case(3_000_000).run().await.unwrap().stdout.expose().len(), 3_000_000);
    assert!(matches!(case(2_999_999).run().await, Err(RunError::OutputTooLarge { .. })));
}

#[tokio::test]
async fn a_flood_on_stderr_leaves_only_its_end() {
    let case = Case::new([Step::FloodStderr(5_000_000), say("\nthe end\n"), print("{}")]);

    let finished = case.run().await.unwrap();

    // The flood is one long word whose beginning is lost; it could have been a secret.
    assert_eq!(finished.stderr.to_string(), "…the end");
    assert_eq!(finished.stdout.expose(), b"{}");
}

#[tokio::test]
async fn a_code_and_a_signal_are_told_apart() {
    let status = async |step| Case::new([step]).run().await.unwrap().status;

    assert_eq!(status(Step::Exit(3)).await, Status::Exited(3));
    assert_eq!(status(Step::Signal(9)).await, Status::Signaled(9));
    assert_eq!(status(Step::Signal(15)).await, Status::Signaled(15));
}

#[tokio::test]
async fn a_failure_shows_what_the_plugin_said_without_its_secrets() {
    let answer = print(&format!("{{\"password\":\"{PASSWORD}\"}}"));
    let said = say(&format!("cannot log in with {TOKEN}, though {PASSWORD} worked yesterday\n"));
    let case = Case::new([answer, said, Step::Exit(4)]);

    let error = case.run().await.unwrap().success().unwrap_err();

    LeakCheck::new([TOKEN, PASSWORD]).error(&error);
    let shown = "failed: exit code 4; it said: cannot log in with [redacted], though [redacted] worked yesterday";
    assert!(error.to_string().ends_with(shown), "{error}");
}

#[tokio::test]
async fn a_secret_in_disguise_is_not_shown() {
    let said = [echoes(TOKEN), echoes(PASSWORD)].concat();
    let said = said.iter().map(|(_, echo)| format!("tried {echo}\n"));
    let answer = print(&format!("auth:\n  r.io:\n    password: '{PASSWORD}' # hers\n"));
    let case = Case::new([answer].into_iter().chain(said.map(|line| say(&line))));

    let shown = case.run().await.unwrap().stderr.text().to_owned();

    assert!(shown.contains("tried [redacted]"), "{shown}");
}

#[tokio::test]
async fn a_value_that_is_named_like_a_secret_is_not_shown() {
    let said = "password=hunter2\nAuthorization: Basic YWRhOmh1bnRlcjI=\nAWS_SECRET_ACCESS_KEY=hunter2/x\n";
    let case = Case::new([print("{\"password\":\"\"}"), say(said)]);

    let shown = case.run().await.unwrap().stderr.text().to_owned();

    LeakCheck::new(["hunter2"]).text("stderr", &shown);
    let expected =
        "password=[redacted]\nAuthorization: [redacted]\nAWS_SECRET_ACCESS_KEY=[redacted]";
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_secret_in_the_environment_is_not_shown_either() {
    let case = Case::new([say(TOKEN), say(" and "), say(PASSWORD)])
        .with(|it| it.env("REGISTRY_PASSWORD", PASSWORD));

    assert_eq!(case.run().await.unwrap().stderr.text(), "[redacted] and [redacted]");
}

#[tokio::test]
async fn a_plugin_that_closes_stdout_early_is_waited_for() {
    let case = Case::new([print("{}"), Step::CloseStdout, say("tidying"), Step::Exit(5)]);

    let finished = case.run().await.unwrap();

    assert_eq!((finished.status, finished.stderr.text()), (Status::Exited(5), "tidying"));
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipes_delays_the_answer_by_no_more_than_the_drain() {
    let case = Case::with_folder(|folder| {
        vec![
            Step::Fork(Script::new([Step::Record(folder.file("grandchild")), FOREVER])),
            Step::Await(folder.file("grandchild")),
            print("{}"),
        ]
    });

    let finished = case.run().await.unwrap();

    assert_eq!(finished.status, Status::Exited(0));
    assert_eq!(finished.stdout.expose(), b"{}");
    assert!(is_dead(case.witness("grandchild").pid), "the grandchild lives on");
}

#[tokio::test]
async fn a_grandchild_that_finishes_within_the_drain_is_heard() {
    let drain = Limits { drain: Duration::from_secs(1), ..Limits::default() };
    let case = Case::new([Step::Fork(Script::new([print("late")]))]).with(|it| it.limits(drain));

    assert_eq!(case.run().await.unwrap().stdout.expose(), b"late");
}

#[tokio::test]
async fn dropping_the_run_kills_and_reaps_it() {
    let (ready, mut said) = tokio::sync::mpsc::unbounded_channel();
    let forward = Stderr::Forward(Arc::new(move |line: &str| ready.send(line.to_owned()).unwrap()));
    let case = Case::with_folder(|folder| {
        let grandchild = [Step::Record(folder.file("grandchild")), say("ready\n"), FOREVER];
        vec![Step::Record(folder.file("child")), Step::Fork(Script::new(grandchild)), FOREVER]
    })
    .with(|it| it.stderr(forward));
    let runner = runner();

    {
        let mut running = runner.run(&case.invocation);
        tokio::select! {
            ended = &mut running => panic!("it ended by itself: {ended:?}"),
            line = said.recv() => assert_eq!(line.as_deref(), Some("ready")),
        }
    }

    assert!(is_dead(case.witness("grandchild").pid));
    assert!(!is_there(case.witness("child").pid), "the child is a zombie");
}

#[tokio::test]
async fn lines_are_forwarded_as_they_come_and_redacted() {
    let (lines, mut said) = tokio::sync::mpsc::unbounded_channel();
    let forward = Stderr::Forward(Arc::new(move |line: &str| lines.send(line.to_owned()).unwrap()));
    let case = Case::new([say("one\ntwo "), say(TOKEN), say("\n\x1b[31mthree")])
        .with(|it| it.stderr(forward));

    let finished = case.run().await.unwrap();

    drop(case);
    let mut heard = Vec::new();
    while let Some(line) = said.recv().await {
        heard.push(line);
    }
    assert_eq!(heard, ["one", "two [redacted]", "\\u{1b}[31mthree"]);
    assert_eq!(finished.stderr.text(), "one\ntwo [redacted]\n\\u{1b}[31mthree");
}

#[tokio::test]
async fn an_inherited_stderr_is_not_kept() {
    let case = Case::new([say("(the test suite shows this line on purpose)\n"), print("{}")])
        .with(|it| it.stderr(Stderr::Inherit));

    let finished = case.run().await.unwrap();

    assert_eq!(finished.stderr.text(), "");
    assert_eq!(finished.stdout.expose(), b"{}");
}

#[tokio::test]
async fn a_plugin_gets_its_own_group_three_descriptors_and_its_name() {
    let ours = inheritable_descriptors();
    let case = Case::with_folder(|folder| vec![Step::Record(folder.file("child"))]);

    case.run().await.unwrap();

    let witness = case.witness("child");
    assert_eq!(witness.group, witness.pid);
    assert_eq!(witness.descriptors, ours, "one of the runner's own descriptors got through");
    assert_eq!(witness.args.first().map(String::as_str), scripted_plugin().to_str());
}

/// The standard three, and what whoever started the tests left open for every process below.
fn inheritable_descriptors() -> Vec<i32> {
    let closes_on_exec = |number: &i32| {
        let info =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
        i32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 0o2_000_000 != 0)
    };
    let listing = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers =
        listing.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap());
    numbers.filter(|number| !closes_on_exec(number)).collect()
}

#[tokio::test]
async fn a_plugin_does_not_inherit_the_signals_we_block() {
    SigSet::from_iter([Signal::SIGUSR1]).thread_block().unwrap();
    let case = Case::with_folder(|folder| vec![Step::Record(folder.file("child"))]);

    case.run().await.unwrap();

    assert_eq!(case.witness("child").blocked, 0);
}

#[tokio::test]
async fn a_plugin_that_leaves_its_group_is_killed_all_the_same() {
    let case = Case::with_folder(|folder| {
        vec![Step::LeaveGroup, Step::Record(folder.file("child")), FOREVER]
    })
    .with(|it| it.deadline(SOON));

    assert!(matches!(case.run().await, Err(RunError::TimedOut { .. })));

    assert_ne!(case.witness("child").group, case.witness("child").pid);
    assert!(!is_there(case.witness("child").pid));
}

#[tokio::test]
async fn a_plugin_that_asks_a_person_is_killed_at_its_deadline() {
    let case = Case::with_folder(|folder| vec![Step::Record(folder.file("child")), FOREVER])
        .with(|it| it.stdin(Stdin::Terminal).deadline(SOON));

    assert!(matches!(case.run().await, Err(RunError::TimedOut { .. })));

    assert!(!is_there(case.witness("child").pid));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the host is to be busy")]
async fn an_answer_given_in_time_is_heard_by_a_host_that_was_busy_at_the_deadline() {
    let case = Case::new([print("{}")]).with(|it| it.deadline(SOON));
    let runner = runner();

    let mut running = runner.run(&case.invocation);
    std::future::poll_fn(|context| {
        assert!(running.as_mut().poll(context).is_pending());
        std::thread::sleep(2 * SOON);
        std::task::Poll::Ready(())
    })
    .await;

    assert_eq!(running.await.unwrap().stdout.expose(), b"{}");
}

#[tokio::test]
async fn a_secret_at_the_cut_of_a_long_stream_shows_none_of_its_pieces() {
    for after in [8_150, 8_170, 8_190, 8_192, 8_200, 8_230] {
        let case =
            Case::new([Step::FloodStderr(20_000), say(TOKEN), say(" "), Step::FloodStderr(after)]);

        let shown = case.run().await.unwrap().stderr.to_string();

        for piece in ["token-3f", "handed-to", "the-plugin", "plugin"] {
            assert!(!shown.contains(piece), "{after}: {piece} in {}", &shown[..60]);
        }
    }
}

#[tokio::test]
async fn a_long_forwarded_line_is_cut_without_showing_the_beginning_of_a_secret() {
    let (lines, mut said) = tokio::sync::mpsc::unbounded_channel();
    let forward = Stderr::Forward(Arc::new(move |line: &str| lines.send(line.to_owned()).unwrap()));
    let case = Case::new([Step::FloodStderr(8_180), say(TOKEN), say("x\nnext\n")])
        .with(|it| it.stderr(forward));

    case.run().await.unwrap();

    let line = said.recv().await.unwrap();
    assert!(line.len() < 8_300 && line.starts_with("xxx") && !line.contains("token"), "{line}");
    assert_eq!(said.recv().await.as_deref(), Some("next"));
}

#[tokio::test]
async fn a_panicking_listener_fails_its_run_and_nothing_else() {
    let case = Case::new([say("boo\n"), FOREVER])
        .with(|it| it.stderr(Stderr::Forward(Arc::new(|line: &str| panic!("{line}")))));
    let (runner, invocation) = (runner(), case.invocation.clone());

    let ran = tokio::spawn(async move { runner.run(&invocation).await.map(drop) }).await;

    assert!(ran.unwrap_err().is_panic());
}

#[tokio::test]
async fn limits_without_end_are_fine() {
    let endless = Limits { stdout: usize::MAX, stderr: usize::MAX, drain: Duration::MAX };
    let case = Case::new([say("hello"), print("{}")])
        .with(|it| it.limits(endless).deadline(Duration::MAX));

    assert_eq!(case.run().await.unwrap().stderr.text(), "hello");
}

#[tokio::test]
async fn a_plugin_that_asks_a_person_stays_in_the_group_of_the_terminal() {
    let case = Case::with_folder(|folder| vec![Step::Record(folder.file("child"))])
        .with(|it| it.stdin(Stdin::Terminal));

    case.run().await.unwrap();

    assert_eq!(case.witness("child").group, rustix::process::getpgrp().as_raw_nonzero().get());
}

#[tokio::test]
async fn the_environment_is_the_hosts_with_the_configured_one_over_it_in_order() {
    let case = Case::with_folder(|folder| vec![Step::Record(folder.file("child"))])
        .with(|it| it.env("REGION", "south").env("FIRST", "1").env("", "none").env("FIRST", "2"));
    let host = MapEnvironment::from_iter([("ZONE", "b"), ("REGION", "north"), ("ALPHA", "a")]);

    ProcessRunner::new(host).run(&case.invocation).await.unwrap();

    let expected = ["ZONE=b", "ALPHA=a", "REGION=south", "=none", "FIRST=2"];
    assert_eq!(case.witness("child").env, expected);
}

#[tokio::test]
async fn many_runs_at_once_do_not_disturb_each_other() {
    let answers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let cases: Vec<_> =
        answers(50).iter().map(|text| Case::new([Step::ReadStdin, print(text)])).collect();
    let (runner, mut given) = (runner(), Vec::new());

    let mut runs: Vec<_> = cases.iter().map(|case| runner.run(&case.invocation)).collect();
    // All are polled before the first is awaited, so all the processes live at once.
    std::future::poll_fn(|context| {
        for run in &mut runs {
            assert!(run.as_mut().poll(context).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
    for run in runs {
        given.push(String::from_utf8(run.await.unwrap().stdout.expose().clone()).unwrap());
    }

    assert_eq!(given, answers(50));
}

#[tokio::test]
async fn too_large_an_environment_is_told_with_its_size() {
    let value = "x".repeat(131_072 - "KUBERNETES_EXEC_INFO=".len());
    let case = Case::new([]).with(|it| it.env("KUBERNETES_EXEC_INFO", value));

    let error = case.run().await.unwrap_err();

    assert!(matches!(error, RunError::ArgumentListTooLong { largest: 131_072, .. }), "{error}");
}

#[tokio::test]
async fn a_nul_byte_is_refused() {
    let argument = Case::new([]).with(|it| it.args(["a\0b"])).run().await;
    let variable = Case::new([]).with(|it| it.env("A", "a\0b")).run().await;

    assert!(matches!(argument, Err(RunError::NulByte { what: "an argument", .. })));
    assert!(matches!(variable, Err(RunError::NulByte { what: "an environment variable", .. })));
}
