//! The rule against a plain reading of it, on pods, volumes, claims, drivers and roles made up at random.
//!
//! The model is written from the specification alone and shares no code with the rule: it says whether a token may be given
//! and, roughly, why.

#![expect(clippy::indexing_slicing, reason = "a test")]

use keyfob_api::FeatureGates;
use keyfob_control::{
    facts::judge_objects,
    objects::{Kind, Objects},
    rule::{Asked, BoundObject, Policy},
};
use proptest::{collection::vec, prelude::*, sample::select, strategy::ValueTree as _};
use serde_json::{Value, json};

/// A volume of the pod.
#[derive(Clone, Debug)]
enum Made {
    Projected(Vec<&'static str>),
    Csi(&'static str),
    Claim(&'static str),
    Ephemeral(bool),
    AzureFile,
    AzureDisk(Option<&'static str>),
    Ebs(&'static str),
    Nothing,
}

#[derive(Clone, Debug)]
struct World {
    node: &'static str,
    groups: Vec<&'static str>,
    bound: (&'static str, &'static str, &'static str, &'static str),
    pod_node: &'static str,
    audiences: Vec<&'static str>,
    volumes: Vec<Made>,
    /// Driver, and what it asks for; those that are missing are not in the cluster.
    drivers: Vec<(&'static str, Vec<&'static str>)>,
    /// Claim, and the volume it is bound to.
    claims: Vec<(&'static str, &'static str)>,
    restrict: bool,
    listed: Vec<&'static str>,
    /// The API server's own audiences, if it has put them in the place of none.
    own: Vec<&'static str>,
    granted: Option<(&'static str, &'static str)>,
}

const AUDIENCES: [&str; 4] = ["", "a", "b", "c/d:e"];
const DRIVERS: [&str; 4] = ["one", "two", "file.csi.azure.com", "ebs.csi.aws.com"];
const CLAIMS: [&str; 3] = ["c1", "c2", "p-v0"];
const VOLUMES: [(&str, &str); 4] =
    [("pv-one", "one"), ("pv-two", "two"), ("pv-lost", "nowhere"), ("pv-local", "")];

fn audience() -> impl Strategy<Value = &'static str> {
    select(AUDIENCES.to_vec())
}

fn volume() -> impl Strategy<Value = Made> {
    prop_oneof![
        vec(audience(), 0..3).prop_map(Made::Projected),
        select(vec!["one", "two", "nowhere", ""]).prop_map(Made::Csi),
        select(vec!["c1", "c2", "lost"]).prop_map(Made::Claim),
        any::<bool>().prop_map(Made::Ephemeral),
        Just(Made::AzureFile),
        select(vec![None, Some("Managed"), Some("Shared")]).prop_map(Made::AzureDisk),
        select(vec!["vol-1", "aws://z/vol-1", "aws://z/disk"]).prop_map(Made::Ebs),
        Just(Made::Nothing),
    ]
}

/// Mostly the good one, so that the later steps are reached.
fn mostly<T: Clone + std::fmt::Debug + 'static>(good: T, bad: Vec<T>) -> impl Strategy<Value = T> {
    prop_oneof![9 => Just(good), 1 => select(bad)]
}

fn bound() -> impl Strategy<Value = (&'static str, &'static str, &'static str, &'static str)> {
    (
        mostly("v1", vec!["", "apps/v1"]),
        mostly("Pod", vec!["Secret", "pod"]),
        mostly("p", vec!["", "gone"]),
        mostly("uid", vec!["", "other"]),
    )
}

fn world() -> impl Strategy<Value = World> {
    let who = (
        mostly("system:node:n", vec!["system:node:", "system:node:m", "ann"]),
        mostly(vec!["system:nodes"], vec![vec![], vec!["others", "system:nodes"]]),
        bound(),
        mostly("n", vec!["m", ""]),
        prop_oneof![
            8 => mostly(1usize, vec![0, 2]).prop_flat_map(|count| vec(audience(), count)),
            1 => Just(vec!["a", "b"]),
        ],
    );
    let cluster = (
        vec(volume(), 0..5),
        proptest::sample::subsequence(DRIVERS.to_vec(), 0..=4),
        vec(vec(audience(), 0..3), 4),
        proptest::sample::subsequence(CLAIMS.to_vec(), 0..=3),
        vec(select(vec!["pv-one", "pv-two", "pv-lost", "pv-local", "pv-gone", ""]), 3),
    );
    let policy = (
        mostly(true, vec![false]),
        mostly(Vec::new(), vec![vec!["a"], vec!["", "b"]]),
        proptest::option::weighted(
            0.3,
            (prop_oneof![audience(), Just("*")], select(vec!["sa", "other", ""])),
        ),
        select(vec![vec![], vec!["a"], vec!["a", "b"], vec!["b", "a"], vec!["b", "a", "c/d:e"]]),
    );
    (who, cluster, policy).prop_map(|(who, cluster, policy)| World {
        node: who.0,
        groups: who.1,
        bound: who.2,
        pod_node: who.3,
        audiences: who.4,
        volumes: cluster.0,
        drivers: cluster.1.into_iter().zip(cluster.2).collect(),
        claims: cluster.3.into_iter().zip(cluster.4).collect(),
        restrict: policy.0,
        listed: policy.1,
        granted: policy.2,
        own: policy.3,
    })
}

impl World {
    fn pod(&self) -> Value {
        let volumes: Vec<Value> = self.volumes.iter().enumerate().map(|(index, made)| {
            let mut volume = match made {
                Made::Projected(audiences) => {
                    let source = |audience: &&str| json!({"serviceAccountToken": {"path": "t", "audience": audience}});
                    json!({"projected": {"sources": audiences.iter().map(source).collect::<Vec<_>>()}})
                }
                Made::Csi(driver) => json!({"csi": {"driver": driver}}),
                Made::Claim(claim) => json!({"persistentVolumeClaim": {"claimName": claim}}),
                Made::Ephemeral(true) => json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
                Made::Ephemeral(false) => json!({"ephemeral": {}}),
                Made::AzureFile => json!({"azureFile": {"secretName": "s", "shareName": "x"}}),
                Made::AzureDisk(kind) => json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": kind}}),
                Made::Ebs(id) => json!({"awsElasticBlockStore": {"volumeID": id}}),
                Made::Nothing => json!({"emptyDir": {}}),
            };
            volume["name"] = format!("v{index}").into();
            volume
        }).collect();
        json!({"spec": {"nodeName": self.pod_node, "volumes": volumes}})
    }

    fn objects(&self) -> Objects {
        let mut objects = Objects::default();
        let mut put = |kind: Kind, name: &str, mut value: Value| {
            let namespace = if kind.namespaced() { "ns" } else { "" };
            value["apiVersion"] = kind.api_version().into();
            value["kind"] = kind.name().into();
            value["metadata"] = json!({"name": name, "namespace": namespace, "uid": "uid"});
            objects.put(kind, namespace, name, value);
        };
        put(Kind::Pod, "p", self.pod());
        for (driver, audiences) in &self.drivers {
            let requests: Vec<Value> =
                audiences.iter().map(|audience| json!({"audience": audience})).collect();
            put(Kind::CSIDriver, driver, json!({"spec": {"tokenRequests": requests}}));
        }
        for (claim, volume) in &self.claims {
            put(Kind::PersistentVolumeClaim, claim, json!({"spec": {"volumeName": volume}}));
        }
        for (volume, driver) in VOLUMES {
            let spec = if driver.is_empty() {
                json!({"local": {"path": "/"}})
            } else {
                json!({"csi": {"driver": driver}})
            };
            put(Kind::PersistentVolume, volume, json!({ "spec": spec }));
        }
        if let Some((audience, account)) = self.granted {
            let names = if account.is_empty() { json!([]) } else { json!([account]) };
            let rule = json!({"apiGroups": [""], "resources": [audience], "resourceNames": names, "verbs": ["request-serviceaccounts-token-audience"]});
            put(Kind::Role, "r", json!({"rules": [rule]}));
            let subject = json!({"kind": "User", "name": "system:node:n"});
            put(
                Kind::RoleBinding,
                "r",
                json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [subject]}),
            );
        }
        objects
    }

    fn asked(&self) -> Asked {
        let (api_version, kind, name, uid) = self.bound;
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Asked {
            user: self.node.to_owned(),
            groups: texts(&self.groups),
            namespace: "ns".to_owned(),
            service_account: "sa".to_owned(),
            audiences: texts(&self.audiences),
            bound: Some(BoundObject {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                ..BoundObject::pod(name, uid)
            }),
        }
    }

    fn policy(&self) -> Policy {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let mut gates = FeatureGates::default();
        gates.node_audience_restriction = self.restrict;
        Policy {
            gates,
            allowed_kubelet_audiences: texts(&self.listed),
            api_audiences: texts(&self.own),
        }
    }

    /// What is seen may be what the client wrote, or the client wrote nothing: either may be allowed.
    fn model(&self) -> &'static str {
        let sorted = |list: &[&'static str]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        let written = self.as_written(&self.audiences);
        if sorted(&self.own) != sorted(&self.audiences) {
            return written;
        }
        match self.as_written(&[]) {
            nothing if ALLOWING.contains(&nothing) || written == "too-many-audiences" => nothing,
            _ => written,
        }
    }

    /// The specification, section 9, step by step.
    fn as_written(&self, audiences: &[&'static str]) -> &'static str {
        if !self.node.starts_with("system:node:") || !self.groups.contains(&"system:nodes") {
            return "not-a-node";
        }
        if self.node == "system:node:" {
            return "unknown-node";
        }
        match self.bound {
            (version, kind, name, _) if version != "v1" || kind != "Pod" || name.is_empty() => {
                return "not-bound-to-pod";
            }
            (.., "") => return "no-pod-uid",
            (_, _, "gone", _) => return "pod-not-found",
            (.., "other") => return "different-pod",
            _ => {}
        }
        if format!("system:node:{}", self.pod_node) != self.node {
            return "different-node";
        }
        if !self.restrict {
            return "audiences-not-restricted";
        }
        if audiences.len() > 1 {
            return "too-many-audiences";
        }
        let audience = audiences.first().copied().unwrap_or("");
        let looks: Vec<Look> =
            (0..self.volumes.len()).map(|index| self.look(index, audience)).collect();
        if let Some(Look::Allows(name)) = looks.iter().find(|look| matches!(look, Look::Allows(_)))
        {
            return name;
        }
        if !audience.is_empty() && self.listed.contains(&audience) {
            return "allowed-kubelet-audiences";
        }
        if looks.contains(&Look::Error) {
            return "volume-error";
        }
        match self.granted {
            Some((granted, account))
                if self.node == "system:node:n"
                    && (granted == "*" || granted == audience)
                    && (account.is_empty() || account == "sa") =>
            {
                "authorizer"
            }
            _ => "not-authorized",
        }
    }

    fn look(&self, index: usize, audience: &str) -> Look {
        match &self.volumes[index] {
            Made::Projected(audiences) if audiences.contains(&audience) => {
                Look::Allows("projected-volume")
            }
            Made::Projected(_) | Made::Ephemeral(false) | Made::Nothing | Made::Csi("") => {
                Look::Nothing
            }
            Made::Csi(driver) => self.driver(driver, audience),
            Made::Claim(claim) => self.claim(claim, audience),
            Made::Ephemeral(true) => self.claim(&format!("p-v{index}"), audience),
            Made::AzureFile => self.driver("file.csi.azure.com", audience),
            Made::AzureDisk(Some("Shared")) | Made::Ebs("aws://z/disk") => Look::Error,
            Made::AzureDisk(_) => self.driver("disk.csi.azure.com", audience),
            Made::Ebs(_) => self.driver("ebs.csi.aws.com", audience),
        }
    }

    fn claim(&self, claim: &str, audience: &str) -> Look {
        let bound = self.claims.iter().find(|(name, _)| *name == claim).map(|(_, volume)| *volume);
        let driver =
            bound.and_then(|bound| VOLUMES.into_iter().find(|(volume, _)| *volume == bound));
        match driver {
            None => Look::Error,
            Some((_, "")) => Look::Nothing,
            Some((_, driver)) => self.driver(driver, audience),
        }
    }

    fn driver(&self, driver: &str, audience: &str) -> Look {
        match self.drivers.iter().find(|(name, _)| *name == driver) {
            None => Look::Error,
            Some((_, audiences)) if audiences.contains(&audience) => Look::Allows("csi-driver"),
            Some(_) => Look::Nothing,
        }
    }
}

/// What the model finds at a volume.
#[derive(Debug, PartialEq)]
enum Look {
    Allows(&'static str),
    Error,
    Nothing,
}

const ALLOWING: [&str; 6] = [
    "not-a-node",
    "audiences-not-restricted",
    "projected-volume",
    "csi-driver",
    "allowed-kubelet-audiences",
    "authorizer",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_rule_is_what_the_specification_says(world in world()) {
        let verdict = judge_objects(&world.asked(), &world.policy(), &world.objects());
        prop_assert_eq!(verdict.name(), world.model());
        prop_assert_eq!(verdict.allowed(), ALLOWING.contains(&world.model()));
        prop_assert_eq!(verdict.code() == 404, verdict.name() == "pod-not-found");
        let words = if verdict.allowed() { "allowed by " } else { "forbidden by " };
        prop_assert!(verdict.to_string().starts_with(words));
    }

    #[test]
    fn the_servers_audience_opens_nothing_but_what_naming_none_opens(world in world()) {
        let answer = |world: &World| judge_objects(&world.asked(), &world.policy(), &world.objects()).allowed();
        let plain = World { own: Vec::new(), ..world.clone() };
        let none = World { audiences: Vec::new(), ..plain.clone() };
        prop_assert!(!answer(&world) || answer(&plain) || answer(&none));
        prop_assert!(answer(&world) || !answer(&plain));
        let put = World { audiences: world.own.clone(), ..world };
        prop_assert!(answer(&put) || !answer(&none));
    }

    #[test]
    fn the_order_of_volumes_changes_no_answer(world in world(), turn in 0usize..5) {
        let mut turned = world.clone();
        // Ephemeral volumes are named after their place, so they stay out of it.
        turned.volumes.retain(|volume| !matches!(volume, Made::Ephemeral(_)));
        let straight = turned.clone();
        let turn = turn.min(turned.volumes.len());
        turned.volumes.rotate_left(turn);
        let answer = |world: &World| judge_objects(&world.asked(), &world.policy(), &world.objects()).allowed();
        prop_assert_eq!(answer(&straight), answer(&turned));
    }

    #[test]
    fn more_roles_and_longer_lists_never_forbid_what_was_allowed(world in world(), listed in audience()) {
        let before = judge_objects(&world.asked(), &world.policy(), &world.objects());
        let mut more = world.clone();
        more.listed.push(listed);
        more.granted = Some(("*", ""));
        let after = judge_objects(&more.asked(), &more.policy(), &more.objects());
        prop_assert!(after.allowed() || !before.allowed());
    }
}

/// The made-up worlds must reach every clause that they can.
#[test]
fn every_step_of_the_rule_is_reached() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached = std::collections::BTreeSet::new();
    let worlds = world();
    for _ in 0..1500 {
        let world = worlds.new_tree(&mut runner).unwrap().current();
        reached.insert(judge_objects(&world.asked(), &world.policy(), &world.objects()).name());
    }
    let never = ["authorizer-error", "pod-unknown"];
    assert_eq!(reached.len(), 17 - never.len(), "{reached:?}");
}
