//! `exec-credential-provider`, asked in this process, with real helpers that do as they are told.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use clap::Parser as _;
use keyfob_api::{CacheKeyType, CredentialProviderResponse};
use keyfob_exec::{Clock as _, ProcessRunner};
use keyfob_plugin::testing::{Asking, Refused};
use keyfob_providers::{ProviderArgs as _, World, exec::Args};
use keyfob_testkit::{
    LeakCheck, ManualClock, MapEnvironment, Script, Step, Witness, scripted_plugin,
};
use serde_json::json;
use tempfile::TempDir;

const SECRET: &str = "hunter2-of-the-helper";
const NOT_FOUND: &str = "credentials not found in native keychain";

/// A directory of helpers, which is `PATH`.
struct Helpers(TempDir);

impl Helpers {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A helper that follows a script whatever it is asked.
    fn with(self, name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let script = self.path(&format!("{name}.script"));
        fs::write(&script, Script::new(steps).to_arg()).unwrap();
        runnable(&self.path(&format!("docker-credential-{name}")), &script);
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    async fn ask(&self, asking: Asking, flags: &[&str]) -> Answered {
        let environment = MapEnvironment::from_iter([("PATH", self.0.path())]);
        let world = World::new(environment.clone(), ProcessRunner::new(environment));
        let args = Args::try_parse_from([&["exec"], flags].concat()).unwrap();
        asking.of(args.provider(world).unwrap()).await
    }

    /// What the helper `mine` makes of this image.
    async fn mine(&self, image: &str) -> Answered {
        self.ask(Asking::about(image), &["--helper", "mine"]).await
    }
}

type Answered = Result<CredentialProviderResponse, Refused>;

fn runnable(path: &Path, script: &Path) {
    let line = format!("#!{} {}\n", scripted_plugin().display(), script.display());
    fs::write(path, line).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn login(username: &str) -> Step {
    Step::Answer(json!({"ServerURL": "ignored", "Username": username, "Secret": SECRET}))
}

fn failing(stdout: &str) -> [Step; 3] {
    [Step::ReadStdin, Step::Print(format!("{stdout}\n")), Step::Exit(1)]
}

#[tokio::test]
async fn the_helper_s_login_is_the_registry_s_for_five_minutes() {
    let answer = Helpers::new().with("mine", [login("ada")]).mine("r.io:5000/app").await.unwrap();

    assert_eq!(answer.cache_key_type, CacheKeyType::Registry);
    assert_eq!(answer.cache_duration.unwrap().to_string(), "5m0s");
    let [(key, auth)] = &answer.auth[..] else { panic!("one login") };
    assert_eq!((key.as_str(), auth.username.as_str()), ("r.io:5000", "ada"));
    assert_eq!(auth.password.expose(), SECRET);
}

#[tokio::test]
async fn a_helper_is_run_with_get_and_told_the_server_as_docker_tells_it() {
    for (image, server) in [
        ("r.io:5000/team/app", "r.io:5000"),
        ("docker.io/library/nginx", "https://index.docker.io/v1/"),
    ] {
        let helpers = Helpers::new();
        let (seen, witness) = (helpers.path("stdin"), helpers.path("witness"));
        let steps = [Step::RecordStdin(seen.clone()), Step::Record(witness.clone()), login("ada")];
        let helpers = helpers.with("mine", steps);
        helpers.mine(image).await.unwrap();

        assert_eq!(fs::read_to_string(seen).unwrap(), server);
        let witness: Witness = serde_json::from_slice(&fs::read(witness).unwrap()).unwrap();
        assert_eq!(witness.args.last().map(String::as_str), Some("get"));
    }
}

#[tokio::test]
async fn a_login_stored_under_the_url_is_found_after_the_bare_host() {
    let helpers = Helpers::new();
    let asked = helpers.path("asked");
    let missing = Script::new([Step::Print(NOT_FOUND.into()), Step::Exit(1)]);
    let turns = Step::TakeTurns(asked.clone(), vec![missing, Script::new([login("ada")])]);
    let helpers = helpers.with("mine", [turns]);

    let answer = helpers.mine("r.io/app").await.unwrap();

    assert_eq!(answer.auth[0].0, "r.io");
    assert_eq!(fs::read_to_string(asked).unwrap(), "r.iohttps://r.io");
}

#[tokio::test]
async fn not_found_is_known_by_its_exact_text_only() {
    for text in [NOT_FOUND, "  credentials not found in native keychain \r\n"] {
        let answer = Helpers::new().with("mine", failing(text)).mine("r.io/app").await.unwrap();
        assert!(answer.auth.is_empty());
        assert_eq!(answer.cache_duration.unwrap().to_string(), "0s", "it may be stored next");
    }
    let more = format!("{NOT_FOUND} today");
    assert!(Helpers::new().with("mine", failing(&more)).mine("r.io/app").await.is_err());
}

#[tokio::test]
async fn what_a_helper_says_on_stdout_is_told_shortened_and_without_tokens() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln";
    let text = format!("pass store is locked for {token} {}\nsecond line", "é".repeat(300));
    let helpers = Helpers::new().with("mine", failing(&text));

    let refused = helpers.mine("r.io/app").await.unwrap_err();

    let shown = refused.to_string();
    assert!(shown.contains("docker-credential-mine failed: exit code 1: pass store"), "{shown}");
    assert!(shown.len() < 500 && !shown.contains("second line"), "{shown}");
    LeakCheck::new([token]).error(&refused);
}

#[tokio::test]
async fn a_login_printed_by_a_helper_that_fails_is_shown_nowhere() {
    let steps = [login("ada"), Step::Say(format!("cannot use {SECRET}, sorry")), Step::Exit(2)];
    let refused = Helpers::new().with("mine", steps).mine("r.io/app").await.unwrap_err();

    let shown = refused.to_string();
    assert!(shown.contains("exit code 2; it said: cannot use [redacted], sorry"), "{shown}");
    LeakCheck::new([SECRET]).error(&refused);
}

#[tokio::test]
async fn what_is_no_login_is_refused_with_the_place_and_not_quoted() {
    for (printed, shown) in [
        (format!("{{\"Secret\": {SECRET}"), "line 1, column 12"),
        (format!("[\"{SECRET}\"]"), "expected an object"),
        (format!("{{\"Secret\": \"{SECRET}\", \"Username\": 1}}"), "Username: expected a string"),
        (format!("{{\"Secret\": \"{SECRET}\"}}"), "no user name"),
    ] {
        let steps = [Step::ReadStdin, Step::Print(printed)];
        let refused = Helpers::new().with("mine", steps).mine("r.io/app").await.unwrap_err();

        assert!(refused.to_string().contains(shown), "{refused}");
        LeakCheck::new([SECRET]).error(&refused);
    }
}

#[tokio::test]
async fn an_empty_login_is_none() {
    let steps = [Step::Answer(json!({"ServerURL": "r.io", "Username": "", "Secret": ""}))];
    let answer = Helpers::new().with("mine", steps).mine("r.io/app").await.unwrap();

    assert!(answer.auth.is_empty());
}

#[tokio::test]
async fn a_helper_that_hangs_is_killed_a_second_before_we_give_up() {
    let helpers = Helpers::new().with("mine", [Step::SleepMs(60_000)]);
    let asking = Asking::about("r.io/app").deadline(Duration::from_millis(1_200));

    let refused = helpers.ask(asking, &["--helper", "mine"]).await.unwrap_err();

    assert!(
        refused.to_string().contains("docker-credential-mine was killed after 0."),
        "{refused}"
    );
}

#[tokio::test]
async fn a_helper_that_floods_is_killed() {
    let helpers =
        Helpers::new().with("mine", [Step::FloodStderr(1 << 20), Step::FloodStdout(2 << 20)]);

    let refused = helpers.mine("r.io/app").await.unwrap_err();

    assert!(refused.to_string().contains("printed more than 1048576 bytes"), "{refused}");
    assert!(refused.to_string().len() < 20_000);
}

#[tokio::test]
async fn a_helper_that_is_not_there_is_named_with_the_path_that_was_searched() {
    let helpers = Helpers::new();
    let refused = helpers.mine("r.io/app").await.unwrap_err().to_string();

    assert!(refused.contains("docker-credential-mine was not found on PATH"), "{refused}");
    assert!(refused.contains(helpers.0.path().to_str().unwrap()), "{refused}");
}

#[tokio::test]
async fn each_registry_may_have_a_helper_of_its_own() {
    let helpers = Helpers::new().with("mine", [login("ada")]).with("cloud", [login("AWS")]);
    let absolute = helpers.path("docker-credential-mine");
    let own = format!("r.io={}", absolute.display());
    let flags = ["--helper", "*.dkr.ecr.*.amazonaws.com=cloud", "--helper", &own];
    let user = async |image: &str| {
        let answer = helpers.ask(Asking::about(image), &flags).await.unwrap();
        answer.auth.first().map(|(_, auth)| auth.username.clone())
    };

    assert_eq!(user("1.dkr.ecr.eu.amazonaws.com/app").await.as_deref(), Some("AWS"));
    assert_eq!(user("r.io/app").await.as_deref(), Some("ada"));
    assert_eq!(user("other.io/app").await, None);
}

#[tokio::test]
async fn an_identity_token_is_a_password_only_where_the_registry_takes_it_for_one() {
    let helpers = Helpers::new().with("mine", [login("<token>")]);

    let refused = helpers.mine("r.io/app").await.unwrap_err();
    let azure = helpers.mine("team.azurecr.io/app").await.unwrap();
    let alike = helpers.mine("team.azurecr.io.example/app").await;

    assert!(refused.to_string().contains("identity token"), "{refused}");
    assert_eq!(azure.auth[0].1.username, "00000000-0000-0000-0000-000000000000");
    assert!(alike.is_err());
    LeakCheck::new([SECRET]).error(&refused).debug("an answer", &azure);
}

#[tokio::test]
async fn a_password_that_is_a_token_is_not_kept_for_longer_than_it_lasts() {
    let now = ManualClock::default().now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let ask = async |end: u64| {
        let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{end}}}"#));
        let secret = format!("eyJhbGciOiJSUzI1NiJ9.{claims}.c2lnbmF0dXJl");
        let login = Step::Answer(json!({"Username": "ada", "Secret": secret}));
        let asking = Asking::about("r.io/app").clock(Arc::new(ManualClock::default()));
        Helpers::new().with("mine", [login]).ask(asking, &["--helper", "mine"]).await
    };

    let kept = async |end| ask(end).await.unwrap().cache_duration.unwrap().to_string();
    assert_eq!(kept(now + 100).await, "1m40s");
    assert_eq!(kept(now + 3600).await, "5m0s");
    let refused = ask(now).await.unwrap_err();
    assert!(refused.to_string().contains("ended at"), "{refused}");
}

#[test]
fn a_helper_that_cannot_be_meant_is_refused() {
    for bad in [
        &["exec"][..],
        &["exec", "--helper", ""],
        &["exec", "--helper", "../x"],
        &["exec", "--helper", "r.io/a=x"],
    ] {
        assert!(Args::try_parse_from(bad).is_err(), "{bad:?}");
    }
}
