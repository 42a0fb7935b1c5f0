//! What does a plugin read from its standard input?

use std::collections::BTreeMap;

use keyfob_api::{CredentialProviderRequest, ProviderVersion};
use proptest::{
    collection::btree_map,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::select,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::words::{HOSTS, PATHS, one_of, soup};
use crate::Topic;

pub(crate) struct Request;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    api_version: String,
    image: String,
    token: String,
    annotations: BTreeMap<String, String>,
}

impl Topic for Request {
    const NAME: &'static str = "request";
    const QUESTIONS: u32 = 10_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        let image = prop_oneof![
            2 => (one_of(HOSTS), one_of(PATHS)).prop_map(|(host, path)| format!("{host}{path}")),
            1 => soup(),
        ];
        let token = prop_oneof![
            2 => Just(String::new()),
            2 => Just("eyJhbGciOi.eyJhdWQiOi.c2lnbmF0dXJl-_".to_owned()),
            1 => soup(),
        ];
        let annotations = prop_oneof![
            1 => Just(BTreeMap::new()),
            3 => btree_map(annotation(), text(), 0..6),
        ];
        (api_version(), image, token, annotations)
            .prop_map(|(api_version, image, token, annotations)| Question {
                api_version,
                image,
                token,
                annotations,
            })
            .boxed()
    }

    fn ours(question: &Question) -> Value {
        let Question { api_version, image, token, annotations } = question;
        let version: ProviderVersion = api_version.parse().expect("a configured version is known");
        let request = CredentialProviderRequest {
            image: image.clone(),
            service_account_token: Some(token.as_str().into()),
            service_account_annotations: annotations.clone(),
        };
        let stdin = request.encode(version);
        json!({"stdin": std::str::from_utf8(stdin.expose()).expect("JSON is text")})
    }

    fn sort(upstream: &Value) -> &'static str {
        let stdin = upstream.get("stdin").and_then(Value::as_str).unwrap_or_default();
        match (stdin.contains("\"serviceAccountToken\""), stdin.contains("Annotations\":{")) {
            (true, true) => "with token and annotations",
            (true, false) => "with a token",
            (false, true) => "with annotations",
            (false, false) => "with an image only",
        }
    }
}

/// Mostly the one that carries everything.
fn api_version() -> impl Strategy<Value = String> {
    let [v1, v1beta1, v1alpha1] =
        ProviderVersion::ALL.map(|version| version.api_version().to_owned());
    prop_oneof![4 => Just(v1), 1 => Just(v1beta1), 1 => Just(v1alpha1)]
}

fn annotation() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => one_of("a a/b A a.b a-b a0 b example.com/role example.com/Role é  \u{e000} 😀 \u{ffff}").prop_map(str::to_owned),
        1 => text(),
    ]
}

/// A text with characters that JSON, Go or HTML treat in their own way.
fn text() -> impl Strategy<Value = String> {
    let characters = select(CHARACTERS.chars().collect::<Vec<_>>());
    prop_oneof![
        3 => proptest::collection::vec(characters, 0..8).prop_map(String::from_iter),
        1 => any::<String>(),
    ]
}

const CHARACTERS: &str = "ab01 <>&\"'\\/\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{80}\u{85}\u{a0}é\u{ad}\u{2027}\u{2028}\u{2029}\u{202a}\u{d7ff}\u{e000}\u{feff}\u{fffd}\u{ffff}😀\u{10ffff}";
