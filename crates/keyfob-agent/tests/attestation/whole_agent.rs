//! The same attacks on an agent that serves: they end with a refusal, also if the process was what it should be when it asked.

use std::{future::Future, time::Duration};

use tokio::{sync::watch, time::sleep};

use crate::{
    plugins::SECRET,
    puppet::Puppet,
    rig::{APP, Rig, RunningAgent, eventually},
};

/// Longer than the agent relies on what it read about a caller (`FACTS_ARE_RECENT`, 10 ms). Before that it only makes sure that the
/// caller has not exited, so a plugin that ends at once would not show whether the other facts are read again.
const FACTS_ARE_OLD: Duration = Duration::from_millis(50);

/// A request for credentials, in one line.
pub(crate) fn request() -> String {
    let body = format!("{{\"image\":\"{APP}\"}}");
    let length = body.len();
    format!(
        "POST /v1/credentials HTTP/1.1\\nhost: x\\nconnection: close\\ncontent-length: {length}\\n\\n{body}"
    )
}

/// An agent, and a process that has connected to it.
pub(crate) struct Attack {
    pub(crate) rig: Rig,
    pub(crate) agent: RunningAgent,
    pub(crate) puppet: Puppet,
}

impl Attack {
    /// Returns when the agent has accepted the connection, and so knows who the process is.
    pub(crate) async fn new() -> Self {
        let rig = Rig::new();
        let agent = rig.start();
        let mut puppet = Puppet::start();
        puppet.connect(&agent.socket.path);
        let open = r#"keyfob_agent_connections{listener="agent"}"#;
        eventually("it is connected", || async { agent.metric(open).await == "1" }).await;
        Self { rig, agent, puppet }
    }

    /// The process asks; its plugin runs until the result is dropped. By then the agent must read the facts about the caller again.
    pub(crate) async fn ask(&mut self) -> watch::Sender<()> {
        let held = self.rig.plugins.hold();
        self.puppet.order(&format!("send {}", request()));
        eventually("the plugin runs", || async { self.rig.plugins.running() == 1 }).await;
        // The facts were read before the plugin was started, and a sleep is never shorter than it should be.
        sleep(FACTS_ARE_OLD).await;
        held
    }

    /// What is printed says that the agent refused because of this, and so does the log.
    pub(crate) async fn ends_with_a_refusal(self, reason: &str) {
        let Self { rig, agent, puppet } = self;
        // The agent closes the connection after its answer, so that whoever prints it ends.
        let printed = puppet.rest();
        assert!(printed.contains("HTTP/1.1 403"), "{printed}");
        assert!(printed.contains(reason) && !printed.contains(SECRET), "{printed}");
        agent.stop().await;
        let events = rig.audit();
        let event = events.last().unwrap();
        assert_eq!(event["outcome"], "denied", "{event}");
        assert!(event["reason"].as_str().unwrap().contains(reason), "{event}");
        assert!(event["credentials"].is_null(), "{event}");
        rig.check_leaks();
    }
}

/// The agent goes on while the test waits for a process.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(test);
}

#[test]
fn a_process_that_stays_gets_its_answer() {
    run(async {
        let mut attack = Attack::new().await;
        let held = attack.ask().await;
        attack.puppet.order("receive");
        drop(held);
        let Attack { rig, agent, puppet } = attack;
        let printed = puppet.rest();
        assert!(printed.contains("HTTP/1.1 200") && printed.contains(SECRET), "{printed}");
        agent.stop().await;
        assert_eq!(rig.audit()[0]["outcome"], "allowed");
        rig.check_leaks();
    });
}

#[test]
fn a_process_that_exits_while_its_plugin_runs_leaves_nothing_to_its_children() {
    run(async {
        let mut attack = Attack::new().await;
        let held = attack.ask().await;
        attack.puppet.tell("leave");
        attack.puppet.wait_until_it_exits();
        drop(held);
        attack.ends_with_a_refusal("the process that opened the connection has exited").await;
    });
}

#[test]
fn a_process_that_runs_another_program_while_its_plugin_runs_gets_nothing() {
    run(async {
        let mut attack = Attack::new().await;
        let held = attack.ask().await;
        let program = format!("/proc/{}/exe", attack.puppet.id());
        let before = std::fs::read_link(&program).unwrap();
        attack.puppet.order("exec-with-connection cat");
        eventually("it runs another program", || async {
            std::fs::read_link(&program).is_ok_and(|now| now != before)
        })
        .await;
        drop(held);
        attack.ends_with_a_refusal("the caller has changed while it was waiting").await;
    });
}

#[test]
fn a_child_that_asks_over_the_connection_of_its_parent_gets_nothing() {
    run(async {
        let mut attack = Attack::new().await;
        attack.puppet.tell("leave");
        attack.puppet.wait_until_it_exits();
        attack.puppet.send_through_its_heir(&request());
        attack.ends_with_a_refusal("the process that opened the connection has exited").await;
    });
}
