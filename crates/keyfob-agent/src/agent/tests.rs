//! What a caller in a pod gets. The caller is this process, which is made out to be in a pod once it is attested.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use keyfob_agent_config::{Action, Subject};
use keyfob_api::CredentialProviderRequest;
use keyfob_caller::{Caller, CallerPlace, ContainerEvidence, NodePod};
use keyfob_exec::{
    BoxFuture, Finished, Invocation, PeerProcess, RunError, Runner, Status, StderrTail, Stdin,
};
use keyfob_host::{IdentityError, Pull, ServiceAccount, ServiceAccounts, Token, TokenRequest};
use keyfob_testkit::FakeRunner;
use rustix::process::getuid;
use tempfile::TempDir;
use tokio::{
    sync::Barrier,
    task::{JoinHandle, yield_now},
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    AgentClient, InheritedSockets,
    access::{Attempt, ProviderDecision, Requester, Wanted, tests::CREDENTIALS},
    error::{ApiError, ErrorCode},
    repository::Repository,
};

const IMAGE: &str = "registry.example/app";

const RULES: &str = "
- {name: team, callers: {namespaces: [team]}, providers: [token], action: AllowAsPod}
- {name: cart, callers: {serviceAccounts: [team/cart]}, providers: [node], action: Allow}
- {name: own, callers: {uids: [OWN]}, action: Allow}
";

const PROVIDERS: &str = "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: token
  matchImages: [registry.example]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {serviceAccountTokenAudience: registry, cacheType: ServiceAccount, requireServiceAccount: true}
- name: node
  matchImages: [registry.example]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
";

/// Service accounts whose tokens say for which pod they are.
#[derive(Debug)]
struct Accounts;

impl ServiceAccounts for Accounts {
    fn get<'a>(
        &'a self,
        _: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        let uid = format!("uid-of-{name}");
        Box::pin(async { Ok(ServiceAccount { uid, annotations: [].into() }) })
    }

    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        let token = format!("token of {request:?}");
        let expires = SystemClock.now() + Duration::from_hours(1);
        Box::pin(async move { Ok(Token { token: token.into(), expires, lifetime: None }) })
    }
}

/// An agent, and the tokens that its plugins were given.
struct Rig {
    agent: Agent,
    tokens: Arc<Mutex<Vec<(String, bool)>>>,
    _folder: TempDir,
}

/// Plugins that begin to answer only when so many run at the same time, and take so long.
#[derive(Debug)]
struct Together(FakeRunner, Barrier, Duration);

impl Runner for Together {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(async {
            self.1.wait().await;
            sleep(self.2).await;
            self.0.run(invocation).await
        })
    }
}

impl Rig {
    fn new() -> Self {
        Self::with_plugins(1, Duration::ZERO)
    }

    /// Plugins answer when so many run at once, and take so long.
    fn with_plugins(at_once: usize, takes: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().display();
        fs::create_dir(folder.path().join("plugins")).unwrap();
        for name in ["token", "node"] {
            let path = folder.path().join("plugins").join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(folder.path().join("providers.yaml"), PROVIDERS).unwrap();
        let text = format!(
            "apiVersion: {}\nkind: {}\nproviderConfig: {shown}/providers.yaml\n\
             pluginDirectory: {shown}/plugins\nlisteners: {{agent: {{path: {shown}/agent.sock}}}}\nrules:{}",
            keyfob_agent_config::AGENT_API_VERSION,
            keyfob_agent_config::AGENT_KIND,
            RULES.replace("OWN", &getuid().as_raw().to_string())
        );
        let config = AgentConfig::parse("agent.yaml", text.as_bytes()).unwrap();
        let tokens = Arc::<Mutex<Vec<_>>>::default();
        let given = tokens.clone();
        let runner = FakeRunner::new(move |invocation| {
            let name = invocation.program().file_name().unwrap().to_str().unwrap();
            let Stdin::Bytes(stdin) = invocation.input() else { panic!("no request") };
            let (_, request) = CredentialProviderRequest::decode(stdin.expose()).unwrap();
            let token = request.service_account_token;
            let is_of_web = token.is_some_and(|token| token.expose().contains("uid-of-web"));
            given.lock().unwrap().push((name.to_owned(), is_of_web));
            let stdout = format!(
                r#"{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","auth":{{"registry.example":{{"username":"{name}","password":"p"}}}}}}"#
            );
            Ok(Finished {
                program: invocation.program().into(),
                status: Status::Exited(0),
                stdout: stdout.into_bytes().into(),
                stderr: StderrTail::default(),
                elapsed: Duration::ZERO,
            })
        });
        let builder = AgentBuilder::new("agent.yaml", config).host(move |host| {
            host.runner(Together(runner, Barrier::new(at_once), takes)).service_accounts(Accounts)
        });
        Self { agent: builder.build().unwrap(), tokens, _folder: folder }
    }

    /// This process, as if it ran in a container of a pod; without a pod, in some other container.
    fn requester(&self, pod: Option<(&str, &str)>) -> Requester {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let peer = PeerProcess::of_connection(&theirs).unwrap();
        let mut caller = Caller::attest(&peer, &self.agent.shared.host_reference).unwrap();
        caller.place =
            CallerPlace::Container { id: None, pod_uid: None, evidence: ContainerEvidence::Cgroup };
        let pod = pod.map(|(namespace, service_account)| {
            Arc::new(NodePod {
                namespace: namespace.to_owned(),
                name: "web".to_owned(),
                uid: "uid-of-web".to_owned(),
                service_account: service_account.to_owned(),
            })
        });
        Requester { caller, pod, administrator: 0 }
    }

    fn decide(&self, requester: &Requester) -> Vec<ProviderDecision> {
        let pull = Pull::of_repository(IMAGE);
        let target = pull.target().cloned().unwrap();
        self.agent.shared.decide(&requester.subject(), &pull, &target)
    }

    /// This process, as root on the host.
    fn root(&self) -> Requester {
        let mut root = self.requester(None);
        root.caller.place = CallerPlace::Host { unit: None };
        Requester { administrator: root.caller.uid, ..root }
    }

    /// Asks for an image with the identity of the node. The task returns how long it took.
    async fn ask_as_node(&self, requester: &Requester, image: String) -> JoinHandle<Duration> {
        let (shared, requester) = (self.agent.shared.clone(), requester.clone());
        let decision = ProviderDecision {
            provider: "node".into(),
            rule: Some(("own".to_owned(), Action::Allow)),
            precaution: None,
            others: Vec::new(),
        };
        let asking = tokio::spawn(async move {
            let began = Instant::now();
            let pull = Pull::of_repository(&image);
            let reports = shared.ask(&requester, pull, &[decision], None).await;
            assert_eq!(reports.credentials.len(), 1, "{image}");
            began.elapsed()
        });
        yield_now().await;
        asking
    }

    /// What this process gets for an image.
    async fn grant(&self) -> Result<String, ApiError> {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let peer = PeerProcess::of_connection(&theirs).unwrap();
        let mut attempt = Attempt::new(&self.agent.shared, Some(&peer), CREDENTIALS);
        let requester = attempt.identify().await?;
        let repository = Repository::of_image(IMAGE)?;
        let wanted = Wanted { repository: &repository, fresh_for: Duration::ZERO, token: None };
        let granted = self.agent.shared.grant(&mut attempt, &requester, wanted).await?;
        Ok(granted.credentials[0].credential.username().to_owned())
    }

    async fn users(&self, requester: &Requester) -> Vec<String> {
        let decisions = self.decide(requester);
        let pull = Pull::of_repository(IMAGE);
        let reports = self.agent.shared.ask(requester, pull, &decisions, None).await;
        reports.credentials.iter().map(|each| each.username().to_owned()).collect()
    }
}

fn actions(decisions: &[ProviderDecision]) -> Vec<Option<Action>> {
    decisions.iter().map(|each| each.rule.as_ref().map(|(_, action)| *action)).collect()
}

#[tokio::test]
async fn a_pod_is_asked_for_with_its_own_account_where_a_rule_says_so() {
    let rig = Rig::new();
    let cart = rig.requester(Some(("team", "cart")));
    let both = [Some(Action::AllowAsPod), Some(Action::Allow)];
    assert_eq!(actions(&rig.decide(&cart)), both);
    assert_eq!(rig.users(&cart).await, ["token", "node"], "in the order of the providers");
    let mut tokens = rig.tokens.lock().unwrap().clone();
    tokens.sort();
    assert_eq!(tokens, [("node".to_owned(), false), ("token".to_owned(), true)]);
}

#[tokio::test(start_paused = true)]
async fn both_identities_are_asked_for_at_the_same_time() {
    let rig = Rig::with_plugins(2, Duration::ZERO);
    let cart = rig.requester(Some(("team", "cart")));
    let users = timeout(Duration::from_secs(5), rig.users(&cart)).await;
    assert_eq!(users.expect("neither waits for the other"), ["token", "node"]);
}

#[tokio::test]
async fn another_account_of_the_namespace_gets_only_what_is_for_all() {
    let rig = Rig::new();
    let other = rig.requester(Some(("team", "other")));
    assert_eq!(actions(&rig.decide(&other)), [Some(Action::AllowAsPod), None]);
    assert_eq!(rig.users(&other).await, ["token"]);
}

#[tokio::test]
async fn a_pod_of_another_namespace_and_root_in_a_container_get_nothing() {
    let rig = Rig::new();
    for (pod, described) in [
        (Some(("elsewhere", "cart")), "a pod of service account elsewhere/cart"),
        (None, "a process in a container that is no pod of this node"),
    ] {
        let requester = rig.requester(pod);
        assert_eq!(requester.described(), described);
        let is_container = matches!(requester.subject(), Subject::Container { .. });
        assert_eq!(is_container, pod.is_none());
        assert_eq!(actions(&rig.decide(&requester)), [None, None], "{described}");
        assert!(!requester.is_root_on_host());
        assert_eq!(rig.users(&requester).await, [""; 0]);
    }
    assert!(rig.tokens.lock().unwrap().is_empty(), "no plugin was run");
}

#[tokio::test]
async fn a_reload_that_takes_long_holds_up_nobody() {
    let rig = Rig::new();
    let shared = rig.agent.shared.clone();
    let config = shared.config();
    // The agent's file cannot be read, so it is about to be read again: behind this one, which does not end by itself.
    let (locked, when_locked) = mpsc::channel();
    let (release, when_released) = mpsc::channel();
    let reloading = thread::spawn(move || {
        let _guard = shared.reloading.lock().unwrap();
        locked.send(()).unwrap();
        when_released.recv_timeout(Duration::from_secs(20)).is_ok()
    });
    when_locked.recv().unwrap();
    let (stop, stopped) = watch::channel(false);
    let sockets = Sockets::open(&config, InheritedSockets::default()).unwrap();
    let asking = async {
        let client = AgentClient::new(&config.agent_socket.path);
        for _ in 0..10 {
            // This process may ask or not: in any case it is told.
            drop(client.credentials(IMAGE).await);
        }
        // Once it is too late, nobody listens.
        release.send(()).unwrap_or_default();
        stop.send_replace(true);
    };
    tokio::join!(rig.agent.serve(sockets, stopped), asking);
    assert!(reloading.join().unwrap(), "callers were answered meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_asks_for_many_images_keeps_neither_root_nor_other_pods_waiting() {
    let run = Duration::from_secs(1);
    let rig = Rig::with_plugins(1, run);
    let (greedy, modest) = (rig.requester(Some(("team", "cart"))), rig.requester(None));
    assert_ne!(greedy.key(), modest.key());
    let image = |number| format!("registry.example/{number}");
    let mut pulls = Vec::new();
    for number in 0..256 {
        pulls.push(rig.ask_as_node(&greedy, image(number)).await);
    }
    sleep(run / 2).await;

    let of_modest = [image(1000), image(255)].map(|image| rig.ask_as_node(&modest, image));
    let of_modest = futures_util::future::join_all(of_modest).await;
    let root = rig.root();
    let of_root = [image(2000), image(254)].map(|image| rig.ask_as_node(&root, image));
    for asked in futures_util::future::join_all(of_root).await {
        let took = asked.await.unwrap();
        assert!(took <= 2 * run, "root waited for {took:?}");
    }
    for asked in of_modest {
        let took = asked.await.unwrap();
        assert!(took <= 3 * run, "another caller waited for {took:?}");
    }
    assert!(!pulls[250].is_finished(), "there was a queue");
}

#[tokio::test]
async fn no_answer_of_new_providers_is_handed_out_by_old_rules_nor_the_other_way_round() {
    let rig = Rig::new();
    let shared = &rig.agent.shared;
    assert_eq!(rig.grant().await.unwrap(), "node");
    let allows = (*shared.config()).clone();
    let mut denies = allows.clone();
    denies.rules.retain(|rule| rule.name != "own");
    for (old, new) in [(&allows, &denies), (&denies, &allows)] {
        shared.swap(old.clone(), |_| Ok::<_, ()>(())).unwrap();
        // The providers have been replaced, or are about to be.
        let meanwhile = async { rig.grant().await.unwrap_err() };
        let error = shared
            .swap(new.clone(), |_| Ok::<_, ()>(futures_util::FutureExt::now_or_never(meanwhile)))
            .unwrap();
        assert_eq!(error.unwrap().code, ErrorCode::Denied);
    }
    assert_eq!(rig.grant().await.unwrap(), "node", "the new rules allow it");

    shared.swap(denies, |_| Err::<(), _>(())).unwrap_err();
    assert_eq!(rig.grant().await.unwrap(), "node", "what cannot be used has no effect");
}
