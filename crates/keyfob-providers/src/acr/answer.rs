//! What the kubelet is told.

use std::time::{Duration, SystemTime};

use keyfob_api::{Claims, Secret};
use keyfob_plugin::{Answer, CacheKeyType, Margin};

use super::{
    cloud::Cloud,
    login_server::{LoginServer, SUFFIXES},
    mirror::Pulled,
};

/// Who logs in when the password is a registry's refresh token.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
/// For what does not say when it ends, as upstream.
const KEPT_FOR: Duration = Duration::from_hours(1);

/// A registry's refresh token, for its login server and for what it is the mirror of.
pub(super) fn traded(
    login: LoginServer,
    pulled: Pulled,
    token: &Secret<String>,
    now: SystemTime,
) -> Answer {
    let keys = [Some(login.host), pulled.source].into_iter().flatten();
    let answer = logins(keys, NOBODY, token);
    match Claims::expiry(token) {
        Some(end) => {
            let life = end.duration_since(now).unwrap_or_default();
            answer.cached_for(kept_for(life)).expires_at(end, Margin::Tenth)
        }
        None => answer,
    }
}

/// A service principal's own secret, for every registry of every cloud: upstream's answer, but for its key `*.azurecr.*`
/// without a login, which says no more than no key at all.
pub(super) fn untraded(
    login: LoginServer,
    cloud: &Cloud,
    client_id: &str,
    secret: &Secret<String>,
) -> Answer {
    let own = cloud.registry_suffix.trim_matches('.');
    let own = Some(own).filter(|own| own.starts_with("azurecr.") && !SUFFIXES.contains(own));
    let wildcards = SUFFIXES.into_iter().chain(own).map(|suffix| format!("*.{suffix}"));
    // No wildcard reaches an endpoint in a region: it has more labels.
    let regional = login.home.is_some().then_some(login.host);
    logins(wildcards.chain(regional), client_id, secret)
}

fn logins(keys: impl Iterator<Item = String>, user: &str, password: &Secret<String>) -> Answer {
    let nothing = Answer::nothing().cached_by(CacheKeyType::Registry).cached_for(KEPT_FOR);
    keys.fold(nothing, |answer, key| answer.and(key, user, password.clone()))
}

/// A tenth before the end, and up to a tenth less: nodes that began together must not come back together.
fn kept_for(life: Duration) -> Duration {
    let jitter = Duration::from_secs(fastrand::u64(..=life.as_secs() / 10));
    Margin::Tenth.of(life).saturating_sub(jitter)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nodes_do_not_come_back_all_at_once() {
        let life = Duration::from_hours(3);
        let kept: BTreeSet<_> = (0..200).map(|_| kept_for(life)).collect();

        assert!(kept.len() > 10);
        assert!(kept.iter().all(|kept| (8640..=9720).contains(&kept.as_secs())), "{kept:?}");
        assert_eq!(kept_for(Duration::ZERO), Duration::ZERO);
    }
}
