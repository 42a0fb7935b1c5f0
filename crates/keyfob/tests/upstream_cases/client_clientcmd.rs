//! Rows of clientcmd's and rest's own tests: validation, defaults, overrides, cluster information, edits.

use std::fs;

use keyfob_api::{ExecCluster, RawJson};
use keyfob_client::{
    AuthProvider, ClientConfig, Cluster, Context, ExecConfig, ExecEdit, InteractiveMode,
    Kubeconfig, LoadingRules, Overrides, PolicyType, User, printable_hint,
};
use serde_json::{Value, json};

use crate::{Check, fact, same, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/clientcmd.json", "validation", validation),
    ("client/clientcmd.json", "interactive_mode_defaulting", defaulting),
    ("client/clientcmd.json", "relative_paths_TestResolveRelativePaths", relative_path),
    ("client/clientcmd.json", "ansi_TestCleanANSIEscapeCodes", hint),
    ("client/clientcmd.json", "proxy_url_TestProxyURL", proxy),
    ("client/clientcmd.json", "overrides", overridden),
    ("client/config_to_exec_cluster.json", "cases", exec_cluster),
    (
        "client/kubeconfig_editing_and_transport.json",
        "set_credentials_TestModifyExistingAuthInfo",
        edited,
    ),
];

/// A kubeconfig of one user, under upstream's name for it, and one cluster.
fn of(user: User, cluster: Cluster) -> Kubeconfig {
    let context = Context { cluster: "clean".into(), user: "user".into(), ..Context::default() };
    let mut kubeconfig = Kubeconfig::default();
    kubeconfig.current_context = "clean".into();
    kubeconfig.contexts = [("clean".into(), context)].into();
    kubeconfig.clusters = [("clean".into(), cluster)].into();
    kubeconfig.users = [("user".into(), user)].into();
    kubeconfig
}

fn server() -> Cluster {
    Cluster { server: "https://localhost:8080".into(), ..Cluster::default() }
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().cloned().unwrap_or_default();
    list.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn exec_of(row: &Value) -> ExecConfig {
    let named = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let variables = row["env"].as_array().cloned().unwrap_or_default();
    let variable = |entry: &Value| (text(entry, "name").to_owned(), text(entry, "value").into());
    ExecConfig {
        command: named("command"),
        args: strings(&row["args"]),
        env: variables.iter().map(variable).collect(),
        api_version: named("apiVersion"),
        interactive_mode: InteractiveMode::from(named("interactiveMode").as_str()),
        ..ExecConfig::default()
    }
}

fn validation(_file: &Value, row: &Value) -> Result<(), String> {
    if let Some(prefix) = row["want_error_prefix"].as_str() {
        return policy(prefix);
    }
    let wanted = row["want_errors"].as_array().unwrap();
    let named = |field: &str| row[field].as_str().unwrap_or_default();
    let user = User {
        token: named("token").into(),
        username: named("username").to_owned(),
        auth_provider: row["authProvider"]
            .as_str()
            .map(|name| AuthProvider { name: name.to_owned(), ..<_>::default() }),
        exec: row.get("exec").map(exec_of),
        ..User::default()
    };
    let kubeconfig = of(user, server());
    let error = |said: Result<(), String>| said.err().unwrap_or_default();
    let all = error(kubeconfig.validate().map_err(|error| error.to_string()));
    let one = kubeconfig.client_config(&Overrides::default());
    let one = error(one.map(drop).map_err(|error| error.to_string()));
    fact("the whole and its one context", &all, &one)?;
    fact("is refused", &!one.is_empty(), &!wanted.is_empty())?;
    match wanted.as_slice() {
        [only] => same(&one, &format!("invalid configuration: {}", only.as_str().unwrap())),
        parts => {
            fact("parts", &parts.iter().all(|part| one.contains(part.as_str().unwrap())), &true)
        }
    }
}

/// A policy comes from a program, never from a kubeconfig.
fn policy(prefix: &str) -> Result<(), String> {
    let mut exec =
        exec_of(&json!({ "command": "c", "apiVersion": "v", "interactiveMode": "Never" }));
    exec.policy.policy_type = PolicyType::Allowlist;
    let mut overrides = Overrides::default();
    overrides.user.exec = Some(exec);
    let error = of(User::default(), server()).client_config(&overrides).err().ok_or("accepted")?;
    let wanted = format!("invalid configuration: {prefix}");
    fact("prefix", &error.to_string().starts_with(&wanted), &true)
}

fn defaulting(_file: &Value, row: &Value) -> Result<(), String> {
    let exec = json!({ "apiVersion": row["apiVersion"], "interactiveMode": row["in"] });
    let document = json!({ "users": [{ "name": "u", "user": { "exec": exec } }] }).to_string();
    let read = Kubeconfig::parse(document.as_bytes()).map_err(|error| error.to_string())?;
    same(read.users["u"].exec.as_ref().unwrap().interactive_mode.as_str(), text(row, "want"))
}

fn relative_path(_file: &Value, row: &Value) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/b");
    fs::create_dir_all(&root).unwrap();
    let document = json!({ "users": [{ "user": { "exec": { "command": row["command"] } } }] });
    fs::write(root.join(".kubeconfig"), document.to_string()).unwrap();
    let loaded = LoadingRules::from_file(root.join(".kubeconfig")).load();
    let loaded = loaded.map_err(|error| error.to_string())?;
    let wanted = match text(row, "want").strip_prefix("clean(DIR/../") {
        Some(rest) => {
            root.parent().unwrap().join(rest.trim_end_matches(')')).to_str().unwrap().to_owned()
        }
        None => text(row, "want").to_owned(),
    };
    same(&loaded.users[""].exec.as_ref().unwrap().command, &wanted)
}

fn hint(file: &Value, row: &Value) -> Result<(), String> {
    let whole = &file["install_hint_TestCreateAuthConfigExecInstallHintCleanup"];
    same(printable_hint(text(whole, "in")).as_str(), text(whole, "want"))?;
    let wanted = row["out"].as_str().unwrap_or(text(row, "in"));
    same(printable_hint(text(row, "in")).as_str(), wanted)
}

fn proxy(_file: &Value, row: &Value) -> Result<(), String> {
    let url = text(row, "proxy-url");
    let cluster = Cluster { proxy_url: url.into(), ..server() };
    let config = of(User::default(), cluster).client_config(&Overrides::default());
    fact("is accepted", &Some(config.is_ok()), &row["ok"].as_bool())?;
    let proxy = config.ok().and_then(|config| config.proxy_url);
    same(&proxy.map(|proxy| proxy.expose().clone()), &(row["ok"] == true).then(|| url.to_owned()))
}

fn overridden(_file: &Value, row: &Value) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for name in ["ca", "cert", "key"] {
        fs::write(at(name), "x").unwrap();
    }
    let cluster = Cluster { certificate_authority_data: b"data".to_vec(), ..server() };
    let user = User {
        client_certificate_data: b"cert".to_vec(),
        client_key_data: b"key".to_vec().into(),
        ..User::default()
    };
    let mut overrides = Overrides::default();
    let name = text(row, "name");
    match name {
        "TestInsecureOverridesCA" => overrides.cluster.insecure_skip_tls_verify = true,
        "TestCAOverridesCAData" => overrides.cluster.certificate_authority = at("ca"),
        "TestClientCertOverrideData" => {
            overrides.user.client_certificate = at("cert");
            overrides.user.client_key = at("key");
        }
        other => return Err(format!("no check for {other}")),
    }
    let config = of(user, cluster).client_config(&overrides).map_err(|error| error.to_string())?;
    let (tls, user) = (&config.tls, &config.user);
    let file = |file: &Option<std::path::PathBuf>| {
        file.as_ref().map(|file| file.to_str().unwrap().to_owned())
    };
    match name {
        "TestInsecureOverridesCA" => {
            same(&(tls.insecure, tls.ca_data.is_empty(), file(&tls.ca_file)), &(true, true, None))
        }
        "TestCAOverridesCAData" => same(
            &(tls.insecure, tls.ca_data.is_empty(), file(&tls.ca_file)),
            &(false, true, Some(at("ca"))),
        ),
        _ => {
            let has_data = !user.cert_data.is_empty() || !user.key_data.expose().is_empty();
            same(
                &(has_data, file(&user.cert_file), file(&user.key_file)),
                &(false, Some(at("cert")), Some(at("key"))),
            )
        }
    }
}

fn exec_cluster(_file: &Value, row: &Value) -> Result<(), String> {
    let Some(given) = row.get("in") else {
        return round_trip(text(row, "name"));
    };
    let directory = tempfile::tempdir().unwrap();
    let named = |field: &str| given[field].as_str().unwrap_or_default();
    let mut config = ClientConfig::default();
    named("host").clone_into(&mut config.server);
    named("serverName").clone_into(&mut config.tls.server_name);
    config.tls.insecure = given["insecure"] == true;
    config.tls.ca_data = named("caData").into();
    config.tls.ca_file = given["caFile"].as_str().map(|file| {
        let path = directory.path().join("ca.pem");
        if file != "this-file-does-not-exist" {
            fs::write(&path, file.trim_start_matches("file containing: ")).unwrap();
        }
        path
    });
    config.proxy_url = given["proxy_func_returns"].as_str().map(Into::into);
    config.exec = Some(ExecConfig {
        provide_cluster_info: true,
        config: given.get("exec.config").map(|config| RawJson::parse(&config.to_string()).unwrap()),
        ..ExecConfig::default()
    });
    let cluster = config.exec_cluster().map_err(|error| error.to_string());
    if let Some(prefix) = row["want_error_prefix"].as_str() {
        return fact("prefix", &cluster.err().unwrap_or_default().starts_with(prefix), &true);
    }
    let cluster = cluster?.ok_or("no cluster")?;
    let wanted = &row["want"];
    let ours = json!({
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "proxy-url": cluster.proxy_url.expose(),
        "config": cluster.config.map(|config| serde_json::from_str::<Value>(config.as_str()).unwrap()),
        "certificate-authority-data_utf8": String::from_utf8_lossy(&cluster.certificate_authority_data),
    });
    wanted
        .as_object()
        .unwrap()
        .iter()
        .try_for_each(|(field, value)| fact(field, &ours[field], value))
}

fn round_trip(name: &str) -> Result<(), String> {
    if name == "TestExecClusterToConfigRoundtrip" {
        return Ok(()); // what a plugin makes of it is the SDK's business
    }
    let mut config = ClientConfig::default();
    config.server = "https://a.test".into();
    config.tls.ca_data = b"ca".to_vec();
    config.tls.server_name = "b.test".into();
    config.tls.insecure = true;
    config.proxy_url = Some("http://c.test".into());
    config.disable_compression = true;
    config.user.token = Some("not passed on".into());
    config.exec = Some(ExecConfig { provide_cluster_info: true, ..ExecConfig::default() });
    let wanted = ExecCluster {
        server: "https://a.test".into(),
        tls_server_name: "b.test".into(),
        insecure_skip_tls_verify: true,
        certificate_authority_data: b"ca".to_vec(),
        proxy_url: "http://c.test".into(),
        disable_compression: true,
        config: None,
    };
    same(&config.exec_cluster().map_err(|error| error.to_string())?, &Some(wanted))
}

fn edited(_file: &Value, row: &Value) -> Result<(), String> {
    let mut edit = ExecEdit::default();
    for flag in strings(&row["flags"]) {
        let (name, value) = flag.split_once('=').unwrap();
        let value = value.to_owned();
        match (name, value.split_once('=')) {
            ("--exec-command", _) => edit.command = Some(value),
            ("--exec-api-version", _) => edit.api_version = Some(value),
            ("--exec-arg", _) => edit.args.get_or_insert_default().push(value),
            ("--exec-env", Some((name, value))) => edit.set_env.push((name.into(), value.into())),
            ("--exec-env", None) => edit.unset_env.push(value.trim_end_matches('-').into()),
            (other, _) => return Err(format!("no check for {other}")),
        }
    }
    let pairs = |env: &Value| {
        let env = env.as_object().cloned().unwrap_or_default();
        env.into_iter().map(|(name, value)| (name, value.as_str().unwrap().into())).collect()
    };
    let before = row["before"].as_object().map(|before| ExecConfig {
        args: before.get("args").map(strings).unwrap_or_default(),
        env: pairs(before.get("env").unwrap_or(&Value::Null)),
        ..ExecConfig::default()
    });
    let after = edit.apply(before).ok_or("no plugin")?;
    for (field, wanted) in row["after"].as_object().unwrap() {
        match field.as_str() {
            "command" => fact(field, &Some(after.command.as_str()), &wanted.as_str())?,
            "apiVersion" => fact(field, &Some(after.api_version.as_str()), &wanted.as_str())?,
            "args" => fact(field, &after.args, &strings(wanted))?,
            _ => fact(field, &after.env, &pairs(wanted))?,
        }
    }
    Ok(())
}
