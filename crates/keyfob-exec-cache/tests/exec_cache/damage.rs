//! Files that are broken, somebody else's, or open to others are as good as none.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use super::Stage;

/// Whether the answer is asked for anew after something was done to a file, and kept after that.
async fn is_replaced_after(damage: impl Fn(&Stage, &Path)) {
    let stage = Stage::new();
    stage.next().await;
    damage(&stage, &stage.the_file("json"));
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!(stage.next().await, "hunter2-2");
    let mode = fs::symlink_metadata(stage.the_file("json")).unwrap().permissions().mode();
    assert_eq!((mode, stage.told()), (0o100_600, vec![]));
}

#[tokio::test]
async fn a_broken_answer_is_none() {
    is_replaced_after(|_, file| fs::write(file, "").unwrap()).await;
    is_replaced_after(|_, file| fs::write(file, "{\"keyfobExecCache\":").unwrap()).await;
    is_replaced_after(|_, file| fs::write(file, [0xff; 64]).unwrap()).await;
    is_replaced_after(|_, file| {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, text.replace("\"token\"", "\"tokem\"")).unwrap();
    })
    .await;
    is_replaced_after(|_, file| {
        fs::File::options().write(true).open(file).unwrap().set_len(1 << 30).unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_others_can_read_is_none() {
    for mode in [0o640, 0o604, 0o660, 0o644] {
        is_replaced_after(|_, file| {
            fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn an_answer_that_is_a_link_or_another_answer_is_none() {
    is_replaced_after(|stage, file| {
        fs::rename(file, stage.path("moved")).unwrap();
        symlink(stage.path("moved"), file).unwrap();
    })
    .await;
    is_replaced_after(|_, file| {
        let text = fs::read_to_string(file).unwrap();
        let key = file.file_stem().unwrap().to_str().unwrap().to_owned();
        fs::write(file, text.replace(&key, &key.replace(['0', '1', '2'], "3"))).unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_stands_in_a_lock_harms_nobody() {
    let stage = Stage::new();
    stage.next().await;
    for content in ["", "{", "{\"run\":1}", "\u{1b}[2J", "{\"run\":99999999999,\"pid\":1}"] {
        fs::write(stage.the_file("lock"), content).unwrap();
        fs::remove_file(stage.the_file("json")).unwrap();
        stage.next().await;
        stage.next().await;
    }
    assert_eq!((stage.runs(), stage.told()), (6, vec![]));
}

#[tokio::test]
async fn a_lock_or_a_list_that_leads_elsewhere_is_thrown_away() {
    let stage = Stage::new();
    stage.next().await;
    let elsewhere = stage.path("elsewhere");
    fs::write(&elsewhere, "untouched").unwrap();
    for extension in ["lock", "askers"] {
        let file = stage.the_file(extension);
        fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
    }
    fs::remove_file(stage.the_file("json")).unwrap();
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"untouched");
}

#[tokio::test]
async fn who_could_not_be_remembered_is_given_nothing_that_is_kept() {
    let stage = Stage::new();
    stage.next().await;
    let askers = stage.the_file("askers");
    fs::remove_file(&askers).unwrap();
    fs::create_dir(&askers).unwrap();
    assert_eq!(stage.next().await, "hunter2-2", "a refusal would go unnoticed");
    let told = stage.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("keyfob: the answer of plugin could not be kept: "), "{told:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_is_still_an_answer() {
    let stage = Stage::new();
    stage.next().await;
    let file = stage.the_file("json");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(stage.next().await, "hunter2-2");
    let told = stage.told();
    assert!(told[0].starts_with("keyfob: the answer of plugin could not be kept: "), "{told:?}");
    let unfinished =
        fs::read_dir(stage.path("cache")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(unfinished.filter(|name| name.to_str().unwrap().starts_with('.')).count(), 0);
}

#[tokio::test]
async fn a_clock_that_was_set_back_ends_what_is_kept() {
    let stage = Stage::new();
    stage.next().await;
    stage.clock.set_back(2 * super::MINUTE);
    assert_eq!(stage.next().await, "hunter2-2");
}
