//! What a signed token says of itself. Whether it is genuine is for whoever it is shown to: no signature is looked at.
//!
//! Upstream: the private claims are those of `pkg/serviceaccount/claims.go`.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

use crate::{
    Secret,
    document::{Document, FieldError, FieldTable, Item, Reading, Value},
};

/// No token that fits into a header of HTTP is as long.
const LONGEST: usize = 1 << 20;

/// What a JSON web token claims, unverified. A claim that cannot be read is not there.
///
/// ```
/// use keyfob_api::{Claims, Secret};
///
/// // {"sub":"system:serviceaccount:shop:cart","aud":["registry.example"]}
/// let payload = "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c2hvcDpjYXJ0IiwiYXVkIjpbInJlZ2lzdHJ5LmV4YW1wbGUiXX0";
/// let claims = Claims::of(&Secret::new(format!("e30.{payload}.c2ln"))).unwrap();
/// assert_eq!(claims.service_account(), Some(("shop", "cart")));
/// assert_eq!(claims.audiences, ["registry.example"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claims {
    /// `iss`: who issued it.
    pub issuer: Option<String>,
    /// `sub`: whom it speaks of.
    pub subject: Option<String>,
    /// `aud`: for whom it is, be it one or many.
    pub audiences: Vec<String>,
    /// `iat`: since when there is such a token.
    pub issued: Option<SystemTime>,
    /// `exp`: when it ends.
    pub expires: Option<SystemTime>,
    /// `kubernetes.io`: what a cluster adds.
    pub kubernetes: KubernetesClaims,
}

/// The claim `kubernetes.io` of a service account's token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KubernetesClaims {
    /// The service account's namespace.
    pub namespace: Option<String>,
    /// The service account.
    pub service_account: Option<ClaimedObject>,
    /// The pod that it is bound to.
    pub pod: Option<ClaimedObject>,
    /// The node of that pod, or the one that it is bound to.
    pub node: Option<ClaimedObject>,
}

/// An object of a cluster that a token speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedObject {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Claims {
    const FIELDS: &FieldTable<Self> = &[
        ("iss", |claims, item| read(&mut claims.issuer, text(item))),
        ("sub", |claims, item| read(&mut claims.subject, text(item))),
        ("aud", |claims, item| read(&mut claims.audiences, texts(item))),
        ("iat", |claims, item| read(&mut claims.issued, time(item))),
        ("exp", |claims, item| read(&mut claims.expires, time(item))),
        ("kubernetes.io", |claims, item| {
            read(&mut claims.kubernetes, kubernetes(item).unwrap_or_default())
        }),
    ];

    /// Reads a token; nothing if it is no JSON web token.
    pub fn of(token: &Secret<String>) -> Option<Self> {
        let payload = payload(token.expose())?;
        let document = Document::read_json(payload.expose()).ok()?;
        let reading = Reading::default();
        let mut claims = Self::default();
        reading.root(&document.root).read_fields(Self::FIELDS, &mut claims).ok()?;
        Some(claims)
    }

    /// When a token ends, if it says so.
    pub fn expiry(token: &Secret<String>) -> Option<SystemTime> {
        Self::of(token)?.expires
    }

    /// Namespace and name of the service account that it speaks of.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        self.subject.as_deref()?.strip_prefix("system:serviceaccount:")?.split_once(':')
    }
}

/// The second of three parts. Padding, which should not be there, is no obstacle.
fn payload(token: &str) -> Option<Secret<Vec<u8>>> {
    let mut parts = token.split('.').filter(|_| token.len() <= LONGEST);
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    Some(payload.into())
}

fn text(item: Item<'_>) -> Option<String> {
    item.string().ok().flatten().map(|text| text.expose().clone())
}

/// One text, or a list of them.
fn texts(item: Item<'_>) -> Vec<String> {
    let mut all = Vec::from_iter(text(item));
    let each = |_, element: Item<'_>| {
        all.extend(text(element));
        Ok(())
    };
    item.elements(each).unwrap_or_default();
    all
}

/// Seconds since 1970, of which there may be a fraction. A time before that is long past, and not unknown.
fn time(item: Item<'_>) -> Option<SystemTime> {
    let Value::Number(seconds) = &item.node().value else { return None };
    let seconds: f64 = seconds.parse().ok()?;
    let since_1970 = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since_1970)
}

/// Puts a claim into its place.
#[expect(clippy::unnecessary_wraps, reason = "the result of every reader in a table")]
fn read<T>(target: &mut T, value: T) -> Result<(), FieldError> {
    *target = value;
    Ok(())
}

fn kubernetes(item: Item<'_>) -> Result<KubernetesClaims, FieldError> {
    const FIELDS: &FieldTable<KubernetesClaims> = &[
        ("namespace", |claims, item| read(&mut claims.namespace, text(item))),
        ("serviceaccount", |claims, item| read(&mut claims.service_account, object(item)?)),
        ("pod", |claims, item| read(&mut claims.pod, object(item)?)),
        ("node", |claims, item| read(&mut claims.node, object(item)?)),
    ];
    let mut claims = KubernetesClaims::default();
    item.read_fields(FIELDS, &mut claims)?;
    Ok(claims)
}

fn object(item: Item<'_>) -> Result<Option<ClaimedObject>, FieldError> {
    const FIELDS: &FieldTable<ClaimedObject> = &[
        ("name", |object, item| item.read_text(&mut object.name)),
        ("uid", |object, item| item.read_text(&mut object.uid)),
    ];
    let mut object = ClaimedObject::default();
    let is_there = item.read_fields(FIELDS, &mut object)?;
    Ok(is_there.then_some(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> Secret<String> {
        format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims)).into()
    }

    fn end(token: &Secret<String>) -> Option<u64> {
        let end = Claims::of(token)?.expires?;
        end.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
    }

    #[test]
    fn a_pods_token_says_whose_it_is_and_for_whom() {
        let claims = Claims::of(&token(
            r#"{"aud":["registry.example","sts"],"exp":1900003600,"iat":1900000000,"iss":"https://cluster.example",
                "kubernetes.io":{"namespace":"shop","node":{"name":"n1","uid":"u-node"},
                "pod":{"name":"cart-1","uid":"u-pod"},"serviceaccount":{"name":"cart","uid":"u-sa"}},
                "sub":"system:serviceaccount:shop:cart"}"#,
        ))
        .unwrap();

        let object =
            |name: &str, uid: &str| Some(ClaimedObject { name: name.into(), uid: uid.into() });
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let want = Claims {
            issuer: Some("https://cluster.example".into()),
            subject: Some("system:serviceaccount:shop:cart".into()),
            audiences: vec!["registry.example".into(), "sts".into()],
            issued: at(1_900_000_000),
            expires: at(1_900_003_600),
            kubernetes: KubernetesClaims {
                namespace: Some("shop".into()),
                service_account: object("cart", "u-sa"),
                pod: object("cart-1", "u-pod"),
                node: object("n1", "u-node"),
            },
        };
        assert_eq!(claims, want);
        assert_eq!(claims.service_account(), Some(("shop", "cart")));
    }

    #[test]
    fn one_audience_may_stand_alone() {
        assert_eq!(Claims::of(&token(r#"{"aud":"a"}"#)).unwrap().audiences, ["a"]);
    }

    #[test]
    fn a_claim_of_another_shape_is_not_there_and_spoils_no_other() {
        let claims = token(r#"{"iss":1,"sub":[],"aud":{},"iat":"x","kubernetes.io":[],"exp":5}"#);

        let expires = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        assert_eq!(Claims::of(&claims), Some(Claims { expires, ..Claims::default() }));
    }

    #[test]
    fn only_service_accounts_are_service_accounts() {
        let subject = |text: &str| Claims { subject: Some(text.into()), ..Claims::default() };

        assert_eq!(subject("system:node:n1").service_account(), None);
        assert_eq!(subject("system:serviceaccount:shop").service_account(), None);
    }

    #[test]
    fn the_end_is_an_integer_or_a_float() {
        assert_eq!(end(&token(r#"{"sub":"a","exp":1900000000}"#)), Some(1_900_000_000));
        assert_eq!(end(&token(r#"{"exp":1.9e9}"#)), Some(1_900_000_000));
        assert_eq!(end(&token(r#"{"exp":1900000000.75}"#)), Some(1_900_000_000));
    }

    #[test]
    fn an_end_before_time_began_is_long_past_and_not_unknown() {
        assert_eq!(end(&token(r#"{"exp":-5}"#)), Some(0));
    }

    #[test]
    fn an_end_that_cannot_be_read_is_unknown() {
        let rows = [
            String::new().into(),
            Secret::from("opaque"),
            "a.b".into(),
            "a.!.c".into(),
            token("{}"),
            token(r#"{"exp":null}"#),
            token(r#"{"exp":"1900000000"}"#),
            token(r#"{"exp":1e300}"#),
            token("[1900000000"),
            token(&format!(r#"{{"exp":1900000000,"pad":"{}"}}"#, "x".repeat(LONGEST))),
        ];
        for (number, row) in rows.iter().enumerate() {
            assert_eq!(end(row), None, "row {number}");
        }
    }

    #[test]
    fn padding_is_no_obstacle() {
        assert_eq!(end(&"e30.eyJleHAiOjF9.c2ln".into()), Some(1));
        assert_eq!(end(&"e30.eyJleHAiOjEwfQ==.c2ln".into()), Some(10));
    }
}
