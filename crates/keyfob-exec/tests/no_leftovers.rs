//! Alone in its process, because it counts everything the process holds: no descriptor and no child is left behind by
//! any way a run can end. `cargo bench -p keyfob-exec -- soak` does the same 10,000 times.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::time::Duration;

use keyfob_exec::{Invocation, Limits, ProcessRunner, Program, RunError, Runner as _};
use keyfob_testkit::{MapEnvironment, Script, Step, scripted_plugin};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, WaitOptions, getrlimit, setrlimit, wait},
};
use tokio::time::timeout;

#[tokio::test]
async fn nothing_is_left_behind() {
    let runner = ProcessRunner::new(MapEnvironment::default());
    let runs: Vec<Invocation> = endings().collect();
    for run in &runs {
        drop(runner.run(run).await);
    }
    let before = open_descriptors();

    for run in runs.iter().cycle().take(10 * runs.len()) {
        drop(runner.run(run).await);
        // Dropped while the plugin starts, runs or ends: whatever 3 ms are enough for.
        drop(timeout(Duration::from_millis(3), runner.run(run)).await);
    }

    assert_eq!(open_descriptors(), before);
    without_descriptors(&runner, &runs).await;
    assert_eq!(open_descriptors(), before);
    assert_eq!(wait(WaitOptions::NOHANG).unwrap_err(), Errno::CHILD, "a child was not reaped");
}

/// Runs with ever fewer descriptors to be had, so that each step fails once for want of one.
async fn without_descriptors(runner: &ProcessRunner, runs: &[Invocation]) {
    let limits = getrlimit(Resource::Nofile);
    let taken = |number: &u64| std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
    let free = (0..4096).find(|number| !taken(number)).unwrap();
    let mut failed = 0;
    for spare in 0..12 {
        let few = Rlimit { current: Some(free + spare), ..limits };
        setrlimit(Resource::Nofile, few).unwrap();
        for run in runs {
            let ran = runner.run(run).await;
            failed += usize::from(matches!(ran, Err(RunError::System { .. })));
        }
    }
    setrlimit(Resource::Nofile, limits).unwrap();
    assert!(failed > 0, "there were always enough");
}

/// An invocation for each way to end.
fn endings() -> impl Iterator<Item = Invocation> {
    let limits = Limits { stdout: 50_000, drain: Duration::from_millis(5), ..Limits::default() };
    let scripts = [
        vec![Step::Exit(0)],
        vec![Step::Exit(1)],
        vec![Step::Signal(9)],
        vec![Step::FloodStdout(100_000)],
        vec![Step::SleepMs(60_000)],
        vec![Step::Fork(Script::new([Step::SleepMs(60_000)]))],
    ];
    let missing = Invocation::new(Program::at("/no/such/plugin").unwrap());
    let scripted = scripts.into_iter().map(move |steps| {
        Invocation::new(Program::at(scripted_plugin()).unwrap())
            .args([Script(steps).to_arg()])
            .limits(limits)
            .deadline(Duration::from_millis(20))
    });
    scripted.chain([missing])
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
