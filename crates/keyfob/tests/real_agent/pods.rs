//! Pods, whose tokens are the passwords: of a kubelet's request, and of a caller in the cgroup of a pod.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

use crate::{
    agent::RunningAgent,
    clients::{CLIENTS, Client, Image},
    docker_registry::{Registry, is_wanted},
    keyfob_apiserver::{Server, grant, verify},
    token_issuer::TokenIssuer,
};

const AUDIENCE: &str = "registry.example";
const IMAGE: &str = "shop/app:v1";
/// Who pushes the image.
const PUSHER: &str = "pusher:hunter2-pusher";
const CART: &str = "11111111-1111-4111-8111-111111111111";
const VISITOR: &str = "22222222-2222-4222-8222-222222222222";
/// How many pods of the same service account there are, one after the other.
const REPLACEMENTS: usize = 5;
/// How often a pod is replaced.
const INTERVAL: Duration = Duration::from_secs(1);

fn objects() -> String {
    let pods = [("shop", "cart", CART), ("street", "visitor", VISITOR)].map(|(namespace, name, uid)| {
        format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: {namespace}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-1, namespace: {namespace}, uid: {uid}}}\n\
             spec: {{nodeName: n1, serviceAccountName: {name}, containers: [{{name: app, image: app}}]}}\n---\n"
        )
    });
    format!("{}{}", pods.concat(), grant(AUDIENCE))
}

/// A cluster, a registry that lets in some pods of its service account `shop/cart`, and a node with an agent.
struct Shop {
    cluster: Server,
    registry: Registry,
    /// Whose tokens the registry takes.
    customers: Customers,
    _tokens: Internet,
    agent: RunningAgent,
}

/// Names of pods.
type Customers = Arc<Mutex<BTreeSet<String>>>;

impl Shop {
    fn start() -> Self {
        let cluster = Server::start(&objects());
        let folder = tempfile::tempdir().unwrap();
        let (issuer, cluster_issuer) = (TokenIssuer::new(folder.path()), cluster.issuer.clone());
        let issuer = Arc::new(issuer);
        let answering = Arc::clone(&issuer);
        let customers = Customers::new(Mutex::new(["cart-1".to_owned()].into()));
        let allowed = Arc::clone(&customers);
        let tokens = Internet::start(move |request| match login(request) {
            Some(login) if may_enter(&login, &cluster_issuer, &allowed) => {
                answering.answer(request, 300)
            }
            _ => Response::json(r#"{"details":"access denied"}"#).with_status(401),
        });
        let auth = issuer.auth(&format!("{}/token", tokens.url()));
        let registry = Registry::start_with(folder, &auth);
        registry.push(IMAGE, Some(PUSHER), &[1000]);
        let provider = json!({
            "name": "echo-credential-provider",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [registry.address],
            "defaultCacheDuration": "1m",
            "tokenAttributes": {
                "serviceAccountTokenAudience": AUDIENCE,
                "cacheType": "Token",
                "requireServiceAccount": true,
            },
        });
        let rules = json!([
            {"name": "kubelet", "callers": {"uids": [0]}, "action": "Allow"},
            {"name": "shop", "callers": {"namespaces": ["shop"]}, "action": "AllowAsPod"},
        ]);
        let node = cluster.kubeconfig("n1");
        let fields = json!({"nodeKubeconfig": node, "nodeName": "n1", "rules": rules});
        let agent = RunningAgent::start(&[provider], &fields);
        Self { cluster, registry, customers, _tokens: tokens, agent }
    }

    /// Starts a pod of the service account, which may have the image.
    fn start_pod(&self, number: usize) -> PodCgroup {
        let name = format!("cart-{number}");
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{nodeName: n1, serviceAccountName: cart, containers: [{{name: app, image: app}}]}}\n"
        );
        let file = self.cluster.file(&format!("{name}.yaml"), pod.as_bytes());
        self.cluster.admin(&format!("create --validate=false --filename {file}"));
        let uid = format!("get pod {name} --namespace shop --output jsonpath={{.metadata.uid}}");
        self.customers.lock().unwrap().insert(name);
        PodCgroup::create(&self.cluster.admin(&uid))
    }

    /// Deletes a pod. From now on the registry refuses its token.
    fn delete_pod(&self, number: usize) {
        let name = format!("cart-{number}");
        self.cluster.admin(&format!("delete pod {name} --namespace shop"));
        self.customers.lock().unwrap().remove(&name);
    }

    /// Replaces the pod again and again, and counts. An old pod is deleted as soon as nobody pulls in it.
    fn keep_replacing(&self, current: &Mutex<Arc<PodCgroup>>, count: &AtomicUsize) {
        for number in 1..=REPLACEMENTS {
            let new = Arc::new(self.start_pod(number + 1));
            let old = std::mem::replace(&mut *current.lock().unwrap(), new);
            while Arc::strong_count(&old) > 1 {
                std::thread::sleep(Duration::from_millis(10));
            }
            self.delete_pod(number);
            std::thread::sleep(INTERVAL);
            count.store(number, Ordering::SeqCst);
        }
    }

    fn image(&self) -> Image<'_> {
        Image { registry: &self.registry.address, name: IMAGE }
    }

    /// A token of the pod `cart-1`.
    fn token(&self, audience: &str) -> String {
        let bound =
            format!("--bound-object-kind Pod --bound-object-name cart-1 --bound-object-uid {CART}");
        self.cluster
            .admin(&format!("create token cart --namespace shop --audience {audience} {bound}"))
    }

    /// What the relay answers to a kubelet that sends this token.
    fn as_kubelet(&self, token: &str) -> Output {
        let request = json!({
            "kind": "CredentialProviderRequest",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "image": format!("{}/shop/app", self.registry.address),
            "serviceAccountToken": token,
            "serviceAccountAnnotations": {},
        });
        let file = self.agent.path("request.json");
        fs::write(&file, request.to_string()).unwrap();
        let relay = self.agent.path("bin/keyfob-credential-provider");
        let mut relay = self.agent.client(relay, &self.registry.address);
        relay.stdin(fs::File::open(file).unwrap()).output().unwrap()
    }
}

/// Name and password.
fn login(request: &Request) -> Option<String> {
    let login = request.header("authorization")?.strip_prefix("Basic ")?;
    String::from_utf8(BASE64_STANDARD.decode(login).ok()?).ok()
}

/// `PyJWT` verifies a pod's token by the keys of its cluster.
fn may_enter(login: &str, issuer: &str, customers: &Customers) -> bool {
    let is_customer = |token: &str| {
        verify(token, issuer, AUDIENCE, "").is_ok_and(|pod| {
            let name = pod.strip_prefix("system:serviceaccount:shop:cart ");
            name.is_some_and(|name| customers.lock().unwrap().contains(name))
        })
    };
    login == PUSHER || login.strip_prefix("jwt:").is_some_and(is_customer)
}

/// A cgroup as a kubelet makes it for a container of a pod. Removed when it is dropped.
struct PodCgroup(PathBuf);

impl PodCgroup {
    fn create(pod_uid: &str) -> Self {
        // With version 1, any hierarchy will do; with version 2 there is one.
        let named = Path::new("/sys/fs/cgroup/systemd");
        let root = if named.exists() { named } else { Path::new("/sys/fs/cgroup") };
        let container = format!("{:064x}", fastrand::u128(..));
        let path = root.join(format!("kubepods/besteffort/pod{pod_uid}/{container}"));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The same command, in the cgroup.
    fn command(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        shell.arg(command.get_program()).args(command.get_args());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::null());
        shell
    }
}

impl Drop for PodCgroup {
    fn drop(&mut self) {
        // Those above may be other tests' too.
        for path in self.0.ancestors().take(4) {
            fs::remove_dir(path).unwrap_or_default();
        }
    }
}

#[test]
fn the_token_of_a_kubelet_reaches_the_provider_of_its_audience() {
    if !is_wanted() {
        return;
    }
    let shop = Shop::start();
    let token = shop.token(AUDIENCE);
    let answered = shop.as_kubelet(&token);
    let stderr = String::from_utf8_lossy(&answered.stderr);
    assert!(answered.status.success(), "{stderr}");
    let response: Value = serde_json::from_slice(&answered.stdout).unwrap();
    assert_eq!(response["cacheDuration"], "0s");
    let login = &response["auth"][&shop.registry.address];
    assert_eq!((&login["username"], &login["password"]), (&json!("jwt"), &json!(token)));

    let file = json!({"auths": {&shop.registry.address: {
        "auth": BASE64_STANDARD.encode(format!("jwt:{token}")),
    }}});
    let inspected = shop.registry.inspect(IMAGE, &file.to_string()).status().unwrap();
    assert!(inspected.success(), "the registry takes it");

    let other = shop.as_kubelet(&shop.token("other.example"));
    let response: Value = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(response.get("auth"), None, "a token of another audience reaches nobody");
    let event = shop.agent.wait_for_event(&[("/outcome", "empty")]);
    let reason = event["reason"].as_str().unwrap();
    assert!(reason.contains(AUDIENCE), "{reason}");
}

#[test]
fn every_client_in_a_pod_pulls_with_the_token_of_that_pod_alone() {
    if !is_wanted() {
        return;
    }
    let shop = Shop::start();
    let (cart, visitor) = (PodCgroup::create(CART), PodCgroup::create(VISITOR));
    for client in &CLIENTS {
        let pulled = client.run(&shop.agent, shop.image(), |command| cart.command(&command));
        client.assert_success(&pulled);
        let refused = client.run(&shop.agent, shop.image(), |command| visitor.command(&command));
        client.assert_refusal(&refused);
    }

    let event = shop.agent.wait_for_event(&[("/outcome", "allowed"), ("/rule", "shop")]);
    let pod = &event["caller"]["pod"];
    assert_eq!((&pod["name"], &pod["uid"]), (&json!("cart-1"), &json!(CART)), "{event}");
    assert_eq!(pod["serviceAccount"], "cart", "{event}");
    let event = shop.agent.wait_for_event(&[("/outcome", "denied")]);
    assert_eq!(event["caller"]["pod"]["namespace"], "street", "{event}");
    let of =
        |outcome: &str| shop.agent.audit().iter().filter(|it| it["outcome"] == outcome).count();
    println!("{} requests of the pod allowed, {} of the other denied", of("allowed"), of("denied"));
    assert!(of("allowed") >= CLIENTS.len() && of("denied") >= CLIENTS.len());
}

#[test]
fn every_client_pulls_while_the_pod_and_its_token_are_replaced() {
    if !is_wanted() {
        return;
    }
    let (shop, replaced) = (Shop::start(), AtomicUsize::new(0));
    let current = Mutex::new(Arc::new(PodCgroup::create(CART)));
    let pull = |client: &Client| {
        let mut pulls = 0;
        while replaced.load(Ordering::SeqCst) < REPLACEMENTS {
            let pod = Arc::clone(&current.lock().unwrap());
            let pulled = client.run(&shop.agent, shop.image(), |command| pod.command(&command));
            client.assert_success(&pulled);
            pulls += 1;
        }
        println!("{}: {pulls} times", client.name);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| shop.keep_replacing(&current, &replaced));
        for client in &CLIENTS {
            scope.spawn(|| pull(client));
        }
    });

    let allowed: Vec<_> = shop.agent.audit();
    assert!(allowed.iter().all(|event| event["outcome"] == "allowed"), "{allowed:#?}");
    let all = |pointer: &str| {
        let values = allowed.iter().filter_map(|event| event.pointer(pointer)?.as_str());
        values.collect::<BTreeSet<_>>()
    };
    let (tokens, pods) = (all("/credentials/0/hash"), all("/caller/pod/uid"));
    println!("{} tokens of {} pods in {} requests", tokens.len(), pods.len(), allowed.len());
    assert_eq!(tokens.len(), pods.len(), "each pod has a token of its own");
    assert!(pods.len() > REPLACEMENTS / 2, "{pods:?}");

    let deleted = PodCgroup::create(CART);
    for client in &CLIENTS {
        let refused = client.run(&shop.agent, shop.image(), |command| deleted.command(&command));
        client.assert_refusal(&refused);
    }
}
