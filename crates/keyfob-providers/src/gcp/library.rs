//! Google's own library, for the kinds of files that only it knows all forms of.
//!
//! It connects on its own: by the proxies of the process, with the roots of the platform or of `SSL_CERT_FILE`. It does
//! not tell when a token ends. Its errors quote bodies, so they are read here and not passed on.

use std::{error::Error, time::Duration};

use google_cloud_auth::{
    build_errors,
    credentials::{AccessTokenCredentials, external_account, impersonated, user_account},
    errors::CredentialsError,
};
use keyfob_api::Secret;
use keyfob_plugin::{Call, Failure};
use rustls::crypto::CryptoProvider;
use serde_json::Value;

use super::{
    SCOPE,
    token::{End, Token},
};
use crate::http::complaint;

const ATTEMPTS: u32 = 3;

pub(super) async fn token(
    kind: &str,
    text: &Secret<Vec<u8>>,
    call: &Call,
) -> Result<Token, Failure> {
    require_crypto_provider()?;
    look_for_roots()?;
    call.step(format!("asking Google for a token by the {kind} file"));
    let mut attempt = 1;
    loop {
        // One that has failed would wait on its own for longer than we have.
        let credentials = credentials(kind, text)?;
        match credentials.access_token().await {
            Ok(token) => return Token::new(token.token.into(), End::Unknown),
            Err(error) if !error.is_transient() || attempt == ATTEMPTS => {
                return Err(Failure::new(reason(&error)));
            }
            Err(_) => tokio::time::sleep(pause(attempt)).await,
        }
        attempt += 1;
    }
}

/// The library has no cryptography of its own, and panics if the program has not chosen one.
pub(super) fn require_crypto_provider() -> Result<(), Failure> {
    match CryptoProvider::get_default() {
        Some(_) => Ok(()),
        None => Err(Failure::new(
            "this program has no default CryptoProvider: call rustls's install_default in its main",
        )),
    }
}

/// It would panic without any.
fn look_for_roots() -> Result<(), Failure> {
    if rustls_native_certs::load_native_certs().certs.is_empty() {
        return Err(Failure::new(
            "this machine has no trusted certificates: install ca-certificates, or set SSL_CERT_FILE",
        ));
    }
    Ok(())
}

fn credentials(kind: &str, text: &Secret<Vec<u8>>) -> Result<AccessTokenCredentials, Failure> {
    let file: Value =
        serde_json::from_slice(text.expose()).map_err(|_| Failure::new("not a JSON object"))?;
    let built = match kind {
        "external_account" => external_account::Builder::new(file)
            .with_scopes([SCOPE])
            .build_access_token_credentials(),
        "impersonated_service_account" => {
            impersonated::Builder::new(file).with_scopes([SCOPE]).build_access_token_credentials()
        }
        _ => user_account::Builder::new(file).with_scopes([SCOPE]).build_access_token_credentials(),
    };
    built.map_err(|error| incomplete(kind, &error))
}

/// The name of a missing field is worth telling; what else the library says may quote the file.
fn incomplete(kind: &str, error: &build_errors::Error) -> Failure {
    let text = error.to_string();
    let field = text.split_once("missing field `").and_then(|(_, rest)| rest.split('`').next());
    Failure::new(match field {
        Some(field) => format!("not a complete {kind} file: {field} is missing"),
        None => format!("not a complete {kind} file"),
    })
}

fn pause(attempt: u32) -> Duration {
    Duration::from_millis(100).saturating_mul(1 << attempt).mul_f32(0.5 + fastrand::f32() / 2.0)
}

/// What happened: the status and what the body complains of, or what the library and the system say.
fn reason(error: &CredentialsError) -> String {
    let (mut said, mut body) = (String::new(), None);
    let mut cause: &(dyn Error + 'static) = error;
    loop {
        if let Some(error) = cause.downcast_ref::<google_cloud_gax::error::Error>()
            && let Some(status) = error.http_status_code()
        {
            return refused(status, error.http_payload().map(AsRef::as_ref));
        }
        if let Some(error) = cause.downcast_ref::<reqwest::Error>()
            && let Some(status) = error.status()
        {
            return refused(status.as_u16(), body.as_deref());
        }
        if cause.is::<CredentialsError>() {
            (said, body) = without_quotes(&cause.to_string());
        }
        match cause.source() {
            Some(below) => cause = below,
            None => return format!("{said}{}", known_words(cause)),
        }
    }
}

fn refused(status: u16, body: Option<&[u8]>) -> String {
    match complaint(body.unwrap_or_default()) {
        said if said.is_empty() => format!("Google responded with status code {status}"),
        said => format!("Google responded with status code {status}: {said}"),
    }
}

/// The library quotes as in `body=<…>`: what it says itself, and what it quotes.
fn without_quotes(text: &str) -> (String, Option<Vec<u8>>) {
    let Some((said, quoted)) = text.split_once("=<") else { return (text.to_owned(), None) };
    let said = said.rsplit_once(',').map_or(said, |(said, _)| said);
    let quoted = quoted.rsplit_once('>').map(|(quoted, _)| quoted.as_bytes().to_vec());
    (said.to_owned(), quoted)
}

/// Only some are known to quote nothing.
fn known_words(cause: &(dyn Error + 'static)) -> String {
    if cause.is::<std::io::Error>() || cause.is::<rustls::Error>() {
        return format!(": {cause}");
    }
    match cause.downcast_ref::<serde_json::Error>() {
        Some(error) => {
            format!(": unexpected JSON (line {}, column {})", error.line(), error.column())
        }
        None => String::new(),
    }
}
