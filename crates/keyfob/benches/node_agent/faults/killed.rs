//! SIGKILL under load, and a new start.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::callers::{Callers, IMAGES, Way, image, while_asking};
use crate::agent::{Connection, PLUGIN, RunningAgent};

/// How often the agent is killed.
const KILLS: usize = 20;
/// How long it runs before that, and how long it is away.
const PAUSE: Duration = Duration::from_millis(300);
/// Milliseconds that the plugin takes, as if it asked a service.
const DELAY: u32 = 20;
/// Bytes of its passwords.
const LENGTH: u32 = 2_500;

pub(crate) fn measure(relay: &Path) {
    let mut agent = RunningAgent::start([DELAY, LENGTH], &json!({}), &json!({}));
    let if_down_run = if_down_run(&agent);
    let callers = [
        Callers::new("callers with kept connections", 4, Way::KeptConnection),
        Callers::new("callers with new connections", 4, Way::NewConnection),
        Callers::relays("relays with `--if-down run`", 2, relay, &if_down_run),
        Callers::relays("relays with `--if-down refuse`", 2, relay, &[]),
    ];
    while_asking(&mut agent, &callers, |agent| {
        for _ in 0..KILLS {
            thread::sleep(PAUSE);
            agent.kill();
            thread::sleep(PAUSE);
            agent.come_up();
        }
        thread::sleep(PAUSE);
    });
    println!("| SIGKILL, {KILLS} times | answered | agent down | wrong |");
    println!("|---|---:|---:|---:|");
    for callers in &callers {
        println!("{}", callers.row());
    }
    println!();
    for callers in &callers {
        callers.assert_right();
    }
    let [kept, new, run, refuse] = callers.map(|callers| callers.down.into_inner());
    assert_eq!(run, 0, "with `--if-down run` every request is answered");
    assert!(kept > 0 && new > 0 && refuse > 0, "nobody noticed that the agent was down");
    warm_again(&mut agent);
}

/// The relay's options with which it runs the plugin itself.
fn if_down_run(agent: &RunningAgent) -> Vec<String> {
    let plugin = agent.path("plugins").join(PLUGIN).display().to_string();
    let words =
        ["--if-down", "run", "--fallback-image", "registry.example", "--"].map(str::to_owned);
    [&words[..], &[plugin], &agent.plugin_args([DELAY, LENGTH])].concat()
}

/// One more kill, of an agent that has written the names of its images to its state directory, and nobody asks.
fn warm_again(agent: &mut RunningAgent) {
    agent.wait_until("the names are written", || {
        let stored = std::fs::read_to_string(agent.path("state/images.json")).unwrap_or_default();
        (0..IMAGES).all(|number| stored.contains(&format!("\"{}\"", image(number))))
    });
    agent.kill();
    let began = Instant::now();
    let serves = agent.come_up();
    let login = Connection::open(&agent.socket()).expect("an agent").login(&image(0));
    login.expect("an answer").expect("a login");
    let answers = began.elapsed();
    agent.wait_until("every image is warm", || {
        agent.admin("GET", "/v1/status")["cachedAnswers"] == IMAGES
    });
    let warm = began.elapsed();
    println!("| after SIGKILL and a new start, until | time |");
    println!("|---|---:|");
    println!("| the agent serves | {} |", milliseconds(serves));
    println!(
        "| it has answered a request, for which a plugin ran {DELAY} ms | {} |",
        milliseconds(answers)
    );
    println!("| all {IMAGES} images that it remembers are warm | {} |\n", milliseconds(warm));
}

fn milliseconds(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}
