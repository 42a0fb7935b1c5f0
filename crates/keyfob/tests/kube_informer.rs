//! Upstream's `TestExecPluginViaInformer` and `TestExecPluginRotationViaInformer`, with a watch: whoever watches sees what happens for
//! as long as the plugin's token is good, and again when it is good again.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::ServiceAccount;
use keyfob_api::Secret;
use keyfob_client::{Clients, Kubeconfig, Overrides};
use keyfob_playground::embedded::{ApiServer, Options, Running};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

const V1: &str = "client.authentication.k8s.io/v1";

#[tokio::test]
async fn a_watch_lives_as_long_as_the_token_and_comes_back_with_the_next() {
    let server = ApiServer::start(Options::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let admin = server.admin_kubeconfig().unwrap();
    let accounts = accounts(&admin, directory.path());
    let list = async || accounts.list(&ListParams::default()).await;

    says(directory.path(), "nobody's");
    assert_eq!(code(list().await), 401);

    let first = token(&server);
    says(directory.path(), first.expose());
    see_everything(&accounts, "before").await;

    server.revoke(&first);
    says(directory.path(), "nobody's");
    assert_eq!(code(list().await), 401);

    says(directory.path(), token(&server).expose());
    see_everything(&accounts, "after").await;
}

/// What a plugin says from now on.
fn says(directory: &Path, token: &str) {
    let answer = json!({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": token}});
    fs::write(directory.join("answer"), answer.to_string()).unwrap();
}

fn token(server: &Running) -> Secret<String> {
    let kubeconfig = Kubeconfig::parse(server.admin_kubeconfig().unwrap().expose().as_bytes());
    kubeconfig.unwrap().client_config(&Overrides::default()).unwrap().user.token.unwrap()
}

/// The administrator's kubeconfig, with a plugin in the place of the token.
fn accounts(admin: &Secret<String>, directory: &Path) -> Api<ServiceAccount> {
    let plugin = directory.join("plugin");
    fs::write(&plugin, format!("#!/bin/sh\nexec cat '{}/answer'\n", directory.display())).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let mut kubeconfig: serde_json::Value = serde_json::from_str(admin.expose()).unwrap();
    kubeconfig["users"][0]["user"] =
        json!({"exec": {"apiVersion": V1, "command": plugin, "interactiveMode": "Never"}});
    let kubeconfig = Kubeconfig::parse(kubeconfig.to_string().as_bytes()).unwrap();
    let config = kubeconfig.client_config(&Overrides::default()).unwrap();
    Api::namespaced(Clients::system().connect(&config).unwrap(), "default")
}

/// Somebody watches while an object comes, changes and goes.
async fn see_everything(accounts: &Api<ServiceAccount>, name: &str) {
    let since = accounts.list(&ListParams::default()).await.unwrap();
    let since = since.metadata.resource_version.unwrap();
    let mut events = Box::pin(accounts.watch(&WatchParams::default(), &since).await.unwrap());
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&PostParams::default(), &object).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    accounts.patch(name, &PatchParams::default(), &patch).await.unwrap();
    accounts.delete(name, &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = events.try_next().await.unwrap().unwrap();
        let (what, object) = match event {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        assert_eq!(object.name_any(), name);
        seen.push(what);
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);
}

fn code<T>(answer: Result<T, kube::Error>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
        Ok(_) => 200,
    }
}
