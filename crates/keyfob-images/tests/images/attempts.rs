//! What is tried, in which order, and what is said of it.

use std::sync::Arc;

use keyfob_images::{
    EnsureReason, ImageManager, PullFailureKind,
    PullPolicy::{Always, IfNotPresent},
    PullProgress, Wanted,
};
use keyfob_testkit::{LeakCheck, LogCapture};

use crate::kit::{
    Books, Diary, Purse, Says, Shelf, Stage, failure, plain, refusal, with_provider, with_secret,
};

/// A shelf whose registry takes only this user.
fn only(user: &'static str) -> Shelf {
    Shelf::new(move |attempt| match &attempt.credential {
        Some(credential) if credential.username() == user => Ok("id-pulled".into()),
        _ => Err(refusal()),
    })
}

fn stage(shelf: Shelf) -> Stage {
    Stage::new(shelf, Books::new(Says::MustPull))
}

#[tokio::test]
async fn attempts_are_made_in_their_order_until_one_succeeds() {
    let stage = stage(only("eve"));
    let purse = Purse::of([
        with_secret("m.io/app", "ada"),
        with_provider("r.io/app", "bob"),
        with_secret("r.io/app", "eve"),
        plain("r.io/app"),
    ]);

    let ensured = stage.ensure("r.io/app", Always, &purse).await.unwrap();

    let expected = [
        "pull m.io/app:latest as ada",
        "pull r.io/app:latest as bob",
        "pull r.io/app:latest as eve",
        "size",
    ];
    assert_eq!(stage.shelf.diary.take(), expected);
    let failed: Vec<String> =
        ensured.pulled.unwrap().failed.iter().map(ToString::to_string).collect();
    let expected = [
        r#"m.io/app:latest with pull-secret:ada as "ada": 401 Unauthorized"#,
        r#"r.io/app:latest with ecr as "bob": 401 Unauthorized"#,
    ];
    assert_eq!(failed, expected);
    assert_eq!(stage.books.diary.take(), ["intent r.io/app", "pulled r.io/app id-pulled for eve"]);
}

#[tokio::test]
async fn without_anything_to_try_one_pull_goes_without_credentials() {
    let stage = stage(Shelf::full());
    stage.ensure("app", Always, &Purse::empty()).await.unwrap();
    assert_eq!(stage.shelf.diary.take(), ["pull docker.io/library/app:latest as nobody", "size"]);
}

#[tokio::test]
async fn a_refused_credential_is_asked_for_once_more_and_tried_in_its_place() {
    let stage = stage(only("new-ada"));
    let purse = Purse::of([with_provider("r.io/app", "ada"), with_provider("r.io/app", "bob")])
        .instead("ada", with_provider("r.io/app", "new-ada"));

    let ensured = stage.ensure("r.io/app", Always, &purse).await.unwrap();

    assert_eq!(purse.diary.take(), ["attempts", "refused ada"]);
    let pulls = ["pull r.io/app:latest as ada", "pull r.io/app:latest as new-ada", "size"];
    assert_eq!(stage.shelf.diary.take(), pulls);
    assert_eq!(ensured.pulled.unwrap().attempt.credential.unwrap().username(), "new-ada");
}

#[tokio::test]
async fn a_second_refusal_goes_on_to_the_next_attempt() {
    let stage = stage(only("bob"));
    let purse = Purse::of([with_provider("r.io/app", "ada"), with_provider("r.io/app", "bob")])
        .instead("ada", with_provider("r.io/app", "new-ada"))
        .instead("new-ada", with_provider("r.io/app", "newer-ada"));

    stage.ensure("r.io/app", Always, &purse).await.unwrap();

    assert_eq!(purse.diary.take(), ["attempts", "refused ada"], "not for the new one");
    let users: Vec<String> = stage.shelf.diary.take();
    let pulls = ["ada", "new-ada", "bob"].map(|user| format!("pull r.io/app:latest as {user}"));
    assert_eq!(users.split_last().unwrap().1, pulls);
}

#[tokio::test]
async fn only_a_refusal_of_a_credential_is_a_reason_to_ask_again() {
    let stage = stage(Shelf::new(|attempt| {
        let is_plain = attempt.credential.is_none();
        Err(if is_plain { refusal() } else { failure(PullFailureKind::Other, "500") })
    }));
    let purse = Purse::of([with_provider("r.io/app", "ada"), plain("r.io/app")]);

    let error = stage.ensure("r.io/app", Always, &purse).await.unwrap_err();

    assert_eq!(purse.diary.take(), ["attempts"]);
    assert_eq!(error.reason, EnsureReason::ErrImagePull);
    let kinds: Vec<_> = error.attempts.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [PullFailureKind::Other, PullFailureKind::Refused]);
}

#[tokio::test]
async fn who_watches_a_pull_is_told_of_each_attempt() {
    let shelf = Arc::new(only("bob").has("r.io/app:latest", "id-here"));
    let told = Diary::default();
    let diary = told.clone();
    let manager = ImageManager::builder(shelf)
        .ledger(Arc::new(Books::new(Says::MustPull)))
        .progress(move |wanted, progress| {
            let what = match progress {
                PullProgress::AccessNotProved => "access not proved".to_owned(),
                PullProgress::AttemptBegins(attempt) => {
                    format!("as {}", attempt.credential.as_ref().unwrap().username())
                }
                PullProgress::AttemptFailed(failed) => failed.to_string(),
                other => panic!("{other:?}"),
            };
            diary.write(format!("{}: {what}", wanted.image));
        })
        .build();
    let purse = Purse::of([with_provider("r.io/app", "ada"), with_provider("r.io/app", "bob")]);

    manager.ensure(&Wanted::new("r.io/app", IfNotPresent), &purse).await.unwrap();

    let attempts = [
        "r.io/app: as ada",
        r#"r.io/app: r.io/app:latest with ecr as "ada": 401 Unauthorized"#,
        "r.io/app: as bob",
    ];
    let here = ["r.io/app: access not proved"];
    assert_eq!(told.take(), [here.as_slice(), &attempts].concat());

    manager.ensure(&Wanted::new("r.io/app", Always), &purse).await.unwrap();
    assert_eq!(told.take(), attempts, "nobody looked whether it is here");
}

#[tokio::test]
async fn no_secret_is_told_even_if_the_registry_repeats_it() {
    let log = LogCapture::start();
    let stage = stage(Shelf::new(|attempt| {
        let word = attempt.credential.as_ref().map(|used| used.password().expose().clone());
        Err(failure(PullFailureKind::Refused, &format!("you sent {}", word.unwrap_or_default())))
    }));
    let purse = Purse::of([with_secret("r.io/app", "ada"), with_provider("r.io/app", "bob")]);

    let error = stage.ensure("r.io/app", Always, &purse).await.unwrap_err();
    let held = stage.ensure("r.io/app", Always, &purse).await.unwrap_err();

    assert!(error.message.contains("you sent [redacted]"), "{error}");
    LeakCheck::new(["word-of-ada", "word-of-bob"])
        .error(&error)
        .error(&held)
        .text("an event", &stage.events.take().join("\n"))
        .text("the log", &log.text())
        .debug("the manager", &stage.manager)
        .debug("the credentials", &purse);
}
