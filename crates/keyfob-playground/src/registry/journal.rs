//! What was asked, for whoever wants to show it.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use http::{Request, header::RANGE};

/// A request, without anything that may be secret: neither queries nor other headers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenRequest {
    /// `GET`, `PUT`, …
    pub method: String,
    /// The path, cut before it gets long.
    pub path: String,
    /// Which part was asked for: the header `Range`.
    pub range: Option<String>,
    /// The answer's status; nothing, if there was none.
    pub status: Option<u16>,
    /// The user who asked, once they had shown who they are.
    pub who: Option<String>,
}

impl SeenRequest {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
        Self {
            method: shortened(request.method().as_str()),
            path: shortened(request.uri().path()),
            range: range.map(shortened),
            status: None,
            who: None,
        }
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 512;
    text.chars().take(LONGEST).collect()
}

/// The last requests.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<VecDeque<SeenRequest>>);

impl Journal {
    pub(super) fn add(&self, request: SeenRequest) {
        const MOST: usize = 4096;
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == MOST {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    pub(super) fn all(&self) -> Vec<SeenRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
