//! Relative paths start at the file that names them.

use keyfob_client::{Kubeconfig, LoadingRules, RelativePaths};

use crate::{Folder, kubeconfig};

const CLUSTER: &str = "{server: 'https://hall.test', certificate-authority: pki/ca.pem}";
const USER: &str = "{exec: {command: ./bin/../login}, tokenFile: ../token, client-certificate: /etc/me.pem, client-key: me.key}";

fn paths(loaded: &Kubeconfig) -> [&str; 5] {
    let user = &loaded.users["ada"];
    [
        &loaded.clusters["hall"].certificate_authority,
        &user.exec.as_ref().unwrap().command,
        &user.token_file,
        &user.client_certificate,
        &user.client_key,
    ]
}

#[test]
fn every_path_starts_at_its_own_file_and_is_cleaned() {
    let cluster = kubeconfig(CLUSTER, "{}").replace("ada", "nobody");
    let user = kubeconfig("{}", USER).replace("name: hall", "name: nowhere");
    let folder = Folder::new(&[("a/config", &cluster), ("b/c/config", &user)]);

    let loaded = folder.load(&["a/config", "b/c/config"]).unwrap();

    let at = |name: &str| folder.at(name).to_str().unwrap().to_owned();
    let wanted =
        [&at("a/pki/ca.pem"), &at("b/c/login"), &at("b/token"), "/etc/me.pem", &at("b/c/me.key")];
    assert_eq!(paths(&loaded), wanted);
}

#[test]
fn a_name_without_a_slash_is_left_for_path() {
    for command in ["login", "..", "\"a\\\\b\""] {
        let folder = Folder::new(&[(
            "config",
            &kubeconfig("{}", &format!("{{exec: {{command: {command}}}}}")),
        )]);
        let loaded = folder.load(&["config"]).unwrap();
        let found = &loaded.users["ada"].exec.as_ref().unwrap().command;
        assert!(!found.contains('/'), "{found}");
    }
}

#[test]
fn paths_stay_if_they_shall_or_if_there_is_no_file() {
    let text = kubeconfig(CLUSTER, USER);
    let folder = Folder::new(&[("config", &text)]);
    let mut rules = folder.rules(&["config"]);
    rules.relative_paths = RelativePaths::Keep;
    let wanted = ["pki/ca.pem", "./bin/../login", "../token", "/etc/me.pem", "me.key"];

    assert_eq!(paths(&rules.load().unwrap()), wanted);
    assert_eq!(paths(&Kubeconfig::parse(text.as_bytes()).unwrap()), wanted);
}

#[test]
fn a_kubeconfig_may_itself_be_named_by_a_relative_path() {
    let folder = tempfile::Builder::new().prefix("kubeconfig").tempdir_in(".").unwrap();
    let name = folder.path().file_name().unwrap();
    std::fs::write(folder.path().join("config"), kubeconfig("{}", USER)).unwrap();

    let loaded = LoadingRules::from_file(std::path::Path::new(name).join("config")).load().unwrap();

    let wanted = std::path::absolute(name).unwrap().join("login");
    assert_eq!(loaded.users["ada"].exec.as_ref().unwrap().command, wanted.to_str().unwrap());
}
