//! Nodes that ask for tokens: what they ask for, and what the cluster holds meanwhile.

use std::fmt;

use keyfob_control::rule::{Asked, BoundObject, VERB};
use serde_json::{Value, json};

use super::{
    dice::Dice,
    volumes::{
        AUDIENCES, CINDER, MIGRATED, Volumes, claim, driver, driver_wanting, persistent_volume,
    },
};
use crate::api::{RBAC, object, pod};

pub(crate) const NODES: [&str; 2] = ["node-a", "node-b"];
/// The audience of cases that are built on purpose; no other case has it.
pub(crate) const CONSTRUCTED: &str = "constructed";
/// Stands for the pod's uid, which nobody knows before the pod is there.
const POD_UID: &str = "the pod's";

/// One question to the cluster.
pub(crate) struct Case {
    pub(crate) namespace: String,
    /// The service account, and the pod that uses it.
    pub(crate) name: String,
    pub(crate) node: &'static str,
    pub(crate) audiences: Vec<&'static str>,
    pub(crate) bound: Value,
    pub(crate) objects: Vec<Value>,
}

impl Case {
    /// A node asks for a token of a pod that it runs, as a kubelet does.
    pub(crate) fn of_own_pod(namespace: &str, name: &str, audience: &'static str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: NODES[0],
            audiences: vec![audience],
            bound: bound_to(name),
            objects: vec![
                object("ServiceAccount", namespace, name, "secrets", &json!([])),
                pod(namespace, name, NODES[0], name, &json!([])),
            ],
        }
    }

    /// The pod among the objects.
    pub(crate) fn pod(&mut self) -> &mut Value {
        self.objects.iter_mut().find(|object| object["kind"] == "Pod").unwrap()
    }

    pub(crate) fn random(dice: &mut Dice, number: usize) -> Self {
        let namespace = format!("space-{}", number % 8);
        let name = format!("c{number}");
        let node = dice.pick(&NODES);
        let audiences = audiences(dice);
        let mut objects = vec![object("ServiceAccount", &namespace, &name, "secrets", &json!([]))];
        let wanted = audiences.first().copied().unwrap_or_default();
        objects.extend(pods(dice, [&namespace, &name], node, wanted));
        objects.extend(grants(dice, &namespace, &name, wanted));
        Self { bound: bound(dice, &name), namespace, name, node, audiences, objects }
    }

    /// What the rule is asked.
    pub(crate) fn asked(&self, uid: &str) -> Asked {
        let mut asked = Asked::by_node(self.node);
        asked.namespace.clone_from(&self.namespace);
        asked.service_account.clone_from(&self.name);
        asked.audiences = self.audiences.iter().map(|&audience| audience.to_owned()).collect();
        let bound = &self.request(uid)["spec"]["boundObjectRef"];
        let field = |name: &str| bound[name].as_str().unwrap_or_default().to_owned();
        asked.bound = bound.is_object().then(|| {
            let mut pod = BoundObject::pod(field("name"), field("uid"));
            (pod.api_version, pod.kind) = (field("apiVersion"), field("kind"));
            pod
        });
        asked
    }

    /// The request, when the pod's uid is known.
    pub(crate) fn request(&self, uid: &str) -> Value {
        let mut bound = self.bound.clone();
        if bound.is_object() && bound["uid"] == POD_UID {
            bound["uid"] = json!(uid);
        }
        json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": self.audiences, "boundObjectRef": bound},
        })
    }
}

/// As JSON, for whoever looks into it.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, node, audiences, bound, objects } = self;
        let asked = json!({"node": node, "account": [namespace, name], "audiences": audiences, "bound": bound});
        writeln!(f, "{asked}")?;
        objects.iter().try_for_each(|object| writeln!(f, "{object}"))
    }
}

/// What is there whatever the case is: namespaces, and drivers that several volumes share.
pub(crate) fn world(dice: &mut Dice) -> Vec<Value> {
    let spaces = (0..8).map(|number| format!("space-{number}"));
    let spaces = spaces.map(|name| object("Namespace", "", &name, "spec", &json!({})));
    let drivers = dice.some(&MIGRATED, 80);
    let drivers: Vec<_> = drivers
        .into_iter()
        .filter(|name| *name != CINDER)
        .map(|name| driver(dice, name, "", &[30, 60, 90]))
        .collect();
    let cinder = driver_wanting(CINDER, &[CONSTRUCTED, "sts.amazonaws.com", "*"]);
    spaces.chain(drivers).chain([cinder]).collect()
}

/// Objects to make last, of every kind that decides, and questions that get a token only when the server knows them.
pub(crate) fn last() -> (Vec<Value>, Vec<Case>) {
    let (namespace, name) = ("space-0", "last");
    let ask = |audience| Case::of_own_pod(namespace, name, audience);
    let questions: Vec<_> = ["last-driver", "last-role", "last-cluster-role"].map(ask).into();
    let source = json!({"csi": {"driver": "last.csi.example", "volumeHandle": "handle"}});
    let mut objects = vec![persistent_volume(name, source), claim(namespace, name, name)];
    objects.push(driver_wanting("last.csi.example", &["last-driver"]));
    objects.extend(grant(namespace, name, ["Role", "RoleBinding"], &allowed("last-role", name)));
    let cluster_wide = ["ClusterRole", "ClusterRoleBinding"];
    objects.extend(grant(namespace, name, cluster_wide, &allowed("last-cluster-role", name)));
    let mut case = ask("last-driver");
    case.pod()["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    objects.extend(case.objects);
    (objects, questions)
}

fn audiences(dice: &mut Dice) -> Vec<&'static str> {
    match dice.number(19) {
        0 | 1 => Vec::new(),
        2 => vec![dice.pick(&AUDIENCES), dice.pick(&AUDIENCES)],
        _ => vec![dice.pick(&AUDIENCES)],
    }
}

/// Mostly as a kubelet would say it.
fn bound(dice: &mut Dice, pod: &str) -> Value {
    let with = |field: &str, value: Value| {
        let mut bound = bound_to(pod);
        bound[field] = value;
        bound
    };
    match dice.number(39) {
        0 => Value::Null,
        1 => with("apiVersion", json!("v2")),
        2 => with("kind", json!("Secret")),
        3 => with("name", json!("gone")),
        4 => with("name", Value::Null),
        5 => with("uid", Value::Null),
        6 => with("uid", json!("4b1d")),
        _ => bound_to(pod),
    }
}

fn bound_to(pod: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": POD_UID})
}

/// The pod, mostly on the node that asks. If it is not, that node mostly has another pod of the account, or else the node
/// authorizer would end every such case.
fn pods(
    dice: &mut Dice,
    [namespace, name]: [&str; 2],
    node: &str,
    wanted: &'static str,
) -> Vec<Value> {
    let mut volumes = Volumes { dice, namespace, pod: name, wanted, objects: Vec::new() };
    let made = volumes.make(4);
    let mut objects = volumes.objects;
    let home = if dice.chance(85) { node } else { dice.pick(&NODES) };
    objects.push(pod(namespace, name, home, name, &made));
    if home != node && dice.chance(60) {
        let second = format!("{name}-second");
        objects.push(pod(namespace, &second, node, name, &json!([])));
    }
    objects
}

/// Roles and bindings that let nodes ask for the audience, or nearly do.
fn grants(dice: &mut Dice, namespace: &str, name: &str, audience: &str) -> Vec<Value> {
    if dice.chance(30) {
        return Vec::new();
    }
    let allowed = json!({
        "apiGroups": [dice.pick(&["", "", "", "*", "apps"])],
        "resources": [dice.pick(&[audience, audience, audience, "*", "another"])],
        "resourceNames": [dice.pick(&[name, name, name, "another"])],
        "verbs": [dice.pick(&[VERB, VERB, VERB, "*", "get"])],
    });
    let kinds = dice.pick(&[
        ["Role", "RoleBinding"],
        ["ClusterRole", "RoleBinding"],
        ["ClusterRole", "ClusterRoleBinding"],
    ]);
    let [role, mut binding] = grant(namespace, name, kinds, &allowed);
    let (kind, subject) = dice.pick(&[
        ("User", "system:node:node-a"),
        ("User", "system:node:node-b"),
        ("Group", "system:nodes"),
        ("Group", "system:authenticated"),
    ]);
    binding["subjects"][0]["kind"] = json!(kind);
    binding["subjects"][0]["name"] = json!(subject);
    // A binding may outlive its role.
    let role = dice.chance(90).then_some(role);
    role.into_iter().chain([binding]).collect()
}

pub(crate) fn allowed(audience: &str, account: &str) -> Value {
    json!({"apiGroups": [""], "resources": [audience], "resourceNames": [account], "verbs": [VERB]})
}

/// A role, and its binding to all nodes.
pub(crate) fn grant(
    namespace: &str,
    name: &str,
    [role, binding]: [&str; 2],
    allowed: &Value,
) -> [Value; 2] {
    let space = |kind: &str| if kind.starts_with("Cluster") { "" } else { namespace };
    let subject = json!({"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"});
    let mut bound = object(binding, space(binding), name, "subjects", &json!([subject]));
    bound["roleRef"] = json!({"apiGroup": RBAC, "kind": role, "name": name});
    [object(role, space(role), name, "rules", &json!([allowed])), bound]
}
