use std::error::Error as _;

use k8s_openapi::api::core::v1::Pod;
use keyfob_testkit::LeakCheck;
use serde_json::json;
use tempfile::TempDir;

use super::*;

fn objects(text: &str) -> Objects {
    Objects::read_text(text, "a.yaml").unwrap()
}

fn refusal(text: &str) -> String {
    let error = Objects::read_text(text, "a.yaml").unwrap_err();
    let source = error.source().map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

fn names(objects: &Objects) -> Vec<String> {
    let of = |kind: Kind| {
        objects
            .list(kind)
            .map(move |(namespace, name, _)| format!("{} {namespace}/{name}", kind.name()))
    };
    Kind::ALL.into_iter().flat_map(of).collect()
}

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n";

#[test]
fn documents_and_lists_of_both_kinds_are_taken_apart() {
    let text = format!(
        "# first\n{POD}---\n---\napiVersion: v1\nkind: List\nitems:\n\
         - {{apiVersion: v1, kind: Node, metadata: {{name: node, namespace: ignored}}}}\n\
         - {{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {{name: d}}, spec: {{}}}}\n\
         ---\n{{apiVersion: v1, kind: ServiceAccountList, items: [{{metadata: {{name: s, namespace: ns}}}}]}}\n"
    );
    let objects = objects(&text);
    assert_eq!(
        names(&objects),
        ["CSIDriver /d", "Node /node", "Pod default/p", "ServiceAccount ns/s"]
    );
    let account = objects.get(Kind::ServiceAccount, "ns", "s").unwrap();
    assert_eq!(
        (&account["apiVersion"], &account["kind"]),
        (&json!("v1"), &json!("ServiceAccount"))
    );
    assert_eq!(objects.get(Kind::Node, "", "node").unwrap()["metadata"]["namespace"], json!(null));
}

#[test]
fn json_is_read_as_yaml_is() {
    let json =
        r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p","uid":"1"}}]}"#;
    assert_eq!(names(&objects(json)), ["Pod default/p"]);
    assert_eq!(names(&objects("")), Vec::<String>::new());
}

#[test]
fn what_an_api_server_gives_every_object_is_filled_in() {
    let uids =
        |kind: Kind, namespace: &str, name: &str| format!("{}-{namespace}-{name}", kind.name());
    let at = Timestamp::parse("2030-01-02T03:04:05Z").unwrap();
    let mut reader = Reader::default().uids(uids).created(at);
    reader.text(POD.as_bytes(), "a.yaml").unwrap();
    let own =
        POD.replace("name: p", "name: q, uid: own, creationTimestamp: '2020-01-01T00:00:00Z'");
    reader.text(own.as_bytes(), "b.yaml").unwrap();
    let (objects, _) = reader.finish();
    let metadata =
        |name: &str| objects.get(Kind::Pod, "default", name).unwrap()["metadata"].clone();
    let created = "2030-01-02T03:04:05Z";
    let expected = json!({"name": "p", "namespace": "default", "uid": "Pod-default-p", "creationTimestamp": created});
    assert_eq!(metadata("p"), expected);
    assert_eq!(metadata("q")["uid"], "own");
    assert_eq!(metadata("q")["creationTimestamp"], "2020-01-01T00:00:00Z");
}

#[test]
fn a_uid_is_made_of_the_name_and_looks_like_one() {
    let uid = named_uid(Kind::Pod, "ns", "p");
    assert_eq!(uid, named_uid(Kind::Pod, "ns", "p"));
    assert_ne!(uid, named_uid(Kind::Node, "ns", "p"));
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert!(uid.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
}

/// The names of a pod's volumes, and its account.
fn volumes(objects: &Objects) -> (Vec<String>, Option<String>) {
    let pod: Pod = objects.read(Kind::Pod, "default", "p").unwrap();
    let spec = pod.spec.unwrap();
    let names = spec.volumes.into_iter().flatten().map(|volume| volume.name).collect();
    (names, spec.service_account_name)
}

#[test]
fn a_pod_that_was_never_in_a_cluster_gets_an_account_and_its_token() {
    let filled = volumes(&objects(POD));
    assert_eq!(filled, (vec!["kube-api-access".to_owned()], Some("default".to_owned())));
    let printed = POD.replace("name: p", "name: p, uid: '1'");
    assert_eq!(volumes(&objects(&printed)), (Vec::new(), None));
    let mirror = POD.replace("name: p", "name: p, annotations: {kubernetes.io/config.mirror: x}");
    assert_eq!(volumes(&objects(&mirror)), (Vec::new(), None));
}

#[test]
fn pod_or_account_may_decline_the_token() {
    let account = "---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}, automountServiceAccountToken: false}\n";
    let declined = (Vec::new(), Some("default".to_owned()));
    assert_eq!(volumes(&objects(&format!("{POD}{account}"))), declined);
    let pod = POD.replace("spec: {", "spec: {automountServiceAccountToken: false, ");
    assert_eq!(volumes(&objects(&pod)), declined);
    let pod = POD.replace("spec: {", "spec: {automountServiceAccountToken: true, ");
    assert_eq!(volumes(&objects(&format!("{pod}{account}"))).0.len(), 1);
    let mounted = "{name: c, volumeMounts: [{name: x, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}";
    assert_eq!(volumes(&objects(&POD.replace("{name: c}", mounted))), declined);
}

#[test]
fn an_azure_disk_is_shared_unless_it_says_otherwise() {
    let kind_of = |spec: &str, pointer: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v}}, spec: {spec}}}\n"
        );
        let objects = Objects::read_text(format!("#\n{text}"), "a.yaml").unwrap();
        objects.get(Kind::PersistentVolume, "", "v").unwrap().pointer(pointer).cloned()
    };
    assert_eq!(
        kind_of("{azureDisk: {diskName: d, diskURI: u}}", "/spec/azureDisk/kind"),
        Some(json!("Shared"))
    );
    assert_eq!(
        kind_of("{azureDisk: {kind: Managed}}", "/spec/azureDisk/kind"),
        Some(json!("Managed"))
    );
    let pod = POD.replace("spec: {", "spec: {volumes: [{name: d, azureDisk: {}}], ");
    let objects = objects(&pod);
    let pod = objects.get(Kind::Pod, "default", "p").unwrap();
    assert_eq!(pod["spec"]["volumes"][0]["azureDisk"]["kind"], "Shared");
}

#[test]
fn errors_say_which_file_document_item_and_field() {
    let second = |text: &str| refusal(&format!("{POD}---\n{text}"));
    let config_map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n";
    let unknown = second(&format!("#\n{config_map}"));
    assert!(
        unknown.starts_with("a.yaml, document 2 is v1 ConfigMap, which is not among the known: "),
        "{unknown}"
    );
    assert!(
        unknown.contains("v1 Pod") && unknown.contains("storage.k8s.io/v1 CSIDriver"),
        "{unknown}"
    );
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {config_map}");
    assert!(second(&list).starts_with("a.yaml, document 2, item 1 is "), "{}", second(&list));
    assert_eq!(
        second("apiVersion: v1\nkind: Pod\n"),
        "a.yaml, document 2: metadata.name is missing"
    );
    assert_eq!(
        second("[1]\n"),
        "a.yaml, document 2 is a list, not an object with apiVersion and kind"
    );
    assert_eq!(
        second("hello\n"),
        "a.yaml, document 2 is a string, not an object with apiVersion and kind"
    );
    let unreadable = second("a: [\n");
    assert!(
        unreadable.starts_with("a.yaml, document 2 cannot be read: invalid YAML at line "),
        "{unreadable}"
    );
    let field = refusal(&POD.replace("{name: c}", "{name: c, ports: [{containerPort: x}]}"));
    let expected = "a.yaml, document 1: spec.containers[0].ports[0].containerPort of the Pod is a string \
        (line 4, column 55 of the document), which does not fit: \"kubectl explain\" says what belongs there";
    assert_eq!(field, expected);
    let deep =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(refusal(&deep), "a.yaml, document 1 is nested too deeply");
}

#[test]
fn unknown_kinds_can_be_passed_over_and_are_listed() {
    let mut reader = Reader::default().ignore_unknown();
    let text = format!("{POD}---\napiVersion: apps/v1\nkind: Deployment\n");
    reader.text(text.as_bytes(), "a.yaml").unwrap();
    let (objects, ignored) = reader.finish();
    assert_eq!(names(&objects), ["Pod default/p"]);
    let [one] = &ignored[..] else { panic!("{ignored:?}") };
    assert_eq!(
        (one.kind.as_str(), one.place.to_string()),
        ("Deployment", "a.yaml, document 2".to_owned())
    );
}

#[test]
fn directories_are_read_in_the_order_of_names() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("b.yml", &POD.replace("name: c", "name: from-b"));
    write("a.yaml", &POD.replace("name: c", "name: from-a"));
    write("notes.txt", "not read: [");
    fs::create_dir(dir.path().join("c.yaml")).unwrap();
    let objects = Objects::read_files(&[dir.path().to_owned()]).unwrap();
    let pod = objects.get(Kind::Pod, "default", "p").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["name"], "from-b", "the later one stays");
    let missing = Objects::read_files(&[dir.path().join("none.yaml")]).unwrap_err();
    assert!(missing.to_string().ends_with("none.yaml cannot be read"), "{missing}");
}

#[test]
fn errors_quote_nothing_of_an_object() {
    let leaks = LeakCheck::new(["hunter2"]);
    for value in ["[{name: a, value: [hunter2]}]", "hunter2", "[hunter2]"] {
        let pod = POD.replace("{name: c}", &format!("{{name: c, env: {value}}}"));
        leaks.error(&Objects::read_text(pod, "a.yaml").unwrap_err());
    }
    leaks.error(&Objects::read_text("{\"apiVersion\": hunter2}", "a.yaml").unwrap_err());
}
