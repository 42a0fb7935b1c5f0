//! Users with an `auth-provider`, which is not supported.

use serde_json::{Value, json};

use crate::{Home, Said, nobody, run};

fn home(provider: &Value) -> Home {
    let home = Home::new();
    home.kubeconfig(&nobody(), &json!({"auth-provider": provider}));
    home
}

/// What every command says, on stderr.
fn told(home: &Home) -> String {
    let said = ["token", "whoami", "get --raw /version", "proxy"].map(|command| {
        let Said { code, stdout, stderr } = run(home, &command.split(' ').collect::<Vec<_>>());
        assert_eq!((code, stdout.as_str()), (2, ""), "{command}: {stderr}");
        stderr
    });
    assert!(said.iter().all(|each| *each == said[0]), "{said:#?}");
    let [said, ..] = said;
    said
}

fn oidc() -> Home {
    home(&json!({"name": "oidc", "config": {
        "idp-issuer-url": "https://login.example/realms/a",
        "client-id": "kubernetes",
        "client-secret": "hunter2-secret",
        "extra-scopes": "email,groups",
        "idp-certificate-authority": "/etc/idp/ca.pem",
        "id-token": "hunter2-id",
        "refresh-token": "hunter2-refresh",
    }}))
}

const BLOCK: &str = r#"# id-token and refresh-token are not needed: the plugin logs you in once and keeps its own.
users:
- name: "ada"
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: kubectl
      args:
      - oidc-login
      - get-token
      - "--oidc-issuer-url=https://login.example/realms/a"
      - "--oidc-client-id=kubernetes"
      # client-secret is not shown. Add --oidc-client-secret=VALUE here; this prints VALUE, while the auth-provider is there:
      # kubectl config view --raw --kubeconfig kubeconfig -o jsonpath='{.users[?(@.name=="ada")].user.auth-provider.config.client-secret}'
      - "--oidc-extra-scope=email,groups"
      - "--certificate-authority=/etc/idp/ca.pem"
      interactiveMode: IfAvailable
"#;

#[test]
fn oidc_is_told_with_an_exec_plugin_to_paste_and_without_its_secrets() {
    let want = format!(
        "keyfob: user ada has the auth-provider \"oidc\", which kubectl supports and Keyfob does not\n\
         in kubeconfig, replace that user with the one below; `kubectl krew install oidc-login` installs its plugin, kubelogin\n\
         \n{BLOCK}"
    );
    assert_eq!(told(&oidc()), want);
}

#[test]
fn explain_begins_with_the_provider_and_ends_with_the_block() {
    let home = oidc();

    let said = run(&home, &["explain"]);

    assert_eq!((said.code, said.stderr.as_str()), (2, ""), "{}", said.stdout);
    let first =
        "user ada has the auth-provider \"oidc\", which kubectl supports and Keyfob does not\n";
    assert!(said.stdout.starts_with(first), "{}", said.stdout);
    let last = format!(
        "    do         in kubeconfig, replace that user with the one below; `kubectl krew install oidc-login` installs its plugin, \
         kubelogin\n\n{BLOCK}"
    );
    assert!(said.stdout.ends_with(&last), "{}", said.stdout);
    let json = run(&home, &["explain", "-o", "json"]).json();
    assert!(json["problems"][0]["do"].as_str().unwrap().ends_with(BLOCK.trim_end()), "{json}");
}

/// Pasted, the block is a user whose plugin is run with these arguments.
#[test]
fn the_block_is_a_user_that_can_be_used() {
    let home = oidc();
    let kubeconfig = std::fs::read_to_string(home.path("kubeconfig")).unwrap();
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    let others = json!({"contexts": kubeconfig["contexts"], "clusters": kubeconfig["clusters"],
        "current-context": "lab"});
    home.file("others", &others.to_string());
    home.file("pasted", BLOCK);

    let said = home.run(&["explain", "--no-run", "-o", "json", "--kubeconfig", "pasted:others"]);

    let plugin = &said.json()["plugin"];
    assert_eq!((&plugin["command"], &plugin["arguments"]), (&json!("kubectl"), &json!(6)));
    assert_eq!(plugin["interactiveMode"], "IfAvailable");
}

#[test]
fn what_is_missing_is_a_placeholder_and_what_may_hold_a_login_is_not_shown() {
    let said = told(&home(&json!({"name": "oidc"})));
    assert!(said.contains("\"--oidc-issuer-url=ISSUER_URL\"\n"), "{said}");
    assert!(said.contains("\"--oidc-client-id=CLIENT_ID\"\n"), "{said}");
    assert!(!said.contains("id-token"), "{said}");

    let issuer = "https://me:hunter2@login.example";
    let said = told(&home(&json!({"name": "oidc", "config": {"idp-issuer-url": issuer}})));
    assert!(
        said.contains("# idp-issuer-url is not shown. Add --oidc-issuer-url=VALUE here"),
        "{said}"
    );
}

#[test]
fn the_providers_that_were_removed_are_told_with_their_successors() {
    let told = |name: &str| told(&home(&json!({"name": name, "config": {"x": "hunter2"}})));
    let removed = |name: &str| {
        format!(
            "keyfob: user ada has the auth-provider \"{name}\", which was removed from Kubernetes clients in 1.26\n"
        )
    };
    assert_eq!(
        told("gcp"),
        removed("gcp")
            + "install its successor, gke-gcloud-auth-plugin, and have gcloud write the user again: gcloud container \
               clusters get-credentials CLUSTER --location LOCATION\n"
    );
    assert_eq!(
        told("azure"),
        removed("azure")
            + "install its successor, kubelogin of Azure (`az aks install-cli`), and have it convert the user: kubelogin \
               convert-kubeconfig --kubeconfig kubeconfig\n"
    );
    assert_eq!(
        told("abacus"),
        "keyfob: user ada has the auth-provider \"abacus\", which neither kubectl nor Keyfob supports\n\
         in kubeconfig, give the user an exec plugin, a token or a certificate\n"
    );
}

#[test]
fn a_cluster_that_gcloud_named_is_named_to_gcloud() {
    let home = Home::new();
    let config = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "gke_my-project_europe-west1_prod", "user": "u"}}],
        "clusters": [{"name": "gke_my-project_europe-west1_prod", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}],
    });
    home.file("kubeconfig", &config.to_string());

    let want = "gcloud container clusters get-credentials prod --location europe-west1 --project my-project\n";
    assert!(told(&home).ends_with(want));
}
