//! An answer is renewed before its end, by one, while the others use it.

use keyfob_testkit::LeakCheck;

use super::{MINUTE, Stage};

#[tokio::test]
async fn near_its_end_one_gets_the_next_and_the_others_use_what_there_is() {
    let stage = Stage::new();
    stage.next().await;
    stage.clock.advance(55 * MINUTE);
    stage.plugin.hold();
    let first = stage.question();
    let renewing = stage.token(&first);
    let others = async {
        // Only when the first one runs does it have the lock.
        while stage.runs() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            assert_eq!(stage.next().await, "hunter2-1");
        }
        stage.plugin.release(1);
    };

    let (renewed, ()) = tokio::join!(renewing, others);

    assert_eq!(renewed.unwrap(), "hunter2-2");
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!((stage.runs(), stage.told()), (2, vec![]));
}

#[tokio::test]
async fn what_cannot_be_renewed_is_used_to_its_end_and_not_a_moment_longer() {
    let stage = Stage::new();
    stage.next().await;
    stage.clock.advance(55 * MINUTE);
    stage.fails();
    assert_eq!(stage.next().await, "hunter2-1");
    let program = stage.path("bin/plugin").display().to_string();
    let warning = format!(
        "keyfob: no new login with plugin, the old one is good for 5m0s: {program} failed: exit code 3"
    );
    let told = stage.told();
    LeakCheck::new(["hunter2"]).text("a warning", &told.concat());
    assert_eq!(told, [warning]);

    stage.clock.advance(MINUTE / 4);
    assert_eq!(stage.next().await, "hunter2-1");
    assert_eq!((stage.runs(), stage.told()), (2, vec![]), "not at each command");
    stage.clock.advance(MINUTE / 2);
    assert_eq!(stage.next().await, "hunter2-1");
    assert_eq!((stage.runs(), stage.told().len()), (3, 1));

    stage.clock.advance(5 * MINUTE);
    stage.failure().await;
    assert_eq!(stage.runs(), 4);
}

#[tokio::test]
async fn a_renewal_that_outlasts_the_old_answer_and_fails_is_a_failure() {
    let stage = Stage::new();
    stage.next().await;
    stage.clock.advance(59 * MINUTE);
    let clock = stage.clock.clone();
    stage.plugin.set(move |_, _| {
        clock.advance(MINUTE);
        Err(3)
    });
    stage.failure().await;
    assert_eq!(stage.told(), [] as [&str; 0]);
}

#[tokio::test]
async fn how_long_before_can_be_chosen() {
    let stage = Stage::new().with(|options| options.refresh_ahead = Some(20 * MINUTE));
    stage.next().await;
    stage.clock.advance(39 * MINUTE);
    assert_eq!(stage.next().await, "hunter2-1");
    stage.clock.advance(MINUTE);
    assert_eq!(stage.next().await, "hunter2-2");
}
