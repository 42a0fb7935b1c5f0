//! Ours and the Go helper, logging in to the same ECR.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use keyfob_testkit::Internet;

use crate::{
    REQUEST, median,
    moto::{Moto, corrected},
};

const ROUNDS: usize = 60;
/// When the tokens end.
const IN_2100: u64 = 4_102_444_800;

/// Prints the median of both, from `exec` to the end of the answer.
pub(crate) fn compare(moto: &Path, keyfob: &Path, helper: &Path) {
    let moto = Moto::start(moto);
    let address = moto.address.clone();
    let internet = Internet::start(move |request| corrected(&address, request, IN_2100));
    let directory = tempfile::tempdir().expect("a directory");
    let ca_file = internet.ca_file(directory.path());
    let ours = Login {
        program: keyfob,
        arguments: vec!["provider", "ecr", "--ca-file", &ca_file],
        stdin: REQUEST,
    };
    let server_url = b"123456789012.dkr.ecr.eu-west-1.amazonaws.com";
    let theirs = Login { program: helper, arguments: vec!["get"], stdin: server_url };
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_times.push(ours.time(&internet.url(), &ca_file));
        their_times.push(theirs.time(&internet.url(), &ca_file));
    }
    let (our_time, their_time) = (median(&mut our_times), median(&mut their_times));
    println!("{:<36}{:>14}", "a login to ECR (moto)", "until answer");
    println!("{:<36}{:>11.1} ms", "ecr-credential-provider", our_time.as_secs_f64() * 1e3);
    println!("{:<36}{:>11.1} ms", "docker-credential-ecr-login", their_time.as_secs_f64() * 1e3);
    println!("ratio: {:.2}", our_time.as_secs_f64() / their_time.as_secs_f64());
}

struct Login<'a> {
    program: &'a Path,
    arguments: Vec<&'a str>,
    stdin: &'a [u8],
}

impl Login<'_> {
    fn time(&self, proxy: &str, ca_file: &str) -> Duration {
        let begun = Instant::now();
        let mut child = Command::new(self.program)
            .args(&self.arguments)
            .envs([("HTTPS_PROXY", proxy), ("SSL_CERT_FILE", ca_file), ("AWS_CA_BUNDLE", ca_file)])
            .envs([("AWS_ACCESS_KEY_ID", "AKIATEST"), ("AWS_SECRET_ACCESS_KEY", "secret")])
            .envs([("AWS_REGION", "eu-west-1"), ("AWS_ECR_DISABLE_CACHE", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("its stdin");
        stdin.write_all(self.stdin).expect("its stdin is open");
        drop(stdin);
        let mut answer = String::new();
        let mut stdout = child.stdout.take().expect("its stdout");
        stdout.read_to_string(&mut answer).expect("text");
        let took = begun.elapsed();
        let ended = child.wait().expect("it ends");
        assert!(
            ended.success() && answer.contains("AWS"),
            "{}: no login: {answer}",
            self.program.display()
        );
        took
    }
}
