//! Pulls that bring a token along, as those of a plugin do that a kubelet runs.

use std::{collections::BTreeMap, time::SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_exec::Clock as _;
use keyfob_host::{
    CallError, GivenToken, GivenTokenError, ProviderOutcome, ProviderReport, Pull, Skipped,
};
use keyfob_testkit::{LeakCheck, LogCapture};
use serde_json::{Value, json};

use crate::cluster::{
    HOUR, Rig, SECRET, check_leaks, errors, plain, pod, with_account, with_attributes,
};

/// A token with these claims; its signature is the secret that must not leak.
fn signed(claims: &Value) -> String {
    format!("e30.{}.{SECRET}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn claims(rig: &Rig, account: &str) -> Value {
    let since_1970 = (rig.clock.now() + HOUR).duration_since(SystemTime::UNIX_EPOCH).unwrap();
    json!({
        "aud": ["registry", "sts"],
        "exp": since_1970.as_secs(),
        "kubernetes.io": {
            "namespace": "team",
            "serviceaccount": {"name": account, "uid": format!("uid-of-{account}")},
            "pod": {"name": "web", "uid": "uid-of-web"},
        },
    })
}

fn pull_with<const N: usize>(token: &str, annotations: [(&str, &str); N]) -> Pull {
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let given = GivenToken::new(token, BTreeMap::from(annotations));
    Pull::parse("r.io/app").unwrap().with_service_account_token(given)
}

#[tokio::test]
async fn the_plugin_gets_the_given_token_and_the_annotations_it_may_see() {
    let rig = Rig::simple();
    let configured = with_attributes("one", |attributes| {
        attributes.required_service_account_annotation_keys = vec!["io/role".into()];
        attributes.optional_service_account_annotation_keys = vec!["io/more".into()];
    });
    let host = rig.host([configured, plain("plain")]);
    let token = signed(&claims(&rig, "cart"));
    let pull = pull_with(&token, [("io/role", "admin"), ("io/other", "x")]);

    let answer = host.credentials(&pull.with_pod(pod("puller", "other"))).await;

    let mut tokens = rig.tokens();
    tokens.sort();
    assert_eq!(tokens, [None, Some(token)]);
    let requests = rig.requests();
    let with_token = requests.iter().find(|each| each.service_account_token.is_some()).unwrap();
    let role = BTreeMap::from([("io/role".to_owned(), "admin".to_owned())]);
    assert_eq!(with_token.service_account_annotations, role);
    let identity = answer.reports[0].identity.as_ref().unwrap();
    assert_eq!((&*identity.audience, &identity.annotations), ("registry", &role));
    assert_eq!(identity.pod, pod("", "web").pod);
    assert_eq!(identity.expires, rig.clock.now() + HOUR);
    let account = answer.credentials[0].service_account().unwrap();
    let account = (&*account.namespace, &*account.name, &*account.uid);
    assert_eq!(account, ("team", "cart", "uid-of-cart"));
    assert!(answer.credentials[1].service_account().is_none(), "asked without the token");
    assert_eq!(rig.cluster.asked(), (0, 0), "the API server has nothing to do with it");
    check_leaks(&host, &answer);
}

#[tokio::test]
async fn an_answer_is_kept_for_the_account_or_for_the_token() {
    for (cache_type, runs_with_second_token) in [("ServiceAccount", 1), ("Token", 2)] {
        let rig = Rig::simple();
        let host = rig.host([with_attributes("one", |attributes| {
            attributes.cache_type = cache_type.into();
        })]);
        let mut second = claims(&rig, "cart");
        second["jti"] = "second".into();
        let first = pull_with(&signed(&claims(&rig, "cart")), []);
        let second = pull_with(&signed(&second), []);

        for (pull, runs) in [(&first, 1), (&first, 1), (&second, runs_with_second_token)] {
            assert_eq!(host.credentials(pull).await.credentials.len(), 1);
            assert_eq!(rig.runner.runs(), runs, "{cache_type}");
        }
        let other = pull_with(&signed(&claims(&rig, "other")), []);
        host.credentials(&other).await;
        assert_eq!(rig.runner.runs(), runs_with_second_token + 1, "another account");
    }
}

#[tokio::test]
async fn an_account_shares_its_answers_however_its_token_was_got() {
    let rig = Rig::simple();
    let host = rig.host([with_account("one")]);
    host.credentials(&crate::cluster::pull("puller")).await;

    let answer = host.credentials(&pull_with(&signed(&claims(&rig, "puller")), [])).await;

    assert!(matches!(answer.reports[0].outcome, ProviderOutcome::Cached { .. }));
    assert_eq!(rig.runner.runs(), 1);
}

/// Otherwise a pod would get the node's login from a provider that does not know pods.
#[tokio::test]
async fn a_pull_for_the_pod_alone_asks_no_provider_that_answers_for_the_node() {
    let rig = Rig::simple();
    let host = rig.host([plain("node"), with_account("pod")]);

    let answer = host.credentials(&crate::cluster::pull("puller").only_as_pod()).await;

    let [node, pod] = &*answer.reports else { panic!("{:?}", answer.reports) };
    assert!(matches!(node.outcome, ProviderOutcome::Skipped(Skipped::NotAskedAsPod)));
    assert!(matches!(pod.outcome, ProviderOutcome::Ran { .. }));
    let nobody = Pull::parse("r.io/app").unwrap().only_as_pod();
    let answer = host.credentials(&nobody).await;
    let skipped = |report: &ProviderReport| matches!(report.outcome, ProviderOutcome::Skipped(_));
    assert!(answer.reports.iter().all(skipped), "without a pod there is nobody to ask for");
}

#[tokio::test]
async fn providers_for_another_audience_or_annotation_are_skipped() {
    let rig = Rig::simple();
    let other = with_attributes("other", |attributes| {
        attributes.service_account_token_audience = "elsewhere".into();
        attributes.require_service_account = Some(false);
    });
    let sts = with_attributes("sts", |attributes| {
        attributes.service_account_token_audience = "sts".into();
    });
    let role = with_attributes("role", |attributes| {
        attributes.required_service_account_annotation_keys = vec!["io/role".into()];
    });
    let host = rig.host([other, sts, role]);

    let answer = host.credentials(&pull_with(&signed(&claims(&rig, "cart")), [])).await;

    let skipped = |at: usize| match &answer.reports[at].outcome {
        ProviderOutcome::Skipped(why) => Some(why.clone()),
        _ => None,
    };
    assert_eq!(skipped(0), Some(Skipped::OtherAudience { audience: "elsewhere".into() }));
    assert_eq!(skipped(1), None);
    assert_eq!(skipped(2), Some(Skipped::MissingAnnotation { key: "io/role".into() }));
    assert_eq!((rig.runner.runs(), rig.cluster.asked()), (1, (0, 0)));
    check_leaks(&host, &answer);
}

#[tokio::test]
async fn a_token_that_cannot_be_used_fails_the_providers_that_want_one() {
    let logs = LogCapture::start();
    let rig = Rig::simple();
    let host = rig.host([with_account("one"), plain("plain")]);
    let without = |pointer: &str| {
        let mut claims = claims(&rig, "cart");
        let (object, field) = pointer.rsplit_once('/').unwrap();
        claims.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(field).unwrap();
        signed(&claims)
    };
    let opaque = format!("opaque-{SECRET}");
    let missing = |claim: &str| {
        format!("it has no claim {claim}: it is not a token that a TokenRequest returned")
    };
    for (token, said) in [
        (String::new(), "it is not a JSON web token".to_owned()),
        (opaque, "it is not a JSON web token".to_owned()),
        (without("/exp"), missing("exp")),
        (without("/kubernetes.io"), missing("kubernetes.io/serviceaccount/uid")),
        (without("/kubernetes.io/namespace"), missing("kubernetes.io/namespace")),
        (
            without("/kubernetes.io/serviceaccount/name"),
            missing("kubernetes.io/serviceaccount/name"),
        ),
    ] {
        let answer = host.credentials(&pull_with(&token, [])).await;
        let expected = format!("the service account token of this pull cannot be used: {said}");
        assert_eq!(errors(&answer), [expected]);
        assert_eq!(answer.credentials.len(), 1, "the other provider wants no token");
        check_leaks(&host, &answer);
    }
    assert_eq!((rig.tokens(), rig.cluster.asked()), (vec![None], (0, 0)));
    LeakCheck::new([SECRET]).text("the log", &logs.text());
}

#[tokio::test]
async fn a_token_that_has_expired_is_used_neither_for_a_run_nor_for_the_cache() {
    let rig = Rig::simple();
    let host = rig.host([with_account("one")]);
    let pull = pull_with(&signed(&claims(&rig, "cart")), []);
    assert_eq!(host.credentials(&pull).await.credentials.len(), 1);

    rig.clock.advance(HOUR);
    let answer = host.credentials(&pull).await;

    let ProviderOutcome::Failed(error) = &answer.reports[0].outcome else { panic!("{answer:?}") };
    let CallError::GivenToken(GivenTokenError::Expired(at)) = &**error else { panic!("{error}") };
    assert_eq!(*at, rig.clock.now());
    let said = "the service account token of this pull cannot be used: it expired at \
                2030-03-17T18:46:40Z: pass a new token, or correct this node's clock";
    assert_eq!(errors(&answer), [said]);
    check_leaks(&host, &answer);
    LeakCheck::new([SECRET]).debug("the pull", &pull);
}

#[tokio::test]
async fn one_audience_may_stand_alone_and_a_mirror_gets_the_same_token() {
    let rig = Rig::simple();
    let host = rig.host([with_account("one")]);
    let mut claims = claims(&rig, "cart");
    claims["aud"] = "registry".into();
    let given = GivenToken::new(signed(&claims), BTreeMap::new());
    let pull = Pull::parse("elsewhere.example/app").unwrap().with_service_account_token(given);

    let mirrored = pull.elsewhere(&keyfob_api::ImageRef::parse("r.io/app").unwrap());

    assert_eq!(host.credentials(&mirrored).await.credentials.len(), 1);
    assert_eq!(rig.tokens(), [Some(signed(&claims))]);
}
