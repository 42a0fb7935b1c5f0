//! Which audiences a node may ask for: admission, RBAC and the node authorizer.
//!
//! The rows of upstream's unit test bring their own cluster. Those of its integration tests name one, which is built here
//! after the words of their names.

use keyfob_api::FeatureGates;
use keyfob_control::{
    facts::{Manifests, judge_objects},
    node_authorizer,
    objects::{Kind, Objects},
    rbac::Attributes,
    rule::{Asked, BoundObject, Clause, Facts, Opinion, Policy, Question, Step, Verdict, decide},
};
use serde_json::{Value, json};

use super::{Check, fact, text};

const FILE: &str = "kubelet/node_restriction.json";

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    (FILE, "Test_nodePlugin_Admit (service account token rows)", admit),
    (FILE, "TestNodeRestrictionServiceAccount (integration, gate off)", without_gate),
    (
        FILE,
        "TestNodeRestrictionServiceAccountAudience (integration, gate on): pod spec paths",
        pod_spec,
    ),
    (FILE, "TestNodeRestrictionServiceAccountAudience (integration, gate on): RBAC paths", roles),
    (FILE, "node authorizer service account rows", node_authorizer),
];

/// A cluster of one namespace, `ns`.
#[derive(Default)]
struct Cluster(Objects);

impl Cluster {
    fn put(&mut self, kind: Kind, name: &str, mut value: Value) {
        let namespace = if kind.namespaced() { "ns" } else { "" };
        value["apiVersion"] = kind.api_version().into();
        value["kind"] = kind.name().into();
        value["metadata"] = json!({"name": name, "namespace": namespace, "uid": "pod-uid"});
        self.0.put(kind, namespace, name, value);
    }

    fn pod(&mut self, name: &str, node: &str, volumes: &[Value]) {
        self.put(Kind::Pod, name, json!({"spec": {"nodeName": node, "volumes": volumes}}));
    }

    fn driver(&mut self, name: &str, audiences: &[&str]) {
        let requests: Vec<Value> = audiences.iter().map(|each| json!({"audience": each})).collect();
        self.put(Kind::CSIDriver, name, json!({"spec": {"tokenRequests": requests}}));
    }

    fn claim(&mut self, name: &str, volume: &str) {
        self.put(Kind::PersistentVolumeClaim, name, json!({"spec": {"volumeName": volume}}));
    }
}

fn asked(node: &str, account: &str, pod: &str, audiences: &[&str]) -> Asked {
    Asked {
        namespace: "ns".to_owned(),
        service_account: account.to_owned(),
        audiences: audiences.iter().map(|each| (*each).to_owned()).collect(),
        bound: Some(BoundObject::pod(pod, "pod-uid")),
        ..Asked::by_node(node)
    }
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|each| each.as_str().unwrap()).collect()
}

/// `allowed`, or `forbidden` and words that the refusal has: either after a colon, or all of it.
fn judge(verdict: &Verdict, expected: &str) -> Result<(), String> {
    let (outcome, words) = expected.split_once(": ").unwrap_or((expected, ""));
    let code = match outcome {
        "allowed" => 200,
        "forbidden" => 403,
        _ if outcome.contains("not found") => 404,
        _ => panic!("{expected}"),
    };
    fact("code", &verdict.code(), &code)?;
    for words in words.split(" ... ") {
        let there = verdict.message().contains(words);
        fact(&format!("{words:?} in {:?}", verdict.message()), &there, &true)?;
    }
    Ok(())
}

fn admit(file: &Value, row: &Value) -> Result<(), String> {
    let cluster = fixtures(&file["groups"][0]["fixtures"], text(row, "stores"));
    let account = text(&file["groups"][0]["fixtures"], "service_account");
    let mut asked = asked("mynode", account, "", &texts(&row["audiences"]));
    asked.groups = texts(&file["groups"][0]["fixtures"]["user"]["groups"])
        .into_iter()
        .map(str::to_owned)
        .collect();
    let uid = row["bound_pod_uid"].as_str().unwrap_or_default();
    asked.bound = row["bound_pod"].as_str().map(|pod| BoundObject::pod(pod, uid));
    let restrict_audiences = row["gate"].as_bool().unwrap_or(false);
    let mut policy = Policy::default();
    policy.gates.node_audience_restriction = restrict_audiences;
    let (verdict, access) = with_authorizer(&asked, &policy, &cluster.0, &row["authorizer"])?;
    fact("the authorizer is asked", &access, &row["authorizer"].is_object())?;
    judge(&verdict, &format!("{}: {}", text(row, "expected"), text(row, "expected_error_contains")))
}

/// The rule with the row's own authorizer, and whether that was asked.
fn with_authorizer(
    asked: &Asked,
    policy: &Policy,
    objects: &Objects,
    authorizer: &Value,
) -> Result<(Verdict, bool), String> {
    let (mut facts, mut was_asked) = (Facts::default(), false);
    loop {
        match decide(asked, policy, &facts) {
            Step::Decided(verdict) => return Ok((verdict, was_asked)),
            Step::Needs(Question::Authorizer(access)) => {
                was_asked = true;
                let attributes = Attributes::from(access);
                let attrs = &authorizer["attrs"];
                fact("verb", attributes.verb.as_str(), text(attrs, "verb"))?;
                fact("apiGroup", attributes.api_group.as_str(), text(attrs, "apiGroup"))?;
                fact("resource", attributes.resource.as_str(), asked.audience())?;
                fact("name", attributes.name.as_str(), text(attrs, "name"))?;
                fact("namespace", attributes.namespace.as_str(), text(attrs, "namespace"))?;
                let allowed = text(authorizer, "decision") == "allow";
                let opinion = Opinion { allowed, ..Opinion::default() };
                facts.authorizer.insert(attributes.resource, opinion);
            }
            Step::Needs(question) => Manifests(objects).answer(question, &mut facts),
            step => panic!("{step:?}"),
        }
    }
}

fn fixtures(fixtures: &Value, stores: &str) -> Cluster {
    let mut cluster = Cluster::default();
    let has = |what: &str| !stores.contains(what);
    let entries = |field: &str| fixtures[field].as_object().unwrap().iter();
    for (name, pod) in entries("pods") {
        let volumes: Vec<Value> = pod["volumes"].as_array().unwrap().iter().map(volume).collect();
        cluster.pod(name, text(pod, "node"), &volumes);
    }
    for (name, audiences) in entries("csidrivers").filter(|_| has("csidrivers")) {
        cluster.driver(name, &texts(audiences));
    }
    for (name, volume) in entries("pvcs").filter(|_| has("pvcs")) {
        cluster.claim(name, volume.as_str().unwrap());
    }
    for (name, volume) in entries("pvs").filter(|_| has("pvs")) {
        let spec = match volume["csi"].as_str() {
            Some(driver) => json!({"csi": {"driver": driver}}),
            None => json!({"azureFile": {"secretName": "secret", "secretNamespace": "default"}}),
        };
        cluster.put(Kind::PersistentVolume, name, json!({ "spec": spec }));
    }
    cluster
}

/// A volume in the file's short form as the API has it.
fn volume(short: &Value) -> Value {
    let mut volume = short.clone();
    if let Some(token) = short.pointer("/projected/serviceAccountToken") {
        volume["projected"] = json!({"sources": [{"serviceAccountToken": token}]});
    }
    if let Some(claim) = short["persistentVolumeClaim"].as_str() {
        volume["persistentVolumeClaim"] = json!({"claimName": claim});
    }
    if short["ephemeral"].is_object() {
        volume["ephemeral"] = json!({"volumeClaimTemplate": {}});
    }
    volume["name"] = short["name"].as_str().unwrap_or("v").into();
    volume
}

fn without_gate(_: &Value, row: &Value) -> Result<(), String> {
    let mut cluster = Cluster::default();
    cluster.pod("mypod", "node1", &[]);
    let audiences = row.get("audiences").map(texts).unwrap_or_default();
    let mut asked = asked("node1", "mysa", "mypod", &audiences);
    let named = |words: &str| text(row, "name").contains(words);
    if named("not bound") {
        asked.bound = None;
    } else if named("not found") {
        asked.bound = Some(BoundObject::pod("no-pod", "pod-uid"));
    } else if named("uid") {
        asked.bound = Some(BoundObject::pod("mypod", "random-uid"));
    } else if named("different node") {
        asked.user = Asked::by_node("node2").user;
    }
    let mut policy = Policy::default();
    policy.gates.node_audience_restriction = false;
    judge(&judge_objects(&asked, &policy, &cluster.0), text(row, "expected"))
}

/// The volume that a row's name speaks of, if it does.
fn volume_named(name: &str, audience: &str) -> Option<Value> {
    let in_tree = name.contains("in-tree") || name.contains("intree");
    Some(match () {
        () if name.contains("projected") => projected(audience),
        () if name.contains("ephemeral") => ephemeral(),
        () if in_tree && name.contains("pv") => claim("azure-pvc"),
        () if in_tree => azure_file(),
        () if name.contains("pvc") => claim("mypvc1"),
        () if name.contains("csi") => csi(),
        () => return None,
    })
}

fn projected(audience: &str) -> Value {
    json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"audience": audience}}]}})
}

fn csi() -> Value {
    json!({"name": "v", "csi": {"driver": "mydriver"}})
}

fn claim(name: &str) -> Value {
    json!({"name": "v", "persistentVolumeClaim": {"claimName": name}})
}

fn ephemeral() -> Value {
    json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}})
}

fn azure_file() -> Value {
    json!({"name": "v", "azureFile": {"shareName": "share", "secretName": "secret"}})
}

fn pod_spec(_: &Value, row: &Value) -> Result<(), String> {
    let name = text(row, "name").to_lowercase();
    let audiences = row.get("audiences").map_or_else(|| vec!["audience"], texts);
    let mut cluster = Cluster::default();
    cluster.pod("mypod", "node1", &Vec::from_iter(volume_named(&name, audiences[0])));
    let azure = json!({"azureFile": {"shareName": "share", "secretName": "secret"}, "claimRef": {"namespace": "ns"}});
    cluster.put(Kind::PersistentVolume, "azure-pv", json!({ "spec": azure }));
    let csi = json!({"csi": {"driver": "mydriver"}});
    cluster.put(Kind::PersistentVolume, "mypv", json!({ "spec": csi }));
    if !name.contains("pvc not found") {
        cluster.claim("mypvc1", "mypv");
        cluster.claim("mypod-v", "mypv");
        cluster.claim("azure-pvc", "azure-pv");
    }
    if !name.contains("driver not found") {
        let requested = if name.contains("audience not") { "other" } else { audiences[0] };
        cluster.driver("mydriver", &[requested]);
        cluster.driver("file.csi.azure.com", &[requested]);
    }
    let asked = asked("node1", "mysa", "mypod", &audiences);
    let verdict = judge_objects(&asked, &Policy::default(), &cluster.0);
    // The row's words leave out the API group and the name.
    let expected = text(row, "expected").replace("csidriver not found", "csidriver.storage.k8s.io");
    judge(&verdict, &expected)
}

fn roles(_: &Value, row: &Value) -> Result<(), String> {
    let mut cluster = Cluster::default();
    cluster.pod("mypod", "node1", &[]);
    let account = text(row, "service_account");
    let verdict = |cluster: &Cluster, audience: &str| {
        judge_objects(
            &asked("node1", account, "mypod", &[audience]),
            &Policy::default(),
            &cluster.0,
        )
    };
    let all = [texts(&row["after_binding_allowed"]), texts(&row["after_binding_denied"])];
    for audience in all.iter().flatten() {
        judge(
            &verdict(&cluster, audience),
            "forbidden: is not authorized to request tokens for audience",
        )?;
    }
    bind(&mut cluster, row);
    let [allowed, denied] = all;
    for audience in allowed {
        let verdict = verdict(&cluster, audience);
        judge(&verdict, "allowed")?;
        fact("by the authorizer", &matches!(verdict.clause, Clause::Authorizer { .. }), &true)?;
    }
    denied.iter().try_for_each(|audience| judge(&verdict(&cluster, audience), "forbidden"))
}

/// The row's role and binding.
fn bind(cluster: &mut Cluster, row: &Value) {
    let (subject_kind, subject) = text(row, "subject").split_once(' ').unwrap();
    let role = if text(row, "name").starts_with("role+") { Kind::Role } else { Kind::ClusterRole };
    let binding = match text(row, "binding") {
        "cluster" => Kind::ClusterRoleBinding,
        _ => Kind::RoleBinding,
    };
    cluster.put(role, "r", json!({"rules": [row["rule"]]}));
    let subjects = json!([{"kind": subject_kind, "name": subject}]);
    cluster.put(
        binding,
        "b",
        json!({"roleRef": {"kind": role.name(), "name": "r"}, "subjects": subjects}),
    );
}

fn node_authorizer(_: &Value, row: &Value) -> Result<(), String> {
    let mut cluster = Cluster::default();
    for node in ["node0", "node1"] {
        let spec = json!({"nodeName": node, "serviceAccountName": format!("svcacct0-{node}")});
        cluster.put(Kind::Pod, &format!("pod0-{node}"), json!({ "spec": spec }));
    }
    let Asked { user, groups, .. } = Asked::by_node("node0");
    let attributes = Attributes {
        user,
        groups,
        verb: text(row, "verb").to_owned(),
        resource: "serviceaccounts".to_owned(),
        subresource: text(row, "subresource").to_owned(),
        name: text(row, "sa").to_owned(),
        namespace: "ns".to_owned(),
        ..Attributes::default()
    };
    let opinion = node_authorizer::authorize(&cluster.0, gates(&row["features"]), &attributes);
    fact("allowed", &opinion.allowed, &row["expected_allow"].as_bool().unwrap())?;
    match text(row, "expected_reason") {
        "" => Ok(()),
        reason => fact("reason", opinion.reason.as_str(), reason),
    }
}

/// `null`: the defaults; a gate that is not named is off.
fn gates(features: &Value) -> FeatureGates {
    let mut gates = FeatureGates::default();
    if let Some(features) = features.as_str() {
        let on = |gate: &str| features.contains(&format!("{gate}=true"));
        gates.service_account_token = on("KubeletServiceAccountTokenForCredentialProviders");
        gates.pod_certificate_request = on("PodCertificateRequest");
    }
    gates
}
