//! Rows about which plugins a client may run.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use keyfob_api::{ExecCredentialStatus, ExecVersion};
use keyfob_client::{Allowed, Denied, Kuberc, KubercError, PluginPolicy};
use keyfob_exec::{Program, go::clean};
use keyfob_testkit::MapEnvironment;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Check, fact, same, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/plugin_policy_matrix.json", "cases", matrix),
    ("client/kuberc_policy.json", "apply", apply),
    ("client/kuberc_policy.json", "kuberc_set", kuberc_set),
    ("client/kuberc_policy.json", "kubectl_shell_tests", shell_tests),
    ("client/metrics.json", "policy_calls", policy_calls),
    ("client/go_verified_extra.json", "errors_and_hint", errors_and_hint),
];

/// A folder that rows call `{TESTDATA}` or `<DIR>`, and the `PATH` around it.
struct Stage {
    folder: TempDir,
    environment: MapEnvironment,
}

impl Stage {
    /// With these programs in it; those below `bin` are on `PATH`, or, without one, all.
    fn new(programs: &[&str], bin: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stage = |name: &str, mode| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        for name in programs {
            stage(name, 0o755);
        }
        stage("noexec", 0o644);
        let path = format!("{}:/usr/bin:/bin", folder.path().join(bin).display());
        Self { environment: [("PATH", path)].into_iter().collect(), folder }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn placed(&self, text: &str) -> String {
        let folder = self.folder.path().display().to_string();
        text.replace("{TESTDATA}", &folder).replace("<DIR>", &folder)
    }

    fn check(&self, policy: &PluginPolicy, command: &str) -> Result<Allowed, Denied> {
        policy.check(&clean(command), &self.environment)
    }

    /// What is run in the end is there.
    fn is_there(&self, allowed: &Allowed, command: &str) -> bool {
        let found = Program::on_path(&clean(command), &self.environment).ok();
        allowed.program.clone().or(found).is_some_and(|program| program.path().exists())
    }
}

fn policy(word: &Value, list: &Value, stage: &Stage) -> PluginPolicy {
    let list = list.as_array().map(|list| {
        list.iter().map(|entry| stage.placed(entry.as_str().unwrap())).collect::<Vec<_>>()
    });
    PluginPolicy { policy_type: word.as_str().unwrap_or_default().into(), allowlist: list }
}

fn matrix(_file: &Value, row: &Value) -> Result<(), String> {
    let stage = Stage::new(&["test-plugin.sh"], "");
    let mut policy = policy(&row["policy"], &row["allowlist"], &stage);
    let command = stage.placed(text(row, "command"));
    let first = stage.check(&policy, &command);
    if let Some(list) = &mut policy.allowlist {
        list.reverse();
    }
    fact("the order of the list", &stage.check(&policy, &command), &first)?;
    let want = row["want_error_contains"].as_str().unwrap_or_default();
    match first {
        Err(denied) => {
            let denied = denied.to_string();
            fact("denied", &true, &row["want_error"].as_bool().unwrap())?;
            if denied.contains(want) { Ok(()) } else { Err(denied) }
        }
        // What is allowed and not there fails in the run.
        Ok(allowed) => {
            fact(
                "the plugin is there",
                &stage.is_there(&allowed, &command),
                &(row["want_error"] != true),
            )?;
            same(&(want.is_empty() || want == "not found"), &true)
        }
    }
}

/// A kuberc with these fields.
fn kuberc(fields: &Value) -> Result<Option<Kuberc>, KubercError> {
    let mut preference = fields.clone();
    preference["apiVersion"] = json!("kubectl.config.k8s.io/v1beta1");
    preference["kind"] = json!("Preference");
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".kube")).unwrap();
    fs::write(home.path().join(".kube/kuberc"), preference.to_string()).unwrap();
    let environment: MapEnvironment = [("HOME", home.path())].into_iter().collect();
    Kuberc::load(None, &environment)
}

fn apply(file: &Value, row: &Value) -> Result<(), String> {
    plumbing(&file["plumbing"])?;
    let read = kuberc(&row["kuberc"]);
    fact("an error", &read.is_err(), &(row["want_error"] == true))
}

/// The whole list arrives.
fn plumbing(row: &Value) -> Result<(), String> {
    let read = kuberc(&row["kuberc"]).map_err(|error| error.to_string())?;
    let policy = read.ok_or("no policy")?.policy().clone();
    let entries = policy.allowlist.unwrap_or_default().join(", ");
    let told = format!("{} [{entries}]", policy.policy_type.as_str());
    fact("plumbing", &text(row, "want").ends_with(&told), &true)
}

fn kuberc_set(_file: &Value, row: &Value) -> Result<(), String> {
    let entries = row["entries"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap());
    let read = PluginPolicy::from_flags(text(row, "policy"), entries);
    fact("taken", &read.is_ok(), &(row["ok"] == true))?;
    match (row["want"].as_array(), read) {
        (Some(want), Ok(policy)) => same(&json!(policy.allowlist), &json!(want)),
        _ => Ok(()),
    }
}

/// Rows of upstream's own script, as far as they are about a policy or about what a plugin prints.
fn shell_tests(_file: &Value, row: &Value) -> Result<(), String> {
    let stage = Stage::new(&["bin/echo"], "bin");
    let list = |entries: &[&str]| json!(entries);
    let denied = |word: &str, entries: &Value| {
        let checked = stage.check(&policy(&json!(word), entries, &stage), "echo");
        let told = checked.map_or_else(|denied| denied.to_string(), |_| "ok".to_owned());
        match (row["want_output_contains"].as_str(), row["want"].as_str()) {
            (Some(want), _) if told.contains(want) => Ok(()),
            (None, Some(want)) => same(told.as_str(), want),
            _ => Err(told),
        }
    };
    match text(row, "name") {
        "DenyAll" => denied("DenyAll", &Value::Null),
        "Allowlist [abc123, foobar] vs command echo" => {
            denied("Allowlist", &list(&["abc123", "foobar"]))
        }
        "Allowlist [foobar, echo] vs echo" => denied("Allowlist", &list(&["foobar", "echo"])),
        "no policy in kuberc" => denied("", &Value::Null),
        "AllowAll with allowlist" => denied("AllowAll", &list(&["echo"])),
        "invalid plugin output" => {
            let decoded = ExecCredentialStatus::decode(b"Cargo.toml\nsrc\n", ExecVersion::V1);
            fact("refused", &decoded.is_err(), &true)
        }
        "valid plugin without kind" => {
            let stdout = text(row, "plugin").trim_start_matches("echo ");
            let stdout =
                stdout.replace("VERSION", &json!(ExecVersion::V1.api_version()).to_string());
            let decoded = ExecCredentialStatus::decode(stdout.as_bytes(), ExecVersion::V1);
            let token = decoded.map_err(|error| error.to_string())?.token;
            same(&token, &Some("admin-token".into()))
        }
        // About kubectl's own flags and commands, and its stdin: nothing of them is here.
        "--username/--password beat plugin" | "DenyAll and 'config view'" => Ok(()),
        name if name.contains("under a PTY") => Ok(()),
        unknown => Err(format!("nobody knows how to judge {unknown:?}")),
    }
}

fn policy_calls(_file: &Value, row: &Value) -> Result<(), String> {
    let stage = Stage::new(&["testdata/test-plugin.sh"], "testdata");
    let policy = policy(&row["policy"], &row["allowlist"], &stage);
    let command = row["command"].as_str().unwrap_or("./testdata/test-plugin.sh");
    let told = if stage.check(&policy, command).is_ok() { "allowed" } else { "denied" };
    same(told, text(row, "want"))
}

/// Rows with a policy. The others need a run.
fn errors_and_hint(_file: &Value, row: &Value) -> Result<(), String> {
    let stage = Stage::new(&["bin/plugin", "bin2/plugin"], "bin");
    let case = text(row, "case");
    if case == "policy bogus" {
        let denied = stage.check(&policy(&json!("Bogus"), &Value::Null, &stage), "plugin");
        let told = denied.err().map(|denied| denied.to_string());
        return same(&told.as_deref(), &row["want_construct_error"].as_str());
    }
    let Some((entries, command)) =
        case.strip_prefix("Allowlist [").and_then(|it| it.split_once(']'))
    else {
        return Ok(());
    };
    let entry = match entries.split(' ').collect::<Vec<_>>()[..] {
        ["abs", "other"] => stage.at("bin2/plugin"),
        ["abs"] => stage.at("bin/plugin"),
        [name] => name.to_owned(),
        _ => return Err(format!("which entries are {entries:?}?")),
    };
    let command = match command.trim_start_matches([',', ' ']) {
        "bare name not in PATH" => "no-such-plugin-kf".to_owned(),
        "not executable" => stage.at("noexec"),
        "missing absolute path" => stage.at("missing"),
        "directory" => stage.at("bin"),
        "command bare" | "bare" => "plugin".to_owned(),
        absolute if absolute.contains("absolute") => stage.at("bin/plugin"),
        unknown => return Err(format!("which command is {unknown:?}?")),
    };
    let checked = stage.check(&policy(&json!("Allowlist"), &json!([entry]), &stage), &command);
    let counted = if checked.is_ok() { "allowed" } else { "denied" };
    fact("counted", &Some(counted), &row["policy_metric"].as_str())?;
    match (checked, row["want_error"].as_str()) {
        (Err(denied), Some(want)) => same(denied.to_string().as_str(), stage.placed(want).as_str()),
        (Ok(allowed), None) => {
            let run = allowed.program.ok_or("nothing is pinned")?;
            same(run.path(), Path::new(&stage.at(&format!("{}/plugin", text(row, "want_token")))))
        }
        (checked, want) => Err(format!("{checked:?}, upstream {want:?}")),
    }
}
