//! Several processes, one directory. What opens the directory anew has locks of its own, as another process has; and who is
//! dropped has lost them, as who is killed.

use std::{
    fs::{self, File},
    os::unix::net::UnixListener,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use keyfob_images::{LocalImage, PullRecords, RecordsError, RecordsOptions};

use crate::support::{APP, Node, by_secret, local, must_pull, stranger, with_secret};

fn digest(character: char) -> String {
    format!("r.test/team/app@sha256:{}", character.to_string().repeat(64))
}

#[test]
fn an_intent_stays_until_the_last_pull_has_ended_whoevers_it_is() {
    let node = Node::new();
    let (a, b) = (node.open(), node.open());
    a.record_intent(APP).unwrap();
    b.record_intent(APP).unwrap();
    b.record_intent(APP).unwrap();

    b.record_failed(APP);
    a.record_failed(APP);

    assert!(must_pull(&a, APP, "id", &stranger()));
    b.record_pulled(APP, "id", Some(&by_secret("b", "b"))).unwrap();
    assert_eq!(node.texts("pulling"), [].into());
}

#[test]
fn who_recovers_leaves_pulls_in_flight_alone() {
    let node = Node::new();
    let a = node.open();
    a.record_intent(APP).unwrap();

    let b = node.open();
    assert!(b.abandoned().is_empty());
    b.recover(b.abandoned(), &[local("id", &[APP])]);

    assert_eq!((node.texts("pulling").len(), node.texts("pulled").len()), (1, 0));
    a.record_pulled(APP, "id", Some(&by_secret("a", "a"))).unwrap();
    assert!(!must_pull(&b, APP, "id", &with_secret("a", "a")));
}

#[test]
fn an_image_whose_puller_died_is_for_those_who_prove_their_access() {
    let node = Node::new();
    node.die_pulling(APP);
    let b = node.open();
    assert!(must_pull(&b, APP, "id", &stranger()), "even before anybody looked");
    let abandoned = b.abandoned();
    assert_eq!(abandoned.images().collect::<Vec<_>>(), [APP]);

    b.recover(abandoned, &[local("other", &["r.test/team/app:v2"]), local("id", &[APP])]);

    assert_eq!(node.texts("pulling"), [].into());
    assert!(must_pull(&b, APP, "id", &with_secret("a", "a")));
    assert!(!must_pull(&b, "r.test/team/app:v2", "other", &stranger()), "it was always here");
    b.record_intent(APP).unwrap();
    b.record_pulled(APP, "id", Some(&by_secret("a", "a"))).unwrap();
    assert!(!must_pull(&b, APP, "id", &with_secret("a", "a")));
}

#[test]
fn an_image_is_known_again_under_its_full_name_and_by_its_digest() {
    let node = Node::new();
    let tagged_and_pinned = digest('1').replace('@', ":v1@");
    node.die_pulling("redis:7");
    node.die_pulling(&tagged_and_pinned);
    let b = node.open();

    let pinned =
        LocalImage { id: "pinned".into(), repo_tags: vec![], repo_digests: vec![digest('1')] };
    b.recover(b.abandoned(), &[local("redis", &["docker.io/library/redis:7"]), pinned]);

    assert_eq!(node.texts("pulling"), [].into());
    assert!(must_pull(&b, "docker.io/library/redis:7", "redis", &stranger()));
    assert!(must_pull(&b, &digest('1'), "pinned", &stranger()));
}

#[test]
fn an_image_that_did_not_come_is_looked_for_once_and_its_intent_stays() {
    let node = Node::new();
    node.die_pulling(APP);
    let b = node.open();

    b.recover(b.abandoned(), &[local("other", &["r.test/team/app:v2"])]);

    assert!(b.abandoned().is_empty());
    assert_eq!(b.intents().0, [APP]);
    assert_eq!(node.open().abandoned().images().count(), 1, "who starts looks for himself");
    b.record_intent(APP).unwrap();
    b.record_failed(APP);
    assert_eq!(node.texts("pulling"), [].into());
}

#[test]
fn what_another_left_is_not_pulled_before_somebody_looked() {
    let node = Node::new();
    let b = node.open();
    node.die_pulling("redis:7");

    for spelling in ["redis:7", "docker.io/library/redis:7"] {
        let refused = b.record_intent(spelling).unwrap_err();
        assert!(matches!(&refused, RecordsError::Abandoned { image } if image == "redis:7"));
    }
    b.record_intent("redis:8").unwrap();

    b.recover(b.abandoned(), &[local("id", &["docker.io/library/redis:7"])]);
    b.record_intent("redis:7").unwrap();
    assert!(must_pull(&b, "redis:7", "id", &stranger()), "the dead one's image is recorded");
}

/// The name means another image in the list than it does by now.
#[test]
fn a_list_that_is_older_than_a_death_recovers_nothing() {
    let node = Node::new();
    let (a, b) = (node.open(), node.open());
    a.record_intent(APP).unwrap();
    let (abandoned, images) = (b.abandoned(), [local("old", &[APP])]);
    drop(a);

    b.recover(abandoned, &images);

    assert_eq!(node.texts("pulled"), [].into());
    assert!(must_pull(&b, APP, "new", &stranger()));
}

#[test]
fn an_intent_that_was_claimed_after_the_list_is_left_alone() {
    let node = Node::new();
    node.die_pulling(APP);
    let b = node.open();
    let (abandoned, images) = (b.abandoned(), [local("old", &[APP])]);
    let c = node.open();
    c.recover(c.abandoned(), &[]);
    c.record_intent(APP).unwrap();
    drop(c);

    b.recover(abandoned, &images);

    assert!(must_pull(&b, APP, "new", &stranger()), "what came since");
    b.recover(b.abandoned(), &[local("new", &[APP])]);
    assert_eq!(node.texts("pulling"), [].into());
    assert!(must_pull(&b, APP, "new", &stranger()));
}

/// Two pull one tag that moves between them; the one whose image has the tag in the end dies.
#[test]
fn who_ends_a_pull_sees_that_another_died() {
    let node = Node::new();
    let (a, b) = (node.open(), node.open());
    a.record_intent(APP).unwrap();
    b.record_intent(APP).unwrap();
    drop(a);

    b.record_pulled(APP, "b's", Some(&by_secret("b", "b"))).unwrap();

    assert!(must_pull(&b, APP, "a's", &stranger()));
    b.recover(b.abandoned(), &[local("b's", &[]), local("a's", &[APP])]);
    assert!(must_pull(&b, APP, "a's", &stranger()));
    assert_eq!(node.texts("pulling"), [].into());
}

/// The same, and the one that died has lost the tag.
#[test]
fn of_several_that_died_images_without_a_tag_are_recorded_too() {
    let node = Node::new();
    let (a, b) = (node.open(), node.open());
    a.record_intent(APP).unwrap();
    b.record_intent(APP).unwrap();
    drop((a, b));
    let image = |id: &str, tags: &[&str], digit: char| LocalImage {
        repo_digests: vec![digest(digit)],
        ..local(id, tags)
    };
    let c = node.open();

    c.recover(
        c.abandoned(),
        &[
            image("without a tag", &[], '1'),
            image("with the tag", &[APP], '2'),
            image("with another", &["r.test/team/app:v2"], '3'),
            local("elsewhere", &[]),
        ],
    );

    assert!(must_pull(&c, &digest('1'), "without a tag", &stranger()));
    assert!(must_pull(&c, APP, "with the tag", &stranger()));
    assert!(!must_pull(&c, "r.test/team/app:v2", "with another", &stranger()));
    assert_eq!(c.records().0.len(), 2);
}

/// However the image is spelled that never came.
#[test]
fn what_was_looked_for_in_vain_stands_in_nobodys_way() {
    let node = Node::new();
    node.die_pulling("docker.io/library/redis:7");
    let records = node.open();
    records.recover(records.abandoned(), &[]);

    records.record_intent("redis:7").unwrap();
    records.record_intent("redis:7").unwrap();

    assert!(records.abandoned().is_empty());
}

/// Only the kubelet knows the images of its container runtime, and it looks when it starts.
#[test]
fn who_has_other_images_leaves_a_kubelets_pulls_to_it() {
    let node = Node::new();
    node.die_pulling(APP);
    let name = node.texts("pulling").into_keys().next().unwrap();
    let intent = node.path("pulling").join(name);
    // A time of today is a kubelet's.
    let written = UNIX_EPOCH + Duration::from_hours(24 * 365 * 50);
    File::options().write(true).open(&intent).unwrap().set_modified(written).unwrap();
    let mut options = RecordsOptions::default();
    options.images_elsewhere = true;
    let open = || {
        PullRecords::open(node.root.path(), options.clone(), Arc::new(node.clock.clone())).unwrap()
    };
    let records = open();

    records.recover(records.abandoned(), &[local("other", &[APP])]);

    assert_eq!(records.records().0, []);
    let refused = records.record_intent(APP).unwrap_err();
    assert!(matches!(&refused, RecordsError::LeftToKubelet { image, .. } if image == APP));
    assert!(intent.exists());

    // A kubelet has started since.
    fs::create_dir(node.root.path().join("device-plugins")).unwrap();
    let socket = node.root.path().join("device-plugins/kubelet.sock");
    drop(UnixListener::bind(socket).unwrap());
    let records = open();
    records.recover(records.abandoned(), &[]);
    records.record_intent(APP).unwrap();
    records.record_failed(APP);
    assert!(!intent.exists());
}

/// One pull takes the tag from the other's image, and ends; then the other dies.
#[test]
fn that_there_were_several_is_remembered_when_all_but_one_have_ended() {
    for (a_pulls, b_pulls) in [("redis:7", "redis:7"), ("redis:7", "docker.io/library/redis:7")] {
        let node = Node::new();
        let (a, b) = (node.open(), node.open());
        a.record_intent(a_pulls).unwrap();
        b.record_intent(b_pulls).unwrap();
        b.record_pulled(b_pulls, "b's", Some(&by_secret("b", "b"))).unwrap();
        drop(a);
        let digest = digest('1').replace("r.test/team/app", "docker.io/library/redis");
        let a_brought = LocalImage { repo_digests: vec![digest.clone()], ..local("a's", &[]) };

        b.recover(b.abandoned(), &[local("b's", &["docker.io/library/redis:7"]), a_brought]);

        assert!(must_pull(&b, &digest, "a's", &stranger()), "{b_pulls}");
        assert_eq!(node.texts("pulling"), [].into());
    }
}

#[test]
fn no_record_loses_what_another_process_adds() {
    let node = Node::new();
    let (a, b) = (node.open(), node.open());
    for number in 0..20 {
        let name = format!("s{number}");
        let records = if number % 2 == 0 { &a } else { &b };
        records.record_pulled(APP, "id", Some(&by_secret(&name, &name))).unwrap();
    }
    for number in 0..20 {
        let name = format!("s{number}");
        assert!(!must_pull(&a, APP, "id", &with_secret(&name, &name)), "{name}");
    }
}

#[test]
fn threads_of_one_process_share_too() {
    let node = Node::new();
    let records = node.open();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let records = &records;
            scope.spawn(move || {
                let name = format!("s{number}");
                for _ in 0..5 {
                    records.record_intent(APP).unwrap();
                    assert!(must_pull(records, APP, "id", &stranger()));
                    records.record_pulled(APP, "id", Some(&by_secret(&name, &name))).unwrap();
                    assert!(!must_pull(records, APP, "id", &with_secret(&name, &name)));
                }
            });
        }
    });
    assert_eq!(node.texts("pulling"), [].into());
    assert_eq!(records.records().0[0].credential_mapping["r.test/team/app"].secrets.len(), 8);
}

#[test]
fn a_lock_file_that_is_deleted_does_no_harm() {
    let node = Node::new();
    let (a, b) = (node.open(), node.open());
    a.record_intent(APP).unwrap();
    fs::remove_file(node.path("keyfob.lock")).unwrap();
    b.record_intent(APP).unwrap();
    b.record_failed(APP);
    assert!(must_pull(&b, APP, "id", &stranger()));
    a.record_pulled(APP, "id", Some(&by_secret("a", "a"))).unwrap();
    assert!(!must_pull(&b, APP, "id", &with_secret("a", "a")));
}
