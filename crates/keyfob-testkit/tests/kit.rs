//! The kit's own promises; above all that a leak check can fail.

use std::time::{Duration, SystemTime};

use keyfob_exec::{Clock as _, Environment as _, Invocation, Program, Runner as _};
use keyfob_testkit::{FakeRunner, LeakCheck, LogCapture, ManualClock, MapEnvironment};

#[test]
#[should_panic(expected = "secret number 1 stands in the log")]
fn a_leak_is_found_and_not_repeated() {
    let logs = LogCapture::start();
    tracing::trace!(password = "hunter2", "logging in");

    LeakCheck::new(["other", "hunter2"]).text("the log", &logs.text());
}

#[test]
#[should_panic(expected = "secret number 0 stands in an error")]
fn a_leak_in_the_source_of_an_error_is_found() {
    let source = std::io::Error::other("hunter2");

    LeakCheck::new(["hunter2"]).error(&std::io::Error::other(source));
}

#[test]
fn the_clock_moves_only_by_hand_and_for_all_its_clones() {
    let clock = ManualClock::new(SystemTime::UNIX_EPOCH);
    let clone = clock.clone();

    clock.advance(Duration::from_mins(1));

    assert_eq!(clone.now(), SystemTime::UNIX_EPOCH + Duration::from_mins(1));
}

#[test]
fn the_last_of_a_name_is_the_variable() {
    let environment = MapEnvironment::from_iter([("A", "1"), ("A", "2")]);

    assert_eq!(environment.var("A"), Some("2".into()));
    assert_eq!(environment.var("B"), None);
    assert_eq!(environment.vars().len(), 2);
}

#[test]
fn a_fake_runner_answers_and_counts() {
    let runner = FakeRunner::printing("{}");
    let invocation = Invocation::new(Program::at("/no/such/plugin").unwrap());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());

    let std::task::Poll::Ready(ran) = runner.run(&invocation).as_mut().poll(&mut context) else {
        panic!("a fake runner never waits")
    };

    assert_eq!(ran.unwrap().success().unwrap().expose(), b"{}");
    assert_eq!(runner.runs(), 1);
}
