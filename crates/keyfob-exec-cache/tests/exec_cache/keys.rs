//! Which questions have the same answer.

use std::fs;

use keyfob_api::{ExecCluster, ExecCredentialSpec, ExecVersion, RawJson};

use super::{Ask, Stage};

fn cluster(server: &str) -> ExecCluster {
    ExecCluster { server: server.into(), ..ExecCluster::default() }
}

fn told(cluster: ExecCluster) -> Ask {
    let spec = ExecCredentialSpec { cluster: Some(cluster), ..ExecCredentialSpec::default() };
    Ask { info: Some((ExecVersion::V1, spec)), ..Ask::default() }
}

#[test]
fn whatever_could_log_in_somebody_else_is_another_question() {
    let stage = Stage::new();
    stage.install("other", "first");
    let here = Some(stage.path("bin"));
    let spec = ExecCredentialSpec::default();
    let questions = [
        Ask::default(),
        Ask { command: "other", ..Ask::default() },
        Ask { args: vec!["get-token", "--profile=x"], ..Ask::default() },
        Ask { args: vec!["get-token --profile=x"], ..Ask::default() },
        Ask { args: vec![], ..Ask::default() },
        Ask { vars: vec![], ..Ask::default() },
        Ask { vars: vec![("HOME", "/home/bob")], ..Ask::default() },
        Ask { vars: vec![("HOME", "/home/ada"), ("AWS_PROFILE", "a")], ..Ask::default() },
        Ask { vars: vec![("HOME", "/home/ada"), ("AWS_PROFILE", "b")], ..Ask::default() },
        Ask { vars: vec![("HOME", "/home/ada"), ("MY", "a")], named: vec!["MY"], ..Ask::default() },
        Ask { vars: vec![("HOME", "/home/ada"), ("MY", "b")], named: vec!["M*"], ..Ask::default() },
        Ask { info: Some((ExecVersion::V1Beta1, spec)), ..Ask::default() },
        Ask { info: None, ..Ask::default() },
        told(cluster("https://one")),
        told(cluster("https://two")),
        told(ExecCluster { certificate_authority_data: b"pem".to_vec(), ..cluster("https://one") }),
        told(ExecCluster { config: RawJson::parse("{\"a\":1}").ok(), ..cluster("https://one") }),
        Ask { args: vec!["plugin"], directory: here, ..Ask::default() },
    ];
    let mut keys: Vec<_> = questions.iter().map(|ask| ask.on(&stage).key().to_owned()).collect();
    stage.install("plugin", "second");
    keys.push(Ask::default().on(&stage).key().to_owned());
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == key), Some(at), "{at}");
    }
}

#[test]
fn what_logs_in_nobody_else_is_the_same_question() {
    let stage = Stage::new();
    let key = |ask: Ask| ask.on(&stage).key().to_owned();
    let interactive = ExecCredentialSpec { interactive: true, ..ExecCredentialSpec::default() };
    let same = key(Ask::default());
    for ask in [
        Ask { info: Some((ExecVersion::V1, interactive)), ..Ask::default() },
        Ask { vars: vec![("TERM", "x"), ("SHLVL", "3"), ("HOME", "/home/ada")], ..Ask::default() },
        Ask { vars: vec![("HOME", "/home/ada"), ("MY", "a")], ..Ask::default() },
        Ask { client: Some(7), ..Ask::default() },
        Ask { directory: Some(stage.path("bin")), ..Ask::default() },
    ] {
        assert_eq!(key(ask), same);
    }
}

#[test]
fn what_the_kubeconfig_sets_for_the_plugin_is_part_of_the_question() {
    let stage = Stage::new();
    let ask = |value, inherited: Option<Vec<_>>| Ask {
        vars: vec![("WHO", value), ("LANG", "C")],
        client: Some(7),
        inherited,
        ..Ask::default()
    };
    let key = |ask: Ask| ask.on(&stage).key().to_owned();
    let clients = || Some(vec![("LANG", "C"), ("PATH", "elsewhere")]);

    assert_ne!(key(ask("ada", clients())), key(ask("bob", clients())));
    assert_eq!(key(ask("ada", None)), key(ask("bob", None)), "nobody can tell");
    let question = ask("ada", clients()).on(&stage);
    let names: Vec<_> = question.parts().iter().map(|part| part.name.as_str()).collect();
    assert!(names.contains(&"variable WHO") && !names.contains(&"variable LANG"), "{names:?}");
}

#[test]
fn the_current_directory_counts_only_for_what_is_found_from_there() {
    let stage = Stage::new();
    fs::write(stage.path("profile"), "").unwrap();
    let counts = |command: &'static str, arg: &'static str| {
        let directory = Some(stage.path(""));
        let ask = Ask { command, args: vec![arg], directory, ..Ask::default() };
        ask.on(&stage).parts().iter().any(|part| part.name == "directory")
    };
    for arg in
        ["profile", "--config=profile", "./none", "../none", "--config=./none", ".", "bin/plugin"]
    {
        assert!(counts("plugin", arg), "{arg}");
    }
    for arg in
        ["other", "", "--config=", "/etc/none", "--role=arn:aws:iam::1:role/Admin", "https://x/y"]
    {
        assert!(!counts("plugin", arg), "{arg}");
    }
}

#[test]
fn a_question_that_cannot_be_asked_says_why() {
    use keyfob_exec_cache::{ExecQuestion, Surroundings};
    use keyfob_testkit::MapEnvironment;

    let stage = Stage::new();
    let ask = |command: &str, info: &str| {
        let path = stage.path("bin").to_str().unwrap().to_owned();
        let environment: MapEnvironment =
            [("PATH", path.as_str()), ("KUBERNETES_EXEC_INFO", info)].into_iter().collect();
        let around = Surroundings {
            environment: &environment,
            variables: &[],
            directory: None,
            parent: None,
            terminal: &super::NoTerminal,
        };
        ExecQuestion::new(command, Vec::new(), &around)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let info = "KUBERNETES_EXEC_INFO: ";
    assert_eq!(ask("plugin", ""), Ok(()));
    assert!(ask("none", "").unwrap_err().starts_with("none was not found on PATH ("));
    assert!(ask("/none/plugin", "").unwrap_err().starts_with("no plugin at /none/plugin"));
    assert_eq!(
        ask("plugin", r#"{"kind":"Status","apiVersion":"v1","hunter2":1}"#).unwrap_err(),
        format!(
            "{info}invalid group/kind: wanted ExecCredential.client.authentication.k8s.io, got Status"
        )
    );
    assert!(ask("plugin", "{hunter2").unwrap_err().starts_with(info));
}
