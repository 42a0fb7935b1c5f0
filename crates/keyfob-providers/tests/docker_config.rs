//! `docker-config-credential-provider`, asked in this process about files of a directory of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::Parser as _;
use keyfob_api::{CacheKeyType, CredentialProviderResponse, GoDuration};
use keyfob_exec::ProcessRunner;
use keyfob_plugin::{
    Failure,
    testing::{Asking, Refused},
};
use keyfob_providers::{ProviderArgs as _, World, docker_config::Args};
use keyfob_testkit::{FakeRunner, LeakCheck, MapEnvironment, Script, Step, scripted_plugin};
use serde_json::json;
use tempfile::TempDir;

/// `ada:hunter2-ada` and `bob:hunter2-bob`.
const ADA: &str = "YWRhOmh1bnRlcjItYWRh";
const BOB: &str = "Ym9iOmh1bnRlcjItYm9i";

struct Files(TempDir);

impl Files {
    fn new<const N: usize>(files: [(&str, &str); N]) -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            this.write(name, text);
        }
        this
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A helper that follows a script whatever it is asked, and its directory as `PATH`.
    fn with_helper(self, name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let script = self.path("script");
        fs::write(&script, Script::new(steps).to_arg()).unwrap();
        helper_at(&self.path(&format!("docker-credential-{name}")), &script);
        self
    }

    async fn ask(
        &self,
        image: &str,
        flags: &[&str],
    ) -> Result<CredentialProviderResponse, Refused> {
        let environment = MapEnvironment::from_iter([("PATH", self.0.path())]);
        let world = World::new(environment.clone(), ProcessRunner::new(environment));
        let path = self.0.path().to_str().unwrap();
        let args =
            Args::try_parse_from([&["docker-config", "--path", path], flags].concat()).unwrap();
        Asking::about(image).of(args.provider(world).unwrap()).await
    }
}

fn helper_at(path: &Path, script: &Path) {
    let line = format!("#!{} {}\n", scripted_plugin().display(), script.display());
    fs::write(path, line).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// `key=user:password` for each login.
fn logins(answer: &CredentialProviderResponse) -> Vec<String> {
    let shown = answer
        .auth
        .iter()
        .map(|(key, auth)| format!("{key}={}:{}", auth.username, auth.password.expose()));
    shown.collect()
}

fn auths(entries: &[(&str, &str)]) -> String {
    let entries = entries.iter().map(|(key, auth)| ((*key).to_owned(), json!({"auth": auth})));
    json!({"auths": entries.collect::<serde_json::Map<_, _>>()}).to_string()
}

#[tokio::test]
async fn an_answer_has_what_is_for_the_image_and_nothing_else() {
    let files = Files::new([(
        "config.json",
        &auths(&[("r.io", ADA), ("r.io/team", BOB), ("https://other.io/v2/", BOB), ("*.io", ADA)]),
    )]);

    let answer = files.ask("r.io/team/app", &[]).await.unwrap();

    assert_eq!(
        logins(&answer),
        ["*.io=ada:hunter2-ada", "r.io=ada:hunter2-ada", "r.io/team=bob:hunter2-bob"]
    );
    assert_eq!(answer.cache_key_type, CacheKeyType::Image);
    assert_eq!(answer.cache_duration, Some(GoDuration::default()), "the files may change");
    let other = files.ask("other.io/app:1@sha256:00", &[]).await.unwrap();
    assert!(
        logins(&other).contains(&"other.io=bob:hunter2-bob".to_owned()),
        "{}",
        other.auth.len()
    );
    assert_eq!(logins(&files.ask("r.example/app", &[]).await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_changed_file_counts_at_once_and_can_be_kept_for_longer() {
    let files = Files::new([("config.json", &auths(&[("r.io", ADA)]))]);
    assert_eq!(logins(&files.ask("r.io/app", &[]).await.unwrap()), ["r.io=ada:hunter2-ada"]);

    files.write("config.json", &auths(&[("r.io", BOB)]));

    let answer = files.ask("r.io/app", &["--cache-duration", "10m"]).await.unwrap();
    assert_eq!(logins(&answer), ["r.io=bob:hunter2-bob"]);
    assert_eq!(answer.cache_duration.unwrap().to_string(), "10m0s");
}

#[tokio::test]
async fn the_files_of_a_directory_count_in_the_order_of_their_names() {
    let files = Files::new([
        ("20-other.json", &auths(&[("r.io", BOB), ("s.io", BOB)])),
        ("10-first.json", &auths(&[("r.io", ADA)])),
        (".dockercfg", &format!(r#"{{"old.io":{{"auth":"{ADA}"}}}}"#)),
        (".dockerconfigjson", &auths(&[("secret.io", ADA)])),
        ("README", "not JSON, and not read"),
    ]);

    for (image, login) in [
        ("r.io/app", "r.io=ada:hunter2-ada"),
        ("s.io/app", "s.io=bob:hunter2-bob"),
        ("old.io/app", "old.io=ada:hunter2-ada"),
        ("secret.io/app", "secret.io=ada:hunter2-ada"),
    ] {
        assert_eq!(logins(&files.ask(image, &[]).await.unwrap()), [login], "{image}");
    }
}

#[tokio::test]
async fn docker_hub_is_known_under_its_former_name() {
    let files = Files::new([("config.json", &auths(&[("https://index.docker.io/v1/", ADA)]))]);

    let answer = files.ask("docker.io/library/nginx", &[]).await.unwrap();

    assert_eq!(answer.auth[0].1.username, "ada");
    assert!(files.ask("r.io/nginx", &[]).await.unwrap().auth.is_empty());
}

#[tokio::test]
async fn a_bad_file_is_named_with_the_place_and_not_quoted() {
    let files =
        Files::new([("a.json", &auths(&[("r.io", ADA)])), ("b.json", "{\"auths\": hunter2")]);

    let refused = files.ask("r.io/app", &[]).await.unwrap_err();

    let shown = refused.to_string();
    assert!(shown.contains("b.json") && shown.contains("line 1, column 11"), "{shown}");
    LeakCheck::new(["hunter2"]).error(&refused);
    files.write("b.json", &auths(&[("r.io", "hunter2")]));
    let refused = files.ask("r.io/app", &[]).await.unwrap_err();
    assert!(refused.to_string().contains("b.json"), "{refused}");
    LeakCheck::new(["hunter2"]).error(&refused);
}

#[tokio::test]
async fn a_path_that_is_not_there_is_a_failure() {
    let files = Files::new([]);
    let missing = files.path("missing");
    let refused = files.ask("r.io/app", &["--path", missing.to_str().unwrap()]).await.unwrap_err();

    assert!(refused.to_string().contains("missing"), "{refused}");
}

#[tokio::test]
async fn without_a_path_docker_s_own_directory_is_read() {
    let files =
        Files::new([("config.json", &auths(&[("r.io", ADA)])), ("daemon.json", "no config")]);
    let provider = |environment: MapEnvironment| {
        let args = Args::try_parse_from(["docker-config"]).unwrap();
        args.provider(World::new(environment, FakeRunner::printing("")))
    };
    let named = MapEnvironment::from_iter([("DOCKER_CONFIG", files.0.path())]);

    let answer = Asking::about("r.io/app").of(provider(named).unwrap()).await.unwrap();

    assert_eq!(logins(&answer), ["r.io=ada:hunter2-ada"]);
    let failure: Failure = provider(MapEnvironment::default()).map(drop).unwrap_err();
    assert!(failure.to_string().contains("--path"), "{failure}");
}

#[tokio::test]
async fn helpers_are_asked_only_when_told_to_and_come_first() {
    let login = json!({"ServerURL": "r.io", "Username": "eve", "Secret": "hunter2-eve"});
    let config = json!({"auths": {"r.io": {"auth": ADA}, "s.io": {}}, "credsStore": "mine"});
    let files = Files::new([("config.json", &config.to_string())])
        .with_helper("mine", [Step::Answer(login)]);

    let ignored = files.ask("r.io/app", &[]).await.unwrap();
    let asked = files.ask("r.io/app", &["--helpers"]).await.unwrap();

    assert_eq!(logins(&ignored), ["r.io=ada:hunter2-ada"]);
    assert_eq!(logins(&asked), ["r.io=eve:hunter2-eve"]);
    assert_eq!(logins(&files.ask("s.io/app", &[]).await.unwrap()), [""; 0]);
    LeakCheck::new(["hunter2-eve", "hunter2-ada"]).debug("an answer", &asked);
}

#[tokio::test]
async fn a_helper_that_has_nothing_leaves_the_file_its_say() {
    let config = json!({"auths": {"r.io": {"auth": ADA}}, "credHelpers": {"r.io": "mine"}});
    let nothing = "credentials not found in native keychain\n".to_owned();
    let files = Files::new([("config.json", &config.to_string())])
        .with_helper("mine", [Step::ReadStdin, Step::Print(nothing), Step::Exit(1)]);

    let answer = files.ask("r.io/app", &["--helpers"]).await.unwrap();

    assert_eq!(logins(&answer), ["r.io=ada:hunter2-ada"]);
}
