//! A configuration that changes while the agent serves.

use std::{fs, os::unix::fs::symlink, time::Duration};

use tokio::time::sleep;

use crate::rig::{
    APP, AgentFile, Rig, RunningAgent, eventually, provider, provider_config, rename_over, rule,
};

const TWO: &str = "two.example/app";

/// A rig whose agents watch their files. It has a plugin for a second provider, which is not configured yet.
fn rig_with_two() -> Rig {
    let rig = Rig::watching();
    rig.install("two");
    rig.plugins.login("two", "bob");
    rig
}

fn both() -> String {
    provider_config(&(provider("one", "registry.example") + &provider("two", "two.example")))
}

async fn eventually_has(agent: &RunningAgent, image: &str, users: &[&str]) {
    eventually("the change is noticed", || async { agent.users(image).await == users }).await;
}

/// Waits until the agent watches its files.
async fn watching() {
    sleep(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_file_that_is_written_or_replaced_is_noticed() {
    let rig = rig_with_two();
    let agent = rig.start();
    assert_eq!(agent.socket.credentials(TWO).await.status, 404);
    watching().await;
    rename_over(&rig.path("providers.yaml"), &both());
    eventually_has(&agent, TWO, &["bob"]).await;
    fs::write(rig.path("providers.yaml"), provider_config(&provider("two", "two.example")))
        .unwrap();
    eventually("the provider is gone", || async {
        agent.socket.credentials(APP).await.status == 404
    })
    .await;

    rename_over(
        &rig.file(),
        &rig.text(&AgentFile {
            rules: rule("nobody", "{uids: [4242]}", "Allow"),
            ..AgentFile::default()
        }),
    );
    eventually("the rules are in effect", || async {
        agent.socket.credentials(TWO).await.status == 403
    })
    .await;
    // They refuse from the beginning of the reload, and are shown at its end.
    eventually("the new rules are shown", || async {
        agent.status().await["rules"][0] == "nobody"
    })
    .await;
    eventually("all reloads are counted", || async {
        agent.status().await["reloads"]["succeeded"] == 3
    })
    .await;
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_symbolic_link_that_is_swapped_is_noticed() {
    // As a kubelet mounts a ConfigMap: file -> ..data/file, ..data -> ..2030_1.
    let rig = rig_with_two();
    let mount = rig.path("mount");
    for (version, text) in
        [("..1", provider_config(&provider("one", "registry.example"))), ("..2", both())]
    {
        fs::create_dir_all(mount.join(version)).unwrap();
        fs::write(mount.join(version).join("providers.yaml"), text).unwrap();
    }
    symlink("..1", mount.join("..data")).unwrap();
    symlink("..data/providers.yaml", mount.join("providers.yaml")).unwrap();
    let text = rig.text(&AgentFile::default());
    fs::write(rig.file(), text.replace("/providers.yaml", "/mount/providers.yaml")).unwrap();
    let agent = rig.start();
    assert_eq!(agent.socket.credentials(TWO).await.status, 404);
    watching().await;
    symlink("..2", mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    fs::remove_dir_all(mount.join("..1")).unwrap();
    eventually_has(&agent, TWO, &["bob"]).await;
    rig.finish(agent).await;
}

#[tokio::test]
async fn files_of_a_directory_come_and_go() {
    let rig = rig_with_two();
    fs::create_dir(rig.path("providers.d")).unwrap();
    let one = provider_config(&provider("one", "registry.example"));
    fs::write(rig.path("providers.d/10-one.yaml"), one).unwrap();
    let text = rig.text(&AgentFile::default());
    fs::write(rig.file(), text.replace("/providers.yaml", "/providers.d")).unwrap();
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada"]);
    watching().await;
    let two = provider_config(&provider("two", "two.example"));
    fs::write(rig.path("providers.d/20-two.yaml"), two).unwrap();
    eventually_has(&agent, TWO, &["bob"]).await;
    fs::remove_file(rig.path("providers.d/20-two.yaml")).unwrap();
    eventually("the provider is gone", || async {
        agent.socket.credentials(TWO).await.status == 404
    })
    .await;
    assert_eq!((agent.users(APP).await, rig.plugins.runs()), (vec!["ada".to_owned()], 2));
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_file_that_is_put_back_at_once_after_a_reload_was_refused_is_noticed() {
    let rig = rig_with_two();
    let agent = rig.start();
    let good = fs::read_to_string(rig.file()).unwrap();
    eventually_has(&agent, APP, &["ada"]).await;
    for _ in 0..5 {
        fs::write(rig.file(), "nonsense").unwrap();
        agent.agent.reload().unwrap_err();
        fs::write(rig.file(), &good).unwrap();
        eventually("the error is a thing of the past", || async {
            agent.status().await["reloads"]["lastError"].is_null()
        })
        .await;
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn an_invalid_file_leaves_the_old_configuration_and_is_shown() {
    let rig = rig_with_two();
    let agent = rig.start();
    agent.users(APP).await;
    watching().await;
    let good = fs::read_to_string(rig.file()).unwrap();
    rename_over(&rig.file(), &good.replace("kind: AgentConfiguration", "kind: Nonsense"));
    eventually("it is logged", || async { rig.logs().contains("the old one stays") }).await;
    let last_error_names = async |place: &str| {
        eventually(place, || async {
            let status = agent.status().await;
            status["reloads"]["lastError"].as_str().is_some_and(|error| error.contains(place))
        })
        .await;
    };
    last_error_names("agent.yaml:2:").await;
    rename_over(&rig.path("providers.yaml"), "providers: [");
    rename_over(&rig.file(), &good);
    last_error_names("providers.yaml").await;
    assert_eq!((agent.users(APP).await, rig.plugins.runs()), (vec!["ada".to_owned()], 1));
    let status = agent.status().await;
    assert!(status["reloads"]["failed"].as_u64().unwrap() >= 2, "{status}");
    assert_ne!(agent.metric(r#"keyfob_agent_reloads_total{result="failure"}"#).await, "0");
    // As they were: nothing is different, but the error is a thing of the past.
    rename_over(&rig.path("providers.yaml"), &both());
    eventually_has(&agent, TWO, &["bob"]).await;
    eventually("the error is a thing of the past", || async {
        agent.status().await["reloads"]["lastError"].is_null()
    })
    .await;
    assert_eq!(rig.plugins.runs(), 2, "the provider that did not change kept its answer");
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_change_between_reading_and_serving_is_not_lost() {
    let rig = rig_with_two();
    let agent = rig.start();
    // The agent has read its files, and its tasks have not begun.
    rename_over(&rig.path("providers.yaml"), &both());
    eventually_has(&agent, TWO, &["bob"]).await;
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_rule_for_a_provider_that_does_not_exist_is_logged() {
    let rig = Rig::new();
    let deny = |provider| rule("typo", "{anyone: true}", &format!("Deny, providers: [{provider}]"));
    rig.write(&AgentFile { rules: deny("oen"), ..AgentFile::default() });
    let agent = rig.start();
    assert!(rig.logs().contains(r#"there is no provider "oen""#), "{}", rig.logs());
    assert!(rig.logs().contains("did you mean") && rig.logs().contains("agent.yaml:11:"));

    rig.write(&AgentFile { rules: deny("tow"), ..AgentFile::default() });
    agent.agent.reload().unwrap();
    assert!(rig.logs().contains(r#"there is no provider "tow""#), "{}", rig.logs());
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_rule_that_is_withdrawn_counts_for_those_who_wait() {
    let rig = Rig::new();
    rig.plugins.take(Duration::from_millis(300));
    let agent = rig.start();
    let socket = agent.socket.clone();
    let asking = tokio::spawn(async move { socket.credentials(APP).await });
    eventually("the plugin runs", || async { rig.plugins.running() == 1 }).await;
    let rules = rule("nobody", "{uids: [4242]}", "Allow");
    rig.write(&AgentFile { rules, ..AgentFile::default() });
    agent.agent.reload().unwrap();
    assert_eq!(asking.await.unwrap().refusal().0, 403);
    rig.finish(agent).await;
}
