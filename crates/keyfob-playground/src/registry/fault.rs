//! What goes wrong, on command.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{Method, Request, StatusCode, header::RANGE};

/// Something that goes wrong once, unless it is told otherwise.
///
/// ```
/// use keyfob_playground::registry::Fault;
///
/// let busy_twice = Fault::status(503).times(2);
/// let one_layer_never_arrives = Fault::cut_blob(1000).only("sha256:0123").always();
/// let tokens_end_in_the_middle = Fault::end_tokens().after(3);
/// let names_blobs_that_it_does_not_have = Fault::hide_blobs().only("/steal/b/blobs/");
/// # let _ = (busy_twice, one_layer_never_arrives, tokens_end_in_the_middle, names_blobs_that_it_does_not_have);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    kind: Kind,
    skip: u32,
    times: Times,
    only: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CutBlob(u64),
    StallBlob(u64),
    WrongBlob,
    ZeroBlob,
    IgnoreRange,
    WrongRange,
    Trickle(Duration),
    WrongManifest,
    Status { status: StatusCode, retry_after: Option<u32> },
    Stall,
    EndTokens,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Left(u32),
    Always,
}

impl Fault {
    /// The connection ends after so many bytes of a blob.
    pub fn cut_blob(bytes: u64) -> Self {
        Self::new(Kind::CutBlob(bytes), "/blobs/")
    }

    /// After so many bytes of a blob nothing more comes.
    pub fn stall_blob(bytes: u64) -> Self {
        Self::new(Kind::StallBlob(bytes), "/blobs/")
    }

    /// The first byte of what is sent of a blob is not the one that it should be.
    pub fn wrong_blob() -> Self {
        Self::new(Kind::WrongBlob, "/blobs/")
    }

    /// Zeros are sent in the place of blobs, always.
    pub fn zero_blobs() -> Self {
        Self::new(Kind::ZeroBlob, "/blobs/").always()
    }

    /// Blobs are not there, always. Their manifests are.
    pub fn hide_blobs() -> Self {
        Self::status(404).only("/blobs/").always()
    }

    /// The part of a blob that is sent is said to be another.
    pub fn wrong_range() -> Self {
        Self::new(Kind::WrongRange, "/blobs/")
    }

    /// An answer is sent byte by byte, with a pause before each.
    pub fn trickle(pause: Duration) -> Self {
        Self::new(Kind::Trickle(pause), "/v2/")
    }

    /// A part of a blob is asked for, and all of it is sent.
    pub fn ignore_range() -> Self {
        Self::new(Kind::IgnoreRange, "/blobs/")
    }

    /// A manifest that means the same comes with another digest than it should have.
    pub fn wrong_manifest() -> Self {
        Self::new(Kind::WrongManifest, "/manifests/")
    }

    /// A request is answered with this status. One that HTTP does not have is 500.
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(Kind::Status { status, retry_after: None }, "/v2/")
    }

    /// A request is not answered at all.
    pub fn stall() -> Self {
        Self::new(Kind::Stall, "/v2/")
    }

    /// All bearer tokens end just before a request.
    pub fn end_tokens() -> Self {
        Self::new(Kind::EndTokens, "/v2/")
    }

    fn new(kind: Kind, only: &str) -> Self {
        Self { kind, skip: 0, times: Times::Left(1), only: only.to_owned() }
    }

    /// With `Retry-After`, if it is a status.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Kind::Status { retry_after, .. } = &mut self.kind {
            *retry_after = Some(seconds);
        }
        self
    }

    /// Only where this is part of the path, such as a digest, or `/token`.
    #[must_use]
    pub fn only(self, part_of_path: impl Into<String>) -> Self {
        Self { only: part_of_path.into(), ..self }
    }

    /// Only after so many requests of the kind.
    #[must_use]
    pub fn after(self, requests: u32) -> Self {
        Self { skip: requests, ..self }
    }

    /// So many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Times::Left(times), ..self }
    }

    /// Every time.
    #[must_use]
    pub fn always(self) -> Self {
        Self { times: Times::Always, ..self }
    }

    /// Whether it is this request's turn. It counts that it was.
    fn strikes<B>(&mut self, request: &Request<B>) -> bool {
        if !self.concerns(request) {
            return false;
        }
        if let Some(left) = self.skip.checked_sub(1) {
            self.skip = left;
            return false;
        }
        if let Times::Left(left) = &mut self.times {
            *left = left.saturating_sub(1);
        }
        true
    }

    fn concerns<B>(&self, request: &Request<B>) -> bool {
        let is_there = request.uri().path().contains(&self.only);
        let is_asked = match self.kind {
            Kind::Status { .. } | Kind::Stall | Kind::EndTokens | Kind::Trickle(_) => true,
            Kind::IgnoreRange | Kind::WrongRange => request.headers().contains_key(RANGE),
            Kind::CutBlob(_)
            | Kind::StallBlob(_)
            | Kind::WrongBlob
            | Kind::ZeroBlob
            | Kind::WrongManifest => request.method() == Method::GET,
        };
        is_there && is_asked && self.times != Times::Left(0)
    }
}

/// What is to go wrong.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What goes wrong with this request.
    pub(super) fn strike<B>(&self, request: &Request<B>) -> Struck {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let strikes = |fault: &mut Fault| fault.strikes(request).then_some(fault.kind);
        let struck = Struck(faults.iter_mut().filter_map(strikes).collect());
        faults.retain(|fault| fault.times != Times::Left(0));
        struck
    }
}

/// What goes wrong with one request.
#[derive(Clone, Debug)]
pub(super) struct Struck(Vec<Kind>);

/// What comes in the place of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instead {
    Status(StatusCode, Option<u32>),
    Silence,
}

/// How a blob ends before its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Cut,
    Stall,
}

impl Struck {
    pub(super) fn tokens_end(&self) -> bool {
        self.0.contains(&Kind::EndTokens)
    }

    pub(super) fn instead(&self) -> Option<Instead> {
        self.0.iter().find_map(|kind| match kind {
            Kind::Status { status, retry_after } => Some(Instead::Status(*status, *retry_after)),
            Kind::Stall => Some(Instead::Silence),
            _ => None,
        })
    }

    pub(super) fn range_is_ignored(&self) -> bool {
        self.0.contains(&Kind::IgnoreRange)
    }

    pub(super) fn range_is_wrong(&self) -> bool {
        self.0.contains(&Kind::WrongRange)
    }

    pub(super) fn blob_is_zero(&self) -> bool {
        self.0.contains(&Kind::ZeroBlob)
    }

    /// What passes before each byte, if they come one by one.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.0.iter().find_map(|kind| match kind {
            Kind::Trickle(pause) => Some(*pause),
            _ => None,
        })
    }

    pub(super) fn blob_is_wrong(&self) -> bool {
        self.0.contains(&Kind::WrongBlob)
    }

    pub(super) fn blob_ends(&self) -> Option<(u64, Ending)> {
        self.0.iter().find_map(|kind| match kind {
            Kind::CutBlob(bytes) => Some((*bytes, Ending::Cut)),
            Kind::StallBlob(bytes) => Some((*bytes, Ending::Stall)),
            _ => None,
        })
    }

    pub(super) fn manifest_is_wrong(&self) -> bool {
        self.0.contains(&Kind::WrongManifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(faults: &Faults, path: &str) -> Option<StatusCode> {
        let struck = faults.strike(&Request::get(path).body(()).unwrap());
        struck.instead().map(|instead| match instead {
            Instead::Status(status, _) => status,
            Instead::Silence => panic!("nobody asked for silence"),
        })
    }

    #[test]
    fn a_fault_strikes_as_often_and_where_it_is_told() {
        let faults = Faults::default();
        faults.add(Fault::status(503).only("/a/").after(1).times(2));
        let paths = ["/v2/b/", "/v2/a/", "/v2/b/", "/v2/a/", "/v2/a/", "/v2/a/"];
        let seen = paths.map(|path| struck(&faults, path).is_some());
        assert_eq!(seen, [false, false, false, true, true, false]);

        faults.add(Fault::status(429).always());
        assert!((0..5).all(|_| struck(&faults, "/v2/").is_some()));
        assert_eq!(struck(&faults, "/token"), None);
        faults.clear();
        assert_eq!(struck(&faults, "/v2/"), None);
        faults.add(Fault::status(1));
        assert_eq!(struck(&faults, "/v2/"), Some(StatusCode::INTERNAL_SERVER_ERROR));
    }
}
