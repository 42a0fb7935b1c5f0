//! Who may have whose answer.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use keyfob_api::CacheKeyType::{self, Global, Image, Registry};
use keyfob_config::ProviderConfig;
use keyfob_exec::{BoxFuture, Finished, Invocation, RunError, Runner};
use keyfob_host::{Answer, PodIdentity, PodReference, ProviderOutcome, Pull, ServiceAccount};
use keyfob_testkit::{FakeRunner, LeakCheck};
use proptest::{collection::vec, option, prelude::*, sample::select};
use tokio::sync::Semaphore;

use crate::cluster::{HOUR, Rig, SECRET, login, plain, pod, with_account, with_attributes};

/// Runs no plugin until it is let.
#[derive(Debug)]
struct Gated {
    runner: FakeRunner,
    gate: Arc<Semaphore>,
}

impl Runner for Gated {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(async {
            self.gate.acquire().await.unwrap().forget();
            self.runner.run(invocation).await
        })
    }
}

/// Pulls of `r.io/app` at the same time, whose runs end only when all have come to them.
async fn at_once(rig: &Rig, pods: impl IntoIterator<Item = PodIdentity>) -> (Vec<Answer>, usize) {
    let gate = Arc::new(Semaphore::new(0));
    let runner = Gated { runner: rig.runner.clone(), gate: gate.clone() };
    let host = rig.builder([with_account("one")]).runner(runner).build().unwrap();
    let host = Arc::new(host);
    let pulls = pods.into_iter().map(|pod| {
        let (host, pull) = (host.clone(), Pull::parse("r.io/app").unwrap().with_pod(pod));
        tokio::spawn(async move { host.credentials(&pull).await })
    });
    let pulls: Vec<_> = pulls.collect();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(100);
    let mut answers = Vec::new();
    for pull in pulls {
        answers.push(pull.await.unwrap());
    }
    let cached = host.cached().len();
    (answers, cached)
}

#[tokio::test]
async fn pulls_of_one_pod_at_once_share_a_token_and_a_run() {
    let rig = Rig::simple();
    let (answers, _) = at_once(&rig, (0..5).map(|_| pod("puller", "web"))).await;
    assert!(answers.iter().all(|answer| answer.credentials.len() == 1));
    assert_eq!((rig.runner.runs(), rig.cluster.asked()), (1, (5, 1)));
}

#[tokio::test]
async fn pods_with_tokens_of_their_own_have_runs_of_their_own() {
    let rig = Rig::simple();
    let (_, cached) = at_once(&rig, (0..5).map(|n| pod("puller", &n.to_string()))).await;
    assert_eq!((rig.runner.runs(), rig.cluster.asked()), (5, (5, 5)));
    assert_eq!(cached, 1, "the answer belongs to the account");
}

#[tokio::test]
async fn accounts_with_one_token_share_a_run_but_neither_entry_nor_coordinates() {
    let rig = Rig::simple();
    rig.cluster.account("other", []);
    rig.cluster.state().issue = |_, _| String::new();

    let (answers, cached) = at_once(&rig, ["puller", "other"].map(|name| pod(name, name))).await;

    assert_eq!((rig.runner.runs(), cached), (1, 2));
    for (answer, name) in answers.iter().zip(["puller", "other"]) {
        assert_eq!(answer.credentials[0].service_account().unwrap().name, name);
    }
}

/// One pull of the property.
#[derive(Clone, Debug)]
struct Case {
    image: &'static str,
    /// Namespace, name, and the uid that the account has now; nothing for a pod without one.
    account: Option<(&'static str, &'static str, &'static str)>,
    /// Required, optional, and one that the plugin does not see.
    annotations: (&'static str, Option<&'static str>, &'static str),
    pod: &'static str,
    /// What the plugin would answer.
    scope: CacheKeyType,
}

fn case() -> impl Strategy<Value = Case> {
    let image = select(vec!["r.io/a", "r.io/ab", "r.io/a/b", "s.io/a"]);
    let account = (select(vec!["a", "ab"]), select(vec!["b", "bb"]), select(vec!["", "1", "2"]));
    let annotations =
        (select(vec!["", "x", "y"]), option::of(select(vec!["", "x"])), select(vec!["p", "q"]));
    let scope = select(vec![Image, Registry, Global]);
    (image, option::weighted(0.9, account), annotations, select(vec!["web", "db"]), scope).prop_map(
        |(image, account, annotations, pod, scope)| Case {
            image,
            account,
            annotations,
            pod,
            scope,
        },
    )
}

/// Who may use an answer, as the rules say: everybody without an account, or else an account as it was, with what the
/// plugin saw of it and, if answers belong to tokens, for this pod.
type Owner = Option<(
    (&'static str, &'static str, &'static str),
    (&'static str, Option<&'static str>),
    Option<&'static str>,
)>;

impl Case {
    fn owner(&self, by_token: bool) -> Owner {
        let (required, optional, _unseen) = self.annotations;
        Some((self.account?, (required, optional), by_token.then_some(self.pod)))
    }

    fn base(&self, scope: CacheKeyType) -> &'static str {
        match scope {
            Image => self.image,
            Registry => &self.image[..4],
            _ => "everything",
        }
    }

    fn pull(&self) -> Pull {
        let (namespace, service_account, _) = self.account.unwrap_or_default();
        Pull::of_repository(self.image).with_pod(PodIdentity {
            namespace: namespace.into(),
            service_account: service_account.into(),
            pod: Some(PodReference { name: self.pod.into(), uid: self.pod.into() }),
        })
    }

    fn prepare(&self, rig: &Rig) {
        let Some((namespace, name, uid)) = self.account else { return };
        let (required, optional, unseen) = self.annotations;
        let mut annotations: BTreeMap<String, String> =
            [("io/required".into(), required.into()), ("io/unseen".into(), unseen.into())].into();
        annotations.extend(optional.map(|value| ("io/optional".to_owned(), value.to_owned())));
        let account = ServiceAccount { uid: uid.into(), annotations };
        rig.cluster.state().accounts.insert((namespace.into(), name.into()), account);
    }
}

fn provider(by_token: bool) -> ProviderConfig {
    let config = with_attributes("one", |attributes| {
        attributes.cache_type = if by_token { "Token" } else { "ServiceAccount" }.into();
        attributes.require_service_account = Some(true);
        attributes.required_service_account_annotation_keys = vec!["io/required".into()];
        attributes.optional_service_account_annotation_keys = vec!["io/optional".into()];
    });
    ProviderConfig { match_images: vec!["*.io".into()], ..config }
}

/// A provider without required annotations may be asked as nobody.
fn lenient(by_token: bool) -> ProviderConfig {
    let mut config = provider(by_token);
    let attributes = config.token_attributes.as_mut().unwrap();
    attributes.require_service_account = Some(false);
    let required = std::mem::take(&mut attributes.required_service_account_annotation_keys);
    attributes.optional_service_account_annotation_keys.extend(required);
    config
}

/// Every answer has a user name of its own: the number of its run. What was cached is looked up in the model first.
async fn check(cases: &[Case], by_token: bool, config: ProviderConfig) {
    let (runs, scope) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Image)));
    let (counted, wanted) = (runs.clone(), scope.clone());
    let rig = Rig::new(move |_| {
        let mut answer = login(*wanted.lock().unwrap(), "password");
        let (key, login) = &mut answer.auth[0];
        login.username = counted.fetch_add(1, Ordering::SeqCst).to_string();
        *key = "*.io".into();
        answer
    });
    rig.cluster.state().issue = |_, request| format!("{SECRET} of {request:?}");
    rig.cluster.state().lifetime = Some(HOUR);
    let requires = config.token_attributes.as_ref().unwrap().require_service_account == Some(true);
    let host = rig.host([config]);
    let mut model: HashMap<(&str, Owner), usize> = HashMap::new();
    for case in cases {
        case.prepare(&rig);
        *scope.lock().unwrap() = case.scope;
        let answer = host.credentials(&case.pull()).await;
        if requires && case.account.is_none() {
            assert!(matches!(answer.reports[0].outcome, ProviderOutcome::Skipped(_)));
            continue;
        }
        let owner = case.owner(by_token);
        let known = [Image, Registry, Global].map(|scope| model.get(&(case.base(scope), owner)));
        let known = known.into_iter().flatten().next().copied();
        let expected = known.unwrap_or_else(|| {
            let number = model.len();
            model.insert((case.base(case.scope), owner), number);
            number
        });
        let credential = &answer.credentials[0];
        assert_eq!(credential.username(), expected.to_string(), "{case:?}");
        let is_cached = matches!(answer.reports[0].outcome, ProviderOutcome::Cached { .. });
        assert_eq!(is_cached, known.is_some(), "{case:?}");
        let account = credential.service_account();
        let account = account.map(|each| (&*each.namespace, &*each.name, &*each.uid));
        assert_eq!(account, case.account);
    }
    assert_eq!(runs.load(Ordering::SeqCst), host.cached().len());
    LeakCheck::new([SECRET]).debug("the host", &host);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_accounts_share_an_answer_only_as_the_rules_say(
        cases in vec(case(), 1..60),
        by_token: bool,
        is_lenient: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = if is_lenient { lenient(by_token) } else { provider(by_token) };
        runtime.block_on(check(&cases, by_token, config));
    }
}

#[tokio::test]
async fn a_provider_without_accounts_shares_its_answers_with_every_pod() {
    let rig = Rig::simple();
    let host = rig.host([plain("one")]);
    for name in ["puller", "other", ""] {
        let pull = Pull::parse("r.io/app").unwrap().with_pod(pod(name, name));
        assert!(host.credentials(&pull).await.credentials[0].service_account().is_none());
    }
    assert_eq!((rig.runner.runs(), rig.cluster.asked()), (1, (0, 0)));
}
