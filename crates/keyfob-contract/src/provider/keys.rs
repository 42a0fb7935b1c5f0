//! Whom the logins of an answer are for.

use keyfob_api::{ImageRef, InvalidKey, RegistryKey};

use super::Provider;
use crate::{case::Case, report::Verdict};

pub(super) fn keys(case: &Case<'_, Provider>) -> Vec<Verdict> {
    case.for_each_image(|image, run| match run.response() {
        Some(response) if !response.auth.is_empty() => {
            judged(image, response.auth.iter().map(|(key, _)| key.as_str()))
        }
        _ => Verdict::not_checked("there was no login"),
    })
}

pub(super) fn logins(case: &Case<'_, Provider>) -> Vec<Verdict> {
    case.for_each_image(|_, run| {
        let auth = run.response().map(|response| response.auth).unwrap_or_default();
        let lacks = |what: fn(&keyfob_api::AuthConfig) -> bool| auth.iter().any(|it| what(&it.1));
        if auth.is_empty() {
            Verdict::not_checked("there was no login")
        } else if lacks(|login| login.password.expose().is_empty()) {
            Verdict::warn("a password is empty", LEAVE_OUT)
        } else if lacks(|login| login.username.is_empty()) {
            Verdict::warn("a user name is empty", LEAVE_OUT)
        } else {
            Verdict::pass(format!("{}, complete", count(auth.len(), "login")))
        }
    })
}

const LEAVE_OUT: &str = "leave out what is no login: registries refuse half of one, and the pull fails where one without \
                         credentials might not";

/// Whether a key's login is used for an image.
pub(super) fn serves(key: &RegistryKey, image: &ImageRef) -> bool {
    let matches = image.target().is_ok_and(|target| key.matches(&target));
    matches || (key.is_docker_hub() && image.registry() == "docker.io")
}

fn judged<'a>(image: &ImageRef, keys: impl Iterator<Item = &'a str>) -> Verdict {
    let host = format!(
        "write the registry's host, with its port, and a path if need be: {:?}",
        image.registry()
    );
    let keys: Result<Vec<_>, InvalidKey> = keys.map(RegistryKey::parse).collect();
    let keys = match keys {
        Ok(keys) => keys,
        Err(error) => return Verdict::fail(error.to_string(), host),
    };
    if keys.iter().any(RegistryKey::is_dead) {
        return Verdict::fail("a key of auth can never match anything", host);
    }
    let Some(used) = keys.iter().find(|key| serves(key, image)) else {
        return Verdict::fail(
            format!("{}: the kubelet will never use it", mismatch(&keys, image)),
            host,
        );
    };
    match keys.iter().find(|key| is_wide(key)) {
        Some(wide) => Verdict::warn(
            format!("the key {:?} matches every registry with that many labels", wide.to_string()),
            format!("{host}; with cacheKeyType Global a wide key offers the login to strangers"),
        ),
        None => Verdict::pass(format!("{:?} matches the image", used.to_string())),
    }
}

fn mismatch(keys: &[RegistryKey], image: &ImageRef) -> String {
    let why = |key: &RegistryKey| match image.target().map(|target| key.check(&target)) {
        Ok(Err(mismatch)) => {
            format!("{:?} does not match {}: {mismatch}", key.to_string(), image.repository())
        }
        _ => format!("{:?} does not match {}", key.to_string(), image.repository()),
    };
    match keys {
        [key] => why(key),
        _ => format!("none of {} matches {}", count(keys.len(), "key"), image.repository()),
    }
}

/// Nothing but stars where the host should be.
fn is_wide(key: &RegistryKey) -> bool {
    let key = key.to_string();
    let host = key.split(['/', ':']).next().unwrap_or_default();
    host.split('.').all(|label| label == "*")
}

fn count(many: usize, what: &str) -> String {
    format!("{many} {what}{}", if many == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Grade;

    #[test]
    fn keys_are_graded_by_whom_they_serve() {
        let image = ImageRef::parse("eu.r.io:5000/team/app:1").unwrap();
        let rows: [(&[&str], Grade); 8] = [
            (&["eu.r.io:5000"], Grade::Pass),
            (&["r.io", "*.r.io:5000/team"], Grade::Pass),
            (&["eu.r.io"], Grade::Fail),
            (&["r.io", "docker.io"], Grade::Fail),
            (&["eu.r.io:port", "eu.r.io:5000"], Grade::Fail),
            (&["eu.r.io:5000", "%25zz"], Grade::Fail),
            (&["*.*.*:5000"], Grade::Warn),
            (&["eu.r.io:5000", "*"], Grade::Warn),
        ];
        for (keys, want) in rows {
            assert_eq!(judged(&image, keys.iter().copied()).grade, want, "{keys:?}");
        }
    }

    #[test]
    fn docker_hub_has_a_key_of_its_own() {
        let image = ImageRef::parse("nginx").unwrap();

        assert_eq!(judged(&image, ["https://index.docker.io/v1/"].into_iter()).grade, Grade::Pass);
    }
}
