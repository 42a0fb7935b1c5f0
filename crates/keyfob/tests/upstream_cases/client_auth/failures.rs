//! Rows about plugins that cannot be run, or fail.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use keyfob_client::{ExecConfig, PluginPolicy, PolicyType};
use serde_json::{Value, json};

use super::{
    commands::Places,
    theatre::{Theatre, config, series},
};
use crate::{Check, fact, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/derived_edge_cases.json", "errors_and_hint", derived),
    ("client/go_verified_extra.json", "errors_and_hint", failures),
];

const HELP: &str = "\n\nIt looks like you are trying to use a client-go credential plugin that is not installed.\n\nTo learn more about this feature, consult the documentation available at:\n      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins";

/// What follows the sentence about a program that is not found.
pub(super) fn help(hint: &str) -> String {
    if hint.is_empty() { HELP.to_owned() } else { format!("{HELP}\n\n{hint}") }
}

/// Asks once, and compares what comes of it and what is counted with a row.
pub(super) fn judged(theatre: &Theatre, config: &ExecConfig, row: &Value) -> Result<(), String> {
    let authenticators = theatre.authenticators();
    let authenticator = match (authenticators.get(config, None), &row["want_construct_error"]) {
        (Err(error), Value::String(wanted)) => {
            return same(error.to_string().as_str(), wanted.as_str());
        }
        (Err(error), _) => return Err(error.to_string()),
        (Ok(_), Value::String(_)) => return Err("constructed".to_owned()),
        (Ok(authenticator), _) => authenticator,
    };
    match (block_on(authenticator.credential()), row["want_error"].as_str()) {
        (Err(error), Some(wanted)) => {
            same(error.to_string().as_str(), theatre.here(wanted).as_str())?;
        }
        (Err(error), None) => return Err(error.to_string()),
        (Ok(_), Some(_)) => return Err("accepted".to_owned()),
        (Ok(found), None) => {
            let token = found.token().map(|token| token.expose().as_str());
            fact("token", &token, &row["want_token"].as_str())?;
        }
    }
    if let Some(wanted) = row.get("calls_metric") {
        let series = series(&authenticators, "rest_client_exec_plugin_call_total");
        let wanted = wanted.as_array().map(|pair| {
            let [code, status] = [0, 1].map(|at| pair[at].as_str().unwrap());
            format!("code=\"{code}\",call_status=\"{status}\"}} 1")
        });
        fact("calls", &series, &Vec::from_iter(wanted))?;
    }
    if let Some(wanted) = row.get("policy_metric") {
        let series = series(&authenticators, "rest_client_exec_plugin_policy_call_total");
        let wanted = wanted.as_str().map(|status| format!("status=\"{status}\"}} 1"));
        fact("policy", &series, &Vec::from_iter(wanted))?;
    }
    Ok(())
}

fn failures(_file: &Value, row: &Value) -> Result<(), String> {
    let places = Places::new().with_path("bin:/usr/bin:/bin");
    let theatre = &places.theatre;
    let case = text(row, "case");
    let (command, mut config) = command_of(theatre, case)?;
    config.command = command.replace("<DIR>", theatre.folder.path().to_str().unwrap());
    config.install_hint = if case.ends_with("no hint") { String::new() } else { "HINT".into() };
    config.policy = policy_of(theatre, case);
    judged(theatre, &config, row)
}

const GOOD: &str =
    r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"bin"}}'"#;

/// The command of a case, with whatever lies there.
fn command_of(theatre: &Theatre, case: &str) -> Result<(String, ExecConfig), String> {
    let file = not_started(theatre, case).or_else(|| ended(theatre, case));
    let config = config(Path::new("plugin"));
    match file {
        Some(command) => Ok((command, config)),
        None => odd(case, config).ok_or_else(|| "no such script".to_owned()),
    }
}

/// Files that are not there, or no programs.
fn not_started(theatre: &Theatre, case: &str) -> Option<String> {
    let put = |name: &str, content: &str, mode: u32| {
        let path = theatre.file(name, content);
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let command = match case {
        _ if case.contains("bare name not in PATH") => "no-such-plugin-kf",
        "bare name in PATH but not executable" => {
            put("bin/noexecinpath", GOOD, 0o644);
            "noexecinpath"
        }
        "missing absolute path" => "<DIR>/missing",
        "missing relative path with separator" => "sub/missing",
        _ if case.ends_with("not executable") => {
            put("noexec", GOOD, 0o644);
            "<DIR>/noexec"
        }
        "path through a file" => {
            put("noexec", GOOD, 0o644);
            "<DIR>/noexec/x"
        }
        "bad interpreter" => {
            put("badinterp", "#!/no/such/interpreter\n", 0o755);
            "<DIR>/badinterp"
        }
        "empty file" => {
            put("emptyfile", "", 0o755);
            "<DIR>/emptyfile"
        }
        _ if case.contains("exec format") => {
            put("badformat", "\u{1}\u{2}\u{3}no program", 0o755);
            "<DIR>/badformat"
        }
        "directory" => {
            fs::create_dir(theatre.folder.path().join("adir")).unwrap();
            "<DIR>/adir"
        }
        _ => return None,
    };
    Some(command.to_owned())
}

/// Programs that do not end well, or have nothing to say.
fn ended(theatre: &Theatre, case: &str) -> Option<String> {
    let (name, body) = if let Some(signal) = case.strip_prefix("killed by SIG") {
        (format!("sig{}", signal.to_lowercase()), format!("kill -{signal} $$"))
    } else if case.starts_with("exit ") {
        let code = case.split(' ').nth(1).unwrap();
        (format!("exit{code}"), format!("{GOOD}\nexit {code}"))
    } else if case == "decode failure metric" {
        ("prints-nothing".to_owned(), "exit 0".to_owned())
    } else {
        return None;
    };
    theatre.script(&name, &body);
    Some(format!("<DIR>/{name}"))
}

/// A good program with something odd about it.
fn odd(case: &str, mut config: ExecConfig) -> Option<(String, ExecConfig)> {
    let variable = |name: &str, value: &str| vec![(name.to_owned(), value.into())];
    let command = match case {
        "NUL in env value" => {
            config.env = variable("A", "b\0c");
            "<DIR>/bin/plugin"
        }
        "NUL in env name" => {
            config.env = variable("A\0B", "c");
            "<DIR>/bin/plugin"
        }
        "NUL in arg" => {
            config.args = vec!["a\0b".into()];
            "<DIR>/bin/plugin"
        }
        "NUL in command" => "<DIR>/bin/plu\0gin",
        "env name with =" => {
            config.env = variable("A=B", "c");
            "plugin"
        }
        "empty env name" => {
            config.env = variable("", "c");
            "plugin"
        }
        "interactive empty" => {
            config.interactive_mode = "".into();
            "plugin"
        }
        _ if case.contains("command absolute") => "<DIR>/bin/plugin",
        _ if case.starts_with("Allowlist") || case.starts_with("policy") => "plugin",
        _ => {
            config.api_version = match case.strip_prefix("apiVersion ")? {
                "empty" => String::new(),
                "v1alpha1" => "client.authentication.k8s.io/v1alpha1".into(),
                other => other.trim_end_matches(" bare").into(),
            };
            "plugin"
        }
    };
    Some((command.to_owned(), config))
}

/// `Allowlist [one two], …` or `policy NAME`.
fn policy_of(theatre: &Theatre, case: &str) -> PluginPolicy {
    let folder = theatre.folder.path().to_str().unwrap();
    if let Some(rest) = case.strip_prefix("policy ") {
        let policy_type = match rest.split(' ').next().unwrap() {
            "bogus" => PolicyType::Unknown("Bogus".into()),
            "DenyAll" => PolicyType::DenyAll,
            "AllowAll" => PolicyType::AllowAll,
            _ => PolicyType::Allowlist,
        };
        return PluginPolicy { policy_type, allowlist: None };
    }
    let Some((entries, _)) = case.strip_prefix("Allowlist [").and_then(|rest| rest.split_once(']'))
    else {
        return PluginPolicy::default();
    };
    let entry = match entries {
        "abs" => format!("{folder}/bin/plugin"),
        "abs other" => format!("{folder}/bin2/plugin"),
        name => name.to_owned(),
    };
    PluginPolicy { policy_type: PolicyType::Allowlist, allowlist: Some(vec![entry]) }
}

fn derived(_file: &Value, row: &Value) -> Result<(), String> {
    let places = Places::new().with_path("bin:/usr/bin:/bin");
    let theatre = &places.theatre;
    let (cases, sentences): (Vec<&str>, Vec<String>) = match text(row, "case") {
        "bare name not in PATH" => {
            let sentence =
                row["message_exact"].as_str().unwrap().replace("NAME", "no-such-plugin-kf");
            (vec!["bare name not in PATH"], vec![sentence.replace("<installHint>", "HINT")])
        }
        "path with separator missing" => {
            let sentence = text(row, "message").replace("PATH", "<DIR>/missing");
            (vec!["missing absolute path"], vec![sentence])
        }
        "killed by signal" => {
            let sentence =
                |name: &str| text(row, "message").replace("PATH", &format!("<DIR>/{name}"));
            (
                vec!["killed by SIGKILL", "killed by SIGTERM"],
                vec![sentence("sigkill"), sentence("sigterm")],
            )
        }
        _ => {
            let reason = |key: &str| row["messages"][key].as_str().unwrap().to_owned();
            let failed =
                |name: &str, key: &str| format!("exec: fork/exec <DIR>/{name}: {}", reason(key));
            (
                vec![
                    "not executable",
                    "directory",
                    "bad interpreter",
                    "empty file",
                    "path through a file",
                ],
                vec![
                    failed("noexec", "not executable"),
                    failed("adir", "directory"),
                    failed("badinterp", "bad interpreter"),
                    failed("emptyfile", "exec format / empty file"),
                    failed("noexec/x", "path through a file"),
                ],
            )
        }
    };
    for (case, sentence) in cases.into_iter().zip(sentences) {
        let (command, mut config) = command_of(theatre, case)?;
        config.command = theatre.here(&command);
        config.install_hint = "HINT".into();
        let wanted = json!({ "want_error": sentence, "calls_metric": row["metric"] });
        judged(theatre, &config, &wanted)?;
    }
    Ok(())
}
