//! What a path is about.

use super::{
    digest::Digest,
    name::{Reference, Repository},
    refusal::{Code, Refusal},
};

/// What a request is about, parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `/v2/`: is this a registry, and may I come in?
    Base,
    /// `/token`: a bearer token for a login.
    Token,
    /// `/exchange`: a login for a pod's token.
    Exchange,
    Tags(Repository),
    Manifest(Repository, Reference),
    Blob(Repository, Digest),
    /// Where uploads begin.
    Uploads(Repository),
    /// One that has begun.
    Upload(Repository, String),
}

impl Route {
    /// Names are looked at from behind: a repository may be called `blobs/manifests`. Nothing is percent-decoded, because
    /// nothing that is right here needs it.
    pub(super) fn parse(path: &str) -> Result<Self, Refusal> {
        match path {
            "/v2" | "/v2/" => return Ok(Self::Base),
            "/token" => return Ok(Self::Token),
            "/exchange" => return Ok(Self::Exchange),
            _ => {}
        }
        let rest = path.strip_prefix("/v2/").ok_or_else(Refusal::no_such_path)?;
        if let Some(name) = rest.strip_suffix("/tags/list") {
            return Ok(Self::Tags(repository(name)?));
        }
        let (before, last) = rest.rsplit_once('/').ok_or_else(Refusal::no_such_path)?;
        if let Some(name) = before.strip_suffix("/blobs/uploads") {
            let name = repository(name)?;
            let is_new = last.is_empty();
            return Ok(if is_new { Self::Uploads(name) } else { Self::Upload(name, last.into()) });
        }
        if let Some(name) = before.strip_suffix("/blobs") {
            let name = repository(name)?;
            let is_new = last == "uploads";
            return if is_new {
                Ok(Self::Uploads(name))
            } else {
                Ok(Self::Blob(name, digest(last)?))
            };
        }
        let name = before.strip_suffix("/manifests").ok_or_else(Refusal::no_such_path)?;
        Ok(Self::Manifest(repository(name)?, reference(last)?))
    }

    pub(super) fn repository(&self) -> Option<&Repository> {
        match self {
            Self::Base | Self::Token | Self::Exchange => None,
            Self::Tags(name)
            | Self::Manifest(name, _)
            | Self::Blob(name, _)
            | Self::Uploads(name)
            | Self::Upload(name, _) => Some(name),
        }
    }
}

fn repository(name: &str) -> Result<Repository, Refusal> {
    let wrong = || Refusal::new(Code::NameInvalid, "not the name of a repository");
    Repository::parse(name).ok_or_else(wrong)
}

/// A digest in a path or a query.
pub(super) fn digest(text: &str) -> Result<Digest, Refusal> {
    let wrong = || Refusal::new(Code::DigestInvalid, "not a digest: sha256: and 64 digits are");
    Digest::parse(text).ok_or_else(wrong)
}

fn reference(text: &str) -> Result<Reference, Refusal> {
    let wrong = || Refusal::new(Code::ManifestInvalid, "neither a tag nor a SHA-256 digest");
    Reference::parse(text).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(name: &str) -> Repository {
        Repository::parse(name).unwrap()
    }

    #[test]
    fn paths_are_read_from_behind() {
        let digest = Digest::of(b"");
        let rows = [
            ("/v2/".to_owned(), Route::Base),
            ("/token".to_owned(), Route::Token),
            ("/v2/a/tags/list".to_owned(), Route::Tags(repository("a"))),
            (
                "/v2/blobs/manifests/manifests/v1".to_owned(),
                Route::Manifest(repository("blobs/manifests"), Reference::Tag("v1".into())),
            ),
            (format!("/v2/a/b/blobs/{digest}"), Route::Blob(repository("a/b"), digest)),
            ("/v2/a/blobs/uploads/".to_owned(), Route::Uploads(repository("a"))),
            ("/v2/a/blobs/uploads".to_owned(), Route::Uploads(repository("a"))),
            ("/v2/a/blobs/uploads/x".to_owned(), Route::Upload(repository("a"), "x".into())),
        ];
        for (path, want) in rows {
            assert_eq!(Route::parse(&path).unwrap(), want, "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in [
            "",
            "/",
            "/v1/",
            "/v2/a",
            "/v2/a/b",
            "/v2/manifests/x",
            "/v2/_catalog",
            "/v2/../token/manifests/x",
            "/v2/a/../b/tags/list",
            "/v2/a%2f..%2fb/tags/list",
            "/v2/a/blobs/sha256:..",
            "/v2/a/blobs/../../etc",
            "/v2/a/manifests/..",
            "//v2/",
        ] {
            assert!(Route::parse(path).is_err(), "{path}");
        }
    }
}
