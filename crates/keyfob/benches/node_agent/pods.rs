//! 500 pods that pull at the same time, from a cold agent: how many plugins run, and whether every caller gets its answer.
//!
//! Each pod has a token of its own, as a kubelet sends it; all have one service account and pull one of 20 images of one registry,
//! whose login is for the whole registry. The plugin takes 20 ms, as if it asked a service; four of them may run at the same time.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Barrier,
    thread,
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::agent::{Connection, RunningAgent};

const PODS: usize = 500;
const IMAGES: usize = 20;
const AUDIENCE: &str = "registry.example";
/// Milliseconds.
const DELAY: u32 = 20;

/// Which answers pods may share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    None,
    ServiceAccount,
    Token,
}

impl Tokens {
    const ALL: [Self; 3] = [Self::None, Self::ServiceAccount, Self::Token];

    fn describe(self) -> &'static str {
        match self {
            Self::None => "a provider without tokens",
            Self::ServiceAccount => "`cacheType: ServiceAccount`",
            Self::Token => "`cacheType: Token`",
        }
    }

    fn provider(self) -> Value {
        let cache_type = match self {
            Self::None => return json!({}),
            Self::ServiceAccount => "ServiceAccount",
            Self::Token => "Token",
        };
        json!({"tokenAttributes": {
            "serviceAccountTokenAudience": AUDIENCE,
            "cacheType": cache_type,
            "requireServiceAccount": true,
        }})
    }

    /// The most runs. Requests with the same token, or with none, for the same image share a run. That an answer is good for other
    /// images or other tokens, the agent knows only when it is there, and requests that wait for their turn until then run too.
    fn most_runs(self) -> u64 {
        if self == Self::None { IMAGES as u64 } else { PODS as u64 }
    }
}

pub(crate) fn measure(relay: &Path) {
    println!(
        "| {PODS} pods at the same time, cold | asked by | answered | runs of the plugin | time |"
    );
    println!("|---|---|---:|---:|---:|");
    if !rustix::process::getuid().is_root() {
        println!(
            "| NOT measured: only root, such as a kubelet, may send a pod's token | | | | |\n"
        );
        return;
    }
    for tokens in Tokens::ALL {
        measure_one(tokens, "`POST /v1/provider`", post);
        measure_one(tokens, "the relay", |agent, request| relayed(relay, agent, request));
    }
    println!();
}

fn measure_one(
    tokens: Tokens,
    how: &str,
    ask: impl Fn(&RunningAgent, &str) -> Result<Vec<u8>, String> + Sync,
) {
    let agent = RunningAgent::start([DELAY, 100], &tokens.provider(), &json!({}));
    let all: Vec<String> = (0..PODS).map(token).collect();
    let barrier = Barrier::new(PODS + 1);
    let (took, wrong) = thread::scope(|scope| {
        let pods = all.iter().enumerate().map(|(number, token)| {
            let (agent, ask, barrier, all) = (&agent, &ask, &barrier, &all);
            let pod = move || {
                let request = request(number, token);
                barrier.wait();
                let answer = ask(agent, &request)?;
                check(tokens, &answer, token, all)
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, pod).expect("a thread")
        });
        let pods: Vec<_> = pods.collect();
        // Before the barrier: behind it, this thread may run only after the pods.
        let began = Instant::now();
        barrier.wait();
        let results = pods.into_iter().map(|pod| pod.join().expect("no panic"));
        let wrong: Vec<_> = results.filter_map(Result::err).collect();
        (began.elapsed(), wrong)
    });
    let (answered, runs) = (PODS - wrong.len(), agent.runs());
    let what = tokens.describe();
    println!("| {what} | {how} | {answered} of {PODS} | {runs} | {} |", seconds(took));
    assert!(wrong.is_empty(), "{} of {PODS}: {:?}", wrong.len(), BTreeSet::from_iter(&wrong));
    assert!(runs <= tokens.most_runs(), "{runs} runs, not {}", tokens.most_runs());
}

/// What a kubelet passes to a plugin for this pod.
fn request(number: usize, token: &str) -> String {
    json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": format!("registry.example/one-login/application-{}", number % IMAGES),
        "serviceAccountToken": token,
        "serviceAccountAnnotations": {},
    })
    .to_string()
}

/// The token of a pod. Its signature is wrong, which only the registry would find out.
fn token(number: usize) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
    let claims = json!({
        "aud": [AUDIENCE],
        "exp": now.as_secs() + 3600,
        "kubernetes.io": {
            "namespace": "team",
            "serviceaccount": {"name": "app", "uid": "uid-of-app"},
            "pod": {"name": format!("pod-{number}"), "uid": format!("uid-of-pod-{number}")},
        },
    });
    format!("e30.{}.{number}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn post(agent: &RunningAgent, request: &str) -> Result<Vec<u8>, String> {
    let mut connection = Connection::open(&agent.socket()).map_err(|error| error.to_string())?;
    let answer = connection.request("POST", "/v1/provider", request);
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status == 200 {
        Ok(answer.body)
    } else {
        Err(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
    }
}

fn relayed(relay: &Path, agent: &RunningAgent, request: &str) -> Result<Vec<u8>, String> {
    let mut child = Command::new(relay)
        .args(["provider", "--socket"])
        .arg(agent.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().expect("its stdin");
    stdin.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    drop(stdin);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Whether this is an answer for the pod: with tokens as the cache type says, its own token is in it or one of its service account.
fn check(tokens: Tokens, answer: &[u8], own: &str, all: &[String]) -> Result<(), String> {
    let answer: Value = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let auth = answer["auth"].as_object().and_then(|auth| auth.values().next());
    let login = auth.ok_or("an answer without credentials")?;
    let password = login["password"].as_str().unwrap_or_default();
    let issued_to = password.rsplit_once('.').map_or("", |(issued_to, _)| issued_to);
    let is_right = match tokens {
        Tokens::None => issued_to == "node",
        Tokens::ServiceAccount => all.iter().any(|token| token == issued_to),
        Tokens::Token => issued_to == own,
    };
    if is_right { Ok(()) } else { Err("the credentials of another pod".to_owned()) }
}

fn seconds(took: Duration) -> String {
    format!("{:.2} s", took.as_secs_f64())
}
