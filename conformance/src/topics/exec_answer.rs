//! What does a client make of a plugin's stdout?

mod made_up;
pub(super) mod reason;

use keyfob_api::{ExecCredentialStatus, ExecVersion, Quoted};
use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Topic;

pub(crate) struct ExecAnswer;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    api_version: String,
    /// With words for certificates and keys: see [`PAIRS`].
    stdout: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
}

/// How a text becomes bytes, if not as UTF-8.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    /// A byte for each character: any bytes can be written so.
    Latin1,
    Utf16Be,
    Utf16Le,
}

/// What stands here for certificates and keys, by their words. The oracle makes real ones; Keyfob does not look inside.
const PAIRS: [(&str, &str); 4] = [
    ("CERT_A", "-----BEGIN CERTIFICATE A-----\n"),
    ("KEY_A", "-----BEGIN KEY A-----\n"),
    ("CERT_B", "-----BEGIN CERTIFICATE B-----\n"),
    ("KEY_B", "-----BEGIN KEY B-----\n"),
];

impl Topic for ExecAnswer {
    const NAME: &'static str = "exec-answer";
    const QUESTIONS: u32 = 10_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        made_up::questions()
    }

    fn ours(question: &Question) -> Value {
        let version = question.api_version.parse().ok();
        let Some(version) = version.filter(|&version| version != ExecVersion::V1Alpha1) else {
            let error =
                format!("exec plugin: invalid apiVersion {}", Quoted(&question.api_version));
            return json!({ "error": error });
        };
        decoded(&question.bytes(), version)
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let refused = upstream.get("error")?.as_str()?;
        let Some(error) = ours.get("error") else {
            let unread = refused.starts_with("failed parsing client key/certificate: tls: ");
            let has_pair = ours.get("certificates") != Some(&json!([]));
            return (unread && has_pair).then_some("exec-pair-not-parsed");
        };
        reason::explained(&question.bytes(), error.as_str()?, refused)
    }

    fn sort(upstream: &Value) -> &'static str {
        match upstream.get("error").and_then(Value::as_str) {
            None => "are credentials",
            Some(error) if error.starts_with("decoding stdout: ") => "cannot be decoded",
            Some(error) if error.contains("plugin returned version") => "are of another version",
            Some(error) if error.starts_with("failed parsing") => "have a bad pair",
            Some(_) => "have too little in them",
        }
    }
}

impl Question {
    fn bytes(&self) -> Vec<u8> {
        let text = with_pairs(&self.stdout);
        let units = text.encode_utf16();
        match self.encoding {
            None => text.into_bytes(),
            // Like Go's conversion, the low byte of what is larger.
            Some(Encoding::Latin1) => text.chars().map(|c| u32::from(c).to_le_bytes()[0]).collect(),
            Some(Encoding::Utf16Be) => units.flat_map(u16::to_be_bytes).collect(),
            Some(Encoding::Utf16Le) => units.flat_map(u16::to_le_bytes).collect(),
        }
    }
}

/// A text with what the words stand for, inside of JSON strings.
pub(super) fn with_pairs(text: &str) -> String {
    let escaped = |pem| json!(pem).to_string().trim_matches('"').to_owned();
    PAIRS.iter().fold(text.to_owned(), |text, (word, pem)| text.replace(word, &escaped(pem)))
}

fn in_words(text: &str) -> String {
    PAIRS.iter().fold(text.to_owned(), |text, (word, pem)| text.replace(pem, word))
}

/// What a client has after this output.
pub(super) fn decoded(stdout: &[u8], version: ExecVersion) -> Value {
    let status = match ExecCredentialStatus::decode(stdout, version) {
        Err(error) => return json!({"error": error.to_string()}),
        Ok(status) => status,
    };
    let pem = status.identity.map(|identity| identity.certificate_pem);
    json!({
        "token": status.token.map(|token| in_words(token.expose())).unwrap_or_default(),
        "certificates": pem.map(|pem| words_in(pem.expose())).unwrap_or_default(),
        "expiry": status.expiration.map(|time| json!({
            "seconds": time.unix_seconds(), "nanos": time.subsec_nanos(),
        })),
    })
}

/// The certificates in a text, in their order; `another` if it has none that is known.
fn words_in(text: &str) -> Vec<&'static str> {
    let mut found: Vec<_> = PAIRS
        .iter()
        .flat_map(|(word, pem)| text.match_indices(pem).map(|at| (at.0, *word)))
        // A block begins with a line.
        .filter(|(at, _)| {
            text.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with('\n'))
        })
        .collect();
    found.sort_unstable();
    let words: Vec<_> =
        found.into_iter().map(|(_, word)| word).filter(|word| word.starts_with("CERT")).collect();
    if words.is_empty() { vec!["another"] } else { words }
}
