//! Which credentials does an image get, and in which order are they tried?

mod config_text;
mod keys;
mod node;

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyfob_api::ImageRef;
use keyfob_host::Pull;
use keyfob_keyring::{
    Credential, DockerConfig, DockerConfigProblem, Login, PullSecret, SecretCoordinates, Source,
};
use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::{syntax::is_no_json, texts::Text};
use crate::Topic;

pub(crate) struct Keyring;

/// What a kubelet has when it looks credentials up.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    image: String,
    secrets: Vec<KubernetesSecret>,
    node: Option<NodeConfig>,
    /// An entry of an answer has key, user name and password.
    providers: Vec<Vec<(String, String, String)>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct KubernetesSecret {
    name: String,
    namespace: String,
    uid: String,
    #[serde(rename = "type")]
    secret_type: String,
    data: BTreeMap<String, Text>,
}

/// The text of a `config.json`, or of a `.dockercfg`.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct NodeConfig {
    legacy: bool,
    text: Text,
}

impl Topic for Keyring {
    const NAME: &'static str = "keyring";
    const QUESTIONS: u32 = 40_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        keys::questions()
    }

    fn ours(question: &Question) -> Value {
        match find(question) {
            Err(refusal) => refusal,
            Ok((found, node)) => {
                let credentials: Vec<Value> = found.iter().map(shown).collect();
                let mut answer = json!({"credentials": credentials, "found": !found.is_empty()});
                if let (Some(error), Some(fields)) = (node, answer.as_object_mut()) {
                    fields.insert("node".into(), error.into());
                }
                answer
            }
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        if ours.get("error").is_some() {
            return names_the_secret(question, ours, upstream)
                .then_some("pull-secret-error-names-the-secret");
        }
        let (found, _) = find(question).ok()?;
        let without_credentials = |answer: &Value| {
            let mut rest = answer.as_object()?.clone();
            let Value::Array(credentials) = rest.remove("credentials")? else { return None };
            Some((credentials, rest))
        };
        let ((ours, rest), (theirs, their_rest)) =
            (without_credentials(ours)?, without_credentials(upstream)?);
        let same = rest == their_rest && same_in_some_order(&found, &ours, &theirs);
        let no_text = theirs.iter().any(|credential| credential.get("bytes").is_some());
        let row = if no_text { "auth-that-is-no-text" } else { "equal-keys-keep-their-order" };
        same.then_some(row)
    }

    fn sort(upstream: &Value) -> &'static str {
        let count = upstream.get("credentials").and_then(Value::as_array).map(Vec::len);
        match count {
            None => "refused",
            Some(0) => "without credentials",
            Some(1) => "with one",
            Some(_) => "with several",
        }
    }
}

/// The credentials in their order, and why the node's docker configuration gives nothing; or what refuses the question.
fn find(question: &Question) -> Result<(Vec<Credential>, Option<String>), Value> {
    let image = ImageRef::parse(&question.image);
    let image = image.map_err(|error| json!({"error": error.to_string()}))?;
    let secrets: Vec<PullSecret> = question.secrets.iter().map(pull_secret).collect();
    let secrets = PullSecret::all_logins(&secrets).map_err(|error| {
        let culprit = secrets.iter().position(|secret| secret.logins().is_err());
        json!({"error": error.to_string(), "secret": culprit})
    })?;
    let folder = tempfile::tempdir().expect("a folder");
    let host = node::host(question, image.repository(), folder.path());
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let pull = Pull::new(&image).with_secrets(secrets);
    let answer = runtime.block_on(host.credentials(&pull));
    assert_eq!(answer.errors().count(), 0, "{answer:?}");
    Ok((answer.credentials, question.node.as_ref().and_then(NodeConfig::refusal)))
}

fn pull_secret(secret: &KubernetesSecret) -> PullSecret {
    let KubernetesSecret { name, namespace, uid, secret_type, data } = secret.clone();
    PullSecret {
        coordinates: SecretCoordinates { uid, namespace, name },
        secret_type,
        data: data.into_iter().map(|(key, text)| (key, text.to_bytes().into())).collect(),
    }
}

impl NodeConfig {
    /// What is wrong with it. A kubelet, which looks for one that is right, tells only its log.
    fn refusal(&self) -> Option<String> {
        let text = self.text.to_bytes();
        let read = if self.legacy { DockerConfig::read_legacy } else { DockerConfig::read_json };
        read(&text).err().map(|error| error.to_string())
    }
}

fn shown(credential: &Credential) -> Value {
    let Login { username, password, email } = credential.login();
    let secret = match credential.source() {
        Source::PullSecret(secret) => {
            json!({"uid": secret.uid, "namespace": secret.namespace, "name": secret.name})
        }
        _ => Value::Null,
    };
    let mut shown = json!({
        "username": username,
        "password": password.expose(),
        "hash": credential.hash(),
        "secret": secret,
    });
    if let (false, Some(fields)) = (email.is_empty(), shown.as_object_mut()) {
        fields.insert("email".into(), (&**email).into());
    }
    shown
}

/// Whether two refusals are of the same secret and for the same reason; ours names the secret and quotes nothing of it.
fn names_the_secret(question: &Question, ours: &Value, upstream: &Value) -> bool {
    let number = |answer: &Value| answer.get("secret").and_then(Value::as_u64);
    let secret = number(ours).and_then(|at| question.secrets.get(usize::try_from(at).ok()?));
    let (Some(secret), true) = (secret, number(ours) == number(upstream)) else { return false };
    let Some(refusal) = pull_secret(secret).logins().err() else { return false };
    let (said, theirs) = (ours.get("error").and_then(Value::as_str), upstream.get("error"));
    let theirs = theirs.and_then(Value::as_str).unwrap_or_default();
    let KubernetesSecret { name, namespace, .. } = secret;
    let shown = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let begins = format!("pull secret {shown}: its {} is no docker configuration; ", refusal.key);
    said.is_some_and(|said| said.starts_with(&begins))
        && match refusal.source.problem() {
            DockerConfigProblem::Json(_) => is_no_json(theirs),
            // A wrong `auth` is said at once, a wrong type at the end.
            DockerConfigProblem::Field(_) => {
                theirs.starts_with("json: cannot unmarshal ") || is_about_auth(theirs)
            }
            DockerConfigProblem::Auth { .. } => is_about_auth(theirs),
            _ => false,
        }
}

fn is_about_auth(words: &str) -> bool {
    words.starts_with("illegal base64 data at input byte ")
        || words.starts_with("unable to parse auth field, must be formatted as ")
}

/// Whether the credentials are the same ones, and in the same order but for those that a source has under keys that are
/// stored as one: a map's order, which is another each time.
fn same_in_some_order(found: &[Credential], ours: &[Value], theirs: &[Value]) -> bool {
    let mut rest = theirs;
    let mut ours = ours.iter();
    for group in found.chunk_by(|one, other| {
        Arc::ptr_eq(one.logins(), other.logins()) && one.key().as_bytes() == other.key().as_bytes()
    }) {
        let Some((theirs, after)) = rest.split_at_checked(group.len()) else { return false };
        let mut theirs: Vec<&Value> = theirs.iter().collect();
        for ours in ours.by_ref().take(group.len()) {
            let Some(at) = theirs.iter().position(|theirs| alike(ours, theirs)) else {
                return false;
            };
            theirs.remove(at);
        }
        rest = after;
    }
    rest.is_empty()
}

/// Whether they are the same; of user names and passwords that are no text, what can be shown is compared.
fn alike(ours: &Value, theirs: &Value) -> bool {
    let Some(bytes) = theirs.get("bytes").and_then(Value::as_array) else { return ours == theirs };
    let as_text = |at: usize| {
        let bytes = STANDARD.decode(bytes.get(at)?.as_str()?).ok()?;
        Some(Value::from(String::from_utf8_lossy(&bytes)))
    };
    ours.get("username") == as_text(0).as_ref()
        && ours.get("password") == as_text(1).as_ref()
        && ["email", "secret"].iter().all(|name| ours.get(name) == theirs.get(name))
}
