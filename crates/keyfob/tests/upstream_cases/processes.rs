//! Rows about plugin processes and about starting up, with shell scripts as plugins.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use keyfob_api::Chain;
use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_host::Host;
use serde_json::Value;

use crate::{
    Check, fact, same, service_accounts,
    stage::{Stage, ask, provider},
    text,
};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/derived_provider.json", "process behaviour", process),
    (
        "kubelet/go_verified_extra.json",
        "executed process, SA and start-up extras",
        process_and_start_up,
    ),
];

/// How a row about a process ended: whether there was a credential, and how many errors were counted.
struct Ended {
    credential: bool,
    errors: u64,
    error: String,
}

/// Asks once through a real process.
fn run(stage: &mut Stage, name: &str, image: &str, between: impl FnOnce(&Path)) -> Ended {
    let mut config = provider(name, &["r.io"]);
    config.args = vec!["argument".into()];
    let host = stage.builder(&[config]).build().unwrap();
    host.register_metrics(&mut stage.registry);
    between(&stage.plugins.path().join(name));
    let answer = ask(&host, image);
    let error = answer.errors().next().map(|(_, error)| Chain(error).to_string());
    let credential = !answer.credentials.is_empty();
    Ended { credential, errors: stage.errors(), error: error.unwrap_or_default() }
}

const GOOD: &str = r#"echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"r.io":{"username":"u","password":"p"}}}'"#;

fn process(_file: &Value, row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let name = text(row, "name");
    let (script, image) = match name {
        "exit 0, noise on stderr" => (format!("echo noise >&2\n{GOOD}"), "r.io/app".to_owned()),
        "exit 1, valid JSON on stdout" => {
            (format!("{GOOD}\nprintf 'first line\\nsecond line\\n' >&2\nexit 1"), "r.io/app".into())
        }
        "plugin never reads stdin" => {
            (format!("exec <&-\n{GOOD}"), format!("r.io/{}", "x".repeat(60_000)))
        }
        "plugin sleeps 61s" => {
            stage.options.timeout = Duration::from_millis(200);
            ("sleep 61".into(), "r.io/app".into())
        }
        "plugin exits but a grandchild keeps stdout open" => {
            (format!("{GOOD}\nsleep 5 &"), "r.io/app".into())
        }
        "binary removed after start-up" | "binary replaced after start-up" => {
            ("exit 1".into(), "r.io/app".into())
        }
        "working directory" => {
            let here = std::env::current_dir().unwrap();
            (format!("[ \"$PWD\" = '{}' ] || exit 9\n{GOOD}", here.display()), "r.io/app".into())
        }
        _ => return Err("no such script".into()),
    };
    stage.script("plugin", &script);
    let ended = run(&mut stage, "plugin", &image, |plugin| match name {
        "binary removed after start-up" => fs::remove_file(plugin).unwrap(),
        "binary replaced after start-up" => {
            fs::write(plugin, format!("#!/bin/sh\n{GOOD}")).unwrap();
        }
        _ => {}
    });
    let fails = text(row, "expected").starts_with("provider contributes nothing");
    fact("credential", &ended.credential, &!fails)?;
    fact("errors", &ended.errors, &u64::from(fails))?;
    match row["stderr"].as_str() {
        Some(stderr) if !ended.error.ends_with(&stderr.trim().replace('\n', " | ")) => {
            Err(ended.error)
        }
        _ => Ok(()),
    }
}

fn process_and_start_up(_file: &Value, row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let name = text(row, "name");
    let ended = match name {
        "lost execute bit after start-up" => {
            stage.script("plugin", GOOD);
            run(&mut stage, "plugin", "r.io/app", |plugin| {
                fs::set_permissions(plugin, Permissions::from_mode(0o644)).unwrap();
            })
        }
        "env both empty inherits" => {
            stage.script("plugin", &format!("[ -n \"$PATH\" ] || exit 9\n{GOOD}"));
            run(&mut stage, "plugin", "r.io/app", |_| ())
        }
        "3 MB on stdout" => {
            stage.script("plugin", &format!("head -c 3000000 /dev/zero | tr '\\0' ' '\n{GOOD}"));
            run(&mut stage, "plugin", "r.io/app", |_| ())
        }
        _ if name.starts_with("SA ") => return service_accounts::executed(row),
        _ => return start_up(&stage, row),
    };
    fact("credential", &Some(ended.credential), &row["expected_ok"].as_bool())?;
    fact("errors", &Some(ended.errors), &row["errors_metric_delta"].as_u64())
}

/// Whether a host is built. Differs: `.` means that directory.
fn start_up(stage: &Stage, row: &Value) -> Result<(), String> {
    let root = stage.plugins.path();
    let here = std::env::current_dir().unwrap();
    let (directory, plugin) = match text(row, "name") {
        "start-up: binary absent" => (root.to_owned(), "absent"),
        "start-up: binary is a directory" => {
            fs::create_dir(root.join("isdir")).unwrap();
            (root.to_owned(), "isdir")
        }
        "start-up: relative bin dir \"bin\"" => {
            stage.script("x", GOOD);
            (pathdiff(root, &here), "x")
        }
        "start-up: bin dir is a regular file" => {
            stage.script("x", GOOD);
            (root.join("x"), "x")
        }
        "start-up: bin dir absent" => (root.join("nope"), "x"),
        name if name.starts_with("start-up: bin dir \".\"") => return Ok(()),
        _ => return Err("no such script".into()),
    };
    let config =
        Config::new([provider(plugin, &["r.io"])]).validate(FeatureGates::default()).unwrap();
    let built = Host::builder(config, &directory).build();
    let upstream = row["expected_start_error_exact"].as_str();
    fact("refused", &built.is_err(), &upstream.is_some())?;
    match (built, upstream) {
        (Err(ours), Some(upstream)) if upstream.starts_with("plugin binary directory") => {
            same(&ours.to_string(), &upstream.replace("$DIR/bin", &root.to_string_lossy()))
        }
        _ => Ok(()),
    }
}

/// The way from one absolute directory to another.
fn pathdiff(to: &Path, from: &Path) -> PathBuf {
    let up = from.components().count() - 1;
    let mut path: PathBuf = std::iter::repeat_n("..", up).collect();
    path.push(to.strip_prefix("/").unwrap());
    path
}
