//! What whoever judges a program sees of its run beyond the outcome.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::sync::{Arc, Mutex};

use keyfob_exec::{
    Finished, Invocation, ProcessRunner, Program, Runner as _, Status, Stdin, Stdout, Watch,
};
use keyfob_testkit::{MapEnvironment, Script, Step, scripted_plugin};

const TOKEN: &str = "token-3f9c1e77-handed-to-the-plugin";

#[derive(Debug, Default)]
struct Seen {
    stderr: Mutex<Vec<u8>>,
    held: Mutex<usize>,
}

impl Watch for Seen {
    fn stderr(&self, piece: &[u8]) {
        self.stderr.lock().unwrap().extend_from_slice(piece);
    }

    fn held(&self) {
        *self.held.lock().unwrap() += 1;
    }
}

async fn run<const N: usize>(steps: [Step; N], stdout: Stdout) -> (Finished, String, usize) {
    let seen = Arc::new(Seen::default());
    let invocation = Invocation::new(Program::at(scripted_plugin()).unwrap())
        .args([Script::new(steps).to_arg()])
        .stdin(Stdin::bytes(TOKEN))
        .stdout(stdout)
        .redact(TOKEN)
        .watch(seen.clone());
    let finished = ProcessRunner::new(MapEnvironment::default()).run(&invocation).await.unwrap();
    let stderr = String::from_utf8(seen.stderr.lock().unwrap().clone()).unwrap();
    let held = *seen.held.lock().unwrap();
    (finished, stderr, held)
}

#[tokio::test]
async fn a_watch_sees_secrets_that_the_tail_hides() {
    let (finished, stderr, held) = run([Step::Say(format!("no {TOKEN}"))], Stdout::Read).await;

    assert_eq!((finished.stderr.text(), stderr), ("no [redacted]", format!("no {TOKEN}")));
    assert_eq!(held, 0);
}

#[tokio::test]
async fn a_watch_is_told_of_what_stays_behind() {
    let forked = Script::new([Step::SleepMs(600_000)]);

    let (finished, _, held) =
        run([Step::Fork(forked), Step::Print("{}".into())], Stdout::Read).await;

    assert_eq!((finished.stdout.expose().as_slice(), held), (b"{}".as_slice(), 1));
}

#[tokio::test]
async fn a_closed_stdout_breaks_the_pipe() {
    let (finished, stderr, _) = run(
        [Step::Say("before".into()), Step::Print("{}".into()), Step::Say("after".into())],
        Stdout::Closed,
    )
    .await;

    assert!(matches!(finished.status, Status::Signaled(13) | Status::Exited(1)), "{finished:?}");
    assert!(stderr.starts_with("before") && !stderr.contains("after"), "{stderr}");
}
