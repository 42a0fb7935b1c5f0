//! Uploads that have begun and not ended.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::body::Body;
use http::{
    HeaderName, Response, StatusCode,
    header::{LOCATION, RANGE},
};

use crate::registry::{
    answer::respond,
    name::Repository,
    refusal::{Code, Refusal},
    upload::Upload,
};

const UPLOAD_UUID: HeaderName = HeaderName::from_static("docker-upload-uuid");

/// Uploads that have begun, oldest first. One that is being written to is not among them: if that ends badly, it is gone.
#[derive(Debug)]
pub(in crate::registry) struct Uploads {
    open: Mutex<VecDeque<Open>>,
    most: usize,
}

/// An upload, and where it goes.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: String,
    pub(super) repository: Repository,
    pub(super) upload: Upload,
}

impl Uploads {
    pub(in crate::registry) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), most }
    }

    /// `GET`: how much has come.
    pub(in crate::registry) fn status(
        &self,
        repository: &Repository,
        id: &str,
    ) -> Result<Response<Body>, Refusal> {
        let all = self.lock();
        let found = all.iter().find(|each| each.is(repository, id));
        found.ok_or_else(unknown)?.progress(StatusCode::NO_CONTENT)
    }

    pub(super) fn put(&self, open: Open) {
        let mut all = self.lock();
        all.push_back(open);
        while all.len() > self.most {
            all.pop_front();
        }
    }

    pub(super) fn take(&self, repository: &Repository, id: &str) -> Result<Open, Refusal> {
        let mut all = self.lock();
        let found = all.iter().position(|each| each.is(repository, id));
        found.and_then(|at| all.remove(at)).ok_or_else(unknown)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Where it goes on.
    pub(super) fn location(&self) -> String {
        format!("/v2/{}/blobs/uploads/{}", self.repository, self.id)
    }

    /// Where it goes on, and how much has come.
    pub(super) fn progress(&self, status: StatusCode) -> Result<Response<Body>, Refusal> {
        let last = self.upload.size().saturating_sub(1);
        let headers = [
            (LOCATION, self.location()),
            (RANGE, format!("0-{last}")),
            (UPLOAD_UUID, self.id.clone()),
        ];
        respond(status, &headers, Body::empty())
    }

    fn is(&self, repository: &Repository, id: &str) -> bool {
        self.id == id && self.repository == *repository
    }
}

fn unknown() -> Refusal {
    Refusal::new(Code::BlobUploadUnknown, "no such upload, or somebody writes to it")
}
