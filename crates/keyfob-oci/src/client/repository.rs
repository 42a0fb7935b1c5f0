//! One repository of a registry, asked as one user or as nobody.

use std::{future::Future, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use keyfob_api::{ImageRef, SecretSet};
use keyfob_keyring::Login;
use keyfob_net::named;

use super::{
    Client,
    answer::Answer,
    endpoint::Endpoint,
    grant::{Key, Slot},
};
use crate::{Blob, Digest, PullError, layout::Sample, manifest::ACCEPTED};

/// A manifest is a list of names: this has room for ten thousands of them.
const LARGEST_MANIFEST: u64 = 4 << 20;

/// Asks one repository, as one user.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(super) client: Client,
    pub(super) endpoint: Endpoint,
    pub(super) login: Option<Login>,
    pub(super) slot: Arc<Slot>,
    /// Those of the client.
    pub(crate) secrets: SecretSet,
}

/// A manifest or an index as it came, and what it is called.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) what: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: Digest,
    pub(crate) media_type: Option<String>,
}

/// A blob that is on its way.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) answer: Answer,
    /// With which of its bytes it begins.
    pub(crate) at: u64,
}

impl Repository {
    pub(super) fn new(
        client: Client,
        image: &ImageRef,
        login: Option<Login>,
    ) -> Result<Self, PullError> {
        let endpoint = Endpoint::of(image, &client.0.plain_http)?;
        let slot = client.0.grants.slot(Key::new(endpoint.name(), login.as_ref()));
        let secrets = client.secrets().clone();
        if let Some(login) = &login {
            secrets.learn_login(&login.username, &login.password);
        }
        Ok(Self { client, endpoint, login, slot, secrets })
    }

    /// Scheme, host and port of the registry.
    pub(crate) fn registry(&self) -> String {
        self.endpoint.registry()
    }

    /// Its whole address, which no other repository has.
    pub(crate) fn address(&self) -> String {
        self.endpoint.name()
    }

    /// As whom it is asked.
    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// The manifest of a tag, or of a digest that its content must have. It is asked for again if that may help.
    pub(crate) async fn manifest(&self, reference: &str) -> Result<Fetched, PullError> {
        self.patiently(|| self.manifest_once(reference)).await
    }

    /// Whether it has a blob of which this is a part. It is asked again if that may help.
    pub(crate) async fn has(&self, blob: &Blob, sample: &Sample) -> Result<bool, PullError> {
        self.patiently(|| self.has_sample(blob, sample)).await
    }

    /// Asks until there is an answer, or no hope of one.
    async fn patiently<T, F: Future<Output = Result<T, PullError>>>(
        &self,
        once: impl Fn() -> F,
    ) -> Result<T, PullError> {
        let mut attempt = 1;
        loop {
            let error = match once().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error.after(attempt),
            };
            let Some(pause) = self.client.pause(&error, attempt) else { return Err(error) };
            tracing::debug!(%error, ?pause, "registry is asked again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn has_sample(&self, blob: &Blob, sample: &Sample) -> Result<bool, PullError> {
        let length = sample.bytes.len() as u64;
        let last = sample.first + length.saturating_sub(1);
        let mut headers = HeaderMap::new();
        let range = HeaderValue::from_str(&format!("bytes={}-{last}", sample.first));
        headers.extend(range.map(|range| (header::RANGE, range)));
        let mut answer = self.get(self.endpoint.blob(&blob.digest), &headers).await?;
        let is_the_part = match answer.status() {
            // A server without ranges sends everything, which may be what was asked for.
            StatusCode::OK => length == blob.size,
            StatusCode::PARTIAL_CONTENT => {
                let (first, size) = content_range(&answer)?;
                first == sample.first && size.is_none_or(|size| size == blob.size)
            }
            _ => false,
        };
        Ok(is_the_part && *answer.body(length).await?.expose() == sample.bytes)
    }

    async fn manifest_once(&self, reference: &str) -> Result<Fetched, PullError> {
        let mut headers = HeaderMap::new();
        headers
            .extend(HeaderValue::from_str(&ACCEPTED.join(", ")).map(|all| (header::ACCEPT, all)));
        let mut answer = self.get(self.endpoint.manifest(reference), &headers).await?;
        let body = answer.body(LARGEST_MANIFEST).await?;
        let told = answer.headers().get("docker-content-digest");
        let told = told.and_then(|told| Digest::parse(told.to_str().ok()?).ok());
        let asked_for = Digest::parse(reference).ok();
        let (what, bytes) = (answer.what().to_owned(), body.expose());
        for wanted in [&asked_for, &told].into_iter().flatten() {
            let found = wanted.alike(bytes);
            if found != *wanted {
                return Err(PullError::WrongDigest { what, wanted: wanted.clone(), found });
            }
        }
        let digest = asked_for.or(told).unwrap_or_else(|| Digest::sha256(bytes));
        let media_type = answer.header(header::CONTENT_TYPE).map(str::to_owned);
        Ok(Fetched { what, bytes: bytes.clone(), digest, media_type })
    }

    /// A blob, from one of its bytes on if the server can do that. One attempt.
    pub(crate) async fn blob(&self, blob: &Blob, from: u64) -> Result<Stream, PullError> {
        let mut headers = HeaderMap::new();
        if from > 0 {
            headers.extend(
                HeaderValue::from_str(&format!("bytes={from}-")).map(|from| (header::RANGE, from)),
            );
        }
        let url = self.endpoint.blob(&blob.digest);
        let mut answer = self.get(url.clone(), &headers).await?;
        if answer.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            answer = self.get(url, &HeaderMap::new()).await?;
        }
        let (at, size) = match answer.status() {
            StatusCode::OK => (0, answer.length()),
            StatusCode::PARTIAL_CONTENT if from > 0 => content_range(&answer)?,
            _ => return Err(bad(&answer, "no content, and no error either")),
        };
        if size.is_some_and(|size| size != blob.size) {
            let size = size.unwrap_or_default();
            let reason = format!("the content has {size} bytes and not {}", blob.size);
            return Err(bad(&answer, &reason));
        }
        if at != 0 && at != from {
            return Err(bad(&answer, "another part of the content than was asked for"));
        }
        Ok(Stream { answer, at })
    }

    /// How a blob is called in messages.
    pub(crate) fn name_of(&self, blob: &Blob) -> String {
        self.secrets.redact(&named(&Method::GET, self.endpoint.blob(&blob.digest).as_str()))
    }
}

/// With which byte a part begins, and how many the whole has, if that is told: `bytes 5-9/10`.
fn content_range(answer: &Answer) -> Result<(u64, Option<u64>), PullError> {
    let read = || {
        let range = answer.header(header::CONTENT_RANGE)?.strip_prefix("bytes ")?;
        let (part, size) = range.split_once('/')?;
        let (first, _) = part.split_once('-')?;
        Some((first.trim().parse().ok()?, size.trim().parse().ok()))
    };
    read().ok_or_else(|| bad(answer, "a part of the content, and no word of which"))
}

fn bad(answer: &Answer, reason: &str) -> PullError {
    PullError::BadAnswer { what: answer.what().to_owned(), reason: reason.to_owned() }
}
