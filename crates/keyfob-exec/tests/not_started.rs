//! Programs that cannot be started, and programs that cannot be found.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use keyfob_exec::{
    Invocation, LookupError, NotRunnable, ProcessRunner, Program, RunError, Runner as _,
};
use keyfob_testkit::MapEnvironment;
use rustix::fs::{CWD, FileType, mknodat};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(self, name: &str, text: &str, mode: u32) -> Self {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    async fn run(&self, name: &str) -> RunError {
        let invocation = Invocation::new(Program::at(self.path(name)).unwrap());
        ProcessRunner::new(MapEnvironment::default()).run(&invocation).await.unwrap_err()
    }

    fn search(&self, command: &str, path: &str) -> Result<PathBuf, LookupError> {
        let path = path.replace("DIR", self.0.path().to_str().unwrap());
        let host = MapEnvironment::from_iter([("PATH", path)]);
        Program::on_path(command, &host).map(|program| program.path().to_owned())
    }
}

fn folder_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn why(error: &RunError) -> NotRunnable {
    let RunError::NotExecutable { why, .. } = error else { panic!("{error}") };
    *why
}

#[tokio::test]
async fn a_file_that_is_being_written_is_tried_again_for_a_moment() {
    let folder = Folder::new().file("plugin", "#!/bin/sh\n", 0o755);
    let writing = fs::OpenOptions::new().append(true).open(folder.path("plugin")).unwrap();
    assert_eq!(why(&folder.run("plugin").await), NotRunnable::Busy);

    let invocation = Invocation::new(Program::at(folder.path("plugin")).unwrap());
    let runner = ProcessRunner::new(MapEnvironment::default());
    let installed = async {
        tokio::task::yield_now().await;
        drop(writing);
    };
    let (ran, ()) = tokio::join!(runner.run(&invocation), installed);

    ran.unwrap().success().unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_said() {
    let folder = Folder::new()
        .file("plain", "#!/bin/sh\n", 0o644)
        .file("text", "no program at all", 0o755)
        .file("script", "#!/no/such/interpreter\n", 0o755)
        .file("folder/file", "", 0o644);

    assert_eq!(why(&folder.run("plain").await), NotRunnable::Permission);
    assert_eq!(why(&folder.run("text").await), NotRunnable::Format);
    assert_eq!(why(&folder.run("script").await), NotRunnable::Interpreter);
    assert_eq!(why(&folder.run("folder").await), NotRunnable::Directory);
    for missing in ["missing", "plain/below"] {
        let error = folder.run(missing).await;
        let RunError::NotFound { program } = &error else { panic!("{error}") };
        assert_eq!(*program, folder.path(missing));
    }
}

#[test]
fn a_plugin_is_found_in_its_directory() {
    let folder = Folder::new().file("bin/plugin", "", 0o755);

    let program = Program::in_directory(&folder.path("bin"), "plugin").unwrap();

    assert_eq!(program.path(), folder.path("bin/plugin"));
    assert_eq!(program.name(), folder.path("bin/plugin").as_os_str());
}

#[test]
fn a_lookup_in_a_directory_shows_the_path_really_tried() {
    let folder = Folder::new().file("bin/plain", "", 0o644).file("bin/folder/file", "", 0o644);
    let path = |name: &str| folder.path("bin").join(name);
    let lookup = |name| Program::in_directory(&folder.path("bin"), name).unwrap_err();
    let refused = |name, why| LookupError::NotExecutable { path: path(name), why };

    assert_eq!(lookup("plugin"), LookupError::NotFound { path: path("plugin") });
    assert_eq!(lookup("plain"), refused("plain", NotRunnable::Permission));
    assert_eq!(lookup("folder"), refused("folder", NotRunnable::Directory));
    assert_eq!(lookup(""), refused("", NotRunnable::Directory));
    assert_eq!(lookup("../plain"), LookupError::NotAName { name: "../plain".into() });
    let shown = format!("no plugin at {}: ", path("plugin").display());
    assert!(lookup("plugin").to_string().starts_with(&shown));
}

#[test]
fn a_pipe_in_the_plugin_directory_is_not_opened() {
    let folder = Folder::new();
    mknodat(CWD, folder.path("pipe"), FileType::Fifo, 0o755.into(), 0).unwrap();

    let refused = Program::in_directory(folder.0.path(), "pipe").unwrap_err();

    let why = NotRunnable::NotAFile;
    assert_eq!(refused, LookupError::NotExecutable { path: folder.path("pipe"), why });
}

#[test]
fn a_bare_name_is_searched_on_the_hosts_path_in_order() {
    let folder = Folder::new()
        .file("first/plugin", "", 0o644)
        .file("second/plugin", "", 0o755)
        .file("third/plugin", "", 0o755);

    let found = folder.search("plugin", "DIR/first:DIR/second:DIR/third");

    assert_eq!(found.unwrap(), folder.path("second/plugin"));
    let missing = folder.search("plugin", "DIR/first").unwrap_err();
    assert!(missing.to_string().contains("passed over"), "{missing}");
    for name in [".", "..", "", "other"] {
        assert!(matches!(folder.search(name, "DIR/second"), Err(LookupError::NotOnPath { .. })));
    }
    assert!(matches!(folder.search("plugin", ""), Err(LookupError::NotOnPath { .. })));
}

#[test]
fn a_hit_below_the_current_directory_ends_the_search() {
    let executable = fs::Permissions::from_mode(0o755);
    let here = tempfile::Builder::new().permissions(executable).tempfile_in(".").unwrap();
    let name = folder_name(here.path());
    let folder = Folder::new().file(&format!("bin/{name}"), "", 0o755);

    let around = format!("../{}:DIR/bin", folder_name(&std::env::current_dir().unwrap()));
    for path in [".", ".:DIR/bin", ":DIR/bin", &around] {
        let refused = folder.search(name, path);
        assert!(matches!(refused, Err(LookupError::Relative { .. })), "{path}: {refused:?}");
    }
    assert_eq!(folder.search(name, "DIR/bin:.").unwrap(), folder.path("bin").join(name));
}

#[test]
fn a_command_with_a_slash_is_taken_as_written_and_one_without_is_never_a_path() {
    let folder = Folder::new();

    assert_eq!(folder.search("~/plugin", "DIR").unwrap(), PathBuf::from("~/plugin"));
    assert!(matches!(Program::at("plugin"), Err(LookupError::Relative { .. })));
}
