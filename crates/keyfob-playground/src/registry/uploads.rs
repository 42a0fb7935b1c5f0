//! Blobs on their way in: at once, in one stream, or in pieces.

mod open;

use axum::body::Body;
use http::{
    Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION},
    request::Parts,
};

use self::open::Open;
pub(super) use self::open::Uploads;
use super::{
    Server,
    access::Right,
    answer::{Asked, CONTENT_DIGEST, query, respond},
    authorize::Identified,
    body::Pieces,
    digest::Digest,
    name::Repository,
    refusal::{Code, Refusal},
    route,
    storage::NotKept,
    upload::Upload,
    users::unguessable,
};

impl Server {
    /// `POST`: a mount if there is something to mount, all of it at once if it says what it is, else a beginning.
    pub(super) async fn start_upload(
        &self,
        name: &Repository,
        asked: &Asked<'_>,
        pieces: &mut Pieces<'_>,
        visitor: &Identified,
    ) -> Result<Response<Body>, Refusal> {
        if let Some(digest) = self.mounted(name, asked.parts, visitor)? {
            return created(name, digest);
        }
        let said = query(asked.parts, "digest").map(|digest| route::digest(&digest)).transpose()?;
        let mut open = self.begin(name).await?;
        match said {
            None => self.accepted(open),
            Some(digest) => {
                self.receive(&mut open, asked.parts, pieces).await?;
                open.upload.keep(name, digest).await?;
                created(name, digest)
            }
        }
    }

    /// Whether a blob of another repository, which whoever asks may pull from, is now in this one, too.
    fn mounted(
        &self,
        name: &Repository,
        parts: &Parts,
        visitor: &Identified,
    ) -> Result<Option<Digest>, Refusal> {
        let (Some(digest), Some(from)) = (query(parts, "mount"), query(parts, "from")) else {
            return Ok(None);
        };
        let digest = route::digest(&digest)?;
        let from = Repository::parse(&from);
        let from = from.filter(|from| self.may(visitor, from, Right::Pull));
        let is_mounted = from.is_some_and(|from| self.storage.mount(digest, &from, name));
        Ok(is_mounted.then_some(digest))
    }

    async fn begin(&self, name: &Repository) -> Result<Open, Refusal> {
        let id =
            unguessable().ok_or_else(|| Refusal::internal("the system gives no random numbers"))?;
        let id = id.expose().clone();
        let upload = Upload::begin(&self.storage, &id).await;
        Ok(Open { id, repository: name.clone(), upload: upload? })
    }

    /// The upload that goes on, if what comes follows what has come.
    fn resume(&self, name: &Repository, id: &str, parts: &Parts) -> Result<Open, Refusal> {
        let open = self.uploads.take(name, id)?;
        match follows(&open, parts) {
            Ok(()) => Ok(open),
            Err(refusal) => {
                self.uploads.put(open);
                Err(refusal)
            }
        }
    }

    /// `PATCH`: one more piece, or all of it in a stream. What has come before a connection broke counts.
    pub(super) async fn continue_upload(
        &self,
        name: &Repository,
        id: &str,
        asked: &Asked<'_>,
        pieces: &mut Pieces<'_>,
    ) -> Result<Response<Body>, Refusal> {
        let mut open = self.resume(name, id, asked.parts)?;
        match self.receive(&mut open, asked.parts, pieces).await {
            Ok(()) => self.accepted(open),
            Err(Interrupted::ByTheClient(refusal)) => {
                self.uploads.put(open);
                Err(refusal)
            }
            Err(Interrupted::Refused(refusal)) => Err(refusal),
        }
    }

    /// `PUT`: the last piece, if there is one, and what it all is.
    pub(super) async fn end_upload(
        &self,
        name: &Repository,
        id: &str,
        asked: &Asked<'_>,
        pieces: &mut Pieces<'_>,
    ) -> Result<Response<Body>, Refusal> {
        let digest = route::digest(&query(asked.parts, "digest").unwrap_or_default())?;
        let mut open = self.resume(name, id, asked.parts)?;
        self.receive(&mut open, asked.parts, pieces).await?;
        open.upload.keep(name, digest).await?;
        created(name, digest)
    }

    /// `DELETE`: forgets it.
    pub(super) fn cancel_upload(
        &self,
        name: &Repository,
        id: &str,
    ) -> Result<Response<Body>, Refusal> {
        drop(self.uploads.take(name, id)?);
        respond(StatusCode::NO_CONTENT, &[], Body::empty())
    }

    fn accepted(&self, open: Open) -> Result<Response<Body>, Refusal> {
        let response = open.progress(StatusCode::ACCEPTED);
        self.uploads.put(open);
        response
    }

    async fn receive(
        &self,
        open: &mut Open,
        parts: &Parts,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), Interrupted> {
        let coming = length(parts).unwrap_or(0);
        if open.upload.size().saturating_add(coming) > self.limits.blob {
            return Err(NotKept::TooLarge(self.limits.blob).into());
        }
        while let Some(piece) = pieces.next().await.map_err(Interrupted::ByTheClient)? {
            open.upload.write(&piece, &self.limits).await?;
        }
        Ok(())
    }
}

/// Why a piece did not come in.
enum Interrupted {
    /// The connection broke; the client may go on where it stopped.
    ByTheClient(Refusal),
    Refused(Refusal),
}

impl From<NotKept> for Interrupted {
    fn from(error: NotKept) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Interrupted> for Refusal {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::ByTheClient(refusal) | Interrupted::Refused(refusal) => refusal,
        }
    }
}

fn length(parts: &Parts) -> Option<u64> {
    parts.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A piece that says where it belongs must begin where the one before ended.
fn follows(open: &Open, parts: &Parts) -> Result<(), Refusal> {
    let Some(range) = parts.headers.get(CONTENT_RANGE) else { return Ok(()) };
    let range = range.to_str().unwrap_or_default().trim_start_matches("bytes ");
    let first = range.split_once('-').and_then(|(first, _)| first.parse().ok());
    if first == Some(open.upload.size()) {
        return Ok(());
    }
    let message = format!("the next piece begins at {}", open.upload.size());
    let refusal = Refusal::new(Code::RangeInvalid, message);
    Err(match open.location().parse() {
        Ok(location) => refusal.header(LOCATION, location),
        Err(_) => refusal,
    })
}

fn created(name: &Repository, digest: Digest) -> Result<Response<Body>, Refusal> {
    let headers =
        [(LOCATION, format!("/v2/{name}/blobs/{digest}")), (CONTENT_DIGEST, digest.to_string())];
    respond(StatusCode::CREATED, &headers, Body::empty())
}
