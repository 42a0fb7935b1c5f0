use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_keyring::{Login, Logins, select};
use keyfob_testkit::LeakCheck;

use super::*;

fn image(name: &str) -> ImageRef {
    ImageRef::parse(name).unwrap()
}

fn attempt(from: &str, login: Option<(&str, &str)>) -> Attempt {
    let credential = login.map(|(username, password)| {
        let login =
            Login { username: username.into(), password: password.into(), ..Login::default() };
        let from = image(from);
        let logins = Arc::new(Logins::new(Source::provider("ecr"), [(from.repository(), login)]));
        select(from.repository(), from.target().ok().as_ref(), [&logins]).remove(0)
    });
    Attempt { from: image(from), credential }
}

fn failed(attempt: &Attempt, kind: PullFailureKind, message: &str) -> FailedAttempt {
    FailedAttempt::new(attempt, PullFailure::new(kind, message), &SecretSet::default())
}

fn told(attempts: Vec<FailedAttempt>, notes: &[&str]) -> (EnsureReason, String) {
    let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
    let error = EnsureError::of_attempts("r.io/app", &image("r.io/app"), attempts, &notes);
    (error.reason, error.message)
}

#[test]
fn every_attempt_is_told_and_then_what_went_wrong_before() {
    let attempts = vec![
        failed(&attempt("m.io/app", None), PullFailureKind::RegistryUnavailable, "no route"),
        failed(&attempt("r.io/app", Some(("ada", "word-of-ada"))), PullFailureKind::Refused, "401"),
    ];
    let expected = "m.io/app:latest without credentials: no route; \
                    r.io/app:latest with ecr as \"ada\": 401; provider gcp failed";
    assert_eq!(
        told(attempts, &["provider gcp failed"]),
        (EnsureReason::ErrImagePull, expected.to_owned())
    );
}

#[test]
fn what_all_attempts_agree_on_is_the_reason() {
    let plain = attempt("r.io/app", None);
    let unavailable = PullFailureKind::RegistryUnavailable;
    let one = |message| vec![failed(&plain, unavailable, message)];
    let because = "image pull failed for r.io/app because the registry is unavailable";
    let reason = EnsureReason::RegistryUnavailable;
    assert_eq!(told(one(""), &[]), (reason, because.to_owned()));
    assert_eq!(told(one("asleep"), &[]), (reason, format!("{because}: asleep")));

    let mirror = failed(&attempt("m.io/app", None), unavailable, "away");
    let both = vec![mirror.clone(), failed(&plain, unavailable, "asleep")];
    let expected = format!(
        "{because}: m.io/app:latest without credentials: away; \
         r.io/app:latest without credentials: asleep"
    );
    assert_eq!(told(both, &[]), (reason, expected));

    let mixed = vec![mirror, failed(&plain, PullFailureKind::SignatureValidationFailed, "forged")];
    assert_eq!(told(mixed, &[]).0, EnsureReason::ErrImagePull);
}

#[test]
fn a_secret_that_a_registry_repeats_does_not_get_out() {
    let used = attempt("r.io/app", Some(("ada", "word-of-ada")));
    let basic = BASE64_STANDARD.encode("ada:word-of-ada");
    let message = format!("bad header Basic {basic} (password word-of-ada)");

    let failed = failed(&used, PullFailureKind::Refused, &message);

    LeakCheck::new(["word-of-ada", basic.as_str()])
        .text("the message", &failed.to_string())
        .debug("an attempt", &failed);
    assert!(failed.to_string().ends_with("Basic [redacted] (password [redacted])"), "{failed}");
}

#[test]
fn the_failure_of_one_attempt_does_not_show_the_secrets_of_others() {
    let secrets = SecretSet::default();
    let [ada, bob] = [("ada", "word-of-ada"), ("bob", "word-of-bob")]
        .map(|login| attempt("r.io/app", Some(login)));
    let failure = || PullFailure::new(PullFailureKind::Refused, "word-of-ada, or word-of-bob?");

    let first = FailedAttempt::new(&ada, failure(), &secrets);
    let second = FailedAttempt::new(&bob, failure(), &secrets);

    assert_eq!(second.message, "[redacted], or [redacted]?");
    assert_eq!(first.redacted(&secrets).message, "[redacted], or [redacted]?");
}

#[test]
fn what_others_wrote_stays_on_its_line_and_has_an_end() {
    let used = attempt("r.io/app", Some((&"a\n".repeat(100), "word-of-ada")));
    let failed = failed(&used, PullFailureKind::Other, &"x\ry".repeat(5_000));
    let shown = failed.to_string();
    assert!(!shown.contains(['\n', '\r']), "{shown}");
    assert!(shown.len() < 5_000, "{}", shown.len());
}

#[test]
fn a_runtimes_error_is_known_by_its_beginning() {
    let cases = [
        ("RegistryUnavailable", PullFailureKind::RegistryUnavailable, ""),
        ("RegistryUnavailable: asleep", PullFailureKind::RegistryUnavailable, "asleep"),
        ("SignatureValidationFailed: x", PullFailureKind::SignatureValidationFailed, "x"),
        ("oh: RegistryUnavailable", PullFailureKind::Other, "oh: RegistryUnavailable"),
    ];
    for (text, kind, message) in cases {
        let failure = PullFailure::of_runtime(text);
        assert_eq!((failure.kind(), failure.to_string()), (kind, message.to_owned()));
    }
}

#[test]
fn an_error_can_be_had_again_by_its_type_and_is_not_shown() {
    #[derive(Debug, Error)]
    #[error("word-of-bob is wrong")]
    struct Wrong(#[source] fmt::Error);

    let failure = PullFailure::new(PullFailureKind::Other, Wrong(fmt::Error));
    assert_eq!(Chain(&failure).to_string(), format!("word-of-bob is wrong: {}", fmt::Error));
    let secrets = SecretSet::default();
    secrets.learn_login("bob", &"word-of-bob".into());
    let failed = FailedAttempt::new(&attempt("r.io/app", None), failure, &secrets);

    assert!(
        failed.downcast_ref::<Wrong>().is_some() && failed.downcast_ref::<fmt::Error>().is_none()
    );
    assert_eq!(failed.message, format!("[redacted] is wrong: {}", fmt::Error));
    LeakCheck::new(["word-of-bob"]).debug("an attempt", &failed);
}
