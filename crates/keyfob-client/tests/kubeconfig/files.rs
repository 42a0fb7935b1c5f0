//! Which files are read, and which of them counts.

use std::{ffi::OsStr, path::PathBuf};

use keyfob_client::{Kubeconfig, LoadingRules, Overrides};
use keyfob_testkit::MapEnvironment;

use crate::{Folder, PLUGIN, SERVER, kubeconfig};

#[test]
fn the_variable_names_files_and_without_it_the_home_directory_has_one() {
    let named = |pairs: &[(&str, &str)]| {
        let environment: MapEnvironment = pairs.iter().copied().collect();
        LoadingRules::from_environment(&environment).precedence
    };

    assert_eq!(named(&[("HOME", "/home/ada")]), ["/home/ada/.kube/config"].map(PathBuf::from));
    assert_eq!(
        named(&[("HOME", "/home/ada"), ("KUBECONFIG", "a::/b")]),
        ["a", "", "/b"].map(PathBuf::from)
    );
    assert_eq!(
        named(&[("HOME", "/h"), ("KUBECONFIG", "")]),
        ["/h/.kube/config"].map(PathBuf::from)
    );
}

#[test]
fn files_that_are_not_there_are_passed_over_and_told() {
    let folder = Folder::new(&[("here", &kubeconfig(SERVER, PLUGIN))]);
    let list = [folder.at("gone"), "".into(), folder.at("here"), folder.at("here")];
    let list = std::env::join_paths(list).unwrap();

    let loaded = LoadingRules::from_list(&list).load().unwrap();

    assert_eq!(loaded.current_context, "lab");
    assert_eq!(loaded.missing, [folder.at("gone")]);
    let sources: Vec<_> = loaded.sources.iter().map(|source| source.path.clone()).collect();
    assert_eq!(sources, [Some(folder.at("here"))]);
}

#[test]
fn nothing_at_all_is_no_configuration() {
    let nothing = LoadingRules::from_list(OsStr::new("/no/such/file")).load().unwrap();
    let error = nothing.client_config(&Overrides::default()).unwrap_err();

    assert_eq!(
        error.to_string(),
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
    );
    for empty in ["", "# nothing\n", "null", "kind: Config"] {
        let parsed = Kubeconfig::parse(empty.as_bytes()).unwrap();
        assert_eq!(
            parsed.client_config(&Overrides::default()).unwrap_err().to_string(),
            error.to_string()
        );
    }
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let folder = Folder::new(&[]);

    let error = LoadingRules::from_file(folder.at("gone")).load().unwrap_err();

    assert_eq!(folder.shown(&error), "stat $DIR/gone: no such file or directory");
}

#[test]
fn the_first_file_that_has_a_name_has_all_of_it() {
    let other =
        kubeconfig("{server: 'https://other.test', proxy-url: 'http://proxy.test'}", "{token: t}");
    let folder = Folder::new(&[
        ("first", "users: [{name: ada, user: {}}]"),
        ("second", &other),
        ("third", &kubeconfig(SERVER, PLUGIN).replace("lab", "attic")),
    ]);

    let loaded = folder.load(&["first", "second", "third"]).unwrap();

    assert_eq!(loaded.current_context, "lab", "the first that says one");
    assert_eq!(loaded.contexts.keys().collect::<Vec<_>>(), ["attic", "lab"]);
    assert!(loaded.users["ada"].token.expose().is_empty(), "it is not filled up from others");
    assert_eq!(loaded.clusters["hall"].server, "https://other.test");
    assert_eq!(loaded.users["ada"].origin, Some(folder.at("first")));
    assert_eq!(loaded.clusters["hall"].origin, Some(folder.at("second")));
    assert_eq!(loaded.contexts["attic"].origin, Some(folder.at("third")));
}

#[test]
fn what_is_not_understood_is_kept_and_named() {
    let text =
        "b: {c: [1.0, x]}\nusers:\n- name: ada\n  user:\n    exec: {Command: x, timeout: 5s}\n";
    let parsed = Kubeconfig::parse(text.as_bytes()).unwrap();
    let [source] = parsed.sources.as_slice() else { panic!("one text") };

    assert_eq!(
        source.document.as_str(),
        r#"{"b":{"c":[1,"x"]},"users":[{"name":"ada","user":{"exec":{"Command":"x","timeout":"5s"}}}]}"#
    );
    let ignored: Vec<String> =
        source.ignored.iter().map(|issue| format!("{issue} at {}", issue.at)).collect();
    assert_eq!(
        ignored,
        [
            "unknown field \"b\" at line 1, column 1",
            "unknown field \"users[0].user.exec.Command\" at line 5, column 12",
            "unknown field \"users[0].user.exec.timeout\" at line 5, column 24",
        ]
    );
}

#[test]
fn the_versions_before_v1_may_ask_if_nothing_is_said() {
    let mode = |version: &str, said: &str| {
        let user =
            format!("{{exec: {{apiVersion: client.authentication.k8s.io/{version}{said}}}}}");
        let parsed = crate::parsed(SERVER, &user);
        parsed.users["ada"].exec.clone().unwrap().interactive_mode.as_str().to_owned()
    };

    assert_eq!(mode("v1beta1", ""), "IfAvailable");
    assert_eq!(mode("v1alpha1", ", interactiveMode: null"), "IfAvailable");
    assert_eq!(mode("v1beta1", ", interactiveMode: Always"), "Always");
    assert_eq!((mode("v1", ""), mode("v2", "")), (String::new(), String::new()));
}
