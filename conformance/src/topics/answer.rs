//! What does a plugin's standard output mean?
//!
//! A kubelet says one sentence for whatever cannot be decoded, and Keyfob says what is wrong; so not the words of a refusal
//! are compared, but the step that refuses.

use keyfob_api::{CredentialProviderResponse, GoDuration, ProviderVersion, ResponseError};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    texts::{Text, inside_quotes, name, object, quoted, spoiled, value},
    words::{one_of, url},
};
use crate::Topic;

pub(crate) struct Answer;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// What the provider is configured with.
    api_version: String,
    stdout: Text,
}

impl Topic for Answer {
    const NAME: &'static str = "answer";
    const QUESTIONS: u32 = 30_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        let [v1, v1beta1, v1alpha1] = ProviderVersion::ALL.map(questions_of);
        prop_oneof![4 => v1, 1 => v1beta1, 1 => v1alpha1].boxed()
    }

    fn ours(question: &Question) -> Value {
        let version: ProviderVersion =
            question.api_version.parse().expect("a configured version is known");
        match CredentialProviderResponse::decode(&question.stdout.to_bytes(), version) {
            Err(error) => json!({"refused": step(&error)}),
            Ok(response) => json!({
                "cacheKeyType": response.cache_key_type.as_str(),
                "cacheDuration": response.cache_duration.map(GoDuration::as_nanos),
                "auth": response
                    .auth
                    .into_iter()
                    .map(|(key, auth)| {
                        let password = auth.password.expose();
                        (key, json!({"username": auth.username, "password": password}))
                    })
                    .collect::<Map<_, _>>(),
            }),
        }
    }

    fn difference(_: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let steps = (ours.get("refused")?.as_str()?, upstream.get("refused")?.as_str()?);
        (steps == (OTHER_VERSION, "its version has too many parts"))
            .then_some("version-of-too-many-parts")
    }

    fn sort(upstream: &Value) -> &'static str {
        match upstream.get("refused").and_then(Value::as_str) {
            None => "accepted",
            Some(NO_VERSION) => "name no version",
            Some(OTHER_VERSION) => "name another version",
            Some(UNDECODABLE) => "cannot be decoded",
            Some(UNKNOWN_TYPE) => "have an unknown cacheKeyType",
            Some(_) => "name a version of too many parts",
        }
    }
}

const NO_VERSION: &str = "it names no version";
const OTHER_VERSION: &str = "it names another version";
const UNKNOWN_TYPE: &str = "its cacheKeyType is unknown";
const UNDECODABLE: &str = "it cannot be decoded";

/// Upstream reads an answer twice: for its version first, then as a whole.
fn step(error: &ResponseError) -> &'static str {
    match error {
        ResponseError::Json(_) => NO_VERSION,
        ResponseError::Field(field)
            if ["message", "apiVersion", "kind"].contains(&&*field.path) =>
        {
            NO_VERSION
        }
        ResponseError::Version { .. } => OTHER_VERSION,
        ResponseError::CacheKeyType(_) => UNKNOWN_TYPE,
        _ => UNDECODABLE,
    }
}

fn questions_of(version: ProviderVersion) -> BoxedStrategy<Question> {
    let api_version = version.api_version();
    let stdout = prop_oneof![
        30 => spoiled(answer(api_version).boxed(), 6),
        1 => value().prop_map(Text::Plain),
        1 => deep(api_version).prop_map(Text::Plain),
        1 => yaml(api_version).prop_map(Text::Plain),
    ];
    stdout.prop_map(|stdout| Question { api_version: api_version.to_owned(), stdout }).boxed()
}

fn answer(version: &'static str) -> impl Strategy<Value = String> {
    let usual = vec![
        field("kind", Just("\"CredentialProviderResponse\"".to_owned()), kind()),
        field("apiVersion", Just(format!("\"{version}\"")), other_version()),
        field(
            "cacheKeyType",
            quoted("Image Registry Global"),
            one_of(r#""image" "" "REGISTRY" " Global" "Token" null 1"#).prop_map(str::to_owned),
        ),
        field(
            "cacheDuration",
            quoted("0s 10m 1h30m 5s 0 2562047h47m16.854775807s 1ns -1m 1.5h .5s 10µs +5m"),
            duration(),
        ),
        field("auth", auth(), value()),
    ];
    let extra = prop_oneof![
        30 => Just(Vec::new()),
        1 => vec((one_of("x Auth auth kind apiVersion cacheKeyType cacheDuration metadata CacheDuration items  credentials"), value()), 1..3),
        1 => vec((Just("kind"), Just("\"CredentialProviderResponse\"".to_owned())), 1..2),
        1 => vec((Just("ApiVersion"), other_version()), 1..2),
    ];
    let fields = (usual, extra).prop_map(|(usual, extra)| {
        let extra = extra.into_iter().map(|(name, value)| (name.to_owned(), value));
        usual.into_iter().flatten().chain(extra).collect::<Vec<_>>()
    });
    let fields = fields.boxed();
    prop_oneof![2 => fields.clone(), 1 => fields.prop_shuffle()].prop_map(object)
}

/// A field as it should be; or with another value, or none at all.
fn field(
    right: &'static str,
    usual: impl Strategy<Value = String> + 'static,
    odd: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<Option<(String, String)>> {
    let contents = prop_oneof![25 => usual, 1 => odd, 1 => value()];
    let absent = if right == "cacheDuration" { 10 } else { 1 };
    prop_oneof![40 => (name(right), contents).prop_map(Some), absent => Just(None)].boxed()
}

fn kind() -> impl Strategy<Value = String> {
    quoted(
        "CredentialProviderRequest CredentialProviderConfig List Status WatchEvent ListOptions \
        credentialproviderresponse  Secret",
    )
}

fn other_version() -> impl Strategy<Value = String> {
    quoted(
        "credentialprovider.kubelet.k8s.io/v1 credentialprovider.kubelet.k8s.io/v1beta1 \
        credentialprovider.kubelet.k8s.io/v1alpha1 \
        credentialprovider.kubelet.k8s.io/v2 credentialprovider.kubelet.k8s.io/__internal \
        credentialprovider.kubelet.k8s.io/ \
        credentialprovider.kubelet.k8s.io/v1/ /credentialprovider.kubelet.k8s.io/v1 \
        credentialprovider.kubelet.k8s.io kubelet.config.k8s.io/v1 \
        v1 /v1 / // a/b/c  Credentialprovider.kubelet.k8s.io/v1 credentialprovider.kubelet.k8s.io/V1",
    )
}

fn duration() -> impl Strategy<Value = String> {
    one_of(r#""" null 0 5 600000000000 "5" "1d" "5 m" "2562047h47m16.854775808s" "1e3s" "m" "-" {} [] "0.0000000001s" "9223372036854775808ns" "-9223372036854775808ns" "1h-5m" true"#)
        .prop_map(str::to_owned)
}

fn auth() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        6 => one_of("r.io *.r.io r.io/team https://r.io/v1/ docker.io a b c  index.docker.io").prop_map(str::to_owned),
        1 => url().prop_map(|url| inside_quotes(&url)),
        1 => one_of("cacheDuration cacheKeyType username \\ud800 \\udc00 \\u0000 a\\/b \\u0061 é").prop_map(str::to_owned),
    ];
    let entry = prop_oneof![
        20 => (login("username"), login("password")).prop_map(|(user, password)| object(user.into_iter().chain(password).collect())),
        1 => vec((one_of("username password Username auth email cacheDuration"), quoted("u p")), 0..4)
            .prop_map(|fields| object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        1 => value(),
    ];
    let few = vec((key.boxed(), entry.boxed()), 0..4).prop_map(object);
    let many = (5_usize..60).prop_map(|count| {
        let entry = |at| {
            (
                format!("{}.r.io/{at}", at % 7),
                format!("{{\"username\":\"u{at}\",\"password\":\"\"}}"),
            )
        };
        object((0..count).map(entry).collect())
    });
    prop_oneof![20 => few, 1 => many, 1 => Just("null".to_owned())]
}

fn login(right: &'static str) -> impl Strategy<Value = Option<(String, String)>> {
    let contents = prop_oneof![30 => quoted("u token hunter2 AWS  p:q"), 1 => value()];
    prop_oneof![20 => (name(right), contents).prop_map(Some), 1 => Just(None)]
}

/// As deep as Go reads, and deeper.
fn deep(version: &'static str) -> impl Strategy<Value = String> {
    let around = prop_oneof![1 => Just("x"), 1 => Just("auth")];
    (around, prop_oneof![1_usize..100, 9_995_usize..10_005]).prop_map(move |(name, depth)| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"{version}\",\"cacheKeyType\":\"Image\",\"{name}\":{open}{close}}}")
    })
}

/// What an author may think is as good.
fn yaml(version: &'static str) -> impl Strategy<Value = String> {
    one_of("Image Registry \"Global\"").prop_map(move |cache_key_type| {
        format!("kind: CredentialProviderResponse\napiVersion: {version}\ncacheKeyType: {cache_key_type}\nauth:\n  r.io:\n    username: u\n    password: p\n")
    })
}
