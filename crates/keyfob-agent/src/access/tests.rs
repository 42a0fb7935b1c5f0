//! Callers in pods. Their processes are files that look like `/proc/PID`, so that nobody needs a cluster.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
};

use keyfob_agent_config::AgentConfig;
use keyfob_caller::{NodePod, NodePods, PodsUnavailable};
use keyfob_exec::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Agent, AgentBuilder};

pub(crate) const CREDENTIALS: RequestKind =
    RequestKind { path: "/v1/credentials", gives_logins: true };

/// What an API server says about pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    /// Every pod is one of service account `team/cart`.
    Listed,
    /// Every pod is one of this namespace, with a service account named `cart`.
    Of(&'static str),
    /// No pod is known.
    Nowhere,
    Unavailable,
    /// The pods are still being listed.
    Late,
    /// The same, and pod 9 is known already.
    LateButOne,
}

impl NodePods for Pods {
    fn pod<'a>(
        &'a self,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<NodePod>>, PodsUnavailable>> {
        let text = |text: &str| text.to_owned();
        let namespace = text(if let Self::Of(namespace) = self { namespace } else { "team" });
        let is_known = uid == pod_uid(9);
        let (name, uid, service_account) = (text("web"), text(uid), text("cart"));
        let pod = NodePod { namespace, name, uid, service_account };
        Box::pin(async move {
            match self {
                Self::Listed | Self::Of(_) => Ok(Some(Arc::new(pod))),
                Self::LateButOne if is_known => Ok(Some(Arc::new(pod))),
                Self::Nowhere => Ok(None),
                Self::Unavailable => {
                    Err(PodsUnavailable::new(io::Error::other("the server is down")))
                }
                Self::Late | Self::LateButOne => std::future::pending().await,
            }
        })
    }
}

fn pod_uid(number: u32) -> String {
    format!("{number:08}-0000-0000-0000-000000000000")
}

/// Root in a container of a pod.
pub(crate) fn process_of_pod(folder: &TempDir, number: u32) -> PeerProcess {
    process(folder, number, 0, &format!("/kubepods/pod{}/{}", pod_uid(number), "b2".repeat(32)))
}

/// A user in a container that is not one of a pod.
fn process_of_container(folder: &TempDir, number: u32, uid: u32) -> PeerProcess {
    process(folder, number, uid, &format!("/docker/{}", "b2".repeat(32)))
}

fn process(folder: &TempDir, number: u32, uid: u32, cgroup: &str) -> PeerProcess {
    let path = folder.path().join(number.to_string());
    fs::create_dir_all(path.join("ns")).unwrap();
    fs::write(path.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
    write_status(folder, number, "S (sleeping)", uid);
    for link in ["exe", "root", "ns/pid", "ns/user"] {
        symlink("/", path.join(link)).unwrap();
    }
    PeerProcess::from_parts(uid, uid, 4711, None, File::open(path).unwrap().into())
}

pub(crate) fn write_status(folder: &TempDir, number: u32, state: &str, uid: u32) {
    let ids = format!("{uid}\t{uid}\t{uid}\t{uid}");
    let status = format!("State:\t{state}\nUid:\t{ids}\nGid:\t{ids}\nGroups:\t \n");
    fs::write(folder.path().join(number.to_string()).join("status"), status).unwrap();
}

pub(crate) fn agent(folder: &TempDir, pods: Pods) -> Agent {
    agent_with_rule(folder, pods, "{name: team, callers: {namespaces: [team]}, action: Allow}")
}

fn agent_with_rule(folder: &TempDir, pods: Pods, rule: &str) -> Agent {
    let shown = folder.path().display();
    fs::create_dir(folder.path().join("plugins")).unwrap();
    let providers = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
        - {name: one, matchImages: [registry.example], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n";
    fs::write(folder.path().join("providers.yaml"), providers).unwrap();
    let text = format!(
        "apiVersion: {}\nkind: {}\nproviderConfig: {shown}/providers.yaml\npluginDirectory: {shown}/plugins\n\
         listeners: {{agent: {{path: {shown}/agent.sock}}}}\naudit: {{to: file, path: {shown}/audit.log}}\n\
         limits: {{connections: 16}}\nrules:\n- {rule}\n",
        keyfob_agent_config::AGENT_API_VERSION,
        keyfob_agent_config::AGENT_KIND
    );
    let config = AgentConfig::parse("agent.yaml", text.as_bytes()).unwrap();
    AgentBuilder::new("agent.yaml", config).pods(pods).build().unwrap()
}

fn logged(agent: Agent, folder: &TempDir) -> Vec<Value> {
    agent.shared.audit.close();
    drop(agent);
    let text = fs::read_to_string(folder.path().join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_caller_in_a_pod_is_denied_while_pods_cannot_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Unavailable);
    let peer = process_of_pod(&folder, 1);
    let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);

    let error = attempt.identify().await.unwrap_err();

    let message = "the caller could not be identified: the pods of this node cannot be listed: the server is down";
    assert_eq!((error.code, &*error.message), (ErrorCode::Denied, message));
    attempt.finish(Err(&error));
    drop(attempt);
    let events = logged(agent, &folder);
    assert_eq!(events.len(), 1, "{events:?}");
    let fields = ["outcome", "reason", "peerUid", "caller"].map(|field| events[0][field].clone());
    assert_eq!(fields, [json!("denied"), json!(message), json!(0), Value::Null]);
}

#[tokio::test(start_paused = true)]
async fn callers_that_cannot_be_identified_are_limited_too() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Unavailable);
    let peer = process_of_pod(&folder, 1);
    let limit = agent.shared.config().limits.requests_per_second;
    let mut codes = Vec::new();
    for _ in 0..=2 * limit {
        let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
        let error = attempt.identify().await.unwrap_err();
        attempt.finish(Err(&error));
        codes.push(error.code);
    }
    let (last, others) = codes.split_last().unwrap();
    assert_eq!(*last, ErrorCode::RateLimited, "after a burst of two seconds");
    assert!(others.iter().all(|code| *code == ErrorCode::Denied));
    assert!(logged(agent, &folder).len() < 20, "and cannot fill the log");
}

#[tokio::test(start_paused = true)]
async fn callers_whose_pods_are_looked_up_for_long_leave_connections_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Late);
    let peer = process_of_pod(&folder, 1);
    let attempt = || Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
    let mut waiting: Vec<_> = (0..4).map(|_| attempt()).collect();
    let mut waiting: Vec<_> = waiting.iter_mut().map(|each| Box::pin(each.identify())).collect();
    for each in &mut waiting {
        assert!(timeout(Duration::from_secs(1), each).await.is_err(), "it waits");
    }
    let mut refused = attempt();
    let refused = timeout(Duration::from_secs(1), refused.identify()).await;
    let error = refused.expect("one more does not wait").unwrap_err();
    let message = "more than 4 requests at the same time";
    assert_eq!((error.code, &*error.message), (ErrorCode::RateLimited, message));
    drop(waiting);
    assert!(timeout(Duration::from_secs(1), attempt().identify()).await.is_err(), "it waits again");
}

#[tokio::test]
async fn pods_that_run_as_root_leave_connections_to_the_kubelet() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Listed);
    let shared = &agent.shared;
    let mut active = Vec::new();
    let mut refusals = Vec::new();
    for number in 1..=3 {
        let pod = shared.attest(Some(&process_of_pod(&folder, number))).await.unwrap();
        assert!(pod.pod.is_some() && !pod.is_root_on_host());
        for _ in 0..5 {
            match shared.activate(&pod) {
                Ok(request) => active.push(request),
                Err(error) => refusals.push((number, error.code, error.message)),
            }
        }
    }
    // Of sixteen connections, a quarter for each, and half for all.
    assert_eq!(active.len(), 8);
    let refusal = |number, message: &str| (number, ErrorCode::RateLimited, message.to_owned());
    assert_eq!(refusals[0], refusal(1, "more than 4 requests at the same time"));
    let of_all = refusal(3, "more than 8 requests of all callers at the same time");
    assert_eq!(refusals[2..], vec![of_all; 5]);
    let mut kubelet = shared.attest(Some(&process_of_pod(&folder, 4))).await.unwrap();
    kubelet.pod = None;
    kubelet.caller.place = CallerPlace::Host { unit: None };
    assert!(shared.activate(&kubelet).unwrap().is_none(), "root on the host is not counted");
}

#[tokio::test(start_paused = true)]
async fn callers_in_a_pod_that_is_known_do_not_wait_behind_others() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::LateButOne);
    let (unknown, known) = (process_of_pod(&folder, 1), process_of_pod(&folder, 9));
    let attempt = |peer| Attempt::new(&agent.shared, Some(peer), CREDENTIALS);
    let mut waiting: Vec<_> = (0..4).map(|_| attempt(&unknown)).collect();
    let mut waiting: Vec<_> = waiting.iter_mut().map(|each| Box::pin(each.identify())).collect();
    for each in &mut waiting {
        assert!(timeout(Duration::from_secs(1), each).await.is_err(), "it waits");
    }
    assert!(attempt(&unknown).identify().await.is_err(), "no more may wait");
    let mut attempt = attempt(&known);
    let requester = timeout(Duration::from_secs(1), attempt.identify()).await;
    let requester = requester.expect("it is found at once").unwrap();
    assert_eq!(requester.pod.as_ref().map(|pod| pod.uid.clone()), Some(pod_uid(9)));
}

#[tokio::test(start_paused = true)]
async fn user_ids_in_containers_do_not_multiply_what_a_caller_may_ask() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Listed);
    let limit = agent.shared.config().limits.requests_per_second;
    let mut admitted = 0;
    for number in 0..4 {
        // The subordinate ids of one user.
        let peer = process_of_container(&folder, number, 100_000 + number);
        for _ in 0..limit {
            let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
            admitted += u32::from(attempt.identify().await.is_ok());
        }
    }
    assert_eq!(admitted, 2 * limit, "a burst of two seconds, for all of them together");

    let mut active = Vec::new();
    for number in 0..4 {
        let peer = process_of_container(&folder, 10 + number, 100_000 + number);
        let requester = agent.shared.attest(Some(&peer)).await.unwrap();
        active.extend((0..2).filter_map(|_| agent.shared.activate(&requester).ok()));
    }
    assert_eq!(active.len(), 4, "a quarter of sixteen connections");
}

fn wanted(repository: &Repository) -> Wanted<'_> {
    Wanted { repository, fresh_for: Duration::ZERO, token: None }
}

/// What the rules say about a provider.
fn decision(provider: &str, rule: Option<(&str, Action)>) -> ProviderDecision {
    let rule = rule.map(|(name, action)| (name.to_owned(), action));
    ProviderDecision { provider: provider.into(), rule, precaution: None, others: Vec::new() }
}

#[tokio::test]
async fn a_refusal_names_no_rule_that_allows() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Listed);
    let peer = process_of_pod(&folder, 1);
    let requester = agent.shared.attest(Some(&peer)).await.unwrap();
    let allowed = || decision("one", Some(("allow", Action::Allow)));
    let as_pod = || decision("one", Some(("as-pod", Action::AllowAsPod)));
    let who = "a pod of service account team/cart";
    let of_rule = format!("rule \"deny\" denies app to {who}");
    let changed = format!("the rules about app have changed while {who} was waiting");
    for (decisions, rule, message) in [
        (vec![allowed(), decision("two", Some(("deny", Action::Deny)))], Some("deny"), &of_rule),
        (vec![as_pod(), decision("two", Some(("deny", Action::Deny)))], Some("deny"), &of_rule),
        (vec![allowed(), decision("two", None)], None, &changed),
        (vec![decision("two", None)], None, &format!("no rule allows app to {who}")),
    ] {
        let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
        let error = denied(&mut attempt, &requester, "app", &decisions);
        assert_eq!((&error.message, attempt.rule.as_deref()), (message, rule));
    }
}

#[tokio::test]
async fn a_rule_for_a_service_account_is_not_for_one_of_the_same_name_in_another_namespace() {
    // Nothing is installed, so whoever is allowed hears that the plugin failed.
    for (pods, code) in [(Pods::Listed, ErrorCode::Failed), (Pods::Of("other"), ErrorCode::Denied)]
    {
        let folder = tempfile::tempdir().unwrap();
        let rule = "{name: cart, callers: {serviceAccounts: [team/cart]}, action: Allow}";
        let agent = agent_with_rule(&folder, pods, rule);
        let peer = process_of_pod(&folder, 1);
        let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
        let requester = attempt.identify().await.unwrap();
        let repository = Repository::of_image("registry.example/app").unwrap();

        let result = agent.shared.grant(&mut attempt, &requester, wanted(&repository)).await;

        let error = result.unwrap_err();
        assert_eq!(error.code, code, "{pods:?}: {}", error.message);
        if code == ErrorCode::Denied {
            let expected =
                "no rule allows registry.example/app to a pod of service account other/cart";
            assert_eq!(error.message, expected);
        }
    }
}

#[tokio::test]
async fn a_rule_that_denies_pods_denies_callers_that_may_be_in_an_unknown_pod() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "{name: no-team, callers: {namespaces: [team]}, action: Deny}\n\
                 - {name: others, callers: {anyone: true}, action: Allow}";
    let agent = agent_with_rule(&folder, Pods::Nowhere, rules);
    let repository = Repository::of_image("registry.example/app").unwrap();
    // The cgroup of the last one is outside of the agent's cgroup namespace, so it cannot be told whether it is that of a pod.
    for (peer, code) in [
        (process_of_pod(&folder, 1), ErrorCode::Denied),
        (process_of_container(&folder, 2, 0), ErrorCode::Failed),
        (process(&folder, 3, 0, "/../../somewhere"), ErrorCode::Denied),
    ] {
        let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
        let requester = attempt.identify().await.unwrap();
        let result = agent.shared.grant(&mut attempt, &requester, wanted(&repository)).await;
        // Nothing is installed, so whoever is allowed hears that the plugin failed.
        let error = result.unwrap_err();
        assert_eq!(error.code, code, "{:?}: {}", requester.subject(), error.message);
    }
}

/// Time stands still, so every answer comes at once.
#[tokio::test(start_paused = true)]
async fn a_caller_that_exits_before_an_answer_that_comes_at_once_gets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Listed);
    let peer = process_of_pod(&folder, 1);
    let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
    let requester = attempt.identify().await.unwrap();
    agent.shared.attest_again(&attempt, &requester).await.expect("it is still there");

    write_status(&folder, 1, "Z (zombie)", 0);

    assert!(attempt.elapsed() < FACTS_ARE_RECENT);
    let error = agent.shared.attest_again(&attempt, &requester).await.unwrap_err();
    let message =
        "the caller could not be identified: the process that opened the connection has exited";
    assert_eq!((error.code, &*error.message), (ErrorCode::Denied, message));
    let repository = Repository::of_image("registry.example/app").unwrap();
    let result = agent.shared.grant(&mut attempt, &requester, wanted(&repository)).await;
    assert_eq!(result.unwrap_err().message, message);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_about_a_caller_is_read_again_after_a_moment() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, Pods::Listed);
    let peer = process_of_pod(&folder, 1);
    let mut attempt = Attempt::new(&agent.shared, Some(&peer), CREDENTIALS);
    let requester = attempt.identify().await.unwrap();
    write_status(&folder, 1, "S (sleeping)", 65534);
    agent.shared.attest_again(&attempt, &requester).await.expect("its facts are recent");

    tokio::time::advance(FACTS_ARE_RECENT).await;

    let error = agent.shared.attest_again(&attempt, &requester).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Denied);
    assert!(error.message.contains("connected as user 0, and now has"), "{}", error.message);
}
