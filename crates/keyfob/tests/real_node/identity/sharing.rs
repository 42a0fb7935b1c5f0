//! How long a login that a broker gave for a token is used, and by whom.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_testkit::{Request, Response};
use serde_json::{Value, json};

use super::{
    access_by_token_review, allow_audience, get, install, node_with_providers, provider_errors,
    subject, write_config,
};
use crate::{
    api::Api,
    containerd::Runtime,
    node::{Node, NodeOptions},
    registry::{Access, Login, Registry},
    wait::wait_for,
    world::World,
};

const BROKER: &str = "broker.example.com";
const HOST: &str = "shared.example";

pub(crate) fn pods_of_an_account_share_a_login_and_accounts_share_none(world: &mut World) {
    let (broker, registry) = Broker::start(world);
    let [first, second, green] =
        ["blue/first:v1", "blue/second:v1", "green/app:v1"].map(|name| registry.push(name));
    for runtime in Runtime::ALL {
        let _node = Node::start(world, &keeping_logins_by(world, runtime, "ServiceAccount"));
        let pod = |name: &str, account: &str, image| {
            world.pod(name, image).service_account(account).pull_policy("Always").create()
        };

        // Pods of an account share one login, for all images of the registry.
        pod("blue-1", "blue", &first).wait_until_running();
        pod("blue-2", "blue", &second).wait_until_running();
        assert_eq!(broker.take_exchanges(), ["blue for blue-1"]);

        // Another account has its own, and it does not open what is not its own.
        pod("green-1", "green", &green).wait_until_running();
        let trespasser = pod("green-2", "green", &first);
        trespasser.wait_until_waiting("ErrImagePull");
        // Or it would try again.
        trespasser.delete_at_once();
        assert_eq!(broker.take_exchanges(), ["green for green-1"]);
        assert_eq!(
            broker.take_logins(),
            [
                ("blue/first", "blue for blue-1", true),
                ("blue/second", "blue for blue-1", true),
                ("green/app", "green for green-1", true),
                ("blue/first", "green for green-1", false),
            ]
            .map(owned)
        );

        // An account that was made anew has another uid: the old login is not for it.
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/blue", world.namespace);
        world.cluster.api.delete(&path, 0).unwrap();
        world.cluster.create_service_account(&world.namespace, "blue", &[]);
        pod("blue-3", "blue", &first).wait_until_running();
        assert_eq!(broker.take_exchanges(), ["blue for blue-3"]);
        assert_eq!(broker.take_logins(), [("blue/first", "blue for blue-3", true)].map(owned));
    }
}

pub(crate) fn each_pod_has_a_login_of_its_own_if_logins_are_kept_by_token(world: &mut World) {
    let (broker, registry) = Broker::start(world);
    let [first, second] = ["blue/first:v1", "blue/second:v1"].map(|name| registry.push(name));
    for runtime in Runtime::ALL {
        let _node = Node::start(world, &keeping_logins_by(world, runtime, "Token"));
        let pod = |name| world.pod(name, &first).service_account("blue").pull_policy("Always");

        let with_two_images = pod("blue-1").with(|manifest| {
            let other =
                json!({"name": "other", "image": second.reference, "imagePullPolicy": "Always"});
            manifest["spec"]["containers"].as_array_mut().unwrap().push(other);
        });
        let runs = |status: &Value| !status["state"]["running"].is_null();
        with_two_images.create().wait_for("both containers run", |pod| {
            pod["status"]["containerStatuses"].as_array().is_some_and(|all| all.iter().all(runs))
        });
        pod("blue-2").create().wait_until_running();

        assert_eq!(broker.take_exchanges(), ["blue for blue-1", "blue for blue-2"]);
        assert_eq!(
            broker.take_logins(),
            [
                ("blue/first", "blue for blue-1", true),
                ("blue/second", "blue for blue-1", true),
                ("blue/first", "blue for blue-2", true),
            ]
            .map(owned)
        );
    }
}

pub(crate) fn a_token_as_a_password_is_not_for_other_pods_of_its_account(world: &mut World) {
    let (access, reviews) = access_by_token_review(&world.cluster.api, BROKER);
    let registry = Registry::start(world, "echo.example", access);
    let image = registry.push("app:v1");
    world.cluster.create_service_account(&world.namespace, "blue", &[]);
    allow_audience(world, BROKER);
    install(&["echo-credential-provider"]);
    let provider = json!({
        "name": "echo-credential-provider",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["echo.example"],
        "defaultCacheDuration": "10m",
        "tokenAttributes": token_attributes("ServiceAccount"),
    });
    let config = write_config(world, &provider);
    // A kubelet asks the providers each time it looks at the pod, even while it waits before it pulls again.
    let options = node_with_providers(Runtime::Containerd21, &config);
    let options = options.config("syncFrequency", json!("1s"));
    let node = Node::start(world, &options);
    let pod = world.pod("app", &image).service_account("blue").create();
    let account = format!("--service-account={}/blue", world.namespace);
    let agree_on = |error: &str| {
        let log = node.kubelet.log();
        assert!(provider_errors(&log).iter().any(|logged| logged == error), "{log}");
        let answer = get(world, &image.reference, &config, &[&account, "--pod=app"]);
        assert_eq!(answer["errors"][0]["error"], error, "{answer}");
    };

    pod.wait_until_waiting("ErrImagePull");
    agree_on(
        "credential provider plugin returned the service account token as the password which is not allowed when service \
         account cache type is not set to 'Token'",
    );

    let path = format!("/api/v1/namespaces/{}/serviceaccounts/blue", world.namespace);
    world.cluster.api.delete(&path, 0).unwrap();
    wait_for("an error about the account", Duration::from_mins(1), || {
        let errors = provider_errors(&node.kubelet.log());
        if errors.len() > 1 { Ok(()) } else { Err(format!("{errors:?}")) }
    });
    agree_on("failed to get service account: serviceaccounts \"blue\" not found");
    assert_eq!(reviews.subjects(), [] as [Value; 0]);
}

fn owned((repository, password, is_admitted): (&str, &str, bool)) -> (String, String, bool) {
    (repository.to_owned(), password.to_owned(), is_admitted)
}

fn keeping_logins_by(world: &World, runtime: Runtime, cache_type: &str) -> NodeOptions {
    let provider = json!({
        "name": "exchange-credential-provider",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": [HOST],
        "defaultCacheDuration": "10m",
        "args": [format!("--url=https://{BROKER}/token"), "--username=token"],
        "tokenAttributes": token_attributes(cache_type),
    });
    node_with_providers(runtime, &write_config(world, &provider))
}

fn token_attributes(cache_type: &str) -> Value {
    json!({"serviceAccountTokenAudience": BROKER, "cacheType": cache_type, "requireServiceAccount": true})
}

/// Trades a pod's token for a password, `ACCOUNT for POD`, and keeps account of both.
#[derive(Clone)]
struct Broker {
    api: Api,
    exchanges: Arc<Mutex<Vec<String>>>,
    logins: Arc<Mutex<Vec<(String, String, bool)>>>,
}

impl Broker {
    /// Starts a broker that nodes may request tokens for, a registry that trusts it, and two accounts: blue and green.
    fn start(world: &World) -> (Self, Registry) {
        let api = world.cluster.api.clone();
        let broker = Self { api, exchanges: Arc::default(), logins: Arc::default() };
        let handler = broker.clone();
        world.hosts.serve(BROKER, move |request| handler.answer(request));
        let doorman = broker.clone();
        let access = Access::Tokens(Box::new(move |login| doorman.admits(login)));
        for account in ["blue", "green"] {
            world.cluster.create_service_account(&world.namespace, account, &[]);
        }
        allow_audience(world, BROKER);
        install(&["exchange-credential-provider"]);
        (broker, Registry::start(world, HOST, access))
    }

    fn answer(&self, request: &Request) -> Response {
        let token = request.body.split('&').find_map(|pair| pair.strip_prefix("subject_token="));
        let subject = subject(&self.api.review_token(token.unwrap_or_default(), BROKER));
        if subject["authenticated"] != true {
            return Response::status(403);
        }
        let account = subject["user"].as_str().unwrap().rsplit(':').next().unwrap();
        let password = format!("{account} for {}", subject["pod"].as_str().unwrap());
        self.exchanges.lock().unwrap().push(password.clone());
        Response::json(json!({"access_token": password, "expires_in": 3600}).to_string())
    }

    /// An account has the repositories that begin with its name.
    fn admits(&self, login: &Login) -> bool {
        let owner = login.repository.split('/').next().unwrap();
        let is_admitted = login.password.starts_with(&format!("{owner} for "));
        let login = (login.repository.clone(), login.password.clone(), is_admitted);
        let mut logins = self.logins.lock().unwrap();
        if logins.last() != Some(&login) {
            logins.push(login);
        }
        is_admitted
    }

    /// The passwords that were given out since the last call.
    fn take_exchanges(&self) -> Vec<String> {
        std::mem::take(&mut self.exchanges.lock().unwrap())
    }

    /// Who came to the registry since the last call, for which repository, and whether it was let in.
    fn take_logins(&self) -> Vec<(String, String, bool)> {
        std::mem::take(&mut self.logins.lock().unwrap())
    }
}
