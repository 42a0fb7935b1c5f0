//! What is remembered of an image that was pulled, and how it grows.
//!
//! Upstream: `pulledRecordMergeNewCreds` and what it calls in `image_pull_manager.go`.

use std::collections::{BTreeMap, BTreeSet};

use keyfob_api::Timestamp;
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};

use super::{PullAccess, SecretAccess};

/// Who proved access to an image that is here: upstream's `ImagePulledRecord`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "mirrors a file of the kubelet")]
pub struct PulledRecord {
    /// The image's id.
    pub image_ref: String,
    /// When this was last changed; nothing if that is not known.
    pub last_updated_time: Option<Timestamp>,
    /// What gave access, by the image's name as pods write it, without tag and digest.
    pub credential_mapping: BTreeMap<String, PullAccess>,
}

impl PulledRecord {
    /// The record of an image that nothing was known of. Without access it says only that the image was pulled.
    pub fn new(image_ref: &str, name: &str, access: Option<&PullAccess>, now: Timestamp) -> Self {
        let mapping = access.map(|access| (name.to_owned(), access.clone()));
        Self {
            image_ref: image_ref.to_owned(),
            last_updated_time: Some(now),
            credential_mapping: mapping.into_iter().collect(),
        }
    }

    /// This record and what gave access once more; nothing if that changes nothing.
    #[must_use]
    pub fn merged(&self, name: &str, access: Option<&PullAccess>, now: Timestamp) -> Option<Self> {
        let new = access.filter(|access| !access.is_empty())?;
        let access = match self.credential_mapping.get(name) {
            None => new.clone(),
            Some(old) => old.merged(new)?,
        };
        let mut record = Self { last_updated_time: Some(now), ..self.clone() };
        record.credential_mapping.insert(name.to_owned(), access);
        Some(record)
    }
}

impl PullAccess {
    /// The accounts among these that have the namespace and the name of this one, and another uid: it was deleted and
    /// recreated since they proved access, and counts as another.
    pub fn earlier_accounts<'a>(
        &'a self,
        account: &'a ServiceAccountCoordinates,
    ) -> impl Iterator<Item = &'a ServiceAccountCoordinates> {
        let ServiceAccountCoordinates { uid, namespace, name } = account;
        self.service_accounts.iter().filter(move |each| {
            (&each.namespace, &each.name) == (namespace, name) && each.uid != *uid
        })
    }

    /// Whether nobody has access by it.
    pub(super) fn is_empty(&self) -> bool {
        !self.node_pods_accessible && self.secrets.is_empty() && self.service_accounts.is_empty()
    }

    /// Nothing if that changes nothing. Secrets hide service accounts that come with them, as upstream.
    fn merged(&self, new: &Self) -> Option<Self> {
        if self.node_pods_accessible {
            return None;
        }
        if new.node_pods_accessible {
            return Some(Self { node_pods_accessible: true, ..Self::default() });
        }
        if new.secrets.is_empty() {
            let service_accounts = merged_accounts(&self.service_accounts, &new.service_accounts)?;
            return Some(Self { service_accounts, ..self.clone() });
        }
        Some(Self { secrets: merged_secrets(&self.secrets, &new.secrets)?, ..self.clone() })
    }
}

/// Each secret once, with the newest hash, sorted.
fn merged_secrets(old: &[SecretAccess], new: &[SecretAccess]) -> Option<Vec<SecretAccess>> {
    let entry = |access: &SecretAccess| {
        let SecretCoordinates { uid, namespace, name } = access.secret.clone();
        ((namespace, name, uid), access.credential_hash.clone())
    };
    let mut all: BTreeMap<_, _> = old.iter().map(entry).collect();
    let mut is_changed = false;
    for (key, hash) in new.iter().map(entry) {
        is_changed |= all.get(&key) != Some(&hash);
        all.insert(key, hash);
    }
    let access = |((namespace, name, uid), credential_hash)| SecretAccess {
        secret: SecretCoordinates { uid, namespace, name },
        credential_hash,
    };
    is_changed.then(|| all.into_iter().map(access).collect())
}

/// Each account once, sorted.
fn merged_accounts(
    old: &[ServiceAccountCoordinates],
    new: &[ServiceAccountCoordinates],
) -> Option<Vec<ServiceAccountCoordinates>> {
    let key = |account: &ServiceAccountCoordinates| {
        let ServiceAccountCoordinates { uid, namespace, name } = account.clone();
        (namespace, name, uid)
    };
    let mut all: BTreeSet<_> = old.iter().map(key).collect();
    let mut is_changed = false;
    for key in new.iter().map(key) {
        is_changed |= all.insert(key);
    }
    let account = |(namespace, name, uid)| ServiceAccountCoordinates { uid, namespace, name };
    is_changed.then(|| all.into_iter().map(account).collect())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn secret(name: &str, hash: &str) -> SecretAccess {
        let secret = SecretCoordinates {
            uid: format!("uid of {name}"),
            namespace: "team".into(),
            name: name.into(),
        };
        SecretAccess { secret, credential_hash: hash.into() }
    }

    fn secrets(secrets: &[(&str, &str)]) -> PullAccess {
        let secrets = secrets.iter().map(|(name, hash)| secret(name, hash)).collect();
        PullAccess { secrets, ..PullAccess::default() }
    }

    fn account(name: &str) -> PullAccess {
        let account = ServiceAccountCoordinates {
            uid: "1".into(),
            namespace: "team".into(),
            name: name.into(),
        };
        PullAccess { service_accounts: vec![account], ..PullAccess::default() }
    }

    fn after(first: &PullAccess, second: &PullAccess) -> Option<PullAccess> {
        let now = Timestamp::from(SystemTime::UNIX_EPOCH);
        let record = PulledRecord::new("id", "r.test/app", Some(first), now);
        record.merged("r.test/app", Some(second), now)?.credential_mapping.remove("r.test/app")
    }

    #[test]
    fn a_secret_is_kept_once_with_its_newest_hash_and_in_order() {
        let merged =
            after(&secrets(&[("b", "1"), ("c", "2")]), &secrets(&[("c", "3"), ("a", "4")]));
        assert_eq!(merged, Some(secrets(&[("a", "4"), ("b", "1"), ("c", "3")])));
        assert_eq!(after(&secrets(&[("b", "1"), ("a", "2")]), &secrets(&[("a", "2")])), None);
    }

    #[test]
    fn access_of_the_whole_node_replaces_everything_and_is_never_taken_back() {
        let node = PullAccess { node_pods_accessible: true, ..PullAccess::default() };
        assert_eq!(after(&secrets(&[("a", "1")]), &node), Some(node.clone()));
        assert_eq!(after(&node, &secrets(&[("a", "1")])), None);
        assert_eq!(after(&node, &node), None);
    }

    #[test]
    fn accounts_and_secrets_stand_beside_each_other() {
        let both = after(&account("robot"), &secrets(&[("a", "1")])).unwrap();
        assert_eq!((both.secrets.len(), both.service_accounts.len()), (1, 1));
        assert_eq!(after(&both, &account("robot")), None);
        assert_eq!(after(&both, &account("other")).unwrap().service_accounts.len(), 2);
        assert_eq!(after(&both, &PullAccess::default()), None);
    }

    #[test]
    fn only_a_change_moves_the_time() {
        let [then, now] = ["2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"]
            .map(|text| Timestamp::parse(text).unwrap());
        let record = PulledRecord::new("id", "app", None, then);
        assert_eq!(record.merged("app", None, now), None);
        let merged = record.merged("app", Some(&account("robot")), now).unwrap();
        assert_eq!(merged.last_updated_time, Some(now));
    }

    #[test]
    fn an_account_is_an_earlier_one_if_only_its_uid_differs() {
        let access = account("cart");
        let [recorded] = &access.service_accounts[..] else { panic!("{access:?}") };
        let with = |uid: &str, namespace: &str, name: &str| ServiceAccountCoordinates {
            uid: uid.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        for (now, is_recreated) in [
            (with("1", "team", "cart"), false),
            (with("2", "team", "cart"), true),
            (with("2", "other", "cart"), false),
            (with("2", "team", "other"), false),
        ] {
            let earlier: Vec<_> = access.earlier_accounts(&now).collect();
            assert_eq!(earlier, if is_recreated { vec![recorded] } else { vec![] }, "{now:?}");
        }
    }
}
