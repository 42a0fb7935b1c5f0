//! What a trace of a request has in it.

use crate::rig::{APP, Rig, own_uid};

#[tokio::test]
async fn a_plugin_runs_in_the_spans_of_the_request_that_began_it() {
    let rig = Rig::new();
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada"]);
    let logs = rig.logs();
    let line = logs.lines().find(|line| line.contains("asking the plugin")).unwrap();
    let spans = format!(
        "request{{path=\"/v1/credentials\"}}:decision{{image=\"{APP}\" uid={}}}:plugin_run{{provider=one image=\"{APP}\"}}:",
        own_uid()
    );
    assert!(line.contains(&spans), "{line}");

    // A path of a client may be anything, and is not in a span.
    agent.socket.call("GET", "/v1/hunter2", "").await;
    assert!(!rig.logs().contains("path=\"/v1/hunter2"));
    rig.finish(agent).await;
}
