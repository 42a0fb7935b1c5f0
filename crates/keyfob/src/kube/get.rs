//! `keyfob kube get --raw`: what the API server answers, as it comes.

use std::io;

use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Limited};
use keyfob_net::api_server::status_message;
use kube::client::Body;

use super::{
    chosen::Cluster,
    cluster_args::ClusterArgs,
    failure::{KubeFailure, said},
    on_cluster,
};
use crate::{Outcome, Verdict};

/// How much of a refusal is read.
const LONGEST_REFUSAL: usize = 64 << 10;

#[derive(Debug, Args)]
#[command(
    after_help = "The answer goes to stdout byte by byte as it comes, so that a watch can be followed.\n\
                  If the server answers 401, the plugin is run again and the request sent again with the new credential, once. A \
                  server that refuses everything costs two runs of the plugin.\n\
                  Exit codes: 0 the server answered, 1 it refused or could not be asked, or the plugin failed, 2 a flag, the \
                  kubeconfig or the kuberc is wrong, 4 the answer could not be written, 130 it was stopped by a signal."
)]
pub(super) struct GetArgs {
    /// The path, with its query: `/version`, `/api/v1/pods?watch=1`.
    #[arg(long, value_name = "PATH", value_parser = path)]
    raw: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &GetArgs) -> Outcome {
    on_cluster(&args.cluster, async |cluster| args.get(cluster).await).unwrap_or_else(Outcome::from)
}

impl GetArgs {
    async fn get(&self, cluster: &Cluster) -> Result<Outcome, KubeFailure> {
        let (client, server) = cluster.connect()?;
        let failed = |why: &str| Outcome {
            stderr: format!("keyfob: {server}: {}\n", cluster.secrets().redact(why)),
            verdict: Verdict::No,
            ..Outcome::default()
        };
        let request = match Request::get(&self.raw).body(Body::empty()) {
            Ok(request) => request,
            Err(error) => return Ok(Outcome::wrong_input(&error)),
        };
        let answer = match client.send(request).await {
            Ok(answer) => answer,
            Err(error) => return Ok(failed(&said(&error))),
        };
        if !answer.status().is_success() {
            return Ok(failed(&read_refusal(answer).await));
        }
        Ok(match pass_on(answer.into_body()).await {
            Ok(()) => Outcome::default(),
            Err(Broken::Answer(error)) => {
                failed(&format!("the answer broke off: {}", said(&error)))
            }
            Err(Broken::Stdout(error)) => unwritten(&error),
        })
    }
}

/// Why the answer did not get to its end.
enum Broken {
    Answer(kube::Error),
    Stdout(io::Error),
}

async fn pass_on(mut body: Body) -> Result<(), Broken> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Broken::Answer)?;
        if let Ok(bytes) = frame.into_data() {
            keyfob_exec::write_stdout(&bytes).map_err(Broken::Stdout)?;
        }
    }
    Ok(())
}

fn unwritten(error: &io::Error) -> Outcome {
    let stderr = format!("keyfob: the answer could not be written: {error}\n");
    Outcome { stderr, verdict: Verdict::Unwritten, ..Outcome::default() }
}

async fn read_refusal(answer: Response<Body>) -> String {
    let code = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST_REFUSAL).collect().await;
    refusal(code, &body.map(Collected::to_bytes).unwrap_or_default())
}

/// The message of a `Status`, or whatever else stands in the place of one.
pub(super) fn refusal(code: StatusCode, body: &[u8]) -> String {
    let body = if body.len() > LONGEST_REFUSAL { &[] } else { body };
    let text = match status_message(body) {
        Some(message) if !message.is_empty() => message,
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let separator = if text.is_empty() { "" } else { ": " };
    format!("{}{separator}{text}", words(code))
}

fn words(code: StatusCode) -> String {
    code.canonical_reason()
        .map_or(code.as_str().into(), |reason| format!("{} {reason}", code.as_str()))
}

fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.parse::<http::uri::PathAndQuery>().is_ok();
    is_path.then(|| text.to_owned()).ok_or_else(|| {
        "write a path that begins with / and has nothing in it that must be escaped, such as /version".to_owned()
    })
}
