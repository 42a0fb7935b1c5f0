//! Google's files with credentials. A service account's key is used here; the rest is left to Google's own library.

use std::path::PathBuf;

use keyfob_exec::read_bounded;
use keyfob_plugin::{Call, Doing as _, Failure};
use serde::Deserialize;

use super::{library, service_account, token::Token};
use crate::http::Http;

/// No such file comes near this.
const LARGEST: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct CredentialsFile {
    pub(super) path: PathBuf,
    pub(super) http: Http,
    /// Whether `--ca-file` was given, of which the library knows nothing.
    pub(super) ca_file: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Marks {
    r#type: String,
}

impl CredentialsFile {
    pub(super) async fn token(&self, call: &Call) -> Result<Token, Failure> {
        let place = format!("credentials file {}", self.path.display());
        self.token_of(call).await.doing(place)
    }

    async fn token_of(&self, call: &Call) -> Result<Token, Failure> {
        let text = read_bounded(&self.path, LARGEST)?;
        let marks: Marks = serde_json::from_slice(text.expose()).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Failure::new(format!("not a JSON object (line {line}, column {column})"))
        })?;
        match marks.r#type.as_str() {
            "service_account" => service_account::token(&text, &self.http, call).await,
            kind @ ("external_account" | "impersonated_service_account" | "authorized_user") => {
                if self.ca_file {
                    return Err(Failure::new(
                        "--ca-file does not reach Google's library, which uses this kind of file: set SSL_CERT_FILE in \
                         the env of this plugin instead",
                    ));
                }
                library::token(kind, &text, call).await
            }
            _ => Err(Failure::new(
                "its type is none of external_account, service_account, impersonated_service_account and \
                 authorized_user",
            )),
        }
    }
}
