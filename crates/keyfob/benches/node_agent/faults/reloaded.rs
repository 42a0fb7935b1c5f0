//! 10,000 reloads under load, with two configurations in turns.

use std::{path::Path, sync::atomic::Ordering, time::Instant};

use serde_json::{Value, json};

use super::callers::{Callers, Way, while_asking};
use crate::agent::{Connection, OTHER_PLUGIN, PLUGIN, RunningAgent};

const RELOADS: usize = 10_000;
/// After so many, everything that is allocated only once is there.
const WARM_UP: usize = 500;
/// Megabytes by which the process may grow after that: a leak of 1 kB for each reload would be 9.5.
const GROWTH: f64 = 4.0;
/// Bytes of the passwords.
const LENGTH: u32 = 2_500;

pub(crate) fn measure(relay: &Path) {
    let mut agent = RunningAgent::start([0, LENGTH], &json!({}), &json!({}));
    let callers = [
        Callers::new("callers with kept connections", 4, Way::KeptConnection),
        Callers::new("callers with new connections", 3, Way::NewConnection),
        Callers::relays("relay", 1, relay, &[]),
    ];
    let (mut took, mut memory) = (0.0, [0.0; 2]);
    while_asking(&mut agent, &callers, |agent| {
        let began = Instant::now();
        reload(agent, 0..WARM_UP);
        memory[0] = agent.resident();
        reload(agent, WARM_UP..RELOADS);
        memory[1] = agent.resident();
        took = began.elapsed().as_secs_f64();
    });
    let [before, after] = memory;
    let status = agent.admin("GET", "/v1/status");
    println!("| {RELOADS} reloads in {took:.1} s | answered | agent down | wrong |");
    println!("|---|---:|---:|---:|");
    for callers in &callers {
        println!("{}", callers.row());
    }
    println!("\n| memory | resident |");
    println!("|---|---:|");
    println!("| after {WARM_UP} reloads | {before:.1} MB |");
    println!("| after {RELOADS} reloads | {after:.1} MB |\n");
    for callers in &callers {
        callers.assert_right();
        assert_eq!(callers.down.load(Ordering::Relaxed), 0, "{}", callers.what);
    }
    let reloads = &status["reloads"];
    assert!(reloads["succeeded"].as_u64() >= Some(RELOADS as u64), "{reloads}");
    assert_eq!(reloads["failed"], 0, "{reloads}");
    assert!(after - before < GROWTH, "it grew from {before:.1} to {after:.1} MB");
}

/// Changes the rules each time. A provider comes and goes, and the one that is asked changes, so that it loses its cached answers, every
/// tenth time.
fn reload(agent: &RunningAgent, numbers: std::ops::Range<usize>) {
    let mut admin = Connection::open(&agent.path("admin.sock")).expect("an agent");
    for number in numbers {
        agent.write_providers(&providers(agent, number));
        agent.write_file(&json!({"rules": rules(number)}));
        let answer = admin.request("POST", "/v1/reload", "").expect("an answer");
        let shown = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{shown}");
    }
}

/// Both allow the same.
fn rules(number: usize) -> Value {
    let uid = rustix::process::getuid().as_raw();
    let own = json!({"name": "own", "callers": {"uids": [uid]}, "action": "Allow"});
    let others = json!({
        "name": format!("others-{}", number % 7),
        "callers": {"uids": [uid + 1 + u32::from(number.is_multiple_of(2))]},
        "images": ["registry.example/team", "*.example"],
        "action": "Deny",
    });
    if number.is_multiple_of(2) { json!([others, own]) } else { json!([own]) }
}

fn providers(agent: &RunningAgent, number: usize) -> Vec<Value> {
    let plugin = [0, LENGTH + u32::from((number / 10).is_multiple_of(2))];
    let mut providers = vec![agent.provider(PLUGIN, plugin, &json!({}))];
    if number.is_multiple_of(2) {
        let other = json!({"matchImages": ["other.example"]});
        providers.push(agent.provider(OTHER_PLUGIN, plugin, &other));
    }
    providers
}
