//! Who may use an image, in words.

use keyfob_images::PullAccess;
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};

/// Whose pods may use an image, in few words.
pub(crate) fn summary(access: &PullAccess) -> String {
    summed_up(&who(access, |account| slashed(&account.namespace, &account.name)))
}

/// The same, with the uids by which service accounts are known.
pub(crate) fn with_uids(access: &PullAccess) -> String {
    summed_up(&who(access, |ServiceAccountCoordinates { uid, namespace, name }| {
        format!("{} (uid {uid})", slashed(namespace, name))
    }))
}

/// Whose pods may use an image; nothing if nobody has proved access.
fn who(access: &PullAccess, named: impl Fn(&ServiceAccountCoordinates) -> String) -> Vec<String> {
    if access.node_pods_accessible {
        return vec!["every pod of the node".to_owned()];
    }
    let secret = |SecretCoordinates { namespace, name, .. }: &SecretCoordinates| {
        format!("pods with the pull secret {}", slashed(namespace, name))
    };
    let account = |account| format!("pods of the service account {}", named(account));
    let secrets = access.secrets.iter().map(|each| secret(&each.secret));
    secrets.chain(access.service_accounts.iter().map(account)).collect()
}

fn summed_up(who: &[String]) -> String {
    const MOST: usize = 3;
    let shown = who.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match who.len() {
        0 => "nobody yet".to_owned(),
        all if all > MOST => format!("{shown} and {} more", all - MOST),
        _ => shown,
    }
}

fn slashed(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use keyfob_images::SecretAccess;

    use super::*;

    fn account(name: &str) -> ServiceAccountCoordinates {
        let uid = format!("u-{name}");
        ServiceAccountCoordinates { uid, namespace: "team".into(), name: name.into() }
    }

    #[test]
    fn it_is_said_whose_pods_may_use_an_image() {
        let mut access = PullAccess::default();
        assert_eq!(summary(&access), "nobody yet");
        let secret = SecretCoordinates { name: "/dev/fd/63".into(), ..<_>::default() };
        access.secrets = vec![SecretAccess { secret, credential_hash: "0123".into() }];
        access.service_accounts = ["a", "b"].map(account).into();
        let first = "pods with the pull secret /dev/fd/63, pods of the service account team/a";
        assert_eq!(summary(&access), format!("{first}, pods of the service account team/b"));
        let with_uids = with_uids(&access);
        assert!(
            with_uids.ends_with(", pods of the service account team/b (uid u-b)"),
            "{with_uids}"
        );
        access.service_accounts.extend(["c", "d"].map(account));
        assert!(summary(&access).ends_with("team/b and 2 more"), "{}", summary(&access));
        access.node_pods_accessible = true;
        assert_eq!(summary(&access), "every pod of the node");
    }
}
