//! A user of a kubeconfig logs in with a plugin.

use std::{error::Error, fs, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use keyfob_client::{
    Authenticator, Authenticators, ClientConfig, Clients, LoadingRules, Overrides, PolicyType,
};
use keyfob_exec::{SystemClock, SystemEnvironment};
use kube::{Api, Client, api::ListParams};
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    cluster::PODS,
    stage::{ADMIN, DEVELOPER, Stage},
    story::{Story, Told, checked, milliseconds, since},
};
use crate::kube::failure::said;

/// So many programs might ask at once.
const REQUESTS: usize = 50;

pub(super) async fn play(stage: &Stage, story: &mut Story) {
    story.act(
        "A kubeconfig's user logs in with a plugin",
        "Programs ask the cluster as a user whose token comes from a plugin; then the server takes the token back.",
    );
    match User::new(stage) {
        Err(error) => story.step("a client is made of the kubeconfig", Err(error.to_string())),
        Ok(user) => {
            story.step("a client is made, and nothing is run for it", user.has_run(0));
            story.step("fifty requests at once are answered after one run", user.ask_often().await);
            story.step(
                "a token that is taken back is replaced, and nobody notices",
                user.revoked(stage).await,
            );
            story.step("a policy that allows no plugin is kept", user.denied().await);
        }
    }
}

struct User {
    config: ClientConfig,
    clients: Clients,
    client: Client,
    authenticator: Authenticator,
}

impl User {
    fn new(stage: &Stage) -> Result<Self, Box<dyn Error>> {
        let kubeconfig = LoadingRules::from_file(stage.file(DEVELOPER)).load()?;
        let config = kubeconfig.client_config(&Overrides::default())?;
        let authenticators = Authenticators::system();
        let clients = Clients::new(authenticators.clone(), Arc::new(SystemEnvironment));
        let client = clients.connect(&config)?;
        let exec = config.plugin()?.ok_or("the user has no plugin")?;
        let authenticator = authenticators.get(exec, config.exec_cluster()?.as_ref())?;
        Ok(Self { config, clients, client, authenticator })
    }

    /// Every run so far brought a credential.
    fn has_run(&self, times: u64) -> Told {
        let current = self.authenticator.status().credential;
        let generation = current.map_or(0, |credential| credential.generation());
        checked(
            generation == times,
            format!("runs of {}: {generation}", self.authenticator.command()),
        )
    }

    async fn ask_often(&self) -> Told {
        let began = keyfob_exec::Clock::now(&SystemClock);
        let mut requests = JoinSet::new();
        for _ in 0..REQUESTS {
            requests.spawn(pods(self.client.clone()));
        }
        for found in requests.join_all().await {
            checked(found? == PODS.len(), "not all pods were found".to_owned())?;
        }
        let ran = self.has_run(1)?;
        Ok(format!(
            "{} pods, {REQUESTS} times, in {}\n{ran}",
            PODS.len(),
            milliseconds(since(began))
        ))
    }

    /// The plugin finds a new one in the administrator's kubeconfig.
    async fn revoked(&self, stage: &Stage) -> Told {
        let credential = self.authenticator.credential().await;
        let credential = credential.map_err(|error| error.to_string())?;
        let admin = stage.cluster.admin_kubeconfig().ok_or("the system gives no random numbers")?;
        fs::write(stage.file(ADMIN), admin.expose()).map_err(|error| error.to_string())?;
        let is_revoked = credential.token().is_some_and(|token| stage.cluster.revoke(token));
        checked(is_revoked, "the server does not know the token".to_owned())?;
        let found = pods(self.client.clone()).await?;
        let ran = self.has_run(2)?;
        checked(found == PODS.len(), format!("the request got 401 and was sent again\n{ran}"))
    }

    async fn denied(&self) -> Told {
        let mut config = self.config.clone();
        if let Some(exec) = &mut config.exec {
            exec.policy.policy_type = PolicyType::DenyAll;
        }
        let client = self.clients.connect(&config).map_err(|error| error.to_string())?;
        match pods(client).await {
            Ok(_) => Err("the plugin was run".to_owned()),
            Err(error) => checked(error.contains("DenyAll"), error),
        }
    }
}

async fn pods(client: Client) -> Result<usize, String> {
    let listed = Api::<Pod>::all(client).list(&ListParams::default()).await;
    listed.map(|pods| pods.items.len()).map_err(|error| said(&error))
}

/// A kubeconfig whose user's plugin is this program, which finds a token in another kubeconfig.
pub(super) fn kubeconfig(stage: &Stage) -> String {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./keyfob",
        "args": ["kube", "token", "--output", "exec", "--kubeconfig", stage.file(ADMIN)],
        // Whatever policy there is on this machine is for others.
        "env": [{"name": "KUBERC", "value": "off"}],
        "interactiveMode": "Never",
    });
    let cluster = json!({
        "server": format!("https://{}", stage.cluster.address()),
        "certificate-authority-data": super::stage::base64(stage.cluster.authority()),
    });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": cluster}],
        "users": [{"name": "developer", "user": {"exec": exec}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "developer"}}],
    });
    format!("{config:#}\n")
}
