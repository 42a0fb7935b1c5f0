//! Outputs of plugins, good and odd.

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::{Index, select},
    strategy::BoxedStrategy,
};

use super::{Encoding, Question};
use crate::topics::words::{one_of, soup, with_slips};

const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";
const OTHER_VERSIONS: &str = "client.authentication.k8s.io/v1 client.authentication.k8s.io/v1beta1 \
    client.authentication.k8s.io/v1alpha1 \
    client.authentication.k8s.io/__internal client.authentication.k8s.io/v2 client.authentication.k8s.io/ \
    client.authentication.k8s.io /v1 v1  a/b/c / __internal \
    meta.k8s.io/v1 Client.authentication.k8s.io/v1 é hunter2";
const KINDS: &str = "Status execCredential Secret ExecCredentialList WatchEvent ListOptions List é";
const GOOD_TIMES: &str = "2030-01-01T00:00:00Z 2030-01-01T00:00:00.5Z 2030-01-01T00:00:00,25Z \
    2030-01-01T00:00:00+02:00 2030-01-01T00:00:00.123456789123-23:59 \
    0001-01-01T00:00:00Z 0001-01-01T05:00:00+05:00 0000-01-01T00:00:00Z 9999-12-31T23:59:59Z \
    2030-01-01T1:00:00Z 0001-01-01T00:00:00.000000001Z 2028-02-29T00:00:00Z";
const TIMES: &str = "10000-01-01T00:00:00Z 1969-12-31T23:59:59.9Z 2030-02-29T00:00:00Z 2028-02-29T00:00:00Z \
    2030-13-01T00:00:00Z 2030-00-10T00:00:00Z 2030-01-32T00:00:00Z 2030-01-01T24:00:00Z 2030-01-01T23:60:00Z \
    2030-01-01T23:59:60Z 2030-01-01T1:00:00Z 2030-1-01T00:00:00Z \
    2030-01-01t00:00:00Z 2030-01-01T00:00:00z 2030-01-01T00:00:00 2030-01-01 2030-01-01T00:00:00+24:00 \
    2030-01-01T00:00:00+24:60 2030-01-01T00:00:00+25:00 2030-01-01T00:00:00+2:00 \
    2030-01-01T00:00:00+0200 2030-01-01T00:00Z  tomorrow 1893456000 -001-01-01T00:00:00Z \
    2030-01-01T00:00:00.Z 2030-01-01T00:00:00-00:00 +2030-01-01T00:00:00Z 2030-01-01T00:00:00ZZ \
    0001-01-01T00:00:00.000000001Z ２030-01-01T00:00:00Z";
const WRONG: &str =
    "null 5 -1 1.5 true false [] [\"a\"] {} {\"a\":1} \"\" \"x\" 1e400 9223372036854775808";
const SPECS: &str = "{} null 5 [] \"x\" {\"interactive\":true} {\"interactive\":null} \
    {\"interactive\":\"true\"} {\"interactive\":1} {\"Interactive\":5} {\"cluster\":null} {\"cluster\":{}} \
    {\"cluster\":[]} \
    {\"cluster\":{\"server\":\"s\"}} {\"cluster\":{\"server\":5}} {\"cluster\":{\"tls-server-name\":true}} \
    {\"cluster\":{\"insecure-skip-tls-verify\":\"no\"}} \
    {\"cluster\":{\"certificate-authority-data\":\"YQ==\"}} \
    {\"cluster\":{\"certificate-authority-data\":\"YQ\"}} \
    {\"cluster\":{\"certificate-authority-data\":\"Y\\nQ==\"}} \
    {\"cluster\":{\"certificate-authority-data\":\"YR==\"}} \
    {\"cluster\":{\"certificate-authority-data\":[1,255]}} \
    {\"cluster\":{\"certificate-authority-data\":[256]}} {\"cluster\":{\"certificate-authority-data\":[-1]}} \
    {\"cluster\":{\"certificate-authority-data\":5}} \
    {\"cluster\":{\"proxy-url\":[]}} {\"cluster\":{\"disable-compression\":0}} {\"cluster\":{\"config\":5}} \
    {\"cluster\":{\"config\":null}} {\"cluster\":{\"config\":{\"kind\":\"X\"}}} {\"response\":5} \
    {\"cluster\":{\"Server\":5}}";
const NAMES: &str = "Status STATUS Spec token expirationTimestamp metadata items é  TypeMeta ApiVersion KIND \
    apiversion data";
const SLIPS: &str = "{ } [ ] \" : , \\ \\u \\ud800 0 1e e - null tru \t \n \u{c} \u{a0} \u{feff} \0 \
    é \u{2028} # ' & * ! | > % @ ` --- ... <<: ?";

pub(super) fn questions() -> BoxedStrategy<Question> {
    let version = select(vec![V1, V1, V1BETA1]);
    let question = version.prop_flat_map(|version| (Just(version), stdout(version), encoding()));
    let unknown = (one_of(OTHER_VERSIONS), Just(String::new()), Just(None));
    prop_oneof![60 => question.boxed(), 1 => unknown.boxed()]
        .prop_map(|(version, stdout, encoding)| Question {
            api_version: version.to_owned(),
            stdout,
            encoding,
        })
        .boxed()
}

fn encoding() -> impl Strategy<Value = Option<Encoding>> {
    prop_oneof![
        40 => Just(None),
        2 => Just(Some(Encoding::Latin1)),
        1 => Just(Some(Encoding::Utf16Be)),
        1 => Just(Some(Encoding::Utf16Le)),
    ]
}

fn stdout(version: &'static str) -> impl Strategy<Value = String> {
    let version = prop_oneof![12 => Just(version), 1 => one_of(OTHER_VERSIONS)];
    let kind = prop_oneof![12 => Just("ExecCredential"), 3 => Just(""), 1 => one_of(KINDS)];
    let status = vec(good_field(), 1..4)
        .prop_map(|fields| vec![("status", format!("{{{}}}", fields.join(",")))]);
    let fields = prop_oneof![1 => status, 1 => vec(field(), 1..5)];
    let parts = (version, kind, fields).boxed();
    prop_oneof![
        10 => parts.clone().prop_map(|(version, kind, fields)| json(version, kind, &fields)),
        5 => with_slip(parts.clone().prop_map(|(version, kind, fields)| json(version, kind, &fields)).boxed()),
        5 => parts.clone().prop_map(|(version, kind, fields)| yaml(version, kind, &fields)),
        2 => with_slip(parts.prop_map(|(version, kind, fields)| yaml(version, kind, &fields)).boxed()),
        1 => soup(),
        1 => without_version(),
        1 => one_of(" {} [] null 5 \"x\" k8s\0 k8s\0{} --- ... {}{} {}x {}\n \u{feff} \u{feff}{} \u{a0}{} \u{c}{}").prop_map(str::to_owned),
    ]
}

/// An object without a version, which upstream reads with Go's own names.
fn without_version() -> impl Strategy<Value = String> {
    let name = one_of("Status Spec STATUS sPec status spec TypeMeta");
    let value = prop_oneof![one_of(WRONG), one_of(SPECS)];
    (name, value).prop_map(|(name, value)| format!("{{\"{name}\":{value}}}"))
}

/// A field of the whole object: mostly a status that is good for something.
fn field() -> impl Strategy<Value = (&'static str, String)> {
    let status = vec(status_field(), 1..4).prop_map(|fields| format!("{{{}}}", fields.join(",")));
    prop_oneof![
        8 => status.prop_map(|status| ("status", status)),
        1 => one_of(WRONG).prop_map(|value| ("status", value.to_owned())),
        2 => one_of(SPECS).prop_map(|spec| ("spec", spec.to_owned())),
        1 => (one_of(NAMES), one_of(WRONG)).prop_map(|(name, value)| (name, value.to_owned())),
    ]
}

const PAIR: &str = "\"clientCertificateData\":\"CERT_A\",\"clientKeyData\":\"KEY_A\"";

/// A field of the status as it should be.
fn good_field() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => one_of("a abc a.b-c_d <a> é").prop_map(|token| format!("\"token\":\"{token}\"")),
        2 => one_of(GOOD_TIMES).prop_map(|time| format!("\"expirationTimestamp\":\"{time}\"")),
        1 => Just(PAIR.to_owned()),
    ]
}

fn status_field() -> impl Strategy<Value = String> {
    const PEM: &str = "CERT_A CERT_B KEY_A KEY_B CERT_ACERT_B KEY_BKEY_A CERT_AKEY_A  garbage -----BEGIN \
        -----BEGIN\\u0020X509\\u0020CRL-----\\nYQ==\\n-----END\\u0020X509\\u0020CRL-----\\n \
        -----BEGIN\\u0020hunter-2-----\\nYQ==\\n-----END\\u0020hunter-2-----\\n \
        -----BEGIN\\u0020CERTIFICATE-----\\nYQ==\\n-----END\\u0020CERTIFICATE-----\\n \
        -----BEGIN\\u0020RSA\\u0020PRIVATE\\u0020KEY-----\\nYQ==\\n-----END\\u0020RSA\\u0020PRIVATE\\u0020KEY-----\\n \
        -----BEGIN\\u0020PUBLIC\\u0020KEY-----\\nYQ==\\n-----END\\u0020PUBLIC\\u0020KEY-----\\nCERT_A";
    const STATUS: &str =
        "token clientCertificateData clientKeyData expirationTimestamp Token TOKEN extra";
    let pem = (one_of("clientCertificateData clientKeyData"), one_of(PEM));
    prop_oneof![
        8 => good_field(),
        4 => one_of("\\n \\u0061 \\ud800 \\u0000 \u{2028} CERT_A yes").prop_map(|token| format!("\"token\":\"{token}\"")),
        2 => one_of(TIMES).prop_map(|time| format!("\"expirationTimestamp\":\"{time}\"")),
        1 => Just(PAIR.replace("_A", "_B")),
        2 => Just(PAIR.replace("KEY_A", "KEY_B")),
        2 => (one_of(PEM), one_of(PEM)).prop_map(|(certificate, key)| PAIR.replace("KEY_A", key).replace("CERT_A", certificate)),
        1 => Just(PAIR.replace("CERT_A", "CERT_BCERT_A").replace("KEY_A", "KEY_B")),
        3 => pem.prop_map(|(name, value)| format!("\"{name}\":\"{value}\"")),
        2 => (one_of(STATUS), one_of(WRONG)).prop_map(|(name, value)| format!("\"{name}\":{value}")),
    ]
}

fn json(version: &str, kind: &str, fields: &[(&str, String)]) -> String {
    let kind = if kind.is_empty() { kind.to_owned() } else { format!(",\"kind\":\"{kind}\"") };
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    format!("{{\"apiVersion\":\"{version}\"{kind}{}}}", fields.concat())
}

/// The values stay as they are: JSON is YAML.
fn yaml(version: &str, kind: &str, fields: &[(&str, String)]) -> String {
    let kind = if kind.is_empty() { kind.to_owned() } else { format!("kind: {kind}\n") };
    let spaced = |value: &str| value.replace("\":", "\": ");
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("{name}: {}\n", spaced(value))).collect();
    format!("apiVersion: {version}\n{kind}{}", fields.concat())
}

fn with_slip(text: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let own = (text.clone(), any::<Index>(), one_of(SLIPS)).prop_map(|(mut text, at, slip)| {
        let at = text.floor_char_boundary(at.index(text.len() + 1));
        text.insert_str(at, slip);
        text
    });
    let at_an_end = (
        text.clone(),
        one_of("{} x \n# # \n---\nx \n---\n{ \n... }"),
        one_of("   \u{feff} \n \u{a0} ---\n"),
    )
        .prop_map(|(text, end, start)| format!("{start}{text}{end}"));
    prop_oneof![3 => own, 2 => with_slips(text), 2 => at_an_end]
}
