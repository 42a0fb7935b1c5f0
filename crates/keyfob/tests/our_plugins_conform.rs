//! `keyfob conformance` on every plugin of ours, each with a world in which it has an answer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod node;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_testkit::{Internet, LeakCheck, Request, Response};
use node::keyfob;
use serde_json::{Value, json};
use tempfile::TempDir;

/// What every service of this world issues.
const ISSUED: &str = "hunter2-issued";

/// A plugin of ours, an image of its kind, its flags and the variables it needs, and what it is rightly warned of.
struct Case {
    name: &'static str,
    image: &'static str,
    arguments: Vec<String>,
    variables: Vec<String>,
    sent_a_token: bool,
    warnings: &'static [&'static str],
}

impl Case {
    fn new(name: &'static str, image: &'static str) -> Self {
        let (arguments, variables) = (Vec::new(), Vec::new());
        Self { name, image, arguments, variables, sent_a_token: false, warnings: &[] }
    }

    fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    fn env(mut self, variable: impl Into<String>) -> Self {
        self.variables.push(variable.into());
        self
    }

    fn sent_a_token(mut self) -> Self {
        self.sent_a_token = true;
        self
    }
}

/// Clouds and brokers, each as far as a login needs it.
fn world(request: &Request) -> Response {
    let issued = json!({"access_token": ISSUED, "expires_in": 3600, "token_type": "Bearer"});
    match (request.host.as_str(), request.path()) {
        ("api.ecr.eu-west-1.amazonaws.com", _) => {
            let token = base64::prelude::BASE64_STANDARD.encode(format!("AWS:{ISSUED}"));
            let data = json!([{"authorizationToken": token, "expiresAt": 4_102_444_800_u64}]);
            Response::json(json!({ "authorizationData": data }).to_string())
        }
        (_, "/metadata/identity/oauth2/token") => Response::json(
            json!({
                "access_token": ISSUED, "expires_in": "3600", "expires_on": "4102444800",
                "resource": "https://containerregistry.azure.net", "token_type": "Bearer",
            })
            .to_string(),
        ),
        (host, "/v2/") => Response::status(401).header(
            "Www-Authenticate",
            &format!(r#"Bearer realm="https://{host}/oauth2/token",service="{host}""#),
        ),
        (_, "/oauth2/exchange") => Response::json(json!({"refresh_token": ISSUED}).to_string()),
        (_, path) if path.contains("/service-accounts/") => Response::json(issued.to_string()),
        ("broker.example.com", "/token") => Response::json(issued.to_string()),
        _ => Response::status(404),
    }
}

/// One case for each plugin, with the files it reads.
fn cases(internet: &Internet, directory: &TempDir) -> Vec<Case> {
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let ca_file = format!("--ca-file={}", internet.ca_file(directory.path()));
    let proxy = format!("HTTPS_PROXY={}", internet.url());
    fs::write(path("azure.json"), r#"{"useManagedIdentityExtension":true}"#).unwrap();
    let logins = json!({"auths": {"registry.example": {"username": "robot", "password": ISSUED}}});
    fs::write(path("config.json"), logins.to_string()).unwrap();
    fs::write(path("helper"), helper()).unwrap();
    fs::set_permissions(path("helper"), fs::Permissions::from_mode(0o755)).unwrap();

    let ecr = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app";
    let registry = "registry.example/app";
    let mut echo = Case::new("echo", registry).sent_a_token().arg("--registry=registry.example");
    // That is what it is for.
    echo.warnings = &["service-account"];
    let mut ecr = Case::new("ecr", ecr)
        .arg(&ca_file)
        .env(&proxy)
        .env("AWS_ACCESS_KEY_ID=AKIA")
        .env("AWS_SECRET_ACCESS_KEY=hunter2-key")
        .env("AWS_EC2_METADATA_DISABLED=true");
    // The token of this world ends in 2100.
    ecr.warnings = &["cache-duration"];
    vec![
        ecr,
        Case::new("gcp", "gcr.io/app")
            .arg("get-credentials")
            .env(format!("GCE_METADATA_HOST={}", internet.address())),
        Case::new("acr", "foo.azurecr.io/app")
            .arg(path("azure.json"))
            .arg(&ca_file)
            .env(&proxy)
            .env(format!("AZURE_IMDS_ENDPOINT={}", internet.url())),
        Case::new("exchange", registry)
            .sent_a_token()
            .arg("--url=https://broker.example.com/token")
            .arg("--username=robot")
            .arg("--registry=registry.example")
            .arg(&ca_file)
            .env(&proxy),
        echo,
        Case::new("docker-config", registry).arg(format!("--path={}", path("config.json"))),
        Case::new("exec", registry).arg(format!("--helper=registry.example={}", path("helper"))),
    ]
}

fn helper() -> String {
    format!(
        "#!/bin/sh\ncat > /dev/null\n\
         echo '{{\"ServerURL\":\"registry.example\",\"Username\":\"robot\",\"Secret\":\"{ISSUED}\"}}'\n"
    )
}

/// A token that ends in an hour.
#[expect(clippy::disallowed_methods, reason = "the plugins read the same clock")]
fn token() -> String {
    let end = SystemTime::now() + Duration::from_hours(1);
    let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let claims = BASE64_URL_SAFE_NO_PAD.encode(json!({"exp": end}).to_string());
    format!("e30.{claims}.hunter2-signature")
}

#[test]
fn every_plugin_of_ours_conforms() {
    let internet = Internet::start(world);
    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("token");
    fs::write(&token_file, token()).unwrap();
    let cases = cases(&internet, &directory);
    let names: Vec<_> = cases.iter().map(|case| case.name).collect();
    let built: Vec<_> = keyfob_providers::ALL.iter().map(|provider| provider.name).collect();
    assert_eq!(names, built, "each plugin has a case");

    for case in cases {
        let program = keyfob_providers::named(case.name).unwrap().program;
        let link = directory.path().join(program);
        symlink(env!("CARGO_BIN_EXE_keyfob"), &link).unwrap();
        let mut command = vec!["conformance", link.to_str().unwrap(), "-o", "json"];
        command.extend(["--image", case.image]);
        command.extend(case.arguments.iter().flat_map(|argument| ["--arg", argument]));
        command.extend(case.variables.iter().flat_map(|variable| ["--env", variable]));
        if case.sent_a_token {
            command.extend(["--token-file", token_file.to_str().unwrap()]);
        }
        let said = keyfob(&command);

        LeakCheck::new([ISSUED, "hunter2-signature", "hunter2-key"])
            .text("stdout", &said.stdout)
            .text("stderr", &said.stderr);
        let report = said.json();
        assert_eq!((said.code, &report["conforms"]), (0, &Value::Bool(true)), "{}", said.stdout);
        let of_grade = |grade: &str| -> Vec<String> {
            let findings = report["findings"].as_array().unwrap().iter();
            let fitting = findings.filter(|finding| finding["grade"] == grade);
            fitting.map(|finding| finding["check"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(of_grade("warn"), case.warnings, "{}: {}", case.name, said.stdout);
        assert_eq!(of_grade("notChecked"), Vec::<String>::new(), "{}", said.stdout);
    }
}
