//! `keyfob provider install` and `list`, down to a login by an installed plugin.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;

mod config_file;

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

#[test]
fn what_an_installed_plugin_says_is_readable() {
    let machine = Machine::new();
    let config = machine.keep(&machine.install_docker_config(&[]).stdout);
    fs::write(machine.path("logins.json"), "{").unwrap();

    let said = machine.get(&config);

    assert!(said.stdout.contains("logins.json"), "{}", said.stdout);
    assert!(!said.stdout.contains("[redacted]"), "{}", said.stdout);
}
