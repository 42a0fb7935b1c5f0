//! Texts of docker configurations.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    sample::select,
    strategy::BoxedStrategy,
};

use crate::topics::{
    texts::{inside_quotes, name, object, quoted, value},
    words::one_of,
};

/// A `config.json`.
pub(super) fn json(key: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let auths = (name("auths"), legacy(key.clone()));
    let headers =
        (name("HttpHeaders"), one_of(r#"{} {"a":"b"} null {"a":null}"#).prop_map(str::to_owned));
    let other = (
        one_of("credsStore credHelpers x currentContext ").prop_map(str::to_owned),
        one_of(r#""ecr-login" {} null 5 [] {"r.io":"gcloud"}"#).prop_map(str::to_owned),
    );
    let odd = prop_oneof![
        4 => (name("auths"), legacy(key)).boxed(),
        1 => (Just("auths".to_owned()), value()).boxed(),
        1 => (Just("HttpHeaders".to_owned()), one_of(r#"{"a":1} [] "x" {"a":{}}"#).prop_map(str::to_owned)).boxed(),
    ];
    let more = prop_oneof![2 => headers.boxed(), 2 => other.boxed(), 1 => odd.boxed()];
    let more = prop_oneof![6 => vec(more.clone(), 0..1), 1 => vec(more, 1..3)];
    let fields = (auths, more).prop_map(|(auths, mut fields)| {
        fields.insert(0, auths);
        fields
    });
    fields.prop_shuffle().prop_map(object)
}

/// A `.dockercfg`, which is also what stands under `auths`.
pub(super) fn legacy(key: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let odd_key = prop_oneof![
        30 => key.prop_map(|key| inside_quotes(&key)),
        1 => one_of("\\ud800 r.io\\/a \\u0072.io  \\u0000 r.io").prop_map(str::to_owned),
    ];
    let entry = (odd_key, entry().boxed());
    let few = vec(entry.clone(), 1..5);
    prop_oneof![20 => few, 1 => vec(entry.clone(), 0..1), 1 => vec(entry, 5..40)].prop_map(object)
}

fn entry() -> impl Strategy<Value = String> {
    let plain = (
        field("username", quoted("u user AWS <u>  ")),
        field("password", quoted("p hunter2 p:q & ")),
        prop_oneof![3 => Just(None), 1 => field("email", quoted("a@b.io e "))],
    )
        .prop_map(|(user, password, email)| {
            [user, password, email].into_iter().flatten().collect()
        });
    let with_auth = (
        field("auth", auth()),
        prop_oneof![4 => Just(None), 1 => field("email", quoted("a@b.io"))],
    )
        .prop_map(|(auth, email)| [auth, email].into_iter().flatten().collect());
    let names = one_of(
        "username password email auth auth username Auth PASSWORD serveraddress identitytoken x",
    );
    let mixed = vec(
        (
            names.prop_map(str::to_owned),
            prop_oneof![8 => auth().boxed(), 8 => Just("\"\"".to_owned()).boxed(), 1 => Just("null".to_owned()).boxed()],
        ),
        0..5,
    );
    let fields = prop_oneof![6 => plain.boxed(), 6 => with_auth.boxed(), 1 => mixed.boxed()];
    prop_oneof![60 => fields.prop_map(object), 1 => Just("null".to_owned()), 1 => value()]
}

fn field(
    right: &'static str,
    usual: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<Option<(String, String)>> {
    let contents = prop_oneof![80 => usual, 1 => Just("null".to_owned()), 1 => value()];
    prop_oneof![20 => (name(right), contents).prop_map(Some), 1 => Just(None)].boxed()
}

/// `USER:PASSWORD` in base64, as docker writes it; or not quite.
fn auth() -> impl Strategy<Value = String> {
    let logins: Vec<&[u8]> = vec![
        b"u:p",
        b"user:pass",
        b"u:p:q",
        b":",
        b"u:",
        b":p",
        b"u:p<&>",
        "é:\u{2028}".as_bytes(),
        b"AWS:hunter22",
        b"\0:\0",
        b"u:\n",
    ];
    let no_text: Vec<&[u8]> =
        vec![b"u:\xff", b"\xe2\x82:p", b"u:\xf0\x9f\x98x", b"\xff\xfe:\xed\xa0\x80"];
    let padded = |login: &'static [u8]| STANDARD.encode(login);
    let good = select(logins).prop_map(padded);
    let unpadded = good.clone().prop_map(|text| text.trim_end_matches('=').to_owned());
    let broken =
        (good.clone(), one_of("\\n \\r\\n \\r"), 0_usize..8).prop_map(|(mut text, with, at)| {
            text.insert_str(at.min(text.len()), with);
            text
        });
    let odd = one_of(
        "dTpw= dTp= dTpwOR== dTpwOR dTpwO = == dTpw==== dT=w dTpw\\n= YTpiYw= YTpiYw=\\n= OQ== OQ -_86 \
        dTpw\\t \\tdTpw dTpw\\u00a0 YTpiYw==\\u00a0 \
        YTpiYw==\\u0085 YTpiYw==YTpiYw== pants é \\n \\u0000 dTpw\\u2028 YTpiYw==\\n YTpiYw==\\t \
        YTpiYw==\\u200b YTpiYw==\\ufeff YTpiYw==\\u3000 dTpwOng=\\u001c",
    );
    prop_oneof![
        20 => good,
        10 => unpadded,
        4 => broken,
        2 => select(no_text).prop_map(padded),
        1 => odd.prop_map(str::to_owned),
    ]
    .prop_map(|text| format!("\"{text}\""))
}
