//! Azure's kubelogin with a service principal. Entra ID is a small server of our own.

use std::sync::atomic::{AtomicUsize, Ordering};

use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

use crate::{
    built,
    cluster::{Cluster, Plugin},
    findings::ANSWERS_UNASKED,
    is_on,
};

const LOGIN: &str = "login.microsoftonline.com";
const TENANT: &str = "11111111-2222-3333-4444-555555555555";
const SECRET: &str = "hunter2-client-secret";
const ACCESS_TOKEN: &str = "hunter2-access-token-";

#[test]
fn azures_kubelogin_logs_in() {
    if !is_on() {
        return;
    }
    let (entra, folder) = (entra(), tempfile::tempdir().unwrap());
    let args = ["get-token", "--login", "spn", "--tenant-id", TENANT, "--client-id", "ada"];
    let plugin = Plugin::new(&built("KEYFOB_AZURE_KUBELOGIN"), &args)
        .arg("--server-id=cluster")
        .env("AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", SECRET)
        // Disables kubelogin's own cache, so that each run logs in.
        .env("XDG_CACHE_HOME", "/dev/null")
        .env("HTTPS_PROXY", entra.url())
        .env("SSL_CERT_FILE", entra.ca_file(folder.path()));
    assert_eq!(plugin.findings(&[]), [ANSWERS_UNASKED]);

    let cluster = Cluster::start(|token| token.starts_with(ACCESS_TOKEN).then(|| "ada".to_owned()));
    cluster.assert_login(&plugin, "ada");
}

/// Entra ID with one tenant. Each token that it issues is different.
fn entra() -> Internet {
    let issued = AtomicUsize::new(0);
    Internet::start(move |request| {
        if request.host != LOGIN {
            return Response::status(404);
        }
        match request.path().strip_prefix(&format!("/{TENANT}")) {
            Some("/v2.0/.well-known/openid-configuration") => json_of(&json!({
                "issuer": format!("https://{LOGIN}/{TENANT}/v2.0"),
                "authorization_endpoint": format!("https://{LOGIN}/{TENANT}/oauth2/v2.0/authorize"),
                "token_endpoint": format!("https://{LOGIN}/{TENANT}/oauth2/v2.0/token"),
            })),
            Some("/oauth2/v2.0/token") if is_known(request) => {
                let token = format!("{ACCESS_TOKEN}{}", issued.fetch_add(1, Ordering::Relaxed));
                json_of(&json!({"access_token": token, "expires_in": 3600, "token_type": "Bearer"}))
            }
            _ => Response::status(404),
        }
    })
}

fn is_known(request: &Request) -> bool {
    let fields: Vec<_> = request.body.split('&').collect();
    let secret = format!("client_secret={SECRET}");
    ["grant_type=client_credentials", "client_id=ada", secret.as_str()]
        .iter()
        .all(|field| fields.contains(field))
}

fn json_of(value: &Value) -> Response {
    Response::json(value.to_string())
}
