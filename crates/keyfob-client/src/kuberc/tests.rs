use std::fs;

use keyfob_testkit::MapEnvironment;
use tempfile::TempDir;

use super::*;
use crate::PolicyType;

const HEAD: &str = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";

/// A home with this kuberc in the usual place.
fn home(text: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".kube")).unwrap();
    fs::write(home.path().join(".kube/kuberc"), text).unwrap();
    home
}

fn in_home(home: &TempDir) -> MapEnvironment {
    [("HOME", home.path())].into_iter().collect()
}

fn loaded(text: &str) -> Result<Option<Kuberc>, KubercError> {
    let home = home(text);
    Kuberc::load(None, &in_home(&home))
}

fn policy_of(text: &str) -> PluginPolicy {
    loaded(text).unwrap().unwrap().policy
}

fn refusal(text: &str) -> String {
    loaded(text).unwrap_err().to_string()
}

fn allowing(commands: &[&str]) -> PluginPolicy {
    let list = commands.iter().copied().map(str::to_owned).collect();
    PluginPolicy { policy_type: PolicyType::Allowlist, allowlist: Some(list) }
}

#[test]
fn the_policy_of_the_usual_file_counts() {
    let text = format!(
        "# mine\n{HEAD}aliases: [{{name: getn, command: get}}]\ncredentialPluginPolicy: Allowlist\n\
         credentialPluginAllowlist:\n- command: /opt/login\n- name: sso\n- {{name: both, command: both}}\n"
    );
    let kuberc = loaded(&text).unwrap().unwrap();

    assert_eq!(kuberc.policy(), &allowing(&["/opt/login", "sso", "both"]));
    assert!(kuberc.path().ends_with(".kube/kuberc"));
    assert_eq!(kuberc.warnings(), [] as [&str; 0]);
}

#[test]
fn json_is_read_too() {
    let text = r#"{"apiVersion":"kubectl.config.k8s.io/v1beta1","kind":"Preference",
                   "credentialPluginPolicy":"DenyAll","credentialPluginAllowlist":null}"#;

    assert_eq!(policy_of(text).policy_type, PolicyType::DenyAll);
}

#[test]
fn no_file_and_an_empty_one_have_no_policy() {
    let nobody = tempfile::tempdir().unwrap();

    assert_eq!(Kuberc::load(None, &in_home(&nobody)).unwrap(), None);
    for text in ["", " \n", "---\n", "# nothing\n---\n# here\n"] {
        assert_eq!(loaded(text).unwrap(), None, "{text:?}");
    }
    assert_eq!(policy_of(HEAD), PluginPolicy::default());
}

#[test]
fn the_first_preference_that_is_known_counts() {
    let other =
        "apiVersion: kubectl.config.k8s.io/v9\nkind: Preference\ncredentialPluginPolicy: 5\n";
    let deny = format!("{HEAD}credentialPluginPolicy: DenyAll\n");
    let allow = format!("{HEAD}credentialPluginPolicy: AllowAll\n");
    let stranger = "kind: Pod\napiVersion: v1\n";

    let text = format!("---\n{stranger}---\n{other}---\n{deny}---\n{allow}");
    assert_eq!(policy_of(&text).policy_type, PolicyType::DenyAll);
    let behind = format!("{deny}---\nnot: [yaml\n");
    assert_eq!(policy_of(&behind).policy_type, PolicyType::DenyAll);
}

#[test]
fn the_older_version_has_no_policy_and_says_so() {
    let text = "apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\noverrides: []\ncredentialPluginPolicy: DenyAll\n";
    let kuberc = loaded(text).unwrap().unwrap();

    assert_eq!(kuberc.policy(), &PluginPolicy::default());
    assert_eq!(kuberc.warnings(), ["unknown field \"credentialPluginPolicy\""]);
}

#[test]
fn what_means_nothing_is_warned_about() {
    let text = format!(
        "{HEAD}credentialPluginPolicy: AllowAll\ncredentialPluginPolicy: Allowlist\ncredentialPluginAllowList: []\n\
         credentialPluginAllowlist:\n- command: a\n  sha256: b\n"
    );
    let kuberc = loaded(&text).unwrap().unwrap();

    assert_eq!(kuberc.policy(), &allowing(&["a"]));
    let warnings = kuberc.warnings().join("\n");
    for what in [
        "key \"credentialPluginPolicy\" already set in map",
        "unknown field \"credentialPluginAllowList\"",
        "unknown field \"credentialPluginAllowlist[0].sha256\"",
    ] {
        assert!(warnings.contains(what), "{warnings}");
    }
}

#[test]
fn a_broken_file_is_an_error_also_in_the_usual_place_and_quotes_nothing() {
    let deny = format!("{HEAD}credentialPluginPolicy: DenyAll\n");
    let rows = [
        ("hunter2: [".to_owned(), "document 1: "),
        ("[hunter2]".to_owned(), "document 1: document: expected an object, found a list"),
        (format!("hunter2: [\n---\n{deny}"), "document 1: "),
        (
            format!("{HEAD}credentialPluginPolicy: [hunter2]\n---\n{deny}"),
            "document 1: credentialPluginPolicy: expected a string",
        ),
        (
            format!("{HEAD}credentialPluginAllowlist: {{a: hunter2}}\n"),
            "credentialPluginAllowlist: expected a list",
        ),
        (
            format!("{HEAD}credentialPluginAllowlist: [hunter2]\n"),
            "credentialPluginAllowlist[0]: expected an object",
        ),
        (
            format!(
                "{HEAD}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{{name: hunter2, command: b}}]\n"
            ),
            "entry #1 has a name and a command that differ",
        ),
        ("kind: Secret\napiVersion: v1\ndata: hunter2\n".to_owned(), "no valid preferences found"),
        (
            "kind: Preference\ncredentialPluginPolicy: DenyAll\n".to_owned(),
            "no valid preferences found",
        ),
    ];
    for (text, want) in rows {
        let refusal = refusal(&text);
        assert!(refusal.contains(want) && refusal.contains("KUBERC=off"), "{refusal}");
        assert!(!refusal.contains("hunter2"), "{refusal}");
    }
}

#[test]
fn a_policy_that_cannot_be_meant_is_an_error() {
    let with = |rest: &str| refusal(&format!("{HEAD}{rest}"));

    assert!(
        with("credentialPluginPolicy: denyall\n").ends_with("unknown plugin policy: \"denyall\"")
    );
    assert!(with("credentialPluginPolicy: Allowlist\n").contains("allowlist is unspecified"));
    assert!(with("credentialPluginAllowlist: []\n").contains("allowlist is non-nil"));
    let empty =
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: a}, {}, null]\n";
    assert!(with(empty).ends_with("empty allowlist entry #2"));
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let home = home(HEAD);
    let missing = home.path().join("none");
    let by_variable: MapEnvironment =
        [("HOME", home.path()), ("KUBERC", missing.as_path())].into_iter().collect();

    for error in [
        Kuberc::load(Some(&missing), &in_home(&home)).unwrap_err(),
        Kuberc::load(None, &by_variable).unwrap_err(),
    ] {
        let want = format!("kuberc: open {}: no such file or directory", missing.display());
        assert!(error.to_string().starts_with(&want), "{error}");
    }
}

#[test]
fn a_file_that_nobody_may_read_or_that_has_no_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".kube/kuberc")).unwrap();
    assert!(Kuberc::load(None, &in_home(&folder)).is_err());
    assert!(Kuberc::load(Some(Path::new("/dev/zero")), &in_home(&folder)).is_err());
    assert!(refusal(&"#".repeat(2 << 20)).contains("larger than 1 MiB"));
}

#[test]
fn the_flag_comes_before_the_variable_and_the_variable_before_the_home() {
    let deny = format!("{HEAD}credentialPluginPolicy: DenyAll\n");
    let home = home(HEAD);
    let other = home.path().join("other");
    fs::write(&other, deny).unwrap();
    let usual = home.path().join(".kube/kuberc");
    let named: MapEnvironment = [("HOME", home.path()), ("KUBERC", &other)].into_iter().collect();
    let empty: MapEnvironment =
        [("HOME", home.path()), ("KUBERC", Path::new(""))].into_iter().collect();
    let used = |explicit: Option<&Path>, environment| {
        Kuberc::load(explicit, environment).unwrap().unwrap().path
    };

    assert_eq!(used(None, &named), other);
    assert_eq!(used(None, &empty), usual);
    assert_eq!(used(Some(&other), &empty), other);
    // To name the usual place leaves the word to the variable, as upstream.
    assert_eq!(used(Some(&usual), &named), other);
}

#[test]
fn off_is_off_and_cannot_be_mixed_with_a_file() {
    let home = home("kind: [");
    let off: MapEnvironment =
        [("HOME", home.path()), ("KUBERC", Path::new("off"))].into_iter().collect();

    assert_eq!(Kuberc::load(None, &off).unwrap(), None);
    assert!(matches!(Kuberc::load(Some(Path::new("/a")), &off), Err(KubercError::Off)));
}
