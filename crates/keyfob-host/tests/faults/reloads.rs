//! Configurations that are replaced, and hosts beside each other.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use keyfob_config::ProviderConfig;
use keyfob_host::{BuildError, Host, Pull};
use keyfob_testkit::Step;
use prometheus_client::registry::Registry;

use crate::rig::{Folder, IMAGE, RUNS, answer, encoded, metric, until, valid};

/// A provider that answers with its name for a user, and counts its runs.
fn named(folder: &Folder, name: &str) -> ProviderConfig {
    let count = Step::Count(folder.path(&format!("{name}.runs")));
    folder.provider(name, vec![count, Step::Answer(answer(name, "10m"))])
}

async fn users(host: &Host, image: &str) -> Vec<String> {
    let answer = host.credentials(&Pull::parse(image).unwrap()).await;
    assert_eq!(answer.errors().count(), 0, "{answer:?}");
    answer.credentials.iter().map(|credential| credential.username().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lookups_during_reloads_see_the_old_configuration_or_the_new_one() {
    let folder = Folder::new();
    let configs = ["new", "old"].map(|name| valid([named(&folder, name)]));
    let host = Arc::new(folder.host([named(&folder, "old")]).build().unwrap());
    let done = Arc::new(AtomicUsize::new(0));
    let lookups: Vec<_> =
        (0..8).map(|task| tokio::spawn(look_up(host.clone(), done.clone(), task))).collect();

    // After each reload there are more lookups than tasks, so that some begin after it.
    for (config, after) in configs.iter().cycle().zip((20..=1_000).step_by(20)) {
        host.reload(config.clone()).unwrap();
        until(|| done.load(Ordering::SeqCst) >= after).await;
    }

    let mut seen = BTreeSet::new();
    for lookups in lookups {
        seen.extend(lookups.await.unwrap());
    }
    assert_eq!(seen, BTreeSet::from(["new", "old"].map(|name| vec![name.to_owned()])));
}

/// An eighth of a thousand lookups.
async fn look_up(host: Arc<Host>, done: Arc<AtomicUsize>, task: usize) -> BTreeSet<Vec<String>> {
    let mut seen = BTreeSet::new();
    for number in 0..125 {
        seen.insert(users(&host, &format!("reg.test/team{task}/app{number}")).await);
        done.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    seen
}

#[tokio::test]
async fn a_run_under_way_ends_for_those_who_wait_for_it_after_its_provider_is_gone() {
    let folder = Folder::new();
    let steps = vec![
        Step::Count(folder.path("old.runs")),
        Step::Await(folder.path("go")),
        Step::Answer(answer("old", "10m")),
    ];
    let (old, new) = (folder.provider("old", steps), named(&folder, "new"));
    let mut registry = Registry::default();
    let host = Arc::new(folder.host([old]).build().unwrap());
    host.register_metrics(&mut registry);
    let asking = tokio::spawn({
        let host = host.clone();
        async move { users(&host, IMAGE).await }
    });
    until(|| folder.count("old.runs") == 1).await;

    host.reload(valid([new])).unwrap();

    assert_eq!(users(&host, IMAGE).await, ["new"], "the old provider's run is in the way");
    fs::write(folder.path("go"), "").unwrap();
    assert_eq!(asking.await.unwrap(), ["old"]);
    let cached: Vec<_> = host.cached().into_iter().map(|cached| cached.provider).collect();
    assert_eq!(cached, ["new".into()], "the answer of a provider that is gone was kept");
    let text = encoded(&registry);
    let gauge = |line: &&str| line.contains("entries{") || line.contains("waiters{");
    assert_eq!(
        text.lines().filter(gauge).collect::<Vec<_>>(),
        [
            r#"keyfob_credential_provider_cache_entries{plugin_name="new"} 1"#,
            r#"keyfob_credential_provider_waiters{plugin_name="new"} 0"#,
        ]
    );
}

#[tokio::test]
async fn a_bad_configuration_changes_nothing() {
    let folder = Folder::new();
    let mut registry = Registry::default();
    let good = named(&folder, "good");
    let host = folder.host([good.clone()]).build().unwrap();
    host.register_metrics(&mut registry);
    assert_eq!(users(&host, IMAGE).await, ["good"]);
    let (missing, cached) = (named(&folder, "missing"), host.cached());
    fs::remove_file(folder.plugin("missing")).unwrap();

    let error = host.reload(valid([missing, good.clone()])).unwrap_err();

    assert!(matches!(&error, BuildError::Plugins(problems) if problems.len() == 1), "{error}");
    assert_eq!((host.cached(), cached.len()), (cached, 1));
    assert_eq!(users(&host, IMAGE).await, ["good"]);
    assert_eq!(folder.count("good.runs"), 1, "the cache was lost");

    let reloaded = host.reload(valid([good])).unwrap();

    assert_eq!((reloaded.kept, reloaded.started), (vec!["good".to_owned()], vec![]));
    assert_eq!(users(&host, IMAGE).await, ["good"]);
    assert_eq!(folder.count("good.runs"), 1, "an unchanged provider lost its cache");
    let text = encoded(&registry);
    for result in ["success", "failure"] {
        let line =
            format!(r#"keyfob_credential_provider_config_reloads_total{{result="{result}"}} 1"#);
        assert!(text.lines().any(|each| each == line), "no {line} in\n{text}");
    }
}

#[tokio::test]
async fn two_hosts_share_nothing() {
    let folder = Folder::new();
    let provider = named(&folder, "one");
    let hosts = [(); 2].map(|()| {
        let mut registry = Registry::default();
        let host = folder.host([provider.clone()]).build().unwrap();
        host.register_metrics(&mut registry);
        (host, registry)
    });
    let [(first, first_metrics), (second, second_metrics)] = &hosts;
    let untouched = encoded(second_metrics);

    assert_eq!(users(first, IMAGE).await, ["one"]);

    assert_eq!((first.cached().len(), second.cached().len()), (1, 0));
    assert_eq!(encoded(second_metrics), untouched);

    assert_eq!(users(second, IMAGE).await, ["one"]);

    assert_eq!(folder.count("one.runs"), 2, "the second host used the first one's answer");
    assert_eq!([first_metrics, second_metrics].map(|each| metric(each, RUNS, "one")), [1, 1]);
}
