//! Credentials from a host: for the image's own registry and for its mirrors.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::{
    AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, FeatureGates,
    GoDuration, ImageRef, ProviderVersion,
};
use keyfob_config::{Config, ProviderConfig};
use keyfob_exec::{Finished, Invocation, RunError, Status, StderrTail, Stdin};
use keyfob_host::{Host, HostOptions, Pull};
use keyfob_images::{
    EnsureReason, HostCredentials, Mirrors, PullCredentials as _, PullPolicy::Always, Wanted,
};
use keyfob_keyring::{Login, Logins, SecretCoordinates, Source};
use keyfob_testkit::{FakeRunner, LeakCheck};
use tempfile::TempDir;

use crate::kit::{Books, Diary, Says, Shelf, Stage, refusal};

/// A host whose plugins answer for whatever registry they are asked about, with numbered users.
struct Registries {
    host: Host,
    runs: Diary,
    _plugins: TempDir,
}

impl Registries {
    /// Providers by their names, each for its registry. One that is called `broken` fails.
    fn new<const N: usize>(providers: [(&str, &str); N], options: HostOptions) -> Self {
        let plugins = tempfile::tempdir().unwrap();
        let runs = Diary::default();
        let providers = providers.map(|(name, registry)| {
            let path = plugins.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            provider(name, registry)
        });
        let (noted, count) = (runs.clone(), Arc::new(Mutex::new(0)));
        let runner = FakeRunner::new(move |invocation| {
            let (name, image) = asked(invocation);
            noted.write(format!("{name} {image}"));
            let mut count = count.lock().unwrap();
            *count += 1;
            run(invocation, &name, &image, *count)
        });
        let config = Config::new(providers).validate(FeatureGates::default()).unwrap();
        let host =
            Host::builder(config, plugins.path()).runner(runner).options(options).build().unwrap();
        Self { host, runs, _plugins: plugins }
    }
}

fn asked(invocation: &Invocation) -> (String, String) {
    let Stdin::Bytes(stdin) = invocation.input() else { panic!("{invocation:?}") };
    let request = CredentialProviderRequest::decode(stdin.expose()).unwrap().1;
    let name = invocation.program().file_name().unwrap().to_string_lossy().into_owned();
    (name, request.image)
}

fn run(
    invocation: &Invocation,
    name: &str,
    image: &str,
    number: usize,
) -> Result<Finished, RunError> {
    let (program, stderr) = (invocation.program().into(), StderrTail::default());
    let elapsed = Duration::ZERO;
    if name == "broken" {
        return Err(RunError::Failed { program, status: Status::Exited(1), stderr, elapsed });
    }
    let user = if name == "same" { name.to_owned() } else { format!("{name}-{number}") };
    let login = AuthConfig { password: format!("word-of-{user}").into(), username: user };
    let registry = image.split('/').next().unwrap();
    let response = CredentialProviderResponse {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: None,
        auth: [(registry.to_owned(), login)].into(),
    };
    let stdout = response.encode(ProviderVersion::V1).expose().clone().into();
    Ok(Finished { program, status: Status::Exited(0), stdout, stderr, elapsed })
}

fn provider(name: &str, registry: &str) -> ProviderConfig {
    ProviderConfig {
        name: name.into(),
        match_images: vec![registry.into()],
        default_cache_duration: Some(GoDuration::parse("10m").unwrap()),
        api_version: ProviderVersion::V1.api_version().into(),
        ..ProviderConfig::default()
    }
}

fn image() -> ImageRef {
    ImageRef::parse("r.io/team/app:v1").unwrap()
}

/// What is pulled from where, as whom.
async fn pulls(stage: &Stage, credentials: &HostCredentials<'_>) -> Vec<String> {
    let wanted = Wanted::new("r.io/team/app:v1", Always);
    drop(stage.manager.ensure(&wanted, credentials).await);
    stage.shelf.diary.take()
}

fn refusing() -> Stage {
    Stage::new(Shelf::new(|_| Err(refusal())), Books::new(Says::MustPull))
}

#[tokio::test]
async fn mirrors_come_first_each_with_its_own_credentials() {
    let of = [("mine", "r.io"), ("theirs", "m.io")];
    let registries = Registries::new(of, HostOptions::default());
    let mirrors = Mirrors::parse(["r.io=m.io/cache", "r.io=open.io"]).unwrap();
    let pull = Pull::new(&image());
    let credentials =
        HostCredentials::new(&registries.host, &image(), &pull).with_mirrors(mirrors.of(&image()));

    let attempts = credentials.attempts().await.unwrap();

    let shown: Vec<(String, Option<String>)> = attempts
        .iter()
        .map(|attempt| {
            let user = attempt.credential.as_ref().map(|used| used.source().to_string());
            (attempt.from.to_string(), user)
        })
        .collect();
    let expected = [
        ("m.io/cache/team/app:v1", Some("theirs")),
        ("open.io/team/app:v1", None),
        ("r.io/team/app:v1", Some("mine")),
    ];
    assert_eq!(shown, expected.map(|(from, user)| (from.to_owned(), user.map(str::to_owned))));
    let mut runs = registries.runs.take();
    runs.sort();
    assert_eq!(runs, ["mine r.io/team/app", "theirs m.io/cache/team/app"]);
    assert_eq!(credentials.answers().len(), 3);
}

#[tokio::test]
async fn what_a_registry_refuses_is_forgotten_and_asked_for_once() {
    let registries = Registries::new([("ecr", "r.io")], HostOptions::default());
    let pull = Pull::new(&image());
    let stage = refusing();
    let credentials = HostCredentials::new(&registries.host, &image(), &pull);
    let tried = pulls(&stage, &credentials).await;
    assert_eq!(tried, ["ecr-1", "ecr-2"].map(|user| format!("pull r.io/team/app:v1 as {user}")));
    assert_eq!(registries.runs.take().len(), 2);

    stage.clock.advance(Duration::from_mins(1));
    let credentials = HostCredentials::new(&registries.host, &image(), &pull);
    let tried = pulls(&stage, &credentials).await;
    assert_eq!(tried, ["ecr-2", "ecr-3"].map(|user| format!("pull r.io/team/app:v1 as {user}")));
    assert_eq!(registries.runs.take().len(), 1, "the second answer was kept");
}

#[tokio::test]
async fn a_login_that_does_not_change_is_not_tried_twice() {
    let registries = Registries::new([("same", "r.io")], HostOptions::default());
    let stage = refusing();
    let pull = Pull::new(&image());
    let credentials = HostCredentials::new(&registries.host, &image(), &pull);
    assert_eq!(pulls(&stage, &credentials).await, ["pull r.io/team/app:v1 as same"]);
    assert_eq!(registries.runs.take().len(), 2);
}

#[tokio::test]
async fn a_pull_secret_is_what_it_is() {
    let registries = Registries::new([("ecr", "elsewhere.io")], HostOptions::default());
    let coordinates = SecretCoordinates { name: "pull".into(), ..SecretCoordinates::default() };
    let login =
        Login { username: "pod".into(), password: "word-of-pod".into(), ..Login::default() };
    let logins = Logins::new(Source::PullSecret(Arc::new(coordinates)), [("r.io", login)]);
    let pull = Pull::new(&image()).with_secrets([Arc::new(logins)]);
    let mirrors = Mirrors::parse(["r.io=m.io"]).unwrap().of(&image());
    let credentials = HostCredentials::new(&registries.host, &image(), &pull).with_mirrors(mirrors);

    let tried = pulls(&refusing(), &credentials).await;

    let expected = ["pull m.io/team/app:v1 as nobody", "pull r.io/team/app:v1 as pod"];
    assert_eq!(tried, expected, "no mirror is given what is not for it");
    assert_eq!(credentials.answers().len(), 2, "the host is not asked again");
}

#[tokio::test]
async fn the_error_says_which_providers_failed() {
    let options = HostOptions::default();
    let registries = Registries::new([("broken", "r.io"), ("ecr", "r.io")], options);
    let stage = refusing();
    let pull = Pull::new(&image());
    let credentials = HostCredentials::new(&registries.host, &image(), &pull);
    let wanted = Wanted::new("r.io/team/app:v1", Always);

    let error = stage.manager.ensure(&wanted, &credentials).await.unwrap_err();

    assert_eq!(error.reason, EnsureReason::ErrImagePull);
    let parts: Vec<&str> = error.message.split("; ").collect();
    let [first, again, note] = parts.as_slice() else { panic!("{error}") };
    assert!(first.starts_with(r#"r.io/team/app:v1 with ecr as "ecr-"#), "{first}");
    assert!(again.starts_with(r#"r.io/team/app:v1 with ecr as "ecr-"#), "{again}");
    assert!(note.starts_with("provider broken gave nothing for r.io/team/app: "), "{note}");
    let failed: Vec<String> = credentials
        .answers()
        .iter()
        .flat_map(|place| {
            place.answer.errors().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(failed, ["broken", "broken"]);
    let words = error
        .attempts
        .iter()
        .map(|attempt| format!("word-of-{}", attempt.with.as_ref().unwrap().username));
    LeakCheck::new(words).error(&error).debug("the credentials", &credentials);
}

#[tokio::test]
async fn a_pull_without_credentials_comes_last_only_if_the_host_says_so() {
    let mut options = HostOptions::default();
    options.anonymous_last = true;
    let registries = Registries::new([("same", "r.io")], options);
    let pull = Pull::new(&image());
    let credentials = HostCredentials::new(&registries.host, &image(), &pull);
    let tried = pulls(&refusing(), &credentials).await;
    assert_eq!(tried, ["same", "nobody"].map(|user| format!("pull r.io/team/app:v1 as {user}")));
}
