//! What is told of what is kept, and what is forgotten.

use std::{ffi::OsString, fs};

use keyfob_api::Timestamp;
use keyfob_exec::Clock as _;
use keyfob_exec_cache::EntryState;

use super::{Ask, MINUTE, Stage};

fn profile(name: &'static str) -> Ask {
    Ask { vars: vec![("AWS_PROFILE", name)], ..Ask::default() }
}

#[tokio::test]
async fn the_answers_of_one_command_are_forgotten_whatever_else_they_depend_on() {
    let stage = Stage::new();
    let cache = stage.cache();
    let other = Ask { args: vec!["other"], ..Ask::default() };
    for ask in [profile("a"), profile("b"), other] {
        cache.fetch(&ask.on(&stage)).await.unwrap();
    }
    let args: [OsString; 1] = ["get-token".into()];
    assert_eq!(cache.clear(Some(("plugin", &args))).unwrap(), 2);
    assert_eq!(cache.clear(Some(("plugin", &args))).unwrap(), 0);
    assert_eq!((stage.files("json").len(), stage.files("lock").len()), (1, 1));
    assert_eq!(cache.clear(None).unwrap(), 1);
    assert_eq!(fs::read_dir(stage.path("cache")).unwrap().count(), 0);
    assert_eq!(stage.next().await, "hunter2-4");
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let stage = Stage::new();
    let cache = stage.cache();
    fs::write(stage.path("cache/notes.json"), "mine").unwrap();
    assert_eq!(cache.clear(None).unwrap(), 0);
    assert!(stage.path("cache/notes.json").exists());
}

#[tokio::test]
async fn a_question_is_explained_without_being_asked() {
    let stage = Stage::new();
    let (cache, question) = (stage.cache(), profile("a").on(&stage));
    let explained = cache.explain(&question);
    assert_eq!((explained.state, explained.last_run), (EntryState::None, None));

    cache.fetch(&question).await.unwrap();
    cache.fetch(&profile("b").on(&stage)).await.unwrap();
    let stored = Timestamp::from(stage.clock.now());
    let until = Timestamp::from(stage.clock.now() + 60 * MINUTE);
    let pid = i32::try_from(std::process::id()).unwrap();
    let explained = cache.explain(&question);
    assert_eq!(explained.state, EntryState::Fresh { until, stored, pid });
    assert_eq!(explained.others.len(), 1);
    assert_eq!(explained.others[0].1, explained.state);
    assert!(explained.file.exists());
    let last = explained.last_run.unwrap();
    assert_eq!((last.pid, last.state, last.failure), (pid, "kept", None));

    stage.clock.advance(56 * MINUTE);
    assert_eq!(cache.explain(&question).state, EntryState::NearEnd { until, stored, pid });
    stage.clock.advance(4 * MINUTE);
    assert_eq!(cache.explain(&question).state, EntryState::Over { stored });
    stage.fails();
    cache.fetch(&question).await.unwrap_err();
    let last = cache.explain(&question).last_run.unwrap();
    assert_eq!(last.state, "failed");
    assert!(last.failure.unwrap().contains("exit code 3"));
    assert_eq!(stage.runs(), 3);
}

#[tokio::test]
async fn what_has_expired_goes_when_something_else_is_kept() {
    let stage = Stage::new();
    let cache = stage.cache();
    cache.fetch(&profile("a").on(&stage)).await.unwrap();
    stage.says(Some(600 * MINUTE));
    cache.fetch(&profile("b").on(&stage)).await.unwrap();
    stage.clock.advance(60 * MINUTE);
    cache.fetch(&profile("c").on(&stage)).await.unwrap();
    assert_eq!((stage.files("json").len(), stage.files("lock").len()), (2, 2));
    assert_eq!(stage.runs(), 3);
    assert!(cache.ready(&profile("b").on(&stage)).is_some());
}

#[tokio::test]
async fn what_others_did_not_finish_and_nobody_used_for_a_month_goes_too() {
    let stage = Stage::new();
    let cache = stage.cache();
    cache.fetch(&profile("a").on(&stage)).await.unwrap();
    fs::remove_file(stage.the_file("json")).unwrap();
    let unfinished = stage.path("cache/.unfinished-1");
    fs::write(&unfinished, "half").unwrap();
    let hours = |hours| stage.clock.advance(60 * MINUTE * hours);
    let left = || async {
        cache.fetch(&profile("b").on(&stage)).await.unwrap();
        (unfinished.exists(), stage.files("lock").len())
    };
    assert_eq!(left().await, (true, 2));
    hours(2);
    assert_eq!(left().await, (false, 2));
    hours(29 * 24);
    assert_eq!(left().await, (false, 2));
    hours(24);
    assert_eq!(left().await, (false, 1));
}
