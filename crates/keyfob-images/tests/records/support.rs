//! A node's directory, and who wants its images.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use keyfob_images::{
    LocalImage, MustPull, PodCredentials, PullAccess, PullRecords, RecordsOptions, SecretAccess,
    VerificationPolicy,
};
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};
use keyfob_testkit::ManualClock;
use tempfile::TempDir;

pub(crate) const APP: &str = "r.test/team/app:v1";

/// A kubelet's root directory.
pub(crate) struct Node {
    pub(crate) root: TempDir,
    pub(crate) clock: ManualClock,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { root: quick_folder(), clock: ManualClock::default() }
    }

    pub(crate) fn open(&self) -> PullRecords {
        self.open_with(VerificationPolicy::default())
    }

    pub(crate) fn open_with(&self, policy: VerificationPolicy) -> PullRecords {
        let mut options = RecordsOptions::default();
        options.policy = policy;
        PullRecords::open(self.root.path(), options, Arc::new(self.clock.clone())).unwrap()
    }

    /// A process that ended in the middle of a pull of an image: its locks are gone, and its intent is not.
    pub(crate) fn die_pulling(&self, image: &str) {
        self.open().record_intent(image).unwrap();
    }

    pub(crate) fn path(&self, folder: &str) -> PathBuf {
        self.root.path().join("image_manager").join(folder)
    }

    /// The files of a folder and what they hold.
    pub(crate) fn texts(&self, folder: &str) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.path(folder)).unwrap().map(Result::unwrap);
        entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect()
    }
}

/// In memory where that is possible: these tests wait for the disk often.
pub(crate) fn quick_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn secret(name: &str, hash: &str) -> SecretAccess {
    let secret = SecretCoordinates {
        uid: format!("uid-{name}"),
        namespace: "team".into(),
        name: name.into(),
    };
    SecretAccess { secret, credential_hash: hash.into() }
}

/// A pull with a secret.
pub(crate) fn by_secret(name: &str, hash: &str) -> PullAccess {
    PullAccess { secrets: vec![secret(name, hash)], ..PullAccess::default() }
}

/// A pod that has a secret.
pub(crate) fn with_secret(name: &str, hash: &str) -> PodCredentials {
    PodCredentials { secrets: vec![secret(name, hash)], service_account: None }
}

pub(crate) fn account(name: &str) -> ServiceAccountCoordinates {
    ServiceAccountCoordinates { uid: "1".into(), namespace: "team".into(), name: name.into() }
}

/// A pull with the node's own credentials.
pub(crate) fn by_node() -> PullAccess {
    PullAccess { node_pods_accessible: true, ..PullAccess::default() }
}

/// A pod whose credentials nobody ever pulled with.
pub(crate) fn stranger() -> PodCredentials {
    PodCredentials {
        secrets: vec![secret("stranger", "hash-of-a-stranger")],
        service_account: Some(account("stranger")),
    }
}

/// Whether an image must be pulled for a pod.
pub(crate) fn must_pull(
    records: &PullRecords,
    image: &str,
    id: &str,
    pod: &PodCredentials,
) -> bool {
    match records.must_pull(image, id) {
        MustPull::Yes => true,
        MustPull::No => false,
        MustPull::Depends(recorded) => records.settle(recorded, pod),
        other => panic!("{other:?}"),
    }
}

/// An image that is here.
pub(crate) fn local(id: &str, tags: &[&str]) -> LocalImage {
    let repo_tags = tags.iter().map(|&tag| tag.to_owned()).collect();
    LocalImage { id: id.into(), repo_tags, repo_digests: Vec::new() }
}
