//! Volumes of every kind, and the claims, volumes and drivers behind them.

use serde_json::{Value, json};

use super::dice::Dice;
use crate::api::object;

/// For whom tokens are asked, here and in volumes and drivers.
pub(crate) const AUDIENCES: [&str; 8] = [
    "",
    "sts.amazonaws.com",
    "https://vault.example/v1",
    "api://AzureADTokenExchange",
    "spiffe://example/registry",
    "*",
    "secrets",
    "pods/log",
];

/// The drivers that in-tree volumes became.
pub(crate) const MIGRATED: [&str; 7] = [
    CINDER,
    "csi.vsphere.vmware.com",
    "disk.csi.azure.com",
    "ebs.csi.aws.com",
    "file.csi.azure.com",
    "pd.csi.storage.gke.io",
    "pxd.portworx.com",
];

/// The one of them that is always there.
pub(crate) const CINDER: &str = "cinder.csi.openstack.org";

/// Some are names of volumes, and some only look like it.
const EBS_VOLUMES: [&str; 10] = [
    "vol-0123456789abcdef0",
    "anything",
    "aws://us-east-1a/vol-01234567",
    "aws:///vol-01234567",
    "aws://us-east-1a/vol-01234567/?a#b",
    "aws://us-east-1a/disk",
    "aws://us-east-1a/vol-0/1",
    "aws://us-east-1a/vol-%zz",
    "aws://us east/vol-01234567",
    "aws://",
];

/// What labels say of a volume's zones.
const ZONES: [&str; 5] =
    ["", "us-east1-b", "us-east1-b__us-east1-c", "us-east1-b__eu-west1-c", "nowhere__elsewhere"];

/// Makes the volumes of one pod; what they need besides gathers here.
pub(crate) struct Volumes<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    /// The audience that is asked for.
    pub(crate) wanted: &'static str,
    pub(crate) objects: Vec<Value>,
}

impl Volumes<'_> {
    pub(crate) fn make(&mut self, most: usize) -> Value {
        let count = self.dice.number(most);
        (0..count).map(|number| self.volume(&format!("v{number}"))).collect()
    }

    fn volume(&mut self, name: &str) -> Value {
        let mut volume = match self.dice.number(9) {
            0 | 1 => self.projected(),
            2 | 3 => json!({"csi": {"driver": self.driver(name)}}),
            4 | 5 => self.claimed(name),
            6 => self.ephemeral(name),
            7 | 8 => self.in_tree(false),
            _ => self.plain(),
        };
        volume["name"] = json!(name);
        volume
    }

    fn projected(&mut self) -> Value {
        let token = |audience| json!({"serviceAccountToken": {"audience": audience, "path": "token", "expirationSeconds": 600}});
        let sources = match self.dice.number(3) {
            0 => json!([{"configMap": {"name": "settings"}}]),
            1 => json!([token(self.audience()), {"configMap": {"name": "settings"}}]),
            // The paths must differ.
            _ => {
                let mut second = token(self.audience());
                second["serviceAccountToken"]["path"] = json!("second");
                json!([token(self.audience()), second])
            }
        };
        json!({"projected": {"sources": sources}})
    }

    fn claimed(&mut self, volume: &str) -> Value {
        let claim = format!("{}-claim-{volume}", self.pod);
        self.claim(&claim);
        json!({"persistentVolumeClaim": {"claimName": claim}})
    }

    /// The claim of an ephemeral volume has the names of the pod and the volume.
    fn ephemeral(&mut self, volume: &str) -> Value {
        self.claim(&format!("{}-{volume}", self.pod));
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": claim_spec("")}}})
    }

    /// A claim that is missing, unbound, bound to nothing, or bound.
    fn claim(&mut self, name: &str) {
        let volume = match self.dice.number(9) {
            0 => return,
            1 => String::new(),
            2 => format!("{name}-gone"),
            _ => self.persistent(name),
        };
        self.objects.push(claim(self.namespace, name, &volume));
    }

    fn persistent(&mut self, claim: &str) -> String {
        let name = format!("{claim}-volume");
        let mut spec = match self.dice.number(5) {
            0 => json!({"hostPath": {"path": "/data"}}),
            1 | 2 => json!({"csi": {"driver": self.driver(claim), "volumeHandle": "handle"}}),
            _ => self.in_tree(true),
        };
        if self.dice.chance(70) {
            spec["claimRef"] = json!({"namespace": self.namespace, "name": claim});
        }
        let mut volume = persistent_volume(&name, spec);
        if self.dice.chance(30) {
            let label =
                self.dice.pick(&["topology.kubernetes.io", "failure-domain.beta.kubernetes.io"]);
            let zones = self.dice.pick(&ZONES);
            volume["metadata"]["labels"] = json!({format!("{label}/zone"): zones});
        }
        self.objects.push(volume);
        name
    }

    /// One of those that are read as the driver that took their place. Some cannot be.
    fn in_tree(&mut self, persistent: bool) -> Value {
        match self.dice.number(8) {
            0 | 1 => json!({"awsElasticBlockStore": {"volumeID": self.dice.pick(&EBS_VOLUMES)}}),
            2 => self.azure_disk(),
            3 => self.azure_file(persistent),
            4 => json!({"cinder": {"volumeID": "volume"}}),
            5 | 6 => json!({"gcePersistentDisk": {"pdName": "disk"}}),
            7 => json!({"portworxVolume": {"volumeID": "volume"}}),
            _ => json!({"vsphereVolume": {"volumePath": "[store] disk.vmdk"}}),
        }
    }

    fn azure_disk(&mut self) -> Value {
        let managed = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d";
        let blob = "https://account.blob.core.windows.net/vhds/d.vhd";
        let kinds =
            [("Managed", managed), ("Managed", managed), ("Dedicated", blob), ("Shared", blob)];
        let (kind, uri) = self.dice.pick(&kinds);
        json!({"azureDisk": {"kind": kind, "diskName": "d", "diskURI": uri}})
    }

    fn azure_file(&mut self, persistent: bool) -> Value {
        let mut file =
            json!({"secretName": "azure-storage-account-a-secret", "shareName": "share"});
        if persistent && self.dice.chance(50) {
            file["secretNamespace"] = json!("elsewhere");
        }
        json!({"azureFile": file})
    }

    /// One that has nothing to do with tokens.
    fn plain(&mut self) -> Value {
        match self.dice.number(5) {
            0 => json!({"emptyDir": {}}),
            1 => json!({"configMap": {"name": "settings"}}),
            2 => json!({"secret": {"secretName": "settings"}}),
            3 => json!({"hostPath": {"path": "/data"}}),
            4 => json!({"nfs": {"server": "files.example", "path": "/data"}}),
            _ => json!({"downwardAPI": {}}),
        }
    }

    /// A driver that everybody knows, or one of this volume alone, which may be missing.
    fn driver(&mut self, volume: &str) -> String {
        if self.dice.chance(30) {
            return self.dice.pick(&MIGRATED).to_owned();
        }
        let name = format!("{}-{volume}.csi.example", self.pod);
        if self.dice.chance(80) {
            self.objects.push(driver(self.dice, &name, self.wanted, &[0, 30, 60]));
        }
        name
    }

    fn audience(&mut self) -> &'static str {
        if self.dice.chance(20) { self.wanted } else { self.dice.pick(&AUDIENCES) }
    }
}

/// A driver that wants tokens for so many in a hundred of the audiences, one of these numbers.
pub(crate) fn driver(dice: &mut Dice, name: &str, wanted: &str, percents: &[u8]) -> Value {
    let percent = dice.pick(percents);
    let mut audiences = dice.some(&AUDIENCES, percent);
    if dice.chance(40) && !audiences.contains(&wanted) {
        audiences.push(wanted);
    }
    driver_wanting(name, &audiences)
}

/// A driver that wants tokens for these audiences.
pub(crate) fn driver_wanting(name: &str, audiences: &[&str]) -> Value {
    let requests = audiences.iter().map(|audience| json!({"audience": audience}));
    let spec = json!({"attachRequired": false, "tokenRequests": requests.collect::<Vec<_>>()});
    object("CSIDriver", "", name, "spec", &spec)
}

pub(crate) fn persistent_volume(name: &str, mut source: Value) -> Value {
    source["capacity"] = json!({"storage": "1Gi"});
    source["accessModes"] = json!(["ReadWriteOnce"]);
    object("PersistentVolume", "", name, "spec", &source)
}

pub(crate) fn claim(namespace: &str, name: &str, volume: &str) -> Value {
    object("PersistentVolumeClaim", namespace, name, "spec", &claim_spec(volume))
}

pub(crate) fn claim_spec(volume: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": volume,
    })
}
