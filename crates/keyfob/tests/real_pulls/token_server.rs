//! The server that a registry sends its clients to for a token, as docker's specification has it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{login, token_issuer::TokenIssuer};

pub(crate) struct TokenServer {
    internet: Internet,
    state: Arc<State>,
}

struct State {
    issuer: TokenIssuer,
    /// How long tokens live, in seconds; those that ended before they began have a negative life.
    life: AtomicI64,
    given: AtomicUsize,
}

impl TokenServer {
    /// Starts it, with what a registry must be told to believe it.
    pub(crate) fn start(folder: &TempDir) -> (Self, Value) {
        let state = Arc::new(State {
            issuer: TokenIssuer::new(folder.path()),
            life: AtomicI64::new(300),
            given: AtomicUsize::new(0),
        });
        let asked = Arc::clone(&state);
        let internet = Internet::start(move |request| asked.answer(request));
        let auth = state.issuer.auth(&format!("{}/token", internet.url()));
        (Self { internet, state }, auth)
    }

    pub(crate) fn tokens_live_for(&self, seconds: i64) {
        self.state.life.store(seconds, Ordering::SeqCst);
    }

    pub(crate) fn given(&self) -> usize {
        self.state.given.load(Ordering::SeqCst)
    }

    /// What it was asked.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.internet.requests()
    }
}

impl State {
    fn answer(&self, request: &Request) -> Response {
        let expected = format!("Basic {}", BASE64_STANDARD.encode(login()));
        if request.header("authorization") != Some(&expected) {
            return Response::json(
                json!({"details": "incorrect username or password"}).to_string(),
            )
            .with_status(401);
        }
        self.given.fetch_add(1, Ordering::SeqCst);
        self.issuer.answer(request, self.life.load(Ordering::SeqCst))
    }
}
