//! One request: its credential, its answer, and what follows a 401.

use std::{future::poll_fn, sync::Arc};

use http::{HeaderMap, Request, Response, StatusCode, header::AUTHORIZATION};
use keyfob_api::ExecResponse;
use tower::{BoxError, Service};

use super::{
    ExecError, Fetched,
    replay::{CloneBody, copy_of},
};
use crate::{Authenticator, Credential, UnusableToken};

/// How often a request is sent again at most.
const MOST_REPLAYS: u8 = 8;

/// Sends one request, as often as it takes.
pub(super) struct Sender<S, B> {
    pub(super) authenticator: Authenticator,
    pub(super) clone_body: CloneBody<B>,
    /// Ready for one request.
    pub(super) service: S,
}

impl<S, B, R> Sender<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
{
    /// Sends a request with the credential that is there, or as soon as there is one.
    pub(super) async fn send(mut self, mut request: Request<B>) -> Result<Response<R>, BoxError> {
        if is_authorized(request.headers()) {
            return self.service.call(request).await.map_err(Into::into);
        }
        let copy = copy_of(&request, self.clone_body);
        let credential = match self.authenticator.ready() {
            Some(credential) => credential,
            None => fetch(&self.authenticator, &mut request).await?,
        };
        let generation = credential.generation();
        // An answer to a credential that was accepted long ago says nothing new. If that one was invalidated while this request
        // was under way, it must stay so.
        let tells = is_fetched(&request) || !self.authenticator.has_been_accepted(generation);
        authorize(request.headers_mut(), &credential).map_err(ExecError::Token)?;
        let response = self.service.call(request).await.map_err(Into::into)?;
        if response.status() == StatusCode::UNAUTHORIZED {
            return self.refused(generation, copy, response).await;
        }
        if tells {
            self.authenticator.accepted(generation);
        }
        Ok(response)
    }

    /// A request got a 401. Sees to a new credential and, if there is a copy of the request, sends it again.
    ///
    /// A credential that was accepted before has been replaced, so a newer one is worth a try. One that was never accepted may
    /// have been replaced on its way; or the server will have none: it is worth one try.
    ///
    /// The plugin is run only for an answer that this request will use. After the last attempt the credential is invalidated,
    /// and the next request that needs one has the plugin run. Without replays it is as in client-go: the plugin is run at once.
    async fn refused(
        mut self,
        mut generation: u64,
        mut copy: Option<Request<B>>,
        mut response: Response<R>,
    ) -> Result<Response<R>, BoxError> {
        let mut never_accepted = 0;
        for replays in 0..=MOST_REPLAYS {
            never_accepted += u8::from(!self.authenticator.has_been_accepted(generation));
            let is_worth_a_try = never_accepted <= 1 && replays < MOST_REPLAYS;
            let refusal = self.authenticator.passes_refusals_on().then(|| told(&response));
            let again = copy.take().filter(|_| is_worth_a_try);
            if again.is_none() && self.authenticator.behaviour().replay {
                self.authenticator.invalidate_with(generation, refusal);
                return Ok(response);
            }
            let credential = match self.authenticator.refused_with(generation, refusal).await {
                Ok(credential) => credential,
                Err(error) => {
                    self.authenticator.log_not_replaced(&error);
                    return Ok(response);
                }
            };
            let Some(mut request) = again else { return Ok(response) };
            copy = copy_of(&request, self.clone_body);
            note_fetched(&mut request, &credential);
            authorize(request.headers_mut(), &credential).map_err(ExecError::Token)?;
            generation = credential.generation();
            drop(response);
            response = self.send_again(request).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                self.authenticator.metrics().replayed("accepted");
                self.authenticator.accepted(generation);
                return Ok(response);
            }
            self.authenticator.metrics().replayed("refused");
        }
        Ok(response)
    }

    async fn send_again(&mut self, request: Request<B>) -> Result<Response<R>, BoxError> {
        let service = &mut self.service;
        let sent = async {
            poll_fn(|cx| service.poll_ready(cx)).await?;
            service.call(request).await
        };
        sent.await.map_err(|error: S::Error| {
            self.authenticator.metrics().replayed("failed");
            error.into()
        })
    }
}

/// Waits for a credential, for this request.
async fn fetch<B>(
    authenticator: &Authenticator,
    request: &mut Request<B>,
) -> Result<Arc<Credential>, ExecError> {
    let credential = authenticator.credential().await.map_err(ExecError::Credentials)?;
    note_fetched(request, &credential);
    Ok(credential)
}

/// Whether the caller has set the header; an empty one is none.
fn is_authorized(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|value| !value.is_empty())
}

/// Sets the header, if the credential has a token.
fn authorize(headers: &mut HeaderMap, credential: &Credential) -> Result<(), UnusableToken> {
    if let Some(value) = credential.authorization()? {
        headers.insert(AUTHORIZATION, value.clone());
    }
    Ok(())
}

/// Whoever makes the connection uses the same.
fn note_fetched<B>(request: &mut Request<B>, credential: &Credential) {
    request.extensions_mut().insert(Fetched(credential.generation()));
}

fn is_fetched<B>(request: &Request<B>) -> bool {
    request.extensions().get::<Fetched>().is_some()
}

/// The 401 as plugins of v1alpha1 are told of it: names as Go writes them.
fn told<R>(response: &Response<R>) -> ExecResponse {
    let mut told = ExecResponse { code: response.status().as_u16().into(), ..<_>::default() };
    for (name, value) in response.headers() {
        let values: &mut Vec<String> = told.header.entry(canonical(name.as_str())).or_default();
        values.push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    told
}

/// `www-authenticate` as `Www-Authenticate`.
fn canonical(name: &str) -> String {
    let mut starts = true;
    let upper = |c: char| {
        let c = if starts { c.to_ascii_uppercase() } else { c };
        starts = c == '-';
        c
    };
    name.chars().map(upper).collect()
}
