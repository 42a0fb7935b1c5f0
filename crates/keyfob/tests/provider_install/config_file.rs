//! What becomes of a configuration file that is there already.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use keyfob_testkit::LeakCheck;

use crate::{
    Machine, PROGRAM,
    node::{Said, keyfob},
};

/// A configuration of somebody else's plugin.
const THEIRS: &str = "# Written by the platform team.
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: their-plugin # do not touch
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [their.example]
  defaultCacheDuration: 5m
  env: [{name: THEIR_TOKEN, value: hunter2-theirs}]
";

impl Machine {
    /// A file that a kubelet uses already, with the plugin it names.
    fn with_theirs() -> (Self, PathBuf) {
        let machine = Self::new();
        fs::create_dir(machine.path("plugins")).unwrap();
        symlink("/bin/true", machine.path("plugins/their-plugin")).unwrap();
        let file = machine.path("providers.yaml");
        fs::write(&file, THEIRS).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        (machine, file)
    }

    fn install_into(&self, file: &Path, flags: &[&str]) -> Said {
        let said = self
            .install_docker_config(&[&["--config-file", file.to_str().unwrap()], flags].concat());
        LeakCheck::new(["hunter2"]).text("stderr", &said.stderr);
        said
    }

    /// Everything in the machine's directory and in the plugin directory, by name.
    fn names(&self) -> Vec<String> {
        let directories = [self.0.path().to_owned(), self.path("plugins")];
        let entries = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn backups(&self) -> Vec<PathBuf> {
        let names = self.names().into_iter().filter(|name| name.contains(".bak-"));
        names.map(|name| self.path(&name)).collect()
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_new_configuration_file_is_written_and_written_again_without_a_change() {
    let machine = Machine::new();
    let file = machine.path("providers.yaml");

    for changed in ["was written", "it stays as it is"] {
        let installed = machine.install_into(&file, &[]);
        assert_eq!((installed.code, installed.stdout.as_str()), (0, ""), "{}", installed.stderr);
        assert!(installed.stderr.contains(changed), "{}", installed.stderr);
    }
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
    assert_eq!(machine.get(file.to_str().unwrap()).code, 0);
    assert_eq!(machine.backups(), [""; 0].map(PathBuf::from));
}

#[test]
fn an_existing_configuration_is_never_overwritten() {
    for flags in [&[][..], &["--force"], &["--copy"], &["-o", "json"], &["--dry-run"]] {
        let (machine, file) = Machine::with_theirs();
        let before = machine.names();

        let refused = machine.install_into(&file, flags);

        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{flags:?}");
        let named = format!(
            "keyfob: {} is there already and configures their-plugin: nothing was changed\n\
             keyfob: add --merge to add or replace just {PROGRAM} in it (a backup is kept), ",
            file.display()
        );
        assert!(refused.stderr.starts_with(&named), "{}", refused.stderr);
        assert_eq!((text(&file), machine.names()), (THEIRS.to_owned(), before), "{flags:?}");
    }
}

#[test]
fn merging_keeps_other_providers_comments_mode_and_a_backup() {
    let (machine, file) = Machine::with_theirs();

    let merged = machine.install_into(&file, &["--merge"]);

    assert_eq!((merged.code, merged.stdout.as_str()), (0, ""), "{}", merged.stderr);
    let now = text(&file);
    let ours = now.strip_prefix(THEIRS).unwrap();
    assert!(ours.starts_with(&format!("- name: \"{PROGRAM}\"\n")), "{now}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
    let [backup] = &machine.backups()[..] else { unreachable!("{:?}", machine.backups()) };
    assert_eq!(text(backup), THEIRS);
    assert_eq!(fs::metadata(backup).unwrap().mode() & 0o777, 0o640);
    for said in [
        format!("{PROGRAM} is added to {}", file.display()),
        format!("their-plugin is kept in {}", file.display()),
        format!("the old file is kept as {}", backup.display()),
    ] {
        assert!(merged.stderr.contains(&said), "{said}: {}", merged.stderr);
    }
    let plugins = machine.path("plugins");
    let place = [file.to_str().unwrap(), "--bin-dir", plugins.to_str().unwrap()];
    let judged = keyfob(&[&["validate"], &place[..]].concat());
    assert_eq!(judged.code, 0, "{}", judged.stdout);
    assert_eq!(machine.get(file.to_str().unwrap()).code, 0);
}

#[test]
fn merging_again_changes_only_what_changed_and_keeps_every_backup() {
    let (machine, file) = Machine::with_theirs();
    assert_eq!(machine.install_into(&file, &["--merge"]).code, 0);
    let first = text(&file);

    let same = machine.install_into(&file, &[]);
    assert_eq!((same.code, text(&file)), (0, first.clone()), "{}", same.stderr);
    assert_eq!(machine.backups().len(), 1);

    let pattern = "docker-config=other.example.com";
    let changed = machine.install_into(&file, &["--merge", "--match-images", pattern]);
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    let replaced = format!("{PROGRAM} is replaced in ");
    assert!(changed.stderr.contains(&replaced), "{}", changed.stderr);
    let line = "  - \"registry.example.com\"\n";
    let want = first.replace(line, &format!("{line}  - \"other.example.com\"\n"));
    assert_eq!(text(&file), want);
    let kept: Vec<_> = machine.backups().iter().map(|path| text(path)).collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.contains(&THEIRS.to_owned()) && kept.contains(&first));
}

#[test]
fn a_dry_run_says_everything_and_changes_nothing() {
    let (machine, file) = Machine::with_theirs();
    let before = machine.names();

    let planned = machine.install_into(&file, &["--merge", "--dry-run"]);

    assert_eq!(planned.code, 0, "{}", planned.stderr);
    assert_eq!((text(&file), machine.names()), (THEIRS.to_owned(), before));
    let link = machine.path("plugins").join(PROGRAM);
    for said in [
        format!("{} would be a link to ", link.display()),
        format!("{PROGRAM} would be added to {}", file.display()),
        "nothing was changed (--dry-run)".to_owned(),
    ] {
        assert!(planned.stderr.contains(&said), "{said}: {}", planned.stderr);
    }
    assert_eq!(machine.install_into(&file, &["--merge"]).code, 0);
    assert_eq!(planned.stdout, text(&file), "it prints the file as it will be");

    let nothing = Machine::new();
    let printed = nothing.install_docker_config(&["--dry-run"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    assert!(!nothing.path("plugins").exists());
    assert_eq!(printed.stdout, nothing.install_docker_config(&[]).stdout);
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let (machine, file) = Machine::with_theirs();
    let link = machine.path("link.yaml");
    symlink(&file, &link).unwrap();

    assert_eq!(machine.install_into(&link, &[]).code, 1);
    let merged = machine.install_into(&link, &["--merge"]);

    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert!(link.is_symlink());
    assert!(text(&file).starts_with(THEIRS) && text(&file).contains(PROGRAM));
}

#[test]
fn a_merge_that_would_keep_a_kubelet_from_starting_is_refused() {
    let first_kep = include_str!("../../../keyfob-config/tests/fixtures/first-kep.yaml");
    let rows = [
        ("[]".to_owned(), "cannot be read as a configuration"),
        (String::new(), "cannot be read as a configuration"),
        (THEIRS.replace("their.example", "'their.example:x'"), "a kubelet would not start with"),
        (THEIRS.replace("their-plugin", "no-such-plugin"), "and there is no plugin at"),
        (THEIRS.replace("name: their-plugin", "name: ''"), "the provider has no name"),
        (first_kep.to_owned(), "this is the first proposal's configuration"),
    ];
    for (old, words) in rows {
        let (machine, file) = Machine::with_theirs();
        fs::write(&file, &old).unwrap();
        let before = machine.names();

        let refused = machine.install_into(&file, &["--merge"]);

        assert_eq!(refused.code, 1, "{old}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{old}: {}", refused.stderr);
        assert!(refused.stderr.contains("nothing was changed"), "{old}: {}", refused.stderr);
        assert_eq!((text(&file), machine.names()), (old, before));
    }
}

#[test]
fn a_place_where_no_configuration_can_be_is_named_before_anything_is_changed() {
    let machine = Machine::new();
    let place = |name: &str| machine.path(name);
    fs::create_dir(place("directory")).unwrap();
    symlink("/nowhere/at/all", place("dangling")).unwrap();
    for (path, code, words) in [
        (place("directory"), 1, "is a directory: nothing was changed\nkeyfob: name a file in it"),
        (place("dangling"), 1, "cannot be read: No such file"),
        (PathBuf::from("/dev/null"), 1, "is no regular file"),
        (place("logins.json/c.yaml"), 4, "cannot write "),
    ] {
        let refused = machine.install_into(&path, &["--merge"]);
        assert_eq!(refused.code, code, "{}: {}", path.display(), refused.stderr);
        assert!(refused.stderr.contains(words), "{}: {}", path.display(), refused.stderr);
        assert!(!refused.stderr.contains(".keyfob-"), "{}", refused.stderr);
        let rehearsed = machine.install_into(&path, &["--merge", "--dry-run"]);
        assert_eq!((rehearsed.code, rehearsed.stderr), (code, refused.stderr));
        assert!(!place("plugins").exists(), "{}", path.display());
    }
}

#[test]
fn another_file_of_the_directory_that_configures_the_same_plugin_is_pointed_out() {
    let (machine, theirs) = Machine::with_theirs();
    fs::write(&theirs, THEIRS.replace("their-plugin", PROGRAM)).unwrap();

    let installed = machine.install_into(&machine.path("ours.yaml"), &[]);

    assert_eq!(installed.code, 0, "{}", installed.stderr);
    let warning = format!(
        "{} configures {PROGRAM} too: a kubelet whose --image-credential-provider-config is the whole directory would not start",
        theirs.display()
    );
    assert!(installed.stderr.contains(&warning), "{}", installed.stderr);
}

#[test]
fn installing_ends_with_what_is_still_to_be_done() {
    let machine = Machine::new();
    let file = machine.path("providers.yaml");
    let flags =
        ["--providers=ecr", "--token-audience=a b", "--config-file", file.to_str().unwrap()];

    let installed = machine.install(&flags);

    assert_eq!(installed.code, 0, "{}", installed.stderr);
    for hint in [
        "keyfob audience rbac --audience 'a b' | kubectl apply -f -".to_owned(),
        format!(
            "\n--image-credential-provider-config={} --image-credential-provider-bin-dir={}\n",
            file.display(),
            machine.path("plugins").display()
        ),
    ] {
        assert!(installed.stderr.contains(&hint), "{hint}: {}", installed.stderr);
    }
}

#[test]
fn the_directory_of_a_new_configuration_is_created() {
    let machine = Machine::new();
    let file = machine.path("etc/kubernetes/config.yaml");

    let rehearsed = machine.install_into(&file, &["--dry-run"]);
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.stderr);
    assert!(!machine.path("etc").exists(), "--dry-run changes nothing");

    let installed = machine.install_into(&file, &[]);
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(file.is_file() && machine.path("plugins").join(PROGRAM).exists());
}
