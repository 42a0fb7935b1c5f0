//! One client from its kubeconfig to its last request.

use http::Request;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{
    Question,
    log::Listener,
    stage::{Received, Stage},
};

/// Plays it to its end. Everything happens on this thread.
pub(super) fn play(question: &Question) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let log = Listener::start();
    runtime.expect("a runtime").block_on(async {
        let stage = Stage::set(question).await;
        let story = tell(&stage, question.statuses.len()).await;
        let logged: Vec<_> = log.lines().iter().map(|line| stage.in_words(line)).collect();
        match story {
            Err(error) => json!({ "error": error }),
            Ok(requests) => json!({
                "runs": stage.plugin.witnesses(|text| stage.in_words(text)),
                "requests": requests,
                "stderr": stage.stderr(),
                "logged": logged,
            }),
        }
    })
}

async fn tell(stage: &Stage, requests: usize) -> Result<Vec<Value>, String> {
    let config = stage.client_config()?;
    let client = stage.client(&config)?;
    let mut sent = Vec::new();
    for _ in 0..requests {
        let answered = send(&client, &config.server).await;
        let Received { authorization, certificates } = stage.received();
        let (name, value) = match answered {
            Ok(status) => ("status", json!(status)),
            Err(error) => ("error", json!(stage.in_words(&error))),
        };
        sent.push(
            json!({"authorization": authorization, "certificates": certificates, name: value}),
        );
    }
    Ok(sent)
}

/// Errors begin as those of Go's HTTP client do, which is not ours to say anywhere else.
async fn send(client: &Client, server: &str) -> Result<u16, String> {
    let request = Request::get("/version").body(Body::empty()).expect("a request");
    let answered = client.send(request).await.map_err(|error| match error {
        kube::Error::Service(error) => error.to_string(),
        other => other.to_string(),
    });
    let answer = answered.map_err(|error| {
        format!("Get \"{}/version\": {error}", server.strip_suffix('/').unwrap_or(server))
    })?;
    let status = answer.status().as_u16();
    // Read to its end, so that the connection can be used again.
    answer.into_body().collect_bytes().await.expect("it has no body");
    Ok(status)
}
