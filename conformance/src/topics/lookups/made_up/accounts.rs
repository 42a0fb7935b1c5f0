//! Service accounts that are almost the same, pods that use them, and providers that want to know.

use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::select,
};
use serde_json::{Value, json};

use super::{
    super::super::words::one_of,
    super::accounts::{Account, Pod},
};

/// Two have the same letters one after the other.
const ACCOUNTS: [(&str, &str); 4] =
    [("team", "app"), ("teama", "pp"), ("team", "other"), ("other", "app")];
const UIDS: &str = "1 1 1 1 1 2 2 2a ";
const ANNOTATIONS: [&str; 3] = ["example.com/role", "region", "a"];

/// Those there are at first.
pub(super) fn accounts() -> impl Strategy<Value = Vec<Account>> {
    ACCOUNTS
        .map(|name| option::weighted(0.9, account_named(Just(name))))
        .prop_map(|accounts| accounts.into_iter().flatten().collect())
}

pub(super) fn account() -> impl Strategy<Value = Account> {
    account_named(select(&ACCOUNTS[..]))
}

fn account_named(
    name: impl Strategy<Value = (&'static str, &'static str)>,
) -> impl Strategy<Value = Account> {
    let annotations = ANNOTATIONS.map(|key| (Just(key), option::weighted(0.8, value())));
    let generation = prop_oneof![9 => Just(Some(1)), 4 => Just(Some(2)), 1 => Just(None)];
    let gone = option::weighted(0.06, one_of("gone boom "));
    let refused = option::weighted(0.06, one_of("forbidden boom "));
    (name, one_of(UIDS), annotations, generation, gone, refused).prop_map(
        |((namespace, name), uid, annotations, generation, gone, refused)| Account {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            annotations: annotations
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect(),
            generation,
            gone: gone.map(str::to_owned),
            refused: refused.map(str::to_owned),
        },
    )
}

/// Some are too long for a key: alone, or with all that is before them.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => one_of("1 1 1 1 2  eu é <&> \u{2028}").prop_map(str::to_owned),
        1 => select(vec![32_000_usize, 40_000, 65_480, 65_535, 65_536]).prop_map(|length| "x".repeat(length)),
    ]
}

pub(super) fn pod() -> impl Strategy<Value = Pod> {
    let account = prop_oneof![
        12 => select(&ACCOUNTS[..]),
        1 => select(vec![("team", ""), ("", ""), ("team", "nobody"), ("", "app")]),
    ];
    (account, one_of("web db"), one_of("p1 p2")).prop_map(|((namespace, account), name, uid)| Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        service_account: account.to_owned(),
    })
}

/// Who does not require an account may not require annotations.
pub(super) fn token_attributes() -> impl Strategy<Value = Value> {
    let wanted = vec(one_of("no optional required"), ANNOTATIONS.len());
    let audience = one_of("registry registry https://registry.io é");
    (audience, one_of("Token ServiceAccount"), any::<bool>(), wanted).prop_map(
        |(audience, cache_type, required, wanted)| {
            let keys = |sort: &str| {
                let keys = ANNOTATIONS.into_iter().zip(&wanted);
                keys.filter(|(_, wanted)| **wanted == sort).map(|(key, _)| key).collect::<Vec<_>>()
            };
            json!({
                "serviceAccountTokenAudience": audience,
                "cacheType": cache_type,
                "requireServiceAccount": required,
                "requiredServiceAccountAnnotationKeys": if required { keys("required") } else { Vec::new() },
                "optionalServiceAccountAnnotationKeys": keys("optional"),
            })
        },
    )
}
