//! Whether an image is here, and for whom.

use std::time::Duration;

use keyfob_api::Chain;
use keyfob_images::{
    EnsureReason, Ensured, ImageManager, Parallelism, PullFailureKind,
    PullPolicy::{Always, IfNotPresent, Never},
    RecordsError, Wanted,
};
use keyfob_testkit::LogCapture;
use prometheus_client::{encoding::text, registry::Registry};

use crate::kit::{
    Books, Purse, Says, Shelf, Stage, failure, options, plain, with_provider, with_secret,
};

const NONE: [&str; 0] = [];

#[tokio::test]
async fn an_image_that_is_here_is_anyones_if_nothing_is_recorded() {
    let shelf = Shelf::full().has("app:latest", "id-here");
    let stage = Stage::without_records(shelf, options(Parallelism::Serial));
    let purse = Purse::empty();

    let ensured = stage.ensure("app", IfNotPresent, &purse).await.unwrap();

    assert!(matches!(&ensured, Ensured { pulled: None, image_id, .. } if image_id == "id-here"));
    assert_eq!(stage.shelf.diary.take(), ["look app:latest"]);
    assert_eq!(purse.diary.take(), NONE, "nobody is asked");
    assert_eq!(
        stage.events.take(),
        [r#"Pulled: Container image "app" already present on machine"#]
    );
}

#[tokio::test]
async fn credentials_are_not_asked_for_if_the_record_is_enough() {
    let shelf = || Shelf::full().has("app:latest", "id-here");
    let stage = Stage::new(shelf(), Books::new(Says::MayUse));
    let purse = Purse::of([with_secret("app", "ada")]);
    stage.ensure("app", IfNotPresent, &purse).await.unwrap();
    assert_eq!(stage.books.diary.take(), ["check app id-here"]);
    assert_eq!(purse.diary.take(), NONE);
    assert_eq!(
        stage.events.take(),
        [
            r#"Pulled: Container image "app" already present on machine and can be accessed by the pod"#
        ]
    );

    let stage = Stage::new(shelf(), Books::new(Says::Secret("ada")));
    stage.ensure("app", IfNotPresent, &purse).await.unwrap();
    assert_eq!(stage.books.diary.take(), ["check app id-here", "settle app"]);
    assert_eq!((stage.shelf.diary.take().len(), purse.diary.take().len()), (1, 1));
}

#[tokio::test]
async fn who_cannot_prove_access_pulls_and_is_asked_once_for_credentials() {
    let shelf = Shelf::full().has("app:latest", "id-here");
    let stage = Stage::new(shelf, Books::new(Says::Secret("ada")));
    let purse = Purse::of([with_secret("app", "bob")]);

    let ensured = stage.ensure("app", IfNotPresent, &purse).await.unwrap();

    let pulled = ensured.pulled.unwrap();
    assert_eq!((ensured.image_id.as_str(), pulled.size), ("id-pulled", Some(42)));
    assert_eq!(pulled.attempt.credential.unwrap().username(), "bob");
    assert_eq!(purse.diary.take(), ["attempts"]);
    assert_eq!(
        stage.books.diary.take(),
        ["check app id-here", "settle app", "intent app", "pulled app id-pulled for bob"]
    );
    let looked = "look app:latest";
    let pulled = "pull docker.io/library/app:latest as bob";
    assert_eq!(stage.shelf.diary.take(), [looked, pulled, "size"]);
}

#[tokio::test]
async fn a_pull_with_what_the_node_has_is_for_every_pod() {
    let stage = Stage::new(Shelf::full(), Books::new(Says::MustPull));
    for attempt in [plain("app"), with_provider("app", "node")] {
        stage.ensure("app", Always, &Purse::of([attempt])).await.unwrap();
        let recorded = ["intent app", "pulled app id-pulled for every pod"];
        assert_eq!(stage.books.diary.take(), recorded);
    }
    let shown = stage.shelf.diary.take();
    assert!(!shown.iter().any(|entry| entry.starts_with("look")), "{shown:?}");
}

#[tokio::test]
async fn a_pod_that_may_not_pull_does_not_learn_what_is_here() {
    let absent = Stage::new(Shelf::full(), Books::new(Says::MustPull));
    let absent_error = absent.ensure("app", Never, &Purse::empty()).await.unwrap_err();
    let absent_events = absent.events.take();
    assert_eq!(absent_error.reason, EnsureReason::ErrImageNeverPull);
    assert_eq!(
        absent_error.message,
        r#"Container image "app" is not present with pull policy of Never"#
    );

    let unknown = Purse { attempts: Err("the vault is closed"), ..Purse::empty() };
    for (says, purse) in [
        (Says::MustPull, Purse::empty()),
        (Says::Secret("ada"), Purse::of([with_secret("app", "bob")])),
        (Says::Secret("ada"), unknown),
    ] {
        let stage = Stage::new(Shelf::full().has("app:latest", "id-here"), Books::new(says));
        let error = stage.ensure("app", Never, &purse).await.unwrap_err();
        assert_eq!((&error, stage.events.take()), (&absent_error, absent_events.clone()));
        assert_eq!(stage.shelf.diary.take(), ["look app:latest"]);
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_looked_for_end_it_before_anything_is_recorded() {
    let purse = Purse { attempts: Err("the vault is closed"), ..Purse::empty() };
    let stage = Stage::new(Shelf::full(), Books::new(Says::MustPull));
    let error = stage.ensure("app", Always, &purse).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::CredentialLookupFailed);
    assert_eq!(error.to_string(), "the vault is closed");
    assert_eq!(stage.books.diary.take(), NONE);

    let shelf = Shelf::full().has("app:latest", "id-here");
    let stage = Stage::new(shelf, Books::new(Says::Secret("ada")));
    let error = stage.ensure("app", IfNotPresent, &purse).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::CredentialLookupFailed);
    assert_eq!(stage.books.diary.take(), ["check app id-here", "give up app"]);
    assert_eq!(purse.diary.take().len(), 2, "once for each");
}

#[tokio::test]
async fn nothing_is_pulled_that_could_not_be_announced() {
    let mut books = Books::new(Says::MustPull);
    books.full_disk = true;
    let stage = Stage::new(Shelf::full(), books);
    let error = stage.ensure("app", Always, &Purse::empty()).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::PullIntentNotRecorded);
    assert!(matches!(error.downcast_ref(), Some(RecordsError::Io { .. })));
    assert_eq!(
        error.message,
        r#"Failed to record image pull intent for container image "app": cannot write /records/file: no space left on device"#
    );
    assert_eq!(stage.shelf.diary.take(), NONE);
}

#[tokio::test]
async fn a_lost_record_is_told_to_whoever_wanted_the_image() {
    let mut books = Books::new(Says::MustPull);
    books.no_room_for_records = true;
    let stage = Stage::new(Shelf::full(), books);
    let ensured = stage.ensure("app", Always, &Purse::empty()).await.unwrap();
    let pulled = ensured.pulled.unwrap();
    let why = pulled.unrecorded.map(|error| Chain(&*error).to_string());
    assert_eq!(why.as_deref(), Some("cannot write /records/file: no space left on device"));
    assert_eq!(stage.books.diary.take(), ["intent app"], "the intent stays");
}

#[tokio::test]
async fn what_cannot_be_inspected_or_is_no_name_is_not_pulled() {
    let stage = Stage::new(Shelf::full(), Books::new(Says::MayUse));
    let error = stage.ensure("broken", IfNotPresent, &Purse::empty()).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::ImageInspectError);
    assert_eq!(error.message, r#"Failed to inspect image "broken:latest": the shelf fell over"#);
    stage.events.take();
    stage.shelf.diary.take();

    let error = stage.ensure("Not A Name", Always, &Purse::empty()).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::InvalidImageName);
    assert_eq!(stage.events.take(), [format!("InspectFailed: {error}")]);
    assert_eq!(stage.shelf.diary.take(), NONE);
}

#[tokio::test]
async fn a_failed_pull_is_left_alone_and_its_credentials_are_looked_for_all_the_same() {
    let shelf = Shelf::new(|_| Err(failure(PullFailureKind::Other, "no such image")));
    let stage = Stage::new(shelf, Books::new(Says::MustPull));
    let purse = Purse::of([plain("r.io/app")]);
    let why = "r.io/app:latest without credentials: no such image";
    let error = stage.ensure("r.io/app", Always, &purse).await.unwrap_err();
    assert_eq!((error.reason, error.message.as_str()), (EnsureReason::ErrImagePull, why));
    let events = [
        r#"Pulling: Pulling image "r.io/app""#.to_owned(),
        format!(r#"Failed: Failed to pull image "r.io/app": {why}"#),
    ];
    assert_eq!(stage.events.take(), events);
    assert_eq!(stage.books.diary.take(), ["intent r.io/app", "failed r.io/app"]);
    stage.shelf.diary.take();
    purse.diary.take();

    stage.clock.advance(Duration::from_millis(9_999));
    let held = stage.ensure("r.io/app", Always, &purse).await.unwrap_err();

    assert_eq!(held.reason, EnsureReason::ImagePullBackOff);
    let message = format!(r#"Back-off pulling image "r.io/app": ErrImagePull: {why}"#);
    assert_eq!((held.message, held.attempts), (message, error.attempts));
    assert_eq!(stage.events.take(), [r#"BackOff: Back-off pulling image "r.io/app""#]);
    assert_eq!((stage.shelf.diary.take().len(), purse.diary.take().len()), (0, 1));
    assert_eq!(stage.books.diary.take(), ["intent r.io/app", "failed r.io/app"]);

    let other = Wanted { pod_uid: "u-other".into(), ..Wanted::new("r.io/app", Always) };
    let error = stage.manager.ensure(&other, &purse).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::ErrImagePull, "another pod does not wait");

    stage.clock.advance(Duration::from_millis(1));
    let error = stage.ensure("r.io/app", Always, &purse).await.unwrap_err();
    assert_eq!(error.reason, EnsureReason::ErrImagePull);
}

#[tokio::test]
async fn a_pull_tells_how_long_it_took_and_how_large_it_is() {
    let stage = Stage::new(Shelf::full(), Books::new(Says::MustPull));
    stage.ensure("app", Always, &Purse::empty()).await.unwrap();
    let expected = [
        r#"Pulling: Pulling image "app""#,
        r#"Pulled: Successfully pulled image "app" in 0s (0s including waiting). Image size: 42 bytes."#,
    ];
    assert_eq!(stage.events.take(), expected);
}

#[tokio::test]
async fn images_are_listed_for_a_recovery_only_if_there_are_intents() {
    let stage = Stage::new(Shelf::full(), Books::new(Says::MustPull));
    stage.manager.recover().await.unwrap();
    assert_eq!((stage.shelf.diary.take().len(), stage.books.diary.take().len()), (0, 0));

    let mut books = Books::new(Says::MustPull);
    books.intents_left = true;
    let stage = Stage::new(Shelf::full(), books);
    stage.manager.recover().await.unwrap();
    assert_eq!(stage.shelf.diary.take(), ["list"]);
    assert_eq!(stage.books.diary.take(), ["recover left from 1"]);

    stage.ensure("app", Always, &Purse::empty()).await.unwrap();
    let recorded = ["recover left from 1", "intent app", "pulled app id-pulled for every pod"];
    assert_eq!(stage.books.diary.take(), recorded, "before each pull too");
}

#[tokio::test]
async fn a_recovery_that_fails_is_told_but_leaves_a_pull_to_the_ledger() {
    let (mut shelf, mut books) = (Shelf::full(), Books::new(Says::MustPull));
    (shelf.never_lists, books.intents_left) = (true, true);
    let stage = Stage::new(shelf, books);
    assert_eq!(stage.manager.recover().await.unwrap_err().to_string(), "the shelf fell over");
    let log = LogCapture::start();
    stage.ensure("app", Always, &Purse::empty()).await.unwrap();
    assert!(log.text().contains("the shelf fell over"), "{}", log.text());
}

#[tokio::test]
async fn every_request_is_counted_even_one_that_is_given_up() {
    let mut registry = Registry::default();
    let shelf = std::sync::Arc::new(Shelf::full().has("app:latest", "id-here"));
    let manager = ImageManager::builder(shelf).build();
    manager.register_metrics(&mut registry);
    let stuck = Purse { is_stuck: true, ..Purse::empty() };
    for (image, policy) in [("app", IfNotPresent), ("app", IfNotPresent), ("gone", Never)] {
        drop(manager.ensure(&Wanted::new(image, policy), &stuck).await);
    }
    let wanted = Wanted::new("app", Always);
    let mut given_up = Box::pin(manager.ensure(&wanted, &stuck));
    assert!(futures_util::poll!(&mut given_up).is_pending());
    drop(given_up);

    let mut shown = String::new();
    text::encode(&mut shown, &registry).unwrap();

    let series = |labels: &str, count: u32| {
        format!("kubelet_image_manager_ensure_image_requests_total{{{labels}}} {count}")
    };
    for line in [
        "# HELP kubelet_image_manager_ensure_image_requests [ALPHA] Number of ensure-image requests processed by the kubelet.".to_owned(),
        series(r#"present_locally="true",pull_policy="ifnotpresent",pull_required="false""#, 2),
        series(r#"present_locally="false",pull_policy="never",pull_required="unknown""#, 1),
        series(r#"present_locally="unknown",pull_policy="always",pull_required="true""#, 1),
    ] {
        assert!(shown.lines().any(|each| each == line), "no {line} in\n{shown}");
    }
}

#[tokio::test]
async fn without_anyone_to_tell_events_are_logged() {
    let log = LogCapture::start();
    let manager = ImageManager::builder(std::sync::Arc::new(Shelf::full())).build();
    manager.ensure(&Wanted::new("app", Always), &Purse::empty()).await.unwrap();
    manager.ensure(&Wanted::new("gone", Never), &Purse::empty()).await.unwrap_err();
    let text = log.text();
    assert!(text.contains("INFO") && text.contains("reason=Pulling"), "{text}");
    assert!(text.contains("WARN") && text.contains("reason=ErrImageNeverPull"), "{text}");
}
