//! What lies on disk.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use keyfob_images::{RecordsError, VerificationPolicy};
use keyfob_testkit::{LeakCheck, LogCapture};

use crate::support::{APP, Node, by_node, by_secret, local, must_pull, stranger, with_secret};

/// `printf %s r.test/team/app:v1 | sha256sum`
const APP_FILE: &str = "sha256-2735802c7286ed9e962d539914369cf1575cd91c860d7f8840f0db2e245a94de";
/// `printf %s id-1 | sha256sum`
const ID_FILE: &str = "sha256-eb66c623572f8a2a5167ce017dee0541cc8e901b0f334beaf2665bde9a0ed711";

#[test]
fn a_pull_leaves_what_a_kubelet_would() {
    let node = Node::new();
    let records = node.open();
    let mode = |folder: &str| fs::metadata(node.path(folder)).unwrap().permissions().mode() & 0o777;

    records.record_intent(APP).unwrap();

    let intent = "{\"kind\":\"ImagePullIntent\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"image\":\"r.test/team/app:v1\"}\n";
    assert_eq!(node.texts("pulling"), [(APP_FILE.to_owned(), intent.to_owned())].into());
    assert_eq!([mode(""), mode("pulling"), mode("pulled")], [0o700; 3]);
    assert_eq!(mode(&format!("pulling/{APP_FILE}")), 0o600);

    records.record_pulled(APP, "id-1", Some(&by_secret("pull", "h"))).unwrap();

    let record = concat!(
        r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","#,
        r#""lastUpdatedTime":"2030-03-17T17:46:40Z","imageRef":"id-1","credentialMapping":{"r.test/team/app":"#,
        r#"{"kubernetesSecrets":[{"uid":"uid-pull","namespace":"team","name":"pull","credentialHash":"h"}]}}}"#,
        "\n"
    );
    assert_eq!(node.texts("pulled"), [(ID_FILE.to_owned(), record.to_owned())].into());
    assert_eq!(mode(&format!("pulled/{ID_FILE}")), 0o600);
    assert_eq!(node.texts("pulling"), [].into());
}

#[test]
fn what_was_not_finished_is_never_read_and_only_ours_is_cleared_away() {
    let node = Node::new();
    drop(node.open());
    for folder in ["pulling", "pulled"] {
        fs::write(node.path(folder).join("sha256-12.keyfob.tmp"), "{half").unwrap();
        fs::write(node.path(folder).join("sha256-34.tmp"), "{half").unwrap();
    }

    let records = node.open();

    for folder in ["pulling", "pulled"] {
        assert_eq!(node.texts(folder).into_keys().collect::<Vec<_>>(), ["sha256-34.tmp"]);
    }
    assert!(records.intents().1.is_empty() && records.records().1.is_empty());
}

#[test]
fn a_bad_file_is_an_error_of_that_file_only_and_shows_nothing_of_it() {
    let node = Node::new();
    let records = node.open_with(VerificationPolicy::NeverVerify);
    for id in ["good", "garbage", "giant", "linked"] {
        records.record_pulled(APP, id, Some(&by_secret("pull", "hunter2"))).unwrap();
    }
    let [good, garbage, giant, linked] = ["good", "garbage", "giant", "linked"].map(|id| {
        let texts = node.texts("pulled");
        let file = texts.iter().find(|(_, text)| text.contains(&format!("\"{id}\""))).unwrap();
        node.path("pulled").join(file.0)
    });
    fs::write(&garbage, r#"{"kind":"ImagePulledRecord","hunter2":"hunter2""#).unwrap();
    fs::write(&giant, " ".repeat(2 << 20)).unwrap();
    fs::copy(&good, node.path("pulled").join("sha256-misnamed")).unwrap();
    fs::rename(&linked, node.path("elsewhere")).unwrap();
    symlink(node.path("elsewhere"), &linked).unwrap();
    fs::create_dir(node.path("pulled").join("sha256-directory")).unwrap();
    fs::write(node.path("pulled").join("README"), "hunter2").unwrap();
    let logs = LogCapture::start();

    let (found, errors) = node.open().records();

    assert_eq!(found.iter().map(|record| record.image_ref.as_str()).collect::<Vec<_>>(), ["good"]);
    let shown: Vec<String> =
        errors.iter().map(|error| keyfob_api::Chain(error).to_string()).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    for words in ["is no ImagePulledRecord; ", "it is larger than 1 MiB", "does not have the name"]
    {
        assert!(shown.iter().any(|error| error.contains(words)), "{words} in {shown:?}");
    }
    // Whatever the policy: who may use them cannot be told.
    for id in ["garbage", "giant", "linked"] {
        assert!(must_pull(&records, APP, id, &stranger()), "{id}");
    }
    assert!(!must_pull(&records, APP, "good", &stranger()));
    let leaks = LeakCheck::new(["hunter2"]);
    for error in &errors {
        leaks.error(error);
    }
    leaks.text("a log", &logs.text());
}

#[test]
fn a_record_that_cannot_be_read_is_replaced_by_the_next_pull() {
    let node = Node::new();
    let records = node.open();
    records.record_pulled(APP, "id-1", Some(&by_secret("old", "h"))).unwrap();
    fs::write(node.path("pulled").join(ID_FILE), "broken").unwrap();

    records.record_pulled(APP, "id-1", Some(&by_secret("new", "i"))).unwrap();

    assert!(must_pull(&records, APP, "id-1", &with_secret("old", "h")));
    assert!(!must_pull(&records, APP, "id-1", &with_secret("new", "i")));
}

#[test]
fn files_of_v1alpha1_are_rewritten_when_they_are_opened() {
    let node = Node::new();
    let records = node.open();
    records.record_intent(APP).unwrap();
    records.record_pulled("r.test/team/other:v1", "id-1", Some(&by_node())).unwrap();
    let before = [node.texts("pulling"), node.texts("pulled")];
    drop(records);
    for (folder, name) in [("pulling", APP_FILE), ("pulled", ID_FILE)] {
        let path = node.path(folder).join(name);
        let old = fs::read_to_string(&path).unwrap().replace("v1beta1", "v1alpha1");
        fs::write(&path, old.trim_end()).unwrap();
        fs::write(node.path(folder).join("sha256-misnamed"), old).unwrap();
    }

    drop(node.open());

    for (folder, before) in ["pulling", "pulled"].into_iter().zip(before) {
        let mut after = node.texts(folder);
        let misnamed = after.remove("sha256-misnamed").unwrap();
        assert!(misnamed.contains("v1alpha1"), "one that nobody reads is left alone");
        assert_eq!(after, before);
    }
}

/// Files may follow each other so fast that their times are equal.
#[test]
fn what_a_kubelet_writes_is_seen_at_once() {
    let (node, kubelet) = (Node::new(), Node::new());
    let records = node.open();
    let copy = |folder: &str| {
        for (name, text) in kubelet.texts(folder) {
            let unfinished = node.path(folder).join(format!("{name}.tmp"));
            fs::write(&unfinished, text).unwrap();
            fs::rename(&unfinished, node.path(folder).join(name)).unwrap();
        }
    };
    let asks = |name: &str| must_pull(&records, APP, "id-1", &with_secret(name, name));
    for round in 0..50 {
        assert!(!asks("stranger"), "nobody pulled it");
        let other = kubelet.open();
        other.record_intent(APP).unwrap();
        copy("pulling");
        assert!(asks("one"), "round {round}");
        for name in ["one", "two"] {
            other.record_pulled(APP, "id-1", Some(&by_secret(name, name))).unwrap();
            copy("pulled");
            assert!(!asks(name), "round {round}");
            assert!(asks("stranger"));
        }
        for (folder, name) in [("pulling", APP_FILE), ("pulled", ID_FILE)] {
            fs::remove_file(node.path(folder).join(name)).unwrap();
        }
        fs::remove_dir_all(kubelet.path("")).unwrap();
    }
}

#[test]
fn a_record_that_cannot_be_written_leaves_the_intent() {
    let node = Node::new();
    let records = node.open();
    records.record_intent(APP).unwrap();
    let in_its_way = node.path("pulled").join(ID_FILE);
    fs::create_dir(&in_its_way).unwrap();

    let error = records.record_pulled(APP, "id-1", Some(&by_node())).unwrap_err();

    assert!(error.to_string().starts_with("cannot write "), "{error}");
    assert!(must_pull(&records, APP, "id-1", &stranger()));
    fs::remove_dir(&in_its_way).unwrap();
    assert!(must_pull(&records, APP, "id-1", &stranger()), "its intent is still there");
    drop(records);
    let records = node.open();
    records.recover(records.abandoned(), &[local("id-1", &[APP])]);
    assert!(must_pull(&records, APP, "id-1", &stranger()), "and so is its record now");
    assert_eq!(node.texts("pulling"), [].into());
}

#[test]
fn a_directory_that_is_gone_is_made_again() {
    let node = Node::new();
    let records = node.open();
    fs::remove_dir_all(node.path("")).unwrap();

    records.record_intent(APP).unwrap();
    records.record_pulled(APP, "id-1", Some(&by_secret("pull", "h"))).unwrap();

    assert!(!must_pull(&records, APP, "id-1", &with_secret("pull", "h")));
}

#[test]
fn a_root_that_cannot_be_used_is_named() {
    let node = Node::new();
    let root = node.root.path().join("file");
    fs::write(&root, "").unwrap();
    let opened = keyfob_images::PullRecords::open(
        &root,
        keyfob_images::RecordsOptions::default(),
        std::sync::Arc::new(node.clock.clone()),
    );

    let error = opened.unwrap_err();

    assert!(matches!(error, RecordsError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains(root.to_str().unwrap()), "{error}");
}
