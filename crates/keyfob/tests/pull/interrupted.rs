//! Pulls that break off, are killed or stopped, and several at once.

use std::{
    fs::{self, File},
    process::Child,
};

use keyfob_playground::registry::Fault;
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::json;

use crate::{
    machine::Machine,
    registry::{Served, blob, layer, layer as layer_of},
    signals::heeded,
};

/// So much of a layer comes before it is cut or stalls; what is written is written in pieces, so a part of it must do.
const CUT: u64 = 1_500_000;
const SIZE: usize = 3_000_000;

fn with_large_layer() -> (Machine, Served, String, String) {
    let (machine, served) = (Machine::new(), Served::open());
    let pushed = served.push("app", "v1", &[layer(1, SIZE), layer(2, 1000)]);
    let image = served.image("app:v1");
    (machine, served, image, pushed.layers[0].clone())
}

/// Waits for something that takes a moment, and not for ever.
fn until(mut happened: impl FnMut() -> bool) {
    let mut waits = (0..10_000).map(|_| pause());
    assert!(waits.any(|()| happened()));
}

#[expect(clippy::disallowed_methods, reason = "another process cannot be told to use our clock")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

/// From where on the layer was downloaded. Parts with an end are samples, which prove access.
fn ranges(served: &Served, layer: &str) -> Vec<Option<String>> {
    let requests = served.registry.requests().into_iter();
    let ranges = requests.filter(|seen| seen.path.ends_with(layer)).map(|seen| seen.range);
    ranges.filter(|range| range.as_ref().is_none_or(|range| range.ends_with('-'))).collect()
}

#[test]
fn a_layer_that_was_cut_goes_on_where_it_was() {
    let (machine, served, image, layer) = with_large_layer();
    served.registry.inject(Fault::cut_blob(CUT).only(layer.clone()));

    let said = machine.pull(&image, &[]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(ranges(&served, &layer), [None, Some(format!("bytes={CUT}-"))]);
    assert!(said.stderr.contains("; to be resumed at 1.43 MiB in "), "{}", said.stderr);
    assert!(said.stderr.contains(": resumed at 1.43 MiB, fetched in "), "{}", said.stderr);
    assert!(fs::metadata(blob(&machine.dest(), &layer)).unwrap().len() > CUT);
}

#[test]
fn what_a_failed_pull_brought_is_there_for_the_next() {
    let (machine, served, image, layer) = with_large_layer();
    served.registry.inject(Fault::cut_blob(CUT).only(layer.clone()).always());
    let said = machine.pull(&image, &["--retries", "0"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("what has come is kept in"), "{}", said.stderr);
    assert_eq!(machine.files("pulling"), 0, "it failed, and that is known");
    served.registry.clear_faults();
    served.registry.forget_requests();

    let said = machine.pull(&image, &[]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(ranges(&served, &layer), [Some(format!("bytes={CUT}-"))]);
    assert!(said.stderr.contains(": resumed at 1.43 MiB, fetched in "), "{}", said.stderr);
}

/// A pull that hangs in the middle of a layer, of which something is on disk.
fn hanging(machine: &Machine, served: &Served, image: &str, layer: &str) -> Child {
    served.registry.inject(Fault::stall_blob(CUT).only(layer));
    let child = machine.start(image, &["--stall-timeout", "10m"]);
    let hex = layer.strip_prefix("sha256:").unwrap();
    until(|| {
        machine.partials().iter().any(|(name, length)| name.starts_with(hex) && *length == CUT)
    });
    child
}

#[test]
fn whoever_was_killed_leaves_an_intent_and_the_next_goes_on() {
    let (machine, served, image, layer) = with_large_layer();
    let mut child = hanging(&machine, &served, &image, &layer);

    child.kill().unwrap();
    child.wait().unwrap();

    assert_eq!((machine.files("pulling"), machine.files("pulled")), (1, 0));
    assert_eq!(machine.pull_json(&image, &["--pull-policy", "Never"]).0, 3, "it is not here");
    served.registry.forget_requests();
    let said = machine.pull(&image, &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(ranges(&served, &layer), [Some(format!("bytes={CUT}-"))]);
    assert_eq!((machine.files("pulling"), machine.files("pulled")), (0, 1));
}

#[test]
fn whoever_stops_it_keeps_what_has_come() {
    for kind in [Signal::SIGINT, Signal::SIGTERM].into_iter().filter(|kind| heeded(*kind)) {
        let (machine, served, image, layer) = with_large_layer();
        let child = hanging(&machine, &served, &image, &layer);

        signal::kill(Pid::from_raw(child.id().cast_signed()), kind).unwrap();
        let said = machine.end(child);

        assert_eq!((said.code, said.stdout.as_str()), (130, ""), "{}", said.stderr);
        let told = format!(
            "keyfob: stopped; what has come is kept in {}, and the same command goes on from there\n",
            machine.dest().display()
        );
        assert!(said.stderr.ends_with(&told), "{}", said.stderr);
        assert_eq!(machine.pull_json(&image, &["--pull-policy", "Never"]).0, 3);
        served.registry.forget_requests();
        assert_eq!(machine.pull(&image, &[]).code, 0);
        assert_eq!(ranges(&served, &layer), [Some(format!("bytes={CUT}-"))]);
        assert_eq!((machine.files("pulling"), machine.files("pulled")), (0, 1));
    }
}

/// Stops a pull that waits for somebody else. It must not wait until they are done.
fn stop(machine: &Machine, mut child: Child, kind: Signal) {
    signal::kill(Pid::from_raw(child.id().cast_signed()), kind).unwrap();
    let mut waits = (0..4_000).map(|_| pause());
    let has_ended = waits.any(|()| child.try_wait().unwrap().is_some());
    if !has_ended {
        child.kill().unwrap();
    }
    let said = machine.end(child);
    assert!(has_ended, "{kind} was ignored");
    assert_eq!(said.code, 130, "{}", said.stderr);
    assert!(said.stderr.contains("keyfob: stopped; what has come is kept in"), "{}", said.stderr);
}

/// Whether a process has a file open.
fn has_open(child: &Child, name: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", child.id())) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|path| path.ends_with(name)))
}

fn stopping() -> impl Iterator<Item = Signal> {
    [Signal::SIGINT, Signal::SIGTERM].into_iter().filter(|kind| heeded(*kind))
}

#[test]
fn a_signal_does_not_wait_for_the_lock_of_the_layout() {
    for kind in stopping() {
        let (machine, served, image, _) = with_large_layer();
        served.push("other", "v1", &[]);
        assert_eq!(machine.pull(&served.image("other:v1"), &[]).code, 0);
        let blobs = || fs::read_dir(machine.dest().join("blobs/sha256")).unwrap().count();
        let before = blobs();
        let lock = File::open(machine.dest().join(".keyfob/lock")).unwrap();
        lock.lock().unwrap();
        let child = machine.start(&image, &[]);
        // Its configuration and its layers are here: all that is left is to add it to the index.
        until(|| blobs() == before + 3);

        stop(&machine, child, kind);
    }
}

#[test]
fn a_signal_does_not_wait_for_the_lock_of_the_records() {
    for kind in stopping() {
        let (machine, served, image, _) = with_large_layer();
        served.push("other", "v1", &[]);
        assert_eq!(machine.pull(&served.image("other:v1"), &[]).code, 0);
        let lock = File::open(machine.dest().join("image_manager/keyfob.lock")).unwrap();
        lock.lock().unwrap();
        let child = machine.start(&image, &[]);
        until(|| has_open(&child, "keyfob.lock"));

        stop(&machine, child, kind);
    }
}

#[test]
fn a_signal_does_not_wait_for_a_layer_that_somebody_else_fetches() {
    for kind in stopping() {
        let (machine, served, image, layer) = with_large_layer();
        let mut first = hanging(&machine, &served, &image, &layer);
        let second = machine.start(&image, &["--pull-policy", "Always"]);
        let manifests = || {
            let requests = served.registry.requests().into_iter();
            requests.filter(|seen| seen.path.contains("/manifests/")).count()
        };
        until(|| manifests() == 2);

        stop(&machine, second, kind);

        first.kill().unwrap();
        first.wait().unwrap();
    }
}

#[test]
fn several_at_once_fetch_each_layer_once() {
    let (machine, served, image, layer) = with_large_layer();
    served.registry.inject(Fault::cut_blob(CUT).only(layer.clone()));

    let children: Vec<_> = (0..3)
        .map(|_| machine.start(&image, &["--pull-policy", "Always", "-o", "json", "-q"]))
        .collect();
    let said: Vec<_> = children.into_iter().map(|child| machine.end(child)).collect();

    for said in &said {
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
        assert_eq!(said.json()["result"], json!("pulled"));
    }
    assert_eq!(ranges(&served, &layer).len(), 2, "one request that was cut, and one for the rest");
    assert_eq!(machine.files("pulling"), 0);
    assert_eq!(machine.partials(), [], "nothing is left over");
    assert_eq!(machine.pull_json(&image, &["--pull-policy", "Never"]).0, 0);
}

#[test]
fn a_registry_that_sends_hardly_anything_holds_up_no_other() {
    let (machine, served, image, layer) = with_large_layer();
    let hostile = Served::open();
    hostile.push("trap", "v1", &[layer_of(1, SIZE), layer_of(2, 1000)]);
    let mut trapped = hanging(&machine, &hostile, &hostile.image("trap:v1"), &layer);

    let mut good = machine.start(&image, &[]);
    let mut waits = (0..4_000).map(|_| pause());
    let has_ended = waits.any(|()| good.try_wait().unwrap().is_some());
    trapped.kill().unwrap();
    trapped.wait().unwrap();

    assert!(has_ended, "it waits for the other registry");
    let said = machine.end(good);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(ranges(&served, &layer), [None], "and what came from there is not gone on with");
}
