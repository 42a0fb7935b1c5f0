//! What does a client make of a plugin's stdout?

mod made_up;
pub(super) mod reason;

use keyfob_api::{ExecCredentialStatus, ExecVersion, Quoted};
use keyfob_client::{AuthError, Identity};
use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::stand_ins::PAIRS;
use crate::Topic;

pub(crate) struct ExecAnswer;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    api_version: String,
    /// With words for certificates and keys: see [`PAIRS`](super::stand_ins::PAIRS).
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
        let error = |answer: &Value| answer.get("error")?.as_str().map(str::to_owned);
        let (ours, upstream) = (error(ours)?, error(upstream)?);
        let list = "after skipping PEM blocks of the following types: [";
        let before = |text: &str| text.split_once(list).map(|(before, _)| before.to_owned());
        if before(&ours).is_some() && before(&ours) == before(&upstream) {
            return Some("exec-pair-names-of-blocks");
        }
        reason::explained(&question.bytes(), &ours, &upstream)
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
        let text = PAIRS.stand_ins.in_json(&self.stdout);
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

/// What a client has after this output.
fn decoded(stdout: &[u8], version: ExecVersion) -> Value {
    let status = match ExecCredentialStatus::decode(stdout, version) {
        Err(error) => return json!({"error": error.to_string()}),
        Ok(status) => status,
    };
    let identity = match status.identity.map(Identity::parse).transpose() {
        Err(error) => return json!({"error": AuthError::Pair(error).to_string()}),
        Ok(identity) => identity,
    };
    let chain = identity.iter().flat_map(|identity| &identity.certified().cert);
    let token = status.token.map(|token| PAIRS.stand_ins.in_words(token.expose()));
    json!({
        "token": token.unwrap_or_default(),
        "certificates": chain.map(|der| PAIRS.named(der)).collect::<Vec<_>>(),
        "expiry": status.expiration.map(|time| json!({
            "seconds": time.unix_seconds(), "nanos": time.subsec_nanos(),
        })),
    })
}
