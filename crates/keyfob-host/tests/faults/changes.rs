//! Plugins that change while the host runs. None of them is looked up once and for all.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use keyfob_host::HostOptions;
use keyfob_testkit::{Script, Step, scripted_plugin};

use crate::rig::{Case, Did, Folder, Seen, answer};

/// What an answer that is not kept shows.
fn ran_and_not_kept() -> Seen {
    Seen { cached: vec!["healthy".into()], ..Seen::ran() }
}

fn uncached(user: &str) -> Step {
    Step::Answer(answer(user, "0s"))
}

#[tokio::test]
async fn a_plugin_that_disappears_fails_until_it_is_back() {
    let case = Case::new(|_| vec![uncached("faulty")]);
    assert_eq!(case.ask().await, ran_and_not_kept());

    fs::remove_file(case.folder.plugin("faulty")).unwrap();

    let failed =
        Seen::failed("no plugin at DIR/plugins/faulty: install it there or correct its name");
    assert_eq!(case.ask().await, Seen { runs: 2, ..failed });

    symlink(scripted_plugin(), case.folder.plugin("faulty")).unwrap();

    assert_eq!(case.ask().await, Seen { errors: 1, runs: 3, ..ran_and_not_kept() });
}

#[tokio::test]
async fn what_a_plugin_answered_is_used_after_it_has_disappeared() {
    let case = Case::new(|_| vec![Step::Answer(answer("faulty", "10m"))]);
    assert_eq!(case.ask().await, Seen::ran());

    fs::remove_file(case.folder.plugin("faulty")).unwrap();

    assert_eq!(case.ask().await, Seen { faulty: Did::Remembered, ..Seen::ran() });
}

#[tokio::test]
async fn a_plugin_that_loses_its_execute_bit_is_not_run() {
    let folder = Folder::new();
    fs::copy(scripted_plugin(), folder.plugin("faulty")).unwrap();
    let case = Case::in_folder(folder, HostOptions::default(), |_| vec![uncached("faulty")]);
    assert_eq!(case.ask().await, ran_and_not_kept());

    let not_executable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(case.folder.plugin("faulty"), not_executable).unwrap();

    let failed = Seen::failed(
        "the plugin at DIR/plugins/faulty cannot be run: permission denied; is its execute bit set?",
    );
    assert_eq!(case.ask().await, Seen { runs: 2, ..failed });
}

#[tokio::test]
async fn a_plugin_that_is_replaced_is_run_as_it_is_now() {
    let folder = Folder::new();
    let [script, interpreter, new] =
        ["new.script", "interpreter", "new"].map(|name| folder.path(name));
    fs::write(&script, Script::new([uncached("replaced")]).to_arg()).unwrap();
    symlink(scripted_plugin(), &interpreter).unwrap();
    fs::write(&new, format!("#!{} {}\n", interpreter.display(), script.display())).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    let case = Case::in_folder(folder, HostOptions::default(), |_| vec![uncached("faulty")]);
    assert_eq!(case.ask().await, ran_and_not_kept());

    fs::rename(case.folder.path("new"), case.folder.plugin("faulty")).unwrap();

    let credentials = vec!["replaced".into(), "healthy".into()];
    assert_eq!(case.ask().await, Seen { credentials, runs: 2, ..ran_and_not_kept() });
}
