//! Cases built on purpose, so that everything that can decide a request decides at least one in every run.

use serde_json::{Value, json};

use super::{
    NODE_AUTHORIZER,
    cases::{CONSTRUCTED, Case, NODES, allowed, grant},
    volumes::{claim, claim_spec, driver_wanting, persistent_volume},
};
use crate::api::pod;

/// Each case with what must decide it.
pub(crate) fn constructed() -> Vec<(&'static str, Case)> {
    let build = |(number, (decider, change)): (usize, &Row)| {
        let mut case = Case::of_own_pod("space-0", &format!("constructed-{number}"), CONSTRUCTED);
        change(&mut case);
        (*decider, case)
    };
    TABLE.iter().enumerate().map(build).collect()
}

/// What decides, and what must be done to a case for it.
type Row = (&'static str, fn(&mut Case));

/// A case to which nothing is done asks for an audience that nothing allows.
const TABLE: &[Row] = &[
    ("authorizer", |case| case.granted(["Role", "RoleBinding"])),
    ("authorizer", |case| case.granted(["ClusterRole", "RoleBinding"])),
    ("authorizer", |case| case.granted(["ClusterRole", "ClusterRoleBinding"])),
    ("csi-driver", Case::mounts_csi),
    ("csi-driver", |case| {
        // A volume that cannot be followed does not keep another from allowing it.
        case.mounts(claimed("missing"));
        case.mounts_csi();
    }),
    ("csi-driver, by a claim", |case| {
        let driver = case.own_driver();
        case.mounts_claim(csi(&driver));
    }),
    ("csi-driver, by a claim", |case| {
        let driver = case.own_driver();
        case.bound_claim(&format!("{}-data", case.name), csi(&driver));
        case.mounts(json!({"ephemeral": {"volumeClaimTemplate": {"spec": claim_spec("")}}}));
    }),
    ("csi-driver, by a claim, in-tree", |case| case.mounts_claim(cinder())),
    ("csi-driver, in-tree", |case| case.mounts(cinder())),
    ("different-node", |case| {
        case.pod()["spec"]["nodeName"] = json!(NODES[1]);
        case.second_pod();
    }),
    ("different-node", |case| {
        case.pod()["spec"]["nodeName"] = Value::Null;
        case.second_pod();
    }),
    ("different-pod", |case| case.bound["uid"] = json!("4b1d")),
    ("no-pod-uid", |case| case.bound["uid"] = Value::Null),
    (NODE_AUTHORIZER, |case| case.pod()["spec"]["nodeName"] = json!(NODES[1])),
    ("not-authorized", |_| {}),
    ("not-authorized", |case| case.mounts(projecting("another"))),
    ("not-authorized", |case| case.audiences.clear()),
    ("not-bound-to-pod", |case| case.bound = Value::Null),
    ("not-bound-to-pod", |case| case.bound["apiVersion"] = json!("v2")),
    ("not-bound-to-pod", |case| case.bound["kind"] = json!("Secret")),
    ("not-bound-to-pod", |case| case.bound["name"] = Value::Null),
    ("pod-not-found", |case| case.bound["name"] = json!("gone")),
    ("projected-volume", |case| case.mounts(projecting(CONSTRUCTED))),
    ("projected-volume", |case| {
        case.audiences.clear();
        case.mounts(projecting(""));
    }),
    ("too-many-audiences", |case| case.audiences.push("another")),
    ("volume-error", |case| case.mounts(claimed("missing"))),
    ("volume-error", |case| {
        case.objects.push(claim(&case.namespace, &case.name, "missing"));
        case.mounts(claimed(&case.name));
    }),
    ("volume-error", |case| case.mounts(json!({"csi": {"driver": "missing.csi.example"}}))),
    ("volume-error", |case| {
        case.mounts(
            json!({"azureDisk": {"kind": "Shared", "diskName": "d", "diskURI": "https://d"}}),
        );
    }),
];

impl Case {
    /// Lets all nodes ask for it.
    fn granted(&mut self, kinds: [&str; 2]) {
        self.objects.extend(grant(
            &self.namespace,
            &self.name,
            kinds,
            &allowed(CONSTRUCTED, &self.name),
        ));
    }

    /// A pod of the account on the node that asks, so that the node authorizer lets the request through.
    fn second_pod(&mut self) {
        let name = format!("{}-second", self.name);
        self.objects.push(pod(&self.namespace, &name, self.node, &self.name, &json!([])));
    }

    fn mounts(&mut self, mut volume: Value) {
        volume["name"] = json!("data");
        let volumes = self.pod()["spec"]["volumes"].as_array_mut().unwrap();
        if !volumes.is_empty() {
            volume["name"] = json!(format!("data-{}", volumes.len()));
        }
        volumes.push(volume);
    }

    fn mounts_csi(&mut self) {
        let driver = self.own_driver();
        self.mounts(json!({"csi": {"driver": driver}}));
    }

    fn mounts_claim(&mut self, source: Value) {
        let name = self.name.clone();
        self.bound_claim(&name, source);
        self.mounts(claimed(&name));
    }

    /// A claim, and a volume bound to it.
    fn bound_claim(&mut self, name: &str, source: Value) {
        self.objects.push(persistent_volume(&self.name, source));
        self.objects.push(claim(&self.namespace, name, &self.name));
    }

    /// A driver that wants the token.
    fn own_driver(&mut self) -> String {
        let name = format!("{}.csi.example", self.name);
        self.objects.push(driver_wanting(&name, &[CONSTRUCTED]));
        name
    }
}

fn csi(driver: &str) -> Value {
    json!({"csi": {"driver": driver, "volumeHandle": "handle"}})
}

/// Leads to a driver that is always there, and wants the token.
fn cinder() -> Value {
    json!({"cinder": {"volumeID": "volume"}})
}

fn claimed(claim: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": claim}})
}

fn projecting(audience: &str) -> Value {
    let token = json!({"audience": audience, "path": "token", "expirationSeconds": 600});
    json!({"projected": {"sources": [{"serviceAccountToken": token}]}})
}
