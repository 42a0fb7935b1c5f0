//! A whole run of the relay against a warm agent, and what else a client could run instead.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use keyfob_testkit::Internet;
use serde_json::json;

use crate::{
    agent::{RunningAgent, compile},
    moto::{Moto, corrected},
};

/// When the tokens end.
const IN_2100: u64 = 4_102_444_800;
const REGISTRY: &str = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
const REQUEST: &str = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"123456789012.dkr.ecr.eu-west-1.amazonaws.com/app"}"#;
const PLUGIN: &str = "ecr-credential-provider";

const NOTHING: &str = "a static C program that does nothing";

/// Where the parts are; they take turns.
pub(crate) struct Parts<'a> {
    pub(crate) relay: &'a Path,
    pub(crate) moto: &'a Path,
    pub(crate) helper: &'a Path,
}

pub(crate) fn compare(parts: &Parts<'_>) {
    let moto = Moto::start(parts.moto);
    let address = moto.address.clone();
    let internet = Internet::start(move |request| corrected(&address, request, IN_2100));
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file = internet.ca_file(folder.path());
    let cloud = cloud(&internet.url(), &ca_file);
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_keyfob"), plugins.join(PLUGIN)).expect("a link");
    let env: Vec<_> =
        cloud.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let provider = json!({
        "name": PLUGIN,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": [REGISTRY],
        "defaultCacheDuration": "12h",
        "args": ["--ca-file", ca_file],
        "env": env,
    });
    let helper = folder.path().join("docker-credential-keyfob");
    symlink(env!("CARGO_BIN_EXE_keyfob"), &helper).expect("a link");
    let agent = RunningAgent::with_plugins(&plugins, provider);
    let nothing = folder.path().join("nothing");
    compile("int main(void) { return 0; }\n", &nothing);
    let socket = agent.socket().display().to_string();
    let plugin = plugins.join(PLUGIN);
    let run = |what, path, args, stdin| Program { what, path, args, env: &cloud, stdin };
    let provider_args = ["provider", "--socket", &socket];
    let docker_args = ["docker", "--socket", &socket, "get"];
    let helper_args = ["--socket", &socket, "get"];
    let plugin_args = ["--ca-file", &*ca_file];
    let docker = run("`keyfob-relay docker get`", parts.relay, &docker_args, REGISTRY);
    // Those that take long would leave the machine cold for the short ones.
    print(
        "a whole run",
        take_turns(
            1_000,
            [
                run(NOTHING, &nothing, &[], REQUEST),
                run("`keyfob-relay provider`", parts.relay, &provider_args, REQUEST),
                docker,
                run("`keyfob` under the helper's name", &helper, &helper_args, REGISTRY),
            ],
        ),
    );
    print(
        "a login to ECR (moto)",
        take_turns(
            100,
            [
                docker,
                run("`docker-credential-ecr-login get`", parts.helper, &["get"], REGISTRY),
                run("`ecr-credential-provider`", &plugin, &plugin_args, REQUEST),
            ],
        ),
    );
}

/// Runs the programs in turns.
fn take_turns<const N: usize>(
    rounds: usize,
    programs: [Program<'_>; N],
) -> [(&'static str, Vec<Duration>); N] {
    let mut times = programs.map(|program| (program.what, Vec::new()));
    for round in 0..=rounds {
        for (program, (_, times)) in programs.iter().zip(&mut times) {
            let took = program.run();
            // The first round warms the agent and the machine.
            if round > 0 {
                times.push(took);
            }
        }
    }
    times
}

/// What makes a program use moto instead of AWS.
fn cloud(proxy: &str, ca_file: &str) -> Vec<(&'static str, String)> {
    [
        ("HTTPS_PROXY", proxy),
        ("SSL_CERT_FILE", ca_file),
        ("AWS_CA_BUNDLE", ca_file),
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ECR_DISABLE_CACHE", "1"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

#[derive(Clone, Copy)]
struct Program<'a> {
    what: &'static str,
    path: &'a Path,
    args: &'a [&'a str],
    env: &'a [(&'static str, String)],
    stdin: &'static str,
}

impl Program<'_> {
    /// From before the start until its output has ended and it is gone.
    fn run(&self) -> Duration {
        let began = Instant::now();
        let mut child = Command::new(self.path)
            .args(self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        // The C program does not read it.
        let mut stdin = child.stdin.take().expect("its stdin");
        stdin.write_all(self.stdin.as_bytes()).unwrap_or_default();
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let took = began.elapsed();
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {}", self.what, output.status);
        assert_eq!(answer.contains("AWS"), self.what != NOTHING, "{}: {answer}", self.what);
        took
    }
}

fn print<const N: usize>(title: &str, programs: [(&str, Vec<Duration>); N]) {
    println!("| {title} | median | p90 | ratio | target |");
    println!("|---|---:|---:|---:|---|");
    let mut base = None;
    for (what, mut times) in programs {
        times.sort_unstable();
        let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
        let (median, p90) = (at(50), at(90));
        let ratio = median / *base.get_or_insert(median);
        let has_target = title == "a whole run" && what.starts_with("`keyfob-relay");
        let target = if has_target { "≤ 1.0" } else { "" };
        println!("| {what} | {median:.2} ms | {p90:.2} ms | {ratio:.2} | {target} |");
    }
    println!();
}

/// Prints the size, and fails if the program needs a loader or a library.
pub(crate) fn inspect(relay: &Path) {
    let bytes = fs::metadata(relay).expect("a file").len();
    let read = Command::new("readelf")
        .args(["--wide", "--program-headers", "--dynamic"])
        .arg(relay)
        .output()
        .expect("binutils are installed");
    let headers = String::from_utf8_lossy(&read.stdout).into_owned();
    let is_static =
        read.status.success() && !headers.contains("INTERP") && !headers.contains("(NEEDED)");
    #[expect(clippy::cast_precision_loss, reason = "kilobytes are printed")]
    let kilobytes = bytes as f64 / 1e3;
    println!("| the relay | figure | target |");
    println!("|---|---:|---|");
    println!("| size | {kilobytes:.0} kB | ≤ 1 MB |");
    println!(
        "| static: no loader, no libraries | {} | yes |\n",
        if is_static { "yes" } else { "no" }
    );
    assert!(is_static, "{} is not static:\n{headers}", relay.display());
}
