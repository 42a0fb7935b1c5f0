//! Whoever wants an image may leave at any moment: what is recorded must be true all the same.

use std::{future::Future, pin::Pin};

use keyfob_images::{EnsureError, Ensured, Parallelism, PullPolicy::Always};
use tokio::runtime::Runtime;

use crate::kit::{Books, Purse, Says, Shelf, Stage, options, refusal, with_provider};

type Ensuring<'a> = Pin<Box<dyn Future<Output = Result<Ensured, EnsureError>> + Send + 'a>>;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Goes on until something has happened.
async fn until<T>(ensuring: &mut Ensuring<'_>, event: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        ensured = ensuring => panic!("it ended: {ensured:?}"),
        happened = event => happened,
    }
}

/// Gives up when something has happened: outside of any runtime, so that nothing is left for later.
fn give_up_at(mut ensuring: Ensuring<'_>, event: impl Future<Output = ()>) {
    runtime().block_on(until(&mut ensuring, event));
    drop(ensuring);
}

fn recording(shelf: Shelf) -> Stage {
    Stage::new(shelf, Books::new(Says::MustPull))
}

#[test]
fn a_pull_that_is_cut_leaves_its_intent_because_the_image_may_have_come() {
    let stage = recording(Shelf::full().holding());
    let purse = Purse::empty();
    give_up_at(Box::pin(stage.ensure("app", Always, &purse)), stage.shelf.began(1));
    assert_eq!(stage.books.diary.take(), ["intent app"]);
}

#[test]
fn who_leaves_while_others_pull_leaves_no_intent() {
    let stage = Stage::with_options(Shelf::full().holding(), options(Parallelism::Serial));
    let purse = Purse::empty();
    let runtime = runtime();
    let mut first: Ensuring<'_> = Box::pin(stage.ensure("first", Always, &purse));
    runtime.block_on(until(&mut first, stage.shelf.began(1)));

    let second = Box::pin(stage.ensure("second", Always, &purse));
    give_up_at(second, stage.events.has(r#"Pulling: Pulling image "second""#));

    assert_eq!(stage.books.diary.take(), ["intent first", "intent second", "failed second"]);
    stage.shelf.hold.as_ref().unwrap().add_permits(1);
    runtime.block_on(first).unwrap();
    assert_eq!(stage.books.diary.take(), ["pulled first id-pulled for every pod"]);
}

#[test]
fn who_leaves_between_two_attempts_leaves_no_intent() {
    let stage = recording(Shelf::new(|_| Err(refusal())));
    let purse = Purse::of([with_provider("app", "ada")]);
    let purse = Purse { never_replaces: true, ..purse };
    give_up_at(Box::pin(stage.ensure("app", Always, &purse)), purse.diary.has("refused ada"));
    assert_eq!(stage.books.diary.take(), ["intent app", "failed app"]);
}

#[test]
fn who_leaves_before_the_credentials_are_known_was_never_there() {
    let stage = recording(Shelf::full());
    let purse = Purse { is_stuck: true, ..Purse::empty() };
    give_up_at(Box::pin(stage.ensure("app", Always, &purse)), purse.diary.has("attempts"));
    assert_eq!(stage.books.diary.take(), Vec::<String>::new());
}

#[test]
fn who_leaves_after_the_pull_has_it_recorded() {
    let mut shelf = Shelf::full();
    shelf.never_measures = true;
    let stage = recording(shelf);
    let purse = Purse::empty();
    give_up_at(Box::pin(stage.ensure("app", Always, &purse)), stage.shelf.diary.has("size"));
    let recorded = ["intent app", "pulled app id-pulled for every pod"];
    assert_eq!(stage.books.diary.take(), recorded);
}

#[tokio::test]
async fn an_intent_that_is_written_when_nobody_waits_any_more_is_taken_back() {
    let stage = recording(Shelf::full());
    let purse = Purse::empty();
    let resume = stage.books.pause();
    let mut ensuring: Ensuring<'_> = Box::pin(stage.ensure("app", Always, &purse));
    assert_eq!(until(&mut ensuring, stage.books.next()).await, "paused");

    drop(ensuring);
    resume.send(()).unwrap();

    assert_eq!(stage.books.next().await, "intent app");
    assert_eq!(stage.books.next().await, "failed app");
    assert_eq!(stage.shelf.diary.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_record_is_written_to_its_end_even_if_nobody_waits_for_it() {
    let stage = recording(Shelf::full().holding());
    let purse = Purse::empty();
    let mut ensuring: Ensuring<'_> = Box::pin(stage.ensure("app", Always, &purse));
    until(&mut ensuring, stage.shelf.began(1)).await;
    assert_eq!(stage.books.next().await, "intent app");
    let resume = stage.books.pause();
    stage.shelf.hold.as_ref().unwrap().add_permits(1);
    assert_eq!(until(&mut ensuring, stage.books.next()).await, "paused");

    drop(ensuring);
    resume.send(()).unwrap();

    assert_eq!(stage.books.next().await, "pulled app id-pulled for every pod");
}

#[tokio::test]
async fn within_a_runtime_an_intent_is_taken_back_beside_it() {
    let stage = recording(Shelf::new(|_| Err(refusal())));
    let purse = Purse { never_replaces: true, ..Purse::of([with_provider("app", "ada")]) };
    let mut ensuring: Ensuring<'_> = Box::pin(stage.ensure("app", Always, &purse));
    until(&mut ensuring, purse.diary.has("refused ada")).await;

    drop(ensuring);

    assert_eq!(stage.books.next().await, "intent app");
    assert_eq!(stage.books.next().await, "failed app");
}
