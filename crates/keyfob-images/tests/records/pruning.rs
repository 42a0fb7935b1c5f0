//! What is forgotten of images that are gone.

use std::time::Duration;

use keyfob_exec::Clock as _;
use keyfob_images::PullRecords;

use crate::support::{APP, Node, by_secret, must_pull, stranger, with_secret};

const MINUTE: Duration = Duration::from_mins(1);

fn pull(records: &PullRecords, id: &str) {
    records.record_intent(APP).unwrap();
    records.record_pulled(APP, id, Some(&by_secret("pull", "h"))).unwrap();
}

fn ids(records: &PullRecords) -> Vec<String> {
    let (records, _) = records.records();
    let mut ids: Vec<String> = records.iter().map(|record| record.image_ref.clone()).collect();
    ids.sort();
    ids
}

#[test]
fn only_records_of_images_that_are_gone_and_that_are_older_than_the_list_are_forgotten() {
    let node = Node::new();
    let records = node.open();
    pull(&records, "gone");
    pull(&records, "here");
    node.clock.advance(MINUTE);
    let started = node.clock.now();
    node.clock.advance(MINUTE);
    pull(&records, "new");

    records.prune(&["here".into()], started);

    assert_eq!(ids(&records), ["here", "new"]);
    assert!(must_pull(&records, APP, "here", &stranger()));
}

#[test]
fn a_record_of_the_second_in_which_the_list_was_begun_stays() {
    let node = Node::new();
    let records = node.open();
    let started = node.clock.now() + Duration::from_millis(500);
    node.clock.advance(Duration::from_millis(900));
    pull(&records, "new");

    records.prune(&[], started);

    assert!(must_pull(&records, APP, "new", &stranger()));
}

/// The record has nothing new to say, and its time does not tell that it is needed again.
#[test]
fn what_was_pulled_again_while_images_were_listed_is_not_forgotten() {
    let node = Node::new();
    let (records, other) = (node.open(), node.open());
    pull(&records, "again");
    node.clock.advance(MINUTE);
    let started = node.clock.now();
    let present_before_it_came_back = [];
    node.clock.advance(MINUTE);
    pull(&other, "again");

    records.prune(&present_before_it_came_back, started);

    assert!(must_pull(&records, APP, "again", &stranger()));
    assert!(!must_pull(&records, APP, "again", &with_secret("pull", "h")));

    node.clock.advance(MINUTE);
    records.prune(&[], node.clock.now());
    assert_eq!(ids(&records), [""; 0], "the next time it is");
}

#[test]
fn a_clock_that_was_set_back_does_not_keep_records_for_ever() {
    let node = Node::new();
    let records = node.open();
    pull(&records, "gone");
    node.clock.advance(MINUTE * 1000);
    pull(&records, "gone");
    node.clock.set_back(MINUTE * 999);

    records.prune(&[], node.clock.now());
    assert_eq!(ids(&records), ["gone"], "whether it is needed cannot be told");
    node.clock.advance(MINUTE);
    records.prune(&[], node.clock.now());
    assert_eq!(ids(&records), [""; 0]);
}
