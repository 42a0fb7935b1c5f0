//! The plugins of the demo: this program, as the kubelet's protocol sees it from the other side.

use std::io::{self, Read as _};

use clap::ValueEnum;
use keyfob_api::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};

use crate::{Outcome, Verdict};

/// What the demo's plugins are given and must not show.
pub(super) const TOKEN: &str = "demo-service-account-token";
const PASSWORD: &str = "demo-registry-password";

/// How a plugin of the demo behaves.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Manner {
    /// Answers for the registry.
    PerRegistry,
    /// Answers for the image alone.
    PerImage,
    /// Shouts its token on stderr and fails.
    Fail,
    /// Waits forever.
    Hang,
}

/// Reads a request from stdin and does as it is told.
pub(crate) fn run(manner: Manner) -> Outcome {
    let mut request = Vec::new();
    if let Err(error) = io::stdin().read_to_end(&mut request) {
        return failure(format!("no request: {error}\n"));
    }
    match manner {
        Manner::PerRegistry => answer(&request, CacheKeyType::Registry),
        Manner::PerImage => answer(&request, CacheKeyType::Image),
        Manner::Fail => failure(format!("tried {TOKEN}: refused\n")),
        Manner::Hang => loop {
            std::thread::park();
        },
    }
}

fn failure(stderr: String) -> Outcome {
    Outcome { stderr, verdict: Verdict::No, ..Outcome::default() }
}

fn answer(request: &[u8], scope: CacheKeyType) -> Outcome {
    let (version, request) = match CredentialProviderRequest::decode(request) {
        Ok(request) => request,
        Err(error) => return failure(format!("{error}\n")),
    };
    let registry = request.image.split('/').next().unwrap_or_default();
    let (key, username) = match scope {
        CacheKeyType::Registry => (registry, "registry-user"),
        _ => (request.image.as_str(), "image-user"),
    };
    let login = AuthConfig { username: username.into(), password: PASSWORD.into() };
    let response = CredentialProviderResponse {
        cache_key_type: scope,
        cache_duration: None,
        auth: vec![(key.to_owned(), login)],
    };
    let stdout = String::from_utf8_lossy(response.encode(version).expose()).into_owned();
    Outcome { stdout, ..Outcome::default() }
}
