//! Several processes and one directory: one after another, the first of which is killed, and two at once.

use std::{fs, time::Duration};

use keyfob_exec::{Invocation, ProcessRunner, Program, Runner as _};
use keyfob_oci::{Digest, Layout};
use keyfob_testkit::{MapEnvironment, example};
use tempfile::TempDir;

use crate::registry::{Contents, Registry, counter, noise};

/// A process that pulls into a directory, when it is run.
fn pulling(registry: &Registry, directory: &TempDir) -> (ProcessRunner, Invocation) {
    let program = Program::at(example("pull")).unwrap();
    let arguments = [registry.image().into(), directory.path().as_os_str().to_owned()];
    (ProcessRunner::new(MapEnvironment::default()), Invocation::new(program).args(arguments))
}

#[tokio::test]
async fn the_next_process_goes_on_where_one_that_was_killed_was() {
    let (small, large) = (noise(1000, 1), noise(400_000, 2));
    let (path, count) = (Digest::sha256(&large).to_string(), counter());
    let registry = Registry::twisted(Contents::image(&[&small, &large]), move |request, honest| {
        let is_first = request.path().ends_with(&path) && count() == 0;
        if is_first { honest.silent_after(250_000) } else { honest }
    });
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path()).unwrap();
    let partial = registry.partial(&layout, &large);
    let (runner, pull) = pulling(&registry, &directory);

    let whole_part_is_there = async {
        while fs::metadata(&partial).map_or(0, |partial| partial.len()) < 250_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        finished = runner.run(&pull) => panic!("it was not to come to its end: {finished:?}"),
        () = whole_part_is_there => {}
    }
    // The run was dropped, which kills: nothing of it is an image, and everything else can be used.
    assert_eq!(layout.images().unwrap(), []);
    assert_eq!(fs::metadata(&partial).unwrap().len(), 250_000);

    runner.run(&pull).await.unwrap().success().unwrap();

    assert_eq!(layout.images().unwrap().len(), 1);
    assert_eq!(fs::read(layout.blob_path(&Digest::sha256(&large))).unwrap(), large);
    assert_eq!(registry.ranges(&large), ["-", "bytes=250000-"]);
    assert!(!partial.exists());
}

#[tokio::test]
async fn two_processes_at_once_fetch_everything_once() {
    let layers: Vec<_> = (0..5).map(|seed| noise(20_000, seed)).collect();
    let contents = Contents::image(&layers.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let registry = Registry::honest(contents);
    let directory = tempfile::tempdir().unwrap();
    let (runner, pull) = pulling(&registry, &directory);

    let (one, two) = tokio::join!(runner.run(&pull), runner.run(&pull));

    let printed = [one, two].map(|run| run.unwrap().success().unwrap());
    assert_eq!(printed[0].expose(), printed[1].expose());
    for layer in &layers {
        assert_eq!(registry.ranges(layer), ["-"]);
    }
    assert_eq!(Layout::open(directory.path()).unwrap().images().unwrap().len(), 1);
}
