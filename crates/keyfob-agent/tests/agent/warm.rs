//! Answers that are there before anybody asks.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    plugins::logins,
    rig::{APP, AgentFile, Rig, eventually, own_uid, provider, rule},
};

const MINUTE: Duration = Duration::from_mins(1);

/// Longer than the agent waits between two looks at what is due.
const A_LOOK: Duration = Duration::from_secs(11);

#[tokio::test]
async fn images_are_requested_again_after_a_restart() {
    let rig = Rig::new();
    rig.plugins
        .respond("one", |request| Some(logins("Image", "1h", [(request.image.clone(), "ada")])));
    let images = ["registry.example/a", "registry.example/b", "registry.example/c"];
    let agent = rig.start();
    for image in images {
        agent.users(image).await;
    }
    agent.stop().await;
    assert_eq!(rig.plugins.runs(), 3);

    let agent = rig.start();
    eventually("the agent is warm", || async { rig.plugins.runs() == 6 }).await;
    for image in images {
        assert_eq!(agent.users(image).await, ["ada"]);
    }
    assert_eq!(rig.plugins.runs(), 6, "nobody waited for a plugin");
    rig.finish(agent).await;
}

#[tokio::test]
async fn at_most_so_many_images_are_remembered() {
    let rig = Rig::new();
    rig.plugins
        .respond("one", |request| Some(logins("Image", "1h", [(request.image.clone(), "ada")])));
    let warm = "{rememberedImages: 2}".into();
    rig.write(&AgentFile { warm, ..AgentFile::default() });
    let agent = rig.start();
    for image in ["registry.example/a", "registry.example/b", "registry.example/c"] {
        agent.users(image).await;
        rig.clock.advance(MINUTE);
    }
    agent.stop().await;
    let agent = rig.start();
    eventually("the agent is warm", || async { rig.plugins.runs() == 5 }).await;
    let asked = rig.plugins.asked();
    let last: Vec<_> = asked[3..].iter().map(|(_, image)| image.as_str()).collect();
    assert_eq!(last, ["registry.example/c", "registry.example/b"], "the last ones first");
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_renewed_before_it_expires() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    rig.plugins.login("one", "bob");
    // Five minutes before, and up to a quarter of that earlier.
    rig.clock.advance(53 * MINUTE);
    sleep(A_LOOK).await;
    assert_eq!(rig.plugins.runs(), 1, "seven minutes are left");
    rig.clock.advance(2 * MINUTE);
    sleep(A_LOOK).await;
    assert_eq!(rig.plugins.runs(), 2, "five minutes are left");
    assert_eq!(agent.users(APP).await, ["bob"]);
    assert_eq!(rig.plugins.runs(), 2, "nobody waited for it");
    assert_eq!(agent.metric(r#"keyfob_agent_renewals_total{result="success"}"#).await, "1");
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_due_early_is_renewed_at_once() {
    let rig = Rig::new();
    let agent = rig.start();
    let image = |number| format!("registry{number}.example/app");
    let patterns = (0..20).map(|number| format!("registry{number}.example"));
    let patterns = patterns.collect::<Vec<_>>().join("\", \"");
    rig.write_providers(&provider("one", &patterns));
    agent.agent.reload().unwrap();
    for number in 0..20 {
        agent.users(&image(number)).await;
    }
    rig.plugins.login("one", "bob");
    rig.clock.advance(54 * MINUTE + MINUTE / 2);
    sleep(A_LOOK).await;
    // Each is due at random between 5:00 and 6:15 before its expiry, and 5:30 are left.
    let renewed = rig.plugins.runs() - 20;
    assert!((1..=20).contains(&renewed), "{renewed} of 20");
    let renewals = agent.metric(r#"keyfob_agent_renewals_total{result="success"}"#).await;
    assert_eq!(renewals, renewed.to_string(), "what did not run is not counted");
    rig.clock.advance(MINUTE / 2);
    sleep(A_LOOK).await;
    assert_eq!(rig.plugins.runs(), 40);
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_no_rule_allows_any_more_is_not_asked() {
    let rig = Rig::new();
    rig.write_providers(
        &(provider("one", "registry.example") + &provider("two", "registry.example")),
    );
    rig.plugins.login("two", "bob");
    let own = format!("{{uids: [{}]}}", own_uid());
    let only = |name: &str, providers| {
        let rules = rule(name, &own, &format!("Allow, providers: [{providers}]"));
        rig.write(&AgentFile { rules, ..AgentFile::default() });
    };
    only("one-alone", "one");
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada"]);
    rig.clock.advance(56 * MINUTE);
    sleep(A_LOOK).await;
    let asked = || rig.plugins.asked().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(asked(), ["one", "one"], "the other one is not allowed");

    only("two-alone", "two");
    agent.agent.reload().unwrap();
    rig.clock.advance(56 * MINUTE);
    sleep(A_LOOK).await;
    assert_eq!(asked(), ["one", "one", "two"], "the first one is no longer allowed");

    let denied = rule("nobody", "{anyone: true}", "Deny, images: [\"registry.example\"]");
    let rules = denied + &AgentFile::default().rules;
    rig.write(&AgentFile { rules, ..AgentFile::default() });
    agent.agent.reload().unwrap();
    rig.clock.advance(56 * MINUTE);
    sleep(A_LOOK).await;
    assert_eq!(asked().len(), 3, "nobody may have it");
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_and_the_old_answer_serves() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    rig.plugins.fail("one");
    rig.clock.advance(56 * MINUTE);
    sleep(A_LOOK).await;
    let runs = rig.plugins.runs();
    assert!(runs >= 2, "it was tried");
    assert_eq!(agent.users(APP).await, ["ada"], "it is still valid");
    assert_eq!(
        agent.metric(r#"keyfob_agent_renewals_total{result="failure"}"#).await,
        "1",
        "although the old answer serves"
    );
    rig.plugins.login("one", "bob");
    rig.clock.advance(2 * MINUTE);
    sleep(A_LOOK).await;
    assert_eq!(agent.users(APP).await, ["bob"]);
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_does_not_hold_up_renewals_of_other_providers() {
    let rig = Rig::new();
    rig.write_providers(
        &(provider("one", "*.registry.example") + &provider("two", "other.example")),
    );
    rig.plugins
        .respond("one", |request| Some(logins("Image", "1h", [(request.image.clone(), "ada")])));
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    for number in 0..20 {
        agent.users(&format!("r{number}.registry.example/app")).await;
    }
    agent.users("other.example/app").await;
    let hung = rig.plugins.hold_only("one");
    rig.clock.advance(56 * MINUTE);
    sleep(A_LOOK).await;
    let runs_of = |name: &str| rig.plugins.asked().iter().filter(|(each, _)| each == name).count();
    assert_eq!(runs_of("two"), 2, "it is renewed");
    assert_eq!(runs_of("one"), 20 + 2, "of one provider, so many are renewed at the same time");
    drop(hung);
    sleep(A_LOOK).await;
    assert_eq!(runs_of("one"), 20 + 20);
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_at_the_start_is_overcome() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    agent.stop().await;
    rig.plugins.fail("one");
    let agent = rig.start();
    sleep(A_LOOK).await;
    assert_eq!(rig.plugins.runs(), 2, "it was tried");
    rig.plugins.login("one", "bob");
    rig.clock.advance(2 * MINUTE);
    sleep(A_LOOK).await;
    assert_eq!(rig.plugins.runs(), 3, "and tried again");
    assert_eq!((agent.users(APP).await, rig.plugins.runs()), (vec!["bob".to_owned()], 3));
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_or_ahead_gives_no_expired_answer() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    rig.plugins.login("one", "bob");
    rig.clock.advance(Duration::from_hours(24 * 365));
    assert_eq!(agent.users(APP).await, ["bob"]);
    rig.plugins.login("one", "eve");
    rig.clock.set_back(Duration::from_hours(24 * 365 * 2));
    assert_eq!(agent.users(APP).await, ["eve"], "a clock that was set back ends what was kept");
    sleep(A_LOOK).await;
    rig.finish(agent).await;
}
