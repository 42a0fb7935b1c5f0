//! gke-gcloud-auth-plugin and auth-provider-gcp. Google's token endpoint and metadata server are small servers of our own.
//!
//! Neither program can be installed by name, so `.ci/run e2e` leaves these tests out. `.ci/run google-plugins` runs them, and
//! fails where a program is missing.

use std::sync::atomic::{AtomicUsize, Ordering};

use keyfob_testkit::{Internet, Response};
use serde_json::json;

use crate::{
    built,
    cluster::{Cluster, Plugin},
    findings::ANSWERS_UNASKED,
    provider::{OURS, Provider, request},
};

const ACCESS_TOKEN: &str = "ya29.hunter2-access-token-";

#[test]
#[ignore = "needs gke-gcloud-auth-plugin: .ci/run google-plugins"]
fn gke_gcloud_auth_plugin_logs_in_and_answers_in_one_version_only() {
    let program = built("KEYFOB_GKE_GCLOUD_AUTH_PLUGIN");
    let (google, folder) = (google(), tempfile::tempdir().unwrap());
    let credentials = folder.path().join("application_default_credentials.json");
    let person = json!({
        "type": "authorized_user", "client_id": "gcloud", "client_secret": "hunter2-client",
        "refresh_token": "hunter2-refresh-token",
    });
    std::fs::write(&credentials, person.to_string()).unwrap();
    let plugin = Plugin::new(&program, &["--use_application_default_credentials"])
        .env("GOOGLE_APPLICATION_CREDENTIALS", credentials.to_str().unwrap())
        .env("HTTPS_PROXY", google.url())
        .env("SSL_CERT_FILE", google.ca_file(folder.path()));

    let version = "fail api-version: exec plugin is configured to use API version client.authentication.k8s.io/v1, \
                   plugin returned version client.authentication.k8s.io/v1beta1";
    assert_eq!(plugin.findings(&[]), [version, ANSWERS_UNASKED]);

    let cluster = Cluster::start(|token| token.starts_with(ACCESS_TOKEN).then(|| "ada".to_owned()));
    cluster.assert_login(&plugin, "ada");
}

#[test]
#[ignore = "needs auth-provider-gcp: .ci/run google-plugins"]
fn auth_provider_gcp_and_our_plugin_give_the_same_logins() {
    let program = built("KEYFOB_AUTH_PROVIDER_GCP");
    let (metadata, image) = (metadata_server(), "us-docker.pkg.dev/team/app");
    // Upstream reaches the metadata server only by its name, so it needs a proxy.
    let address = metadata.address().to_string();
    let env = [("HTTP_PROXY", metadata.url()), ("GCE_METADATA_HOST", address)];
    // As Kubernetes configures it for its own end-to-end tests.
    let config = json!({
        "name": "auth-provider-gcp",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"],
        "defaultCacheDuration": "1m",
        "args": ["get-credentials", "--v=3"],
        "env": env.map(|(name, value)| json!({"name": name, "value": value})),
    });
    let providers = [program.as_str(), OURS].map(|it| Provider::install(it, &config));

    let [mut theirs, mut ours] = providers.each_ref().map(|it| it.ask(&request(image)).unwrap());
    assert_eq!(theirs["cacheDuration"].take(), "0s");
    let duration = ours["cacheDuration"].take();
    assert!(duration.as_str().unwrap().starts_with("54m5"), "{duration}");
    assert_eq!(theirs, ours);
    assert_eq!(ours["auth"]["us-docker.pkg.dev"]["password"], ACCESS_TOKEN);

    for Provider { node, .. } in &providers {
        let got = node.run("get", &[image, "-o", "json", "--show-secrets"]);
        assert_eq!(got.code, 0, "{}", got.stderr);
        let keys = ["us-docker.pkg.dev", "*.pkg.dev"];
        let found = got.json()["credentials"].as_array().unwrap().clone();
        assert_eq!(found.iter().map(|it| it["key"].as_str().unwrap()).collect::<Vec<_>>(), keys);
    }

    let version = |asked: &str| {
        format!(
            "fail older-versions: {asked} is answered in another version, which a kubelet refuses: \
             credentialprovider.kubelet.k8s.io/v1"
        )
    };
    let any_host =
        "warn unknown-image: it hands out credentials for whatever registry it is asked about";
    let wrong = [version("v1beta1"), version("v1alpha1"), any_host.to_owned()];
    let mut found = providers[0].findings(image);
    // `--v=3` logs each run.
    let noise = found.pop().unwrap();
    assert!(noise.starts_with("warn stderr-noise: "), "{noise}");
    assert_eq!(found, wrong);
}

/// Google's token endpoint. Each token that it issues is different.
fn google() -> Internet {
    let issued = AtomicUsize::new(0);
    Internet::start(move |request| match (request.host.as_str(), request.path()) {
        ("oauth2.googleapis.com", "/token") => {
            let token = format!("{ACCESS_TOKEN}{}", issued.fetch_add(1, Ordering::Relaxed));
            let token = json!({"access_token": token, "expires_in": 3600, "token_type": "Bearer"});
            Response::json(token.to_string())
        }
        _ => Response::status(404),
    })
}

/// The metadata server of a node whose service account may read images.
fn metadata_server() -> Internet {
    const ACCOUNT: &str = "/computeMetadata/v1/instance/service-accounts/default/";
    let token = json!({"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"});
    Internet::start(move |request| {
        let response = match request.path().strip_prefix(ACCOUNT) {
            Some("token") => Response::json(token.to_string()),
            Some("email") => Response::text("node@project.iam.gserviceaccount.com"),
            Some("scopes") => Response::text("https://www.googleapis.com/auth/cloud-platform\n"),
            _ => Response::status(404),
        };
        response.header("Metadata-Flavor", "Google")
    })
}
