//! What 10,000 cached answers cost the real process.

use std::thread;

use serde_json::json;

use crate::agent::{Connection, RunningAgent};

const ENTRIES: usize = 10_000;
/// How many callers fill the cache: twice as many as plugins run at the same time.
const CALLERS: usize = 8;

/// As long as many passwords and tokens are, and as long as one of ECR.
const LENGTHS: [(u32, &str); 2] = [(100, "≤ 40 MB"), (2_500, "")];

pub(crate) fn measure() {
    println!("| memory of `keyfob serve` | resident | target |");
    println!("|---|---:|---|");
    let empty = RunningAgent::start([0, 100], &json!({}), &json!({}));
    println!("| no cached answer | {:.1} MB | |", empty.resident());
    for (length, target) in LENGTHS {
        let agent = RunningAgent::start([0, length], &json!({}), &json!({}));
        fill(&agent);
        let cached = agent.admin("GET", "/v1/status")["cachedAnswers"].clone();
        assert_eq!(cached, ENTRIES);
        let resident = agent.resident();
        println!(
            "| {ENTRIES} cached answers, passwords of {length} bytes | {resident:.1} MB | {target} |"
        );
    }
    println!();
}

/// Requests each image once.
fn fill(agent: &RunningAgent) {
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || {
                let mut connection = Connection::open(&agent.socket()).expect("an agent");
                for number in (caller..ENTRIES).step_by(CALLERS) {
                    let image = format!("registry.example/team/application-{number:05}");
                    let login = connection.login(&image).expect("an answer");
                    assert_eq!(login.expect("a login").0, image);
                }
            });
        }
    });
}
