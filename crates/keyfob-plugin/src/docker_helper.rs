//! The protocol of `docker-credential-*` programs, for whoever put a kubelet's plugin where such a program belongs.
//!
//! Errors go to stdout there, and some are known by their exact text. Nothing is stored: `store` and `erase` succeed
//! quietly, because `docker login` and `docker logout` fail when they do not.

use keyfob_api::{CredentialProviderResponse, JsonWriter, Secret};
use serde::Deserialize;

use crate::{fitting, process::Spoken};

const NOT_FOUND: &str = "credentials not found in native keychain";
const NO_SERVER: &str = "no credentials server URL";
const NO_USERNAME: &str = "no credentials username";
const USAGE: &str = "usage: <store|get|erase|list|version>";

/// What a docker client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The login for a server.
    Get { server_url: String },
    /// Anything that needs no provider: what to print, and the exit code.
    Said(String, u8),
    /// The program's name and version.
    Version,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Login {
    #[serde(rename = "ServerURL")]
    server_url: String,
    username: String,
}

impl Action {
    /// Whether this is that protocol: one of its words, and on stdin something else than a kubelet's request.
    pub(crate) fn of(words: &[String], stdin: &[u8]) -> Option<Self> {
        let (word, more) = words.split_first()?;
        let text = String::from_utf8_lossy(stdin);
        let text = text.trim();
        let is_object = text.starts_with('{');
        let known = matches!(word.as_str(), "get" | "store" | "erase" | "list" | "version");
        if is_object && (word != "store" || !text.contains("\"ServerURL\"")) {
            return None;
        }
        if !known && (word == "get-credentials" || !text.is_empty()) {
            return None;
        }
        if known && !more.is_empty() {
            return Some(Self::said(USAGE));
        }
        Some(match word.as_str() {
            "version" => Self::Version,
            "list" => Self::Said("{}\n".into(), 0),
            "store" => Self::store(text),
            "get" | "erase" if text.is_empty() => Self::said(NO_SERVER),
            "erase" => Self::Said(String::new(), 0),
            "get" => Self::Get { server_url: text.replace(['\r', '\n'], "") },
            _ => Self::said(&format!("unknown action: {}", keyfob_exec::on_one_line(word))),
        })
    }

    fn store(text: &str) -> Self {
        match serde_json::from_str::<Login>(text) {
            Err(_) => Self::said("what is to be stored is not a JSON object with strings"),
            Ok(login) if login.server_url.is_empty() => Self::said(NO_SERVER),
            Ok(login) if login.username.is_empty() => Self::said(NO_USERNAME),
            Ok(_) => Self::Said(String::new(), 0),
        }
    }

    fn said(text: &str) -> Self {
        Self::Said(format!("{text}\n"), 1)
    }
}

/// What a docker client is told of an answer.
pub(crate) fn login(server_url: &str, image: &str, answer: &CredentialProviderResponse) -> Spoken {
    let Some(auth) = fitting::login(answer, image) else { return failed(NOT_FOUND) };
    let mut json = JsonWriter::default();
    json.open('{').field("ServerURL").string(server_url);
    json.field("Username").string(&auth.username);
    json.field("Secret").string(auth.password.expose()).close('}');
    let text = json.into_text();
    Spoken::answer(Secret::new(format!("{}\n", text.expose()).into_bytes()))
}

/// A failure, where a docker client looks for it.
pub(crate) fn failed(text: &str) -> Spoken {
    Spoken { code: 1, ..Spoken::answer(Secret::new(format!("{text}\n").into_bytes())) }
}

#[cfg(test)]
mod tests {
    use keyfob_api::{AuthConfig, CacheKeyType};

    use super::*;

    #[test]
    fn the_login_of_the_most_exact_key_is_told() {
        let auth = |username: &str| AuthConfig { username: username.into(), password: "p".into() };
        let keys = ["r.io/team", "r.io", "r.io/other", "*.io"];
        let auth = keys.map(|key| (key.to_owned(), auth(key))).into();
        let answer = CredentialProviderResponse {
            cache_key_type: CacheKeyType::Registry,
            cache_duration: None,
            auth,
        };

        let spoken = login("r.io/team/app", "r.io/team/app", &answer);

        let told = r#"{"ServerURL":"r.io/team/app","Username":"r.io/team","Secret":"p"}"#;
        assert_eq!(spoken.stdout.expose(), format!("{told}\n").as_bytes());
        assert_eq!(
            login("r.example", "r.example/", &answer).stdout.expose(),
            b"credentials not found in native keychain\n"
        );
    }
}
