//! What a real process is given, and where it is looked for.

use std::sync::Arc;

use keyfob_api::{ExecCluster, RawJson};
use keyfob_client::{Authenticators, ExecConfig};
use keyfob_exec::ProcessRunner;
use keyfob_testkit::MapEnvironment;

use crate::support::{Script, Stage};

const ANSWER: &str = r#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#;

/// Runs a script that writes its environment down, in a world with this environment.
async fn environment_of(
    script: &Script,
    config: &ExecConfig,
    environment: MapEnvironment,
    cluster: Option<&ExecCluster>,
) -> Vec<String> {
    let stage = Stage::new();
    let mut world = stage.world(Arc::new(ProcessRunner::new(environment.clone())));
    world.environment = Arc::new(environment);
    let authenticators = Authenticators::new(world, stage.behaviour.clone());
    authenticators.get(config, cluster).unwrap().credential().await.unwrap();
    let written = std::fs::read_to_string(script.folder().join("written")).unwrap();
    written.lines().map(str::to_owned).collect()
}

fn writing() -> Script {
    Script::new(&format!("/usr/bin/env > \"${{0%/*}}/written\"\necho '{ANSWER}'"))
}

#[tokio::test]
async fn nothing_overrides_what_the_client_says() {
    let script = writing();
    let config = ExecConfig {
        env: [
            ("KUBERNETES_EXEC_INFO", "mine"),
            ("COLOUR", "red"),
            ("SHAPE", ""),
            ("COLOUR", "blue"),
        ]
        .map(|(name, value)| (name.to_owned(), value.into()))
        .into(),
        ..script.config()
    };
    let parent = MapEnvironment::from_iter([
        ("KUBERNETES_EXEC_INFO", "theirs"),
        ("COLOUR", "green"),
        ("HOME", "/h"),
    ]);

    let written = environment_of(&script, &config, parent, None).await;

    let info = r#"KUBERNETES_EXEC_INFO={"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    for line in [info, "COLOUR=blue", "SHAPE=", "HOME=/h"] {
        assert!(written.iter().any(|each| each == line), "no {line} in {written:#?}");
    }
    assert!(!written.iter().any(|line| line.contains("mine") || line.contains("theirs")));
}

#[tokio::test]
async fn a_plugin_is_told_about_the_cluster_only_if_it_is_to_be() {
    let script = writing();
    let cluster = ExecCluster {
        server: "https://a.example".into(),
        config: Some(RawJson::parse(r#"{"audience":"x"}"#).unwrap()),
        ..ExecCluster::default()
    };
    let told = |provide_cluster_info| {
        let config = ExecConfig { provide_cluster_info, ..script.config() };
        let (script, cluster) = (&script, cluster.clone());
        async move {
            environment_of(script, &config, MapEnvironment::default(), Some(&cluster))
                .await
                .join("\n")
        }
    };
    let spec = r#""spec":{"cluster":{"server":"https://a.example","config":{"audience":"x"}},"interactive":false}"#;

    assert!(told(true).await.contains(spec));
    assert!(!told(false).await.contains("cluster"));
}

#[tokio::test]
async fn a_name_is_looked_for_on_the_parents_path_and_never_here() {
    let (here, there) = (writing(), writing());
    let named = |command: &str| ExecConfig {
        command: command.into(),
        env: vec![("PATH".into(), here.folder().to_str().unwrap().into())],
        ..here.config()
    };
    let parent = MapEnvironment::from_iter([("PATH", there.folder())]);

    // Cleaned, and so a name.
    for command in ["plugin", "./plugin", "a/../plugin"] {
        environment_of(&there, &named(command), parent.clone(), None).await;
    }
    assert!(!here.folder().join("written").exists());

    // The same folder, but seen from here.
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = format!("{up}{}", there.folder().strip_prefix("/").unwrap().display());
    assert!(std::path::Path::new(&relative).join("plugin").exists());
    let stage = Stage::new();
    let mut world = stage.world(Arc::new(ProcessRunner::new(MapEnvironment::default())));
    let path = std::env::join_paths([relative.as_ref(), there.folder()]).unwrap();
    world.environment = Arc::new(MapEnvironment::from_iter([("PATH", path)]));
    let authenticators = Authenticators::new(world, stage.behaviour.clone());
    let error = authenticators.get(&named("plugin"), None).unwrap().credential().await;
    assert!(error.unwrap_err().to_string().starts_with("exec: executable plugin not found\n"));
}

#[tokio::test]
async fn a_byte_that_no_program_can_be_given_is_refused() {
    let script = writing();
    let nul = ExecConfig { env: vec![("A".into(), "b\0c".into())], ..script.config() };
    let arg = ExecConfig { args: vec!["a\0".into()], ..script.config() };
    let stage = Stage::new();

    let error = stage.real(&nul).credential().await.unwrap_err();
    assert_eq!(error.to_string(), "exec: exec: environment variable contains NUL");
    let error = stage.real(&arg).credential().await.unwrap_err();
    assert_eq!(error.to_string(), format!("exec: fork/exec {}: invalid argument", script.path()));
}
