//! Must an image that is here be pulled for a pod?

use keyfob_images::{Allowlist, MustPull, PodCredentials, PullAccess, VerificationPolicy};
use prometheus_client::registry::Registry;

use crate::support::{
    APP, Node, account, by_node, by_secret, must_pull, secret, stranger, with_secret,
};

const DIGEST: &str =
    "r.test/team/app@sha256:1111111111111111111111111111111111111111111111111111111111111111";

#[test]
fn a_pod_is_let_in_by_what_somebody_pulled_with() {
    let node = Node::new();
    let records = node.open();
    records.record_pulled(APP, "id", Some(&by_secret("pull", "h"))).unwrap();
    let robot = PullAccess { service_accounts: vec![account("robot")], ..PullAccess::default() };
    records.record_pulled(APP, "id", Some(&robot)).unwrap();
    let asks = |image: &str, pod: &PodCredentials| must_pull(&records, image, "id", pod);
    let as_account = |name: &str| PodCredentials {
        service_account: Some(account(name)),
        ..PodCredentials::default()
    };

    assert!(!asks(APP, &with_secret("pull", "h")));
    assert!(!asks("r.test/team/app:v2", &with_secret("pull", "h")), "another tag of the same");
    assert!(!asks(APP, &as_account("robot")));
    assert!(asks(APP, &as_account("other")));
    assert!(asks(APP, &stranger()));
    assert!(asks(APP, &PodCredentials::default()));
    assert!(asks("mirror.test/team/app:v1", &with_secret("pull", "h")), "another name");
}

#[test]
fn credentials_are_asked_for_only_if_they_matter() {
    let node = Node::new();
    let records = node.open();
    records.record_pulled(APP, "anybody's", Some(&by_node())).unwrap();
    records.record_pulled(APP, "nobody's", None).unwrap();
    records.record_pulled(APP, "somebody's", Some(&by_secret("pull", "h"))).unwrap();

    assert!(matches!(records.must_pull(APP, ""), MustPull::Yes));
    assert!(matches!(records.must_pull(APP, "preloaded"), MustPull::No));
    assert!(matches!(records.must_pull(APP, "anybody's"), MustPull::No));
    assert!(matches!(records.must_pull(APP, "nobody's"), MustPull::Yes));
    let MustPull::Depends(recorded) = records.must_pull(APP, "somebody's") else { panic!() };
    records.unsettled(recorded);
}

#[test]
fn a_secret_that_changed_or_moved_lets_in_and_is_recorded() {
    let node = Node::new();
    let records = node.open();
    records.record_pulled(APP, "id", Some(&by_secret("pull", "old"))).unwrap();

    assert!(!must_pull(&records, APP, "id", &with_secret("pull", "new")), "the same secret");
    assert!(!must_pull(&records, APP, "id", &with_secret("copy", "new")), "the same credential");
    assert!(must_pull(&records, APP, "id", &with_secret("stale", "old")), "the hash was replaced");

    let (found, _) = records.records();
    let secrets = &found[0].credential_mapping["r.test/team/app"].secrets;
    assert_eq!(*secrets, [secret("copy", "new"), secret("pull", "new")]);
}

#[test]
fn those_who_only_use_an_image_add_at_most_a_hundred_secrets() {
    let full = |count: usize| {
        let node = Node::new();
        let records = node.open();
        let secrets =
            (0..count).map(|number| secret(&format!("s{number:03}"), &format!("h{number}")));
        let access = PullAccess { secrets: secrets.collect(), ..PullAccess::default() };
        records.record_pulled(APP, "id", Some(&access)).unwrap();
        (node, records)
    };
    let count = |records: &keyfob_images::PullRecords| {
        records.records().0[0].credential_mapping["r.test/team/app"].secrets.len()
    };

    let (_node, records) = full(99);
    assert!(!must_pull(&records, APP, "id", &with_secret("copy", "h7")));
    assert_eq!(count(&records), 100);
    assert!(!must_pull(&records, APP, "id", &with_secret("again", "h7")), "it still lets in");
    assert_eq!(count(&records), 100);
    assert!(must_pull(&records, APP, "id", &with_secret("s007", "new")), "it cannot be kept");

    let (_node, records) = full(100);
    assert!(must_pull(&records, APP, "id", &with_secret("s007", "new")));
    records.record_pulled(APP, "id", Some(&by_secret("puller", "p"))).unwrap();
    assert_eq!(count(&records), 101, "whoever pulls is always recorded");
}

#[test]
fn a_credential_that_could_not_be_hashed_is_like_no_other() {
    let node = Node::new();
    let records = node.open();
    records.record_pulled(APP, "id", Some(&by_secret("pull", ""))).unwrap();
    assert!(must_pull(&records, APP, "id", &with_secret("other", "")));
    assert!(!must_pull(&records, APP, "id", &with_secret("pull", "")));
}

#[test]
fn a_pull_in_flight_counts_for_every_name_its_image_may_get() {
    let node = Node::new();
    let records = node.open();
    records.record_intent(APP).unwrap();
    records.record_intent("redis:7").unwrap();
    let asks = |image: &str| must_pull(&records, image, "id", &stranger());

    assert!(asks(APP));
    assert!(asks(DIGEST), "the digest that the tag will have");
    assert!(asks("docker.io/library/redis:7"));
    assert!(!asks("r.test/team/app:v2"), "another tag, which is preloaded");
    assert!(!asks("r.test/team/other:v1"));

    records.record_failed(APP);
    assert!(!asks(APP) && !asks(DIGEST));
}

#[test]
fn the_policy_decides_who_is_asked_at_all() {
    let node = Node::new();
    node.open().record_pulled(APP, "pulled", Some(&by_secret("pull", "h"))).unwrap();
    let asks = |policy: &VerificationPolicy, id: &str| {
        must_pull(&node.open_with(policy.clone()), APP, id, &stranger())
    };
    let listed = |name: &str| {
        VerificationPolicy::NeverVerifyAllowlistedImages(Allowlist::parse([name]).unwrap())
    };
    for (policy, pulled, preloaded) in [
        (VerificationPolicy::NeverVerify, false, false),
        (VerificationPolicy::NeverVerifyPreloadedImages, true, false),
        (listed("r.test/team/app"), false, false),
        (listed("r.test/other/*"), true, true),
        (VerificationPolicy::AlwaysVerify, true, true),
    ] {
        assert_eq!(asks(&policy, "pulled"), pulled, "{policy:?}");
        assert_eq!(asks(&policy, "preloaded"), preloaded, "{policy:?}");
    }
}

#[test]
fn checks_and_files_are_counted_under_upstreams_names() {
    let node = Node::new();
    let records = node.open();
    let mut registry = Registry::default();
    records.register_metrics(&mut registry);
    records.record_intent(APP).unwrap();
    records.record_pulled("r.test/b:v1", "b", Some(&by_secret("pull", "h"))).unwrap();
    must_pull(&records, APP, "", &stranger());
    must_pull(&records, APP, "c", &stranger());
    must_pull(&records, "r.test/preloaded:v1", "c", &stranger());
    must_pull(&records, "r.test/b:v1", "b", &with_secret("pull", "h"));
    let MustPull::Depends(recorded) = records.must_pull("r.test/b:v1", "b") else { panic!() };
    records.unsettled(recorded);

    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();

    for line in [
        "# HELP kubelet_imagemanager_ondisk_pullintents [ALPHA] Number of ImagePullIntents stored on disk.",
        "# TYPE kubelet_imagemanager_ondisk_pulledrecords gauge",
        "kubelet_imagemanager_ondisk_pullintents 1",
        "kubelet_imagemanager_ondisk_pulledrecords 1",
        "kubelet_imagemanager_inmemory_pullintents_usage_percent 0",
        "kubelet_imagemanager_inmemory_pulledrecords_usage_percent 0",
        r#"kubelet_imagemanager_image_mustpull_checks_total{result="mustAuthenticate"} 1"#,
        r#"kubelet_imagemanager_image_mustpull_checks_total{result="credentialPolicyAllowed"} 1"#,
        r#"kubelet_imagemanager_image_mustpull_checks_total{result="credentialRecordFound"} 1"#,
        r#"kubelet_imagemanager_image_mustpull_checks_total{result="error"} 1"#,
    ] {
        assert!(text.lines().any(|each| each == line), "no {line} in\n{text}");
    }
}
