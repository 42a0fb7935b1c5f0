//! Real clients: `skopeo` copies to and from the registry. `.ci/run e2e` installs it and sets `KEYFOB_E2E`, without which
//! nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "these are the real programs, and who runs them is told"
)]

use std::process::{Command, Output};

use keyfob_playground::registry::{
    Access, ImageToMake, Limits, MediaTypes, Options, Registry, Running, Storage, User,
};

use super::{PASSWORD, bytes};

fn is_wanted() -> bool {
    let wanted = std::env::var_os("KEYFOB_E2E").is_some();
    if !wanted {
        println!("KEYFOB_E2E is not set: NO real client has asked");
    }
    wanted
}

async fn start(access: Access, directory: &std::path::Path) -> Running {
    let users = vec![
        User::new("ada", PASSWORD).may_push("team-a"),
        User::new("bob", PASSWORD).may_pull("team-b"),
    ];
    let (storage, limits) = (Storage::directory(directory), Limits::default());
    Registry::start(Options { access, users, storage, limits, ..Options::default() }).await.unwrap()
}

async fn skopeo(args: &[&str]) -> Output {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let run = move || Command::new("skopeo").args(args).output();
    tokio::task::spawn_blocking(run).await.unwrap().expect("skopeo; .ci/run e2e installs it")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn skopeo_copies_there_and_back() {
    if !is_wanted() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for (number, access) in
        [Access::Anonymous, Access::Basic, Access::Bearer].into_iter().enumerate()
    {
        let registry = start(access, &directory.path().join("blobs")).await;
        for media_types in [MediaTypes::Oci, MediaTypes::Docker] {
            let image = ImageToMake {
                layers: vec![bytes(3_000_000), b"second".to_vec()],
                platforms: ["linux/amd64", "linux/arm64/v8"].map(str::to_owned).to_vec(),
                media_types,
            };
            let pushed = registry.push_image("team-a/app", "v1", &image).await.unwrap();
            let (login, from) = (
                format!("ada:{PASSWORD}"),
                format!("docker://{}/team-a/app:v1", registry.address()),
            );
            let layout = format!("dir:{}", place(&format!("layout-{number}-{media_types:?}")));
            let pull =
                ["copy", "--all", "--src-tls-verify=false", "--src-creds", &login, &from, &layout];
            let pulled = skopeo(&pull).await;
            assert!(pulled.status.success(), "{access:?}: {}", error(&pulled));

            let to = format!("docker://{}/team-a/copy:{number}", registry.address());
            let push =
                ["copy", "--all", "--dest-tls-verify=false", "--dest-creds", &login, &layout, &to];
            let copied = skopeo(&push).await;
            assert!(copied.status.success(), "{access:?}: {}", error(&copied));
            let inspect = [
                "inspect",
                "--tls-verify=false",
                "--creds",
                &login,
                "--format",
                "{{.Digest}}",
                &to,
            ];
            let digest = skopeo(&inspect).await;
            assert_eq!(String::from_utf8_lossy(&digest.stdout).trim(), pushed.digest, "{access:?}");
            let layers =
                skopeo(&["inspect", "--tls-verify=false", "--creds", &login, "--config", &to])
                    .await;
            assert!(layers.status.success(), "{}", error(&layers));
        }
        registry.stop().await;
    }
}

#[tokio::test]
async fn skopeo_is_refused_as_it_should_be() {
    if !is_wanted() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for access in [Access::Basic, Access::Bearer] {
        let registry = start(access, &directory.path().join("blobs")).await;
        registry.push_image("team-a/app", "v1", &ImageToMake::default()).await.unwrap();
        let image = format!("docker://{}/team-a/app:v1", registry.address());
        let (bob, wrong) = (format!("bob:{PASSWORD}"), "ada:wrong".to_owned());
        let no_creds = skopeo(&["inspect", "--tls-verify=false", "--no-creds", &image]).await;
        let bob = skopeo(&["inspect", "--tls-verify=false", "--creds", &bob, &image]).await;
        let wrong = skopeo(&["inspect", "--tls-verify=false", "--creds", &wrong, &image]).await;
        for (refused, why) in
            [(no_creds, "unauthorized"), (bob, "bob may not do this"), (wrong, "unauthorized")]
        {
            assert!(!refused.status.success());
            let said = error(&refused);
            assert!(said.contains(why), "{access:?} {why}: {said}");
        }
        registry.stop().await;
    }
}
