//! Volumes of the kinds that were once built in: which CSI driver stands behind them today.
//!
//! Only what decides is kept of the translation: the driver's name, and whether a volume can be translated at all.
//!
//! Upstream: `k8s.io/csi-translation-lib`.
//! Differs: an inline vSphere volume with a storage policy is translated like any other, not met with a panic.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AzureFilePersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume,
};
use keyfob_api::go_url_path;

const AWS_EBS: &str = "ebs.csi.aws.com";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const GCE_PD: &str = "pd.csi.storage.gke.io";
const PORTWORX: &str = "pxd.portworx.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";

/// Where a GCE disk's volume says its zones, the older name first.
const ZONE_LABELS: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];

/// An in-tree volume, by the name of its field, and the driver it migrates to.
pub(super) struct Migrated {
    pub(super) field: &'static str,
    pub(super) driver: Result<&'static str, String>,
}

/// What a pod's own volume migrates to; `None` if it is of another kind.
pub(super) fn of_volume(volume: &Volume) -> Option<Migrated> {
    let (field, driver) = if let Some(ebs) = &volume.aws_elastic_block_store {
        ("awsElasticBlockStore", ebs_volume(&ebs.volume_id).map(|()| AWS_EBS))
    } else if let Some(disk) = &volume.azure_disk {
        ("azureDisk", managed(disk.kind.as_deref()).map(|()| AZURE_DISK))
    } else if volume.azure_file.is_some() {
        ("azureFile", Ok(AZURE_FILE))
    } else if volume.cinder.is_some() {
        ("cinder", Ok(CINDER))
    } else if volume.gce_persistent_disk.is_some() {
        ("gcePersistentDisk", Ok(GCE_PD))
    } else if volume.portworx_volume.is_some() {
        ("portworxVolume", Ok(PORTWORX))
    } else if volume.vsphere_volume.is_some() {
        ("vsphereVolume", Ok(VSPHERE))
    } else {
        return None;
    };
    Some(Migrated { field, driver })
}

/// What a persistent volume migrates to; `None` if it is of another kind.
pub(super) fn of_persistent_volume(volume: &PersistentVolume) -> Option<Migrated> {
    let spec = volume.spec.as_ref()?;
    let (field, driver) = if let Some(ebs) = &spec.aws_elastic_block_store {
        ("awsElasticBlockStore", ebs_volume(&ebs.volume_id).map(|()| AWS_EBS))
    } else if let Some(disk) = &spec.azure_disk {
        ("azureDisk", managed(disk.kind.as_deref()).map(|()| AZURE_DISK))
    } else if let Some(file) = &spec.azure_file {
        ("azureFile", secret_namespace(file, spec).map(|()| AZURE_FILE))
    } else if spec.cinder.is_some() {
        ("cinder", Ok(CINDER))
    } else if spec.gce_persistent_disk.is_some() {
        ("gcePersistentDisk", one_region(&zones(volume)).map(|()| GCE_PD))
    } else if spec.portworx_volume.is_some() {
        ("portworxVolume", Ok(PORTWORX))
    } else if spec.vsphere_volume.is_some() {
        ("vsphereVolume", Ok(VSPHERE))
    } else {
        return None;
    };
    Some(Migrated { field, driver })
}

/// A bare identifier passes as it is; `aws://ZONE/ID` must hold one.
fn ebs_volume(id: &str) -> Result<(), String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(()) };
    let failed = |why: String| format!("failed to translate Kubernetes ID to EBS Volume ID {why}");
    let path = go_url_path("aws", rest)
        .map_err(|error| failed(format!("Invalid disk name ({id}): {error}")))?;
    match trim_slashes(&path).strip_prefix(b"vol-") {
        Some(rest) if !rest.contains(&b'/') => Ok(()),
        _ => Err(failed(format!("Invalid format for AWS volume ({id})"))),
    }
}

fn trim_slashes(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}

fn managed(kind: Option<&str>) -> Result<(), String> {
    match kind {
        Some(kind) if !kind.eq_ignore_ascii_case("managed") => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        _ => Ok(()),
    }
}

/// The secret's namespace is the volume's own, or else its claim's; one of them must be there.
fn secret_namespace(
    file: &AzureFilePersistentVolumeSource,
    spec: &PersistentVolumeSpec,
) -> Result<(), String> {
    let claim = spec.claim_ref.as_ref().and_then(|claim| claim.namespace.as_deref());
    let namespace = file.secret_namespace.as_deref().or(claim).unwrap_or_default();
    if namespace.is_empty() {
        return Err(
            "could not find a secret namespace in PersistentVolumeSource or ClaimRef".to_owned()
        );
    }
    Ok(())
}

fn zones(volume: &PersistentVolume) -> Vec<&str> {
    let labels = volume.metadata.labels.as_ref();
    let label = |name: &str| labels?.get(name).map(String::as_str).filter(|zone| !zone.is_empty());
    ZONE_LABELS.into_iter().find_map(label).unwrap_or_default().split("__").collect()
}

/// A disk of several zones is regional: the zones must be of one region.
fn one_region(zones: &[&str]) -> Result<(), String> {
    let [_, _, ..] = zones else { return Ok(()) };
    let failed = |why: String| format!("failed to get region from zones: {why}");
    let mut regions = BTreeSet::new();
    for zone in zones {
        match zone.split('-').collect::<Vec<_>>()[..] {
            [locale, region, _] => regions.insert(format!("{locale}-{region}:{{}}")),
            _ => {
                return Err(failed(format!(
                    "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
                )));
            }
        };
    }
    if regions.len() > 1 {
        let regions = regions.into_iter().collect::<Vec<_>>().join(" ");
        return Err(failed(format!(
            "multiple or no regions gotten from zones, got: map[{regions}]"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(source: &Value) -> Result<&'static str, String> {
        of_volume(&serde_json::from_value(source.clone()).unwrap()).unwrap().driver
    }

    fn persistent(spec: &Value) -> Result<&'static str, String> {
        labelled(&json!({}), spec)
    }

    fn labelled(labels: &Value, spec: &Value) -> Result<&'static str, String> {
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"labels": labels}, "spec": spec});
        of_persistent_volume(&serde_json::from_value(volume).unwrap()).unwrap().driver
    }

    #[test]
    fn every_kind_that_migrates_has_its_driver() {
        for (field, driver) in [
            ("awsElasticBlockStore", AWS_EBS),
            ("azureDisk", AZURE_DISK),
            ("azureFile", AZURE_FILE),
            ("cinder", CINDER),
            ("gcePersistentDisk", GCE_PD),
            ("portworxVolume", PORTWORX),
            ("vsphereVolume", VSPHERE),
        ] {
            assert_eq!(volume(&json!({ field: {} })), Ok(driver));
            let spec = json!({ field: {}, "claimRef": {"namespace": "ns"} });
            assert_eq!(persistent(&spec), Ok(driver));
        }
        let policy = json!({"vsphereVolume": {"storagePolicyName": "gold"}});
        assert_eq!(volume(&policy), Ok(VSPHERE));
        assert!(of_volume(&Volume::default()).is_none());
        assert!(of_persistent_volume(&PersistentVolume::default()).is_none());
    }

    #[test]
    fn an_ebs_volume_must_be_named_by_its_identifier() {
        let of = |id: &str| volume(&json!({"awsElasticBlockStore": {"volumeID": id}}));
        for id in ["", "anything/goes", "aws://zone/vol-1", "aws:///vol-", "aws://zone//vol-1/"] {
            assert_eq!(of(id), Ok(AWS_EBS), "{id}");
        }
        let prefix = "failed to translate Kubernetes ID to EBS Volume ID ";
        for id in ["aws://zone", "aws://zone/disk-1", "aws://zone/vol-1/2", "aws://vol-1"] {
            assert_eq!(of(id), Err(format!("{prefix}Invalid format for AWS volume ({id})")));
        }
        let bad = r#"Invalid disk name (aws://a b/vol-1): parse "aws://a b/vol-1": invalid character " " in host name"#;
        assert_eq!(of("aws://a b/vol-1"), Err(format!("{prefix}{bad}")));
    }

    #[test]
    fn only_managed_azure_disks_migrate() {
        let of = |kind: &str| volume(&json!({"azureDisk": {"kind": kind}}));
        assert_eq!(of("managed"), Ok(AZURE_DISK));
        assert_eq!(of("Managed"), Ok(AZURE_DISK));
        let refused = Err("kind(Shared) is not supported in csi migration".to_owned());
        assert_eq!(of("Shared"), refused);
        assert_eq!(persistent(&json!({"azureDisk": {"kind": "Shared"}})), refused);
    }

    #[test]
    fn an_azure_file_share_needs_its_secrets_namespace() {
        let refused =
            "could not find a secret namespace in PersistentVolumeSource or ClaimRef".to_owned();
        assert_eq!(persistent(&json!({"azureFile": {}})), Err(refused.clone()));
        let empty = json!({"azureFile": {"secretNamespace": ""}, "claimRef": {"namespace": "ns"}});
        assert_eq!(persistent(&empty), Err(refused));
        assert_eq!(persistent(&json!({"azureFile": {"secretNamespace": "s"}})), Ok(AZURE_FILE));
    }

    #[test]
    fn a_regional_gce_disk_has_one_region() {
        let spec = || json!({"gcePersistentDisk": {}});
        let zone = |zone: &str| labelled(&json!({"topology.kubernetes.io/zone": zone}), &spec());
        for good in ["", "anything", "us-central1-a__us-central1-b"] {
            assert_eq!(zone(good), Ok(GCE_PD));
        }
        let prefix = "failed to get region from zones: ";
        let format = "zone in unexpected format, expected: {locale}-{region}-{zone}, got: ";
        assert_eq!(zone("a-b-c__"), Err(format!("{prefix}{format}")));
        let two = "multiple or no regions gotten from zones, got: map[a-b:{} c-d:{}]";
        assert_eq!(zone("c-d-e__a-b-c"), Err(format!("{prefix}{two}")));
        let both = json!({"failure-domain.beta.kubernetes.io/zone": "x__y", "topology.kubernetes.io/zone": "z"});
        assert_eq!(labelled(&both, &spec()), Err(format!("{prefix}{format}x")));
    }
}
