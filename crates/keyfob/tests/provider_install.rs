//! `keyfob provider install` and `list`, down to a login by an installed plugin.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use keyfob_testkit::LeakCheck;
use node::{Said, keyfob, program};
use serde_json::json;
use tempfile::TempDir;

const PROGRAM: &str = "docker-config-credential-provider";

struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        let login = json!({"auths": {"registry.example.com": {"username": "ada", "password": "hunter2-ada"}}});
        fs::write(this.path("logins.json"), login.to_string()).unwrap();
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn install(&self, flags: &[&str]) -> Said {
        let plugins = self.path("plugins");
        keyfob(&[&["provider", "install", plugins.to_str().unwrap()], flags].concat())
    }

    /// The one that needs no cloud.
    fn install_docker_config(&self, flags: &[&str]) -> Said {
        let argument = format!("docker-config=--path={}", self.path("logins.json").display());
        let known = [
            "--providers",
            "docker-config",
            "--match-images",
            "docker-config=registry.example.com",
            "--args",
            &argument,
        ];
        self.install(&[&known[..], flags].concat())
    }

    /// Keeps what was printed as a configuration, and says where.
    fn keep(&self, printed: &str) -> String {
        let path = self.path("config.yaml");
        fs::write(&path, printed).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn get(&self, config: &str) -> Said {
        let plugins = self.path("plugins");
        let place = ["--config", config, "--bin-dir", plugins.to_str().unwrap()];
        let what = ["get", "registry.example.com/app", "--show-secrets", "-o", "json"];
        keyfob(&[&what[..], &place].concat())
    }
}

fn read_link(path: &Path) -> PathBuf {
    fs::read_link(path).unwrap()
}

#[test]
fn an_installed_plugin_gives_the_login_by_the_configuration_that_was_printed() {
    for flags in [&[][..], &["--copy"], &["-o", "json"]] {
        let machine = Machine::new();
        let installed = machine.install_docker_config(flags);
        assert_eq!(installed.code, 0, "{}", installed.stderr);

        let found = machine.get(&machine.keep(&installed.stdout));

        assert_eq!(found.code, 0, "{}", found.stderr);
        let login = &found.json()["credentials"][0];
        assert_eq!(login["provider"], PROGRAM);
        assert_eq!(
            (&login["username"], &login["password"]),
            (&json!("ada"), &json!("hunter2-ada"))
        );
        LeakCheck::new(["hunter2-ada"])
            .text("the configuration", &installed.stdout)
            .text("stderr", &installed.stderr);
    }
}

#[test]
fn what_is_printed_is_valid_and_worth_no_warning() {
    let images =
        ["exchange", "echo", "docker-config", "exec"].map(|name| format!("{name}=r.example"));
    let args =
        ["exchange=--url=https://sts.example", "docker-config=--path=/x", "exec=--helper=pass"];
    let args = args.iter().flat_map(|argument| ["--args", argument]);
    let images = images.iter().flat_map(|images| ["--match-images", images]);
    let generic: Vec<_> = images.chain(args).collect();
    let all = ["--providers", "ecr,gcp,acr,exchange,echo,docker-config,exec"];
    let audiences = ["ecr=sts", "acr=entra", "exchange=broker", "echo=harbor?a=b"];
    let audiences: Vec<_> =
        audiences.iter().flat_map(|audience| ["--token-audience", audience]).collect();
    for flags in [vec![], [&all[..], &audiences, &generic].concat()] {
        for form in ["yaml", "json"] {
            let machine = Machine::new();
            let installed = machine.install(&[&flags[..], &["-o", form]].concat());
            assert_eq!(installed.code, 0, "{}", installed.stderr);

            let judged =
                keyfob(&["validate", "-o", "json", &machine.keep(&installed.stdout)]).json();

            assert_eq!(judged["valid"], true, "{judged}");
            assert_eq!(judged["warnings"], json!([]), "{judged}");
        }
    }
}

#[test]
fn the_clouds_are_installed_when_nothing_is_said() {
    let machine = Machine::new();
    let installed = machine.install(&[]);

    assert_eq!(installed.code, 0, "{}", installed.stderr);
    let running = PathBuf::from(program().get_program()).canonicalize().unwrap();
    for name in ["ecr-credential-provider", "auth-provider-gcp", "acr-credential-provider"] {
        assert_eq!(read_link(&machine.path("plugins").join(name)).canonicalize().unwrap(), running);
        assert!(
            installed.stdout.contains(&format!("- name: \"{name}\"\n")),
            "{}",
            installed.stdout
        );
    }
    assert_eq!(fs::read_dir(machine.path("plugins")).unwrap().count(), 3, "and no draft is left");
    assert!(!installed.stdout.contains("tokenAttributes"), "{}", installed.stdout);
}

#[test]
fn a_directory_is_made_for_all_to_read() {
    let machine = Machine::new();
    machine.install_docker_config(&[]);

    let mode = |name: &str| fs::metadata(machine.path(name)).unwrap().mode() & 0o777;
    fs::create_dir(machine.path("usual")).unwrap();
    assert_eq!(mode("plugins"), mode("usual") & 0o755, "as far as the umask lets it");
}

#[test]
fn a_copy_stands_alone() {
    let machine = Machine::new();
    assert_eq!(machine.install_docker_config(&["--copy"]).code, 0);

    let copy = machine.path("plugins/keyfob");
    assert_eq!(read_link(&machine.path("plugins").join(PROGRAM)), Path::new("keyfob"));
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o755);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert_eq!(size(&copy), size(Path::new(program().get_program())));
    let again = machine.install_docker_config(&["--copy"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
}

#[test]
fn what_is_not_ours_is_left_alone_unless_forced() {
    let machine = Machine::new();
    let place = machine.path("plugins").join(PROGRAM);
    fs::create_dir(machine.path("plugins")).unwrap();
    fs::write(&place, "theirs").unwrap();

    let refused = machine.install_docker_config(&["--copy"]);

    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains(place.to_str().unwrap()), "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&place).unwrap(), "theirs");
    assert!(!machine.path("plugins/keyfob").exists(), "nothing was changed");
    assert_eq!(machine.install_docker_config(&["--force"]).code, 0);
    assert!(place.is_symlink());
}

#[test]
fn a_file_in_the_place_of_the_copy_that_is_not_ours_is_left_alone() {
    let machine = Machine::new();
    let place = machine.path("plugins/keyfob");
    fs::create_dir(machine.path("plugins")).unwrap();
    fs::write(&place, "theirs").unwrap();

    let refused = machine.install_docker_config(&["--copy"]);

    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains(place.to_str().unwrap()), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&place).unwrap(), "theirs");
    assert_eq!(machine.install_docker_config(&["--copy", "--force"]).code, 0);
    assert_eq!(machine.install_docker_config(&["--copy"]).code, 0, "now it is ours");
}

#[test]
fn a_link_to_another_program_is_not_ours_and_one_to_an_older_keyfob_is() {
    let machine = Machine::new();
    let place = machine.path("plugins").join(PROGRAM);
    fs::create_dir(machine.path("plugins")).unwrap();
    symlink("/opt/other", &place).unwrap();
    assert_eq!(machine.install_docker_config(&[]).code, 1);
    fs::remove_file(&place).unwrap();
    symlink("/opt/old/keyfob", &place).unwrap();

    let installed = machine.install_docker_config(&[]);

    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(place.exists());
}

#[test]
fn a_directory_in_the_way_is_never_replaced() {
    let machine = Machine::new();
    fs::create_dir_all(machine.path("plugins").join(PROGRAM)).unwrap();

    let refused = machine.install_docker_config(&["--force"]);

    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("is a directory: move it away"), "{}", refused.stderr);
    let refused = machine.install(&[
        "--force",
        "--providers=acr,docker-config",
        "--match-images=docker-config=r.example",
        "--args=docker-config=--path=/etc/registry",
    ]);
    assert!(refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    assert_eq!(fs::read_dir(machine.path("plugins")).unwrap().count(), 1);
}

#[test]
fn a_link_in_the_place_of_the_copy_is_replaced_by_it() {
    let machine = Machine::new();
    let copy = machine.path("plugins/keyfob");
    fs::create_dir(machine.path("plugins")).unwrap();
    symlink(program().get_program(), &copy).unwrap();

    assert_eq!(machine.install_docker_config(&["--copy"]).code, 0);

    assert!(fs::symlink_metadata(&copy).unwrap().is_file());
}

#[test]
fn tokens_are_sent_to_those_who_can_use_them() {
    let machine = Machine::new();
    let flags = ["--providers", "echo,docker-config", "--match-images", "echo=harbor.example.com"];
    let audience = ["--token-audience", "harbor", "-o", "json"];

    let installed = machine.install_docker_config(&[&flags[..], &audience].concat());

    assert_eq!(installed.code, 0, "{}", installed.stderr);
    let providers = &installed.json()["providers"];
    let echo = providers
        .as_array()
        .unwrap()
        .iter()
        .find(|each| each["name"] == "echo-credential-provider");
    let attributes = &echo.unwrap()["tokenAttributes"];
    assert_eq!(attributes["serviceAccountTokenAudience"], "harbor");
    assert_eq!(
        attributes["cacheType"], "Token",
        "a kubelet refuses a token as the password otherwise"
    );
    assert_eq!(attributes["requireServiceAccount"], true);
    assert_eq!(installed.stdout.matches("tokenAttributes").count(), 1);
    assert!(installed.stderr.contains("request-serviceaccounts-token-audience on harbor"));
}

#[test]
fn the_kubelet_is_told_to_send_the_annotations_that_the_arguments_read() {
    let args = [
        "--args=ecr=--role-annotation=example.com/role",
        "--args=gcp=--identity-provider=https://cluster.example",
        "--args=gcp=--project-id=p",
        "--args=gcp=--impersonate-from-annotation",
        "--args=exchange=--url=https://sts.example",
        "--args=exchange=--username={annotation:example.com/user}",
        "--args=exchange=--field=who={annotation:example.com/user}",
        "--match-images=exchange=r.example",
    ];
    let flags = ["--providers=ecr,gcp,exchange", "-o=json"];
    let audiences =
        ["--token-audience=ecr=a", "--token-audience=gcp=a", "--token-audience=exchange=a"];

    let installed = Machine::new().install(&[&flags[..], &audiences, &args].concat());

    assert_eq!(installed.code, 0, "{}", installed.stderr);
    let printed = installed.json();
    let providers = printed["providers"].as_array().unwrap().iter();
    let keys = providers
        .map(|each| &each["tokenAttributes"]["optionalServiceAccountAnnotationKeys"])
        .collect::<Vec<_>>();
    let gcp = json!(["iam.gke.io/enable-wi-image-pull", "iam.gke.io/gcp-service-account"]);
    assert_eq!(keys, [&json!(["example.com/role"]), &gcp, &json!(["example.com/user"])]);
}

const EXEC: [&str; 2] = ["--providers=exec", "--args=exec=--helper=pass"];

#[test]
fn flags_that_do_not_fit_together_change_nothing_and_say_what_is_missing() {
    for (flags, shown) in [
        (&["--providers", "echo", "--match-images", "echo=r.io"][..], "give --token-audience"),
        (&["--providers", "docker-config"], "--match-images docker-config=PATTERN"),
        (
            &["--providers", "exec", "--args", "exec=--helper=pass"],
            "give --match-images exec=PATTERN",
        ),
        (
            &[
                "--providers=exchange",
                "--match-images=exchange=r.io",
                "--token-audience=a",
                "--args=exchange=--url=http://broker.example/token",
            ],
            "add --allow-http",
        ),
        (&["--merge"], "--config-file <FILE>"),
        (&["--providers", "ecr", "--match-images", "echo=r.io"], "add echo to --providers"),
        (
            &[&EXEC[..], &["--match-images=exec=r.io", "--token-audience=a"]].concat(),
            "leave --token-audience out",
        ),
        (&[&EXEC[..], &["--match-images=exec=a b"]].concat(), "a kubelet would not start"),
        (&["--providers", "ecr", "--token-audience", "gcp=a"], "add gcp to --providers"),
        (
            &[&EXEC[..], &["--match-images=exec=r.io", "--token-audience=exec=a"]].concat(),
            "exec cannot use a pod's token",
        ),
        (&["--providers=ecr", "--token-audience=a", "--token-audience=b"], "two things of ecr"),
        (
            &["--providers=exec", "--match-images=exec=r.io"],
            "--helper <[HOST=]NAME> (its arguments are given by --args exec=",
        ),
        (&["--providers=docker-config", "--match-images=docker-config=r.io"], "give --path"),
        (&["--providers=ecr", "--args=ecr=--fallbcak=none"], "'--fallbcak'"),
        (&["--providers=gcp", "--args=gcp=--identity-provider=https://x"], "needs --project-id"),
        (&["--match-images", "ercr=r.io"], "no plugin named ercr"),
        (&["--providers", "ercr"], "'ecr'"),
    ] {
        let machine = Machine::new();
        let refused = machine.install(flags);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{flags:?}");
        assert!(refused.stderr.contains(shown), "{flags:?}: {}", refused.stderr);
        assert!(!machine.path("plugins").exists(), "{flags:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let machine = Machine::new();
    fs::write(machine.path("plugins"), "a file").unwrap();

    let refused = machine.install_docker_config(&[]);

    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("cannot make"), "{}", refused.stderr);
}

#[test]
fn all_plugins_are_listed_for_people_and_for_programs() {
    let table = keyfob(&["provider", "list"]);
    let rows = keyfob(&["provider", "list", "-o", "json"]).json();

    assert!(table.stdout.starts_with("NAME           PROGRAM "), "{}", table.stdout);
    assert_eq!(table.stdout.lines().count(), rows.as_array().unwrap().len() + 1);
    let echo = rows.as_array().unwrap().iter().find(|row| row["name"] == "echo").unwrap();
    assert_eq!(echo["program"], "echo-credential-provider");
    assert_eq!(echo["about"], "registries that take the pod's token itself");
}

#[test]
fn help_and_completions_know_the_plugins_and_a_near_miss_is_told() {
    let help = keyfob(&["provider", "--help"]);
    let completions = keyfob(&["completions", "bash"]);
    let missed = keyfob(&["provider", "eco"]);

    assert!(
        help.stdout.contains("docker-config  docker-config-credential-provider: "),
        "{}",
        help.stdout
    );
    assert!(completions.stdout.contains("docker-config"));
    assert_eq!((missed.code, missed.stdout.as_str()), (2, ""));
    assert!(missed.stderr.contains("'echo'"), "{}", missed.stderr);
}

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
    let first_kep = include_str!("../../keyfob-host/tests/fixtures/first-kep.yaml");
    let rows = [
        ("[]".to_owned(), "cannot be read as a configuration"),
        (String::new(), "cannot be read as a configuration"),
        (THEIRS.replace("their.example", "'their.example:x'"), "a kubelet would not start with"),
        (THEIRS.replace("their-plugin", "no-such-plugin"), "no plugin at"),
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
        (PathBuf::from("/nowhere/c.yaml"), 4, "cannot write /nowhere/c.yaml: "),
        (place("logins.json/c.yaml"), 4, "cannot write "),
    ] {
        let refused = machine.install_into(&path, &["--merge"]);
        assert_eq!(refused.code, code, "{}: {}", path.display(), refused.stderr);
        assert!(refused.stderr.contains(words), "{}: {}", path.display(), refused.stderr);
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
        format!("--image-credential-provider-config={}", file.display()),
        format!("--image-credential-provider-bin-dir={}", machine.path("plugins").display()),
    ] {
        assert!(installed.stderr.contains(&hint), "{hint}: {}", installed.stderr);
    }
}

#[test]
fn an_audience_for_several_clouds_says_whose_it_is() {
    let machine = Machine::new();

    let refused = machine.install(&["--token-audience", "sts.amazonaws.com"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--token-audience ecr=…"), "{}", refused.stderr);

    let installed = machine.install(&["--token-audience", "ecr=sts.amazonaws.com"]);
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert_eq!(installed.stdout.matches("tokenAttributes").count(), 1);
}
