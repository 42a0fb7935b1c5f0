//! `keyfob audience check` and `rbac` as their users see them.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers; and it runs the program"
)]

#[path = "support/api_server.rs"]
mod api_server;

use std::{fs, process::Command};

use api_server::{API_TOKEN, kubeconfig, refusal};
use keyfob_testkit::{Internet, LeakCheck, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

const MANIFESTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: team, uid: u1}
spec:
  nodeName: node-1
  serviceAccountName: builder
  containers: []
  volumes:
  - name: tokens
    projected: {sources: [{serviceAccountToken: {audience: vault, path: token}}]}
  - name: secrets
    csi: {driver: secrets.example}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: secrets.example}
spec: {tokenRequests: [{audience: secrets}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: something-else}
";

/// Files in a folder, and what the program says there.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, text: &str) -> Self {
        fs::write(self.0.path().join(name), text).unwrap();
        self
    }

    /// Exit code, stdout and stderr. Neither holds a secret.
    fn said(&self, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_keyfob"))
            .arg("audience")
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .env("HOME", self.0.path())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        LeakCheck::new([API_TOKEN]).text("stdout", &stdout).text("stderr", &stderr);
        (output.status.code().unwrap(), stdout, stderr)
    }

    /// Asks about the pod `team/app`.
    fn check(&self, audience: &str, args: &[&str]) -> (i32, String, String) {
        self.said(&[&["check", "--pod", "team/app", "--audience", audience], args].concat())
    }

    fn check_json(&self, audience: &str, args: &[&str]) -> (i32, Value) {
        let (code, stdout, stderr) = self.check(audience, &[args, &["-o", "json"]].concat());
        assert_eq!(stderr, "");
        (code, serde_json::from_str(&stdout).unwrap())
    }
}

fn manifests() -> Folder {
    Folder::new().with("objects.yaml", MANIFESTS)
}

#[test]
fn an_audience_of_a_volume_is_allowed() {
    let (code, stdout, stderr) = manifests().check("vault", &["--objects", "objects.yaml"]);

    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(
        stdout,
        "allowed: node node-1 may have a token of service account team/builder for \"vault\", bound to pod team/app\n\
         The rule allows it, by projected-volume: the pod's volume \"tokens\" projects a token for it\n\
         What the volumes of the pod offer, as far as it was looked:\n  \
         volume \"tokens\", projected: \"vault\"\n"
    );
}

#[test]
fn a_refusal_says_everything_that_would_allow_it() {
    let folder = manifests();

    let (code, stdout, stderr) = folder.check("registry", &["--objects", "objects.yaml"]);

    assert_eq!((code, stderr.as_str()), (1, ""));
    let (_, role, _) =
        folder.said(&["rbac", "--audience", "registry", "--service-account", "team/builder"]);
    assert!(role.starts_with("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"), "{role}");
    let expected = [
        "refused: node node-1 may not have a token of service account team/builder for \"registry\", bound to pod team/app\n",
        "The rule refuses it, by not-authorized: no volume of the pod asks for it and the authorizer does not allow it\n",
        "What the volumes of the pod offer, as far as it was looked:\n",
        "  volume \"tokens\", projected: \"vault\"\n",
        "  volume \"secrets\", through driver \"secrets.example\": \"secrets\"\n",
        "\nThis would allow it: a role, for `kubectl apply -f -`; ",
        "\"keyfob audience rbac\" prints wider and narrower ones\n\n",
        &role,
        "\nThis would allow it: a projected volume in the pod\n\n",
        "volumes:\n- name: token\n  projected:\n    sources:\n    - serviceAccountToken:\n",
        "        audience: \"registry\"\n        path: token\n",
        "\nThis would allow it: \"registry\" among the spec.tokenRequests of the CSIDriver \"secrets.example\", ",
        "if its vendor means it to have such tokens\n",
    ];
    assert_eq!(stdout, expected.concat());
}

#[test]
fn the_role_and_the_volume_that_are_printed_do_allow_it() {
    let folder = manifests();
    let (_, answer) = folder.check_json("registry", &["--objects", "objects.yaml"]);
    let yaml = |index: usize| answer["remedies"][index]["yaml"].as_str().unwrap();
    let pod = MANIFESTS.split("\n---").next().unwrap();
    let volume = yaml(1).replace("volumes:\n", "").replace('\n', "\n  ");
    let folder =
        folder.with("role.yaml", yaml(0)).with("pod.yaml", &format!("{pod}\n  {volume}\n"));

    for (objects, clause) in [
        (["--objects", "objects.yaml", "--objects", "role.yaml"].as_slice(), "authorizer"),
        (["--objects", "pod.yaml"].as_slice(), "projected-volume"),
    ] {
        // The second pod has no driver in its manifest: the volume is found all the same.
        let (code, answer) = folder.check_json("registry", objects);
        assert_eq!((code, &answer["clause"]), (0, &json!(clause)), "{answer}");
    }
}

#[test]
fn json_is_the_documented_object() {
    let (code, answer) = manifests().check_json("secrets", &["--objects", "objects.yaml"]);

    assert_eq!(code, 0);
    let reason = "the pod's volume \"secrets\", through driver \"secrets.example\", asks for it";
    assert_eq!(
        answer,
        json!({
            "allowed": true,
            "node": "node-1",
            "namespace": "team",
            "pod": "app",
            "serviceAccount": "builder",
            "audience": "secrets",
            "clause": "csi-driver",
            "reason": reason,
            "message": reason,
            "volumes": [
                {"volume": "tokens", "through": "projected", "audiences": ["vault"], "error": null},
                {"volume": "secrets", "through": "through driver \"secrets.example\"",
                 "audiences": ["secrets"], "error": null},
            ],
            "nodeAuthorizer": null,
            "remedies": [],
        })
    );
}

#[test]
fn the_list_allows_and_another_node_is_refused() {
    let folder = manifests();
    let listed = ["--objects", "objects.yaml", "--allowed-kubelet-audiences", "a,registry"];
    let elsewhere = ["--objects", "objects.yaml", "--node", "other"];

    let (code, answer) = folder.check_json("registry", &listed);
    assert_eq!((code, &answer["clause"]), (0, &json!("allowed-kubelet-audiences")));
    let (code, answer) = folder.check_json("vault", &elsewhere);
    assert_eq!((code, &answer["clause"]), (1, &json!("different-node")));
    assert_eq!(answer["remedies"][0]["what"], "asking as the pod's own node: --node node-1");
}

#[test]
fn a_volume_that_leads_nowhere_must_be_mended_first() {
    let pod = MANIFESTS.split("\n---").next().unwrap();
    let folder = Folder::new().with("pod.yaml", pod);

    let (code, answer) = folder.check_json("registry", &["--objects", "pod.yaml"]);

    assert_eq!((code, &answer["clause"]), (1, &json!("volume-error")));
    let error = "csidriver.storage.k8s.io \"secrets.example\" not found";
    assert_eq!(answer["volumes"][1]["error"], error);
    let what = "volumes that can all be followed; until then no role helps";
    assert_eq!(answer["remedies"][0], json!({"what": what, "yaml": null}));
}

#[test]
fn roles_are_for_all_nodes_and_accounts_unless_told_otherwise() {
    let folder = Folder::new();
    let all = folder.said(&["rbac", "--audience", "registry"]);
    let one = folder.said(&["rbac", "--audience", "registry", "--node", "node-1"]);

    for ((code, role, stderr), subject) in [(all, "system:nodes"), (one, "system:node:node-1")] {
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(role.contains("kind: ClusterRole\n"), "{role}");
        assert!(role.contains(&format!("name: \"{subject}\"\n")), "{role}");
    }
}

#[test]
fn an_account_that_no_pod_on_the_node_uses_may_not_even_be_asked_for() {
    let folder = manifests();
    let args = ["--objects", "objects.yaml", "--service-account", "admin"];

    let (code, answer) = folder.check_json("vault", &args);

    assert_eq!((code, &answer["allowed"]), (1, &json!(false)));
    assert_eq!(answer["clause"], "projected-volume");
    let why = "no relationship found between node 'node-1' and this object";
    assert_eq!(answer["nodeAuthorizer"], why);
    let (_, stdout, _) = folder.check("vault", &args);
    let line = format!("The node may not even ask for tokens of this account: {why}\n");
    assert!(stdout.contains(&line), "{stdout}");
}

#[test]
fn a_manifest_on_no_node_is_taken_to_be_on_the_one_that_asks() {
    let folder = Folder::new().with("pod.yaml", &MANIFESTS.replace("  nodeName: node-1\n", ""));

    let (code, _, stderr) = folder.check("vault", &["--objects", "pod.yaml"]);
    let why = "the pod team/app is on no node: name the one that would ask with --node";
    assert_eq!((code, stderr), (2, format!("keyfob: {why}\n")));
    let (code, _) = folder.check_json("vault", &["--objects", "pod.yaml", "--node", "m"]);
    assert_eq!(code, 0);
}

#[test]
fn wrong_input_is_told_as_such() {
    let leaky = format!("users: [{{user: {{token: {API_TOKEN}");
    let folder =
        manifests().with("bad.yaml", "kind: [").with("empty.yaml", "").with("leaky", &leaky);
    for (args, why) in [
        (["--objects", "none.yaml"], "none.yaml cannot be read: No such file"),
        (["--objects", "bad.yaml"], "bad.yaml"),
        (["--objects", "empty.yaml"], "there is no pod team/app in the manifests"),
        (["--kubeconfig", "none"], "the kubeconfig cannot be read: stat none: no such file"),
        (["--kubeconfig", "no:ne"], "there is no kubeconfig: no is missing, ne is missing;"),
        (
            ["--kubeconfig", "bad.yaml"],
            "error loading config file \"bad.yaml\": invalid YAML at line",
        ),
        (["--kubeconfig", "leaky"], "error loading config file \"leaky\": invalid YAML at line"),
        (["--context", "x"], "there is no kubeconfig: "),
    ] {
        let (code, stdout, stderr) = folder.check("vault", &args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.starts_with("keyfob: ") && stderr.contains(why), "{args:?}: {stderr}");
    }
    let (code, _, stderr) = folder.check("vault", &[]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("keyfob: no cluster is known: there is no kubeconfig"), "{stderr}");
    let (code, _, stderr) = folder.said(&["rbac", "--audience", "*"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("every audience"), "{stderr}");
    let (code, _, stderr) = folder.said(&["check", "--audience", "a", "--pod", "app"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("write NAMESPACE/NAME"), "{stderr}");
}

/// A cluster with the pod; the authorizer allows nodes to ask, and no audience.
fn cluster(request: &Request) -> Response {
    match request.path() {
        "/api/v1/namespaces/team/pods/app" => {
            let projected =
                json!({"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]});
            let volumes = json!([{"name": "tokens", "projected": projected}]);
            let spec = json!({"nodeName": "node-1", "serviceAccountName": "builder", "containers": [], "volumes": volumes});
            let metadata = json!({"name": "app", "namespace": "team", "uid": "u1"});
            Response::json(json!({"metadata": metadata, "spec": spec}).to_string())
        }
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let review = json!({"spec": {}, "status": {"allowed": false, "reason": "no rule"}});
            Response::json(review.to_string()).with_status(201)
        }
        _ => refusal(404, "no"),
    }
}

#[test]
fn a_live_cluster_is_asked_with_a_kubeconfig() {
    let folder = Folder::new().with("config", &kubeconfig(&Internet::start(cluster).url()));

    let (code, answer) = folder.check_json("registry", &["--kubeconfig", "config"]);

    assert_eq!((code, &answer["clause"]), (1, &json!("not-authorized")));
    assert_eq!((&answer["node"], &answer["serviceAccount"]), (&json!("node-1"), &json!("builder")));
    assert_eq!(answer["nodeAuthorizer"], "no rule");
    let (code, _, stderr) =
        folder.said(&["check", "--pod", "team/gone", "--audience", "a", "--kubeconfig", "config"]);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("keyfob: there is no pod team/gone in the cluster at http://"),
        "{stderr}"
    );
}

#[test]
fn a_cluster_that_cannot_be_asked_is_no_answer() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let down = kubeconfig(&format!("http://127.0.0.1:{port}"));
    let refusing = Internet::start(|_| refusal(403, "User \"ada\" cannot get resource \"pods\""));
    let refusing = kubeconfig(&refusing.url());
    let folder = Folder::new().with("down", &down).with("refusing", &refusing);

    let (code, stdout, stderr) = folder.check("vault", &["--kubeconfig", "down"]);
    assert_eq!((code, stdout.as_str()), (3, ""));
    let place =
        format!("keyfob: it could not be learnt from the cluster at http://127.0.0.1:{port}/: ");
    assert!(stderr.starts_with(&(place + "the API server cannot be reached: ")), "{stderr}");
    assert!(stderr.contains("Connection refused"), "{stderr}");
    let (code, _, stderr) = folder.check("vault", &["--kubeconfig", "refusing"]);
    assert_eq!(code, 3);
    assert!(stderr.ends_with(": User \"ada\" cannot get resource \"pods\"\n"), "{stderr}");
}

#[test]
fn a_context_is_chosen_by_its_name() {
    let folder = Folder::new().with("config", &kubeconfig(&Internet::start(cluster).url()));
    let args = |context| ["--kubeconfig", "config", "--context", context];

    assert_eq!(folder.check_json("vault", &args("here")).1["clause"], "projected-volume");
    let (code, _, stderr) = folder.check("vault", &args("there"));
    assert_eq!(
        (code, stderr),
        (2, "keyfob: the kubeconfig config has no context there; it has: here\n".to_owned())
    );
}

#[test]
fn a_plugin_that_fails_leaves_the_question_open() {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never",
    });
    let mut config: Value = serde_json::from_str(&kubeconfig("https://127.0.0.1:1")).unwrap();
    config["users"][0]["user"] = json!({"exec": exec});
    let folder = Folder::new().with("config", &config.to_string());

    let (code, stdout, stderr) = folder.check("vault", &["--kubeconfig", "config"]);

    assert_eq!((code, stdout.as_str()), (3, ""));
    let why = ": getting credentials: exec: executable /bin/false failed with exit code 1\n";
    assert!(stderr.ends_with(why), "{stderr}");
}
