//! What is asked of whom, in which order, and what comes of it.

use keyfob_api::{
    CacheKeyType::{self, Registry},
    CredentialProviderRequest,
};
use keyfob_config::{ProviderConfig, TokenDialect};
use keyfob_exec::ProcessRunner;
use keyfob_host::{
    CallError, GlobalAnswers, HostOptions, IdentityError, IdentityStep, ProviderOutcome, Pull,
    ServiceAccountsError, Skipped,
};
use keyfob_keyring::Source;
use keyfob_testkit::{FakeRunner, LeakCheck, LogCapture, MapEnvironment, Script, Step};

use crate::cluster::{
    Mood, Rig, SECRET, check_leaks, errors, login, plain, pod, pull, with_account, with_attributes,
};

#[tokio::test]
async fn the_plugin_gets_a_token_bound_to_the_pod_and_the_annotations_it_may_see() {
    let rig = Rig::simple();
    rig.cluster.account("puller", [("io/role", "admin"), ("io/more", ""), ("io/other", "x")]);
    let host = rig.host([with_attributes("one", |attributes| {
        attributes.required_service_account_annotation_keys = vec!["io/role".into()];
        attributes.optional_service_account_annotation_keys =
            vec!["io/more".into(), "io/absent".into()];
    })]);

    let answer = host.credentials(&pull("puller")).await;

    let requests = rig.requests();
    let annotations: Vec<_> = requests[0].service_account_annotations.iter().collect();
    let (role, more) = (("io/role".into(), "admin".into()), ("io/more".into(), String::new()));
    assert_eq!(annotations, [(&more.0, &more.1), (&role.0, &role.1)]);
    assert_eq!(rig.tokens(), [Some(format!("{SECRET}-1"))]);
    let state = rig.cluster.state();
    let asked = &state.requests[0];
    assert_eq!(asked.audiences, ["registry"]);
    assert_eq!((&*asked.namespace, &*asked.service_account), ("team", "puller"));
    assert_eq!(asked.service_account_uid, "uid-of-puller");
    assert_eq!(asked.expiration_seconds, None);
    assert_eq!(asked.pod, pod("puller", "web").pod);
    drop(state);
    let identity = answer.reports[0].identity.as_ref().unwrap();
    assert_eq!((&*identity.audience, identity.annotations.len()), ("registry", 2));
    check_leaks(&host, &answer);
}

#[tokio::test]
async fn an_account_is_looked_at_before_the_cache_each_time() {
    let rig = Rig::simple();
    let host = rig.host([with_account("one")]);

    let first = host.credentials(&pull("puller")).await;
    let second = host.credentials(&pull("puller")).await;

    assert!(matches!(second.reports[0].outcome, ProviderOutcome::Cached { .. }));
    assert_eq!((rig.runner.runs(), rig.cluster.asked()), (1, (2, 1)));
    for answer in [first, second] {
        let account = answer.credentials[0].service_account().unwrap();
        assert_eq!((&*account.uid, &*account.namespace), ("uid-of-puller", "team"));
        assert_eq!(account.name, "puller");
        assert_eq!(answer.credentials[0].source().to_string(), "one");
    }

    rig.cluster.state().accounts.clear();
    let gone = host.credentials(&pull("puller")).await;
    assert_eq!(
        errors(&gone),
        ["failed to get service account: serviceaccounts \"puller\" not found"]
    );
    assert_eq!(gone.credentials.len(), 0, "what is cached is not for an account that is gone");
}

#[tokio::test]
async fn a_pod_without_an_account_is_left_alone_or_asked_for_as_nobody() {
    let rig = Rig::simple();
    let takes =
        with_attributes("takes", |attributes| attributes.require_service_account = Some(false));
    let host = rig.host([with_account("requires"), takes]);

    for pull in [Pull::parse("r.io/app").unwrap(), pull("")] {
        let answer = host.credentials(&pull).await;

        let skipped = ProviderOutcome::Skipped(Skipped::NoServiceAccount);
        assert_eq!(format!("{:?}", answer.reports[0].outcome), format!("{skipped:?}"));
        assert_eq!(answer.credentials[0].source(), &Source::provider("takes"));
        assert!(answer.reports.iter().all(|report| report.identity.is_none()));
    }
    assert_eq!((rig.tokens(), rig.cluster.asked()), (vec![None], (0, 0)));
    assert_eq!(host.cached()[0].key.as_bytes(), b"\0\x04r.io\0\0");

    // Not what nobody got.
    let answer = host.credentials(&pull("puller")).await;
    assert_eq!(answer.credentials.len(), 2);
    assert_eq!(rig.runner.runs(), 3);
}

#[tokio::test]
async fn without_a_required_annotation_the_plugin_is_not_asked() {
    let rig = Rig::simple();
    let host = rig.host([with_attributes("one", |attributes| {
        attributes.required_service_account_annotation_keys = vec!["io/role".into()];
    })]);

    let answer = host.credentials(&pull("puller")).await;

    let ProviderOutcome::Skipped(why) = &answer.reports[0].outcome else { panic!("{answer:?}") };
    assert_eq!(*why, Skipped::MissingAnnotation { key: "io/role".into() });
    assert_eq!((rig.runner.runs(), rig.cluster.asked()), (0, (1, 0)));
}

#[tokio::test]
async fn a_refused_token_leaves_the_account_in_the_error() {
    let rig = Rig::simple();
    rig.cluster.state().token =
        Mood::Failing(IdentityError::Forbidden(ServiceAccountsError::new("audience not allowed")));
    let not_required =
        with_attributes("two", |attributes| attributes.require_service_account = Some(false));
    let host = rig.host([with_account("one"), not_required]);

    let answer = host.credentials(&pull("puller")).await;

    assert_eq!(errors(&answer), ["failed to get service account token: audience not allowed"; 2]);
    let ProviderOutcome::Failed(error) = &answer.reports[0].outcome else { panic!("{answer:?}") };
    let CallError::Identity { step, account, audience, source, .. } = &**error else {
        panic!("{error:?}")
    };
    assert_eq!((*step, &*account.uid), (IdentityStep::Token, "uid-of-puller"));
    assert_eq!(audience, "registry");
    assert!(matches!(source, IdentityError::Forbidden(_)));
    assert_eq!(rig.runner.runs(), 0);
}

#[tokio::test]
async fn without_service_accounts_only_who_needs_them_fails() {
    let rig = Rig::simple();
    let host = rig.standalone([plain("plain"), with_account("one")]).build().unwrap();

    let answer = host.credentials(&pull("puller")).await;

    let standalone = "failed to get service account: cannot get ServiceAccounts when kubelet is in standalone mode";
    assert_eq!(errors(&answer), [standalone]);
    assert_eq!(answer.credentials.len(), 1);
}

/// A plugin that answers with its token as the password of an image nobody asked for, or as the user's name.
fn echo(password: bool) -> Rig {
    let rig = Rig::new(move |request| {
        let token = request.service_account_token.clone().unwrap();
        let mut answer = login(Registry, "password");
        let mut echo = answer.auth[0].1.clone();
        if password {
            echo.password = token;
        } else {
            echo.username.clone_from(token.expose());
        }
        answer.auth.push(("elsewhere.io".into(), echo));
        answer
    });
    rig.cluster.account("puller", []);
    rig
}

#[tokio::test]
async fn a_token_is_no_password_unless_answers_belong_to_tokens() {
    let by_token = with_attributes("one", |attributes| attributes.cache_type = "Token".into());

    let rig = echo(true);
    let host = rig.host([with_account("one")]);
    let refused = host.credentials(&pull("puller")).await;
    let said = "credential provider plugin returned the service account token as the password which is not allowed \
                when service account cache type is not set to 'Token'";
    assert_eq!(errors(&refused), [said]);
    assert_eq!(host.cached().len(), 0);
    check_leaks(&host, &refused);

    let rig = echo(true);
    let host = rig.host([by_token]);
    let allowed = host.credentials(&pull("puller")).await;
    assert_eq!((allowed.credentials.len(), host.cached().len()), (1, 1));
    check_leaks(&host, &allowed);

    let as_name = echo(false).host([with_account("one")]).credentials(&pull("puller")).await;
    assert_eq!(as_name.credentials.len(), 1);
}

/// Several things may be wrong with an answer; upstream names the echoed token first.
#[tokio::test]
async fn an_echoed_token_is_refused_before_a_wrong_cache_key_type() {
    let token = format!("{SECRET}-1");
    let by_token = with_attributes("one", |attributes| attributes.cache_type = "Token".into());
    let cases = [
        (with_account("one"), token.as_str(), "credential provider plugin returned the service"),
        (with_account("one"), "another", "the plugin's answer is not valid: credential provider"),
        (by_token, token.as_str(), "the plugin's answer is not valid: credential provider"),
    ];
    for (provider, password, said) in cases {
        for cache_key_type in ["", "image", "Token"] {
            let rig = Rig::simple();
            let stdout = format!(
                r#"{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",
                "cacheKeyType":"{cache_key_type}","auth":{{"r.io":{{"username":"u","password":"{password}"}}}}}}"#
            );
            let builder = rig.builder([provider.clone()]).runner(FakeRunner::printing(stdout));
            let host = builder.build().unwrap();

            let answer = host.credentials(&pull("puller")).await;

            let [error] = &errors(&answer)[..] else { panic!("{answer:?}") };
            assert!(error.starts_with(said), "{cache_key_type:?}: {error}");
            assert_eq!((answer.credentials.len(), host.cached().len()), (0, 0));
            check_leaks(&host, &answer);
        }
    }
}

#[tokio::test]
async fn an_answer_for_every_image_is_refused_as_the_dialect_has_it_or_as_wished() {
    let rig = Rig::new(|_| login(CacheKeyType::Global, "password"));
    rig.cluster.account("puller", []);
    let mut as_in_the_kep = with_account("kep");
    as_in_the_kep.token_attributes.as_mut().unwrap().dialect = TokenDialect::Kep4412;
    let providers = [with_account("today"), as_in_the_kep, plain("plain")];
    for (wished, refused) in [
        (GlobalAnswers::ByDialect, &["kep"][..]),
        (GlobalAnswers::Allow, &[]),
        (GlobalAnswers::Refuse, &["today", "kep"]),
    ] {
        let mut options = HostOptions::default();
        options.global_answers = wished;
        let host = rig.builder(providers.clone()).options(options).build().unwrap();

        let answer = host.credentials(&pull("puller")).await;

        let failed: Vec<_> = answer.errors().map(|(provider, _)| provider).collect();
        assert_eq!(failed, refused, "{wished:?}");
        assert_eq!(answer.credentials.len(), providers.len() - refused.len(), "{wished:?}");
        let why = "(cacheKeyType Global), which KEP-4412 forbids";
        assert!(errors(&answer).iter().all(|error| error.contains(why)), "{:?}", errors(&answer));
    }
}

#[tokio::test]
async fn the_command_that_is_shown_carries_no_token() {
    let rig = Rig::simple();
    let host = rig.host([with_account("one")]);

    let shown = host.invocation("one", &pull("puller")).unwrap().unwrap();

    let keyfob_exec::Stdin::Bytes(stdin) = shown.input() else { panic!("{shown:?}") };
    let request = CredentialProviderRequest::decode(stdin.expose()).unwrap().1;
    assert!(request.service_account_token.is_none(), "{request:?}");
    assert_eq!((request.image.as_str(), rig.cluster.asked()), ("r.io/app", (0, 0)));
}

#[tokio::test]
async fn a_plugin_that_prints_its_token_does_not_show_it() {
    let logs = LogCapture::start();
    let rig = Rig::simple();
    let steps = [Step::ReadStdin, Step::Say(format!("bad token {SECRET}-1\n")), Step::Exit(1)];
    let provider =
        ProviderConfig { args: vec![Script::new(steps).to_arg()], ..with_account("one") };
    let runner = ProcessRunner::new(MapEnvironment::default());
    rig.install_scripted("one");
    let host = rig.builder([provider]).runner(runner).build().unwrap();

    let answer = host.credentials(&pull("puller")).await;

    let errors = errors(&answer);
    assert!(errors[0].contains("bad token"), "{errors:?}");
    check_leaks(&host, &answer);
    LeakCheck::new([SECRET]).text("the log", &logs.text());
}
