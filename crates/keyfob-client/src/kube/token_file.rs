//! A user's token in a file, which may change.
//!
//! Upstream: `NewCachedFileTokenSource` in `transport/token_source.go`, and `bearerAuthRoundTripper`.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use http::{HeaderValue, Request, header::AUTHORIZATION};
use keyfob_api::Secret;
use keyfob_exec::Clock;

use super::ClientError;
use crate::{client_config::read_file, credential::authorization};

/// For how long a file is believed without a look.
const PERIOD: Duration = Duration::from_secs(50);

/// The token in a file, without the blanks around it. What was read last is used for as long as nothing better can be read.
#[derive(Clone)]
pub(super) struct TokenFile(Arc<Shared>);

struct Shared {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    current: Mutex<Current>,
}

struct Current {
    header: HeaderValue,
    read: Option<SystemTime>,
}

impl TokenFile {
    /// Reads it. If there is nothing in it, or it cannot be read, the user's other token must do.
    pub(super) fn open(
        path: &Path,
        other: Option<&Secret<String>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        let header = match (read(path), other) {
            (Ok(header), _) => header,
            (Err(error @ ClientError::Token(_)), _) | (Err(error), None) => return Err(error),
            (Err(_), Some(token)) => authorization(token)?,
        };
        let current = Mutex::new(Current { header, read: None });
        Ok(Self(Arc::new(Shared { path: path.to_owned(), clock, current })))
    }

    /// Sets the header of a request that has none.
    pub(super) fn authorize<B>(&self, mut request: Request<B>) -> Request<B> {
        if !request.headers().contains_key(AUTHORIZATION) {
            request.headers_mut().insert(AUTHORIZATION, self.header());
        }
        request
    }

    fn header(&self) -> HeaderValue {
        let Shared { path, clock, current } = &*self.0;
        let now = clock.now();
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        let age = current.read.and_then(|read| now.duration_since(read).ok());
        if age.is_none_or(|age| age >= PERIOD)
            && let Ok(header) = read(path)
        {
            *current = Current { header, read: Some(now) };
        }
        current.header.clone()
    }
}

fn read(path: &Path) -> Result<HeaderValue, ClientError> {
    let token =
        read_file(path).map_err(|source| ClientError::UserFile { field: "tokenFile", source })?;
    let token = Secret::new(String::from_utf8_lossy(token.expose()).trim().to_owned());
    if token.expose().is_empty() {
        return Err(ClientError::EmptyTokenFile { path: path.to_owned() });
    }
    Ok(authorization(&token)?)
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenFile").field(&self.0.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use keyfob_testkit::ManualClock;

    use super::*;

    #[test]
    fn a_file_is_read_again_after_a_while_and_an_empty_one_changes_nothing() {
        let (file, clock) = (tempfile::NamedTempFile::new().unwrap(), ManualClock::default());
        let open = || TokenFile::open(file.path(), None, Arc::new(clock.clone()));
        assert!(matches!(open(), Err(ClientError::EmptyTokenFile { .. })));
        fs::write(file.path(), " one\n").unwrap();
        let token = open().unwrap();
        let sent = || token.authorize(Request::new(())).headers()[AUTHORIZATION].clone();
        assert_eq!(sent(), "Bearer one");

        fs::write(file.path(), "two").unwrap();
        assert_eq!(sent(), "Bearer one");
        clock.advance(PERIOD);
        assert_eq!(sent(), "Bearer two");

        fs::write(file.path(), "\n").unwrap();
        clock.advance(PERIOD);
        assert_eq!(sent(), "Bearer two");
    }
}
