//! What takes its time: waiting for a credential, fetching a new one, sending again.

use std::{
    future::poll_fn,
    sync::{Arc, PoisonError},
};

use http::{Request, Response, StatusCode};
use keyfob_api::ExecResponse;
use tower::{BoxError, Service};

use super::{ExecError, Fetched, Shared, authorize, copy::RequestCopy};
use crate::{AuthError, Authenticator, Credential};

/// Sends a request as soon as there is a credential.
pub(super) async fn wait_and_send<S, B, R>(
    shared: Arc<Shared<S>>,
    mut ready: S,
    mut request: Request<B>,
    copy: RequestCopy<B>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    let credential = shared.authenticator.credential().await.map_err(ExecError::Credentials)?;
    note_fetched(&mut request, &credential);
    authorize(request.headers_mut(), &credential).map_err(ExecError::Token)?;
    let response = ready.call(request).await.map_err(Into::into)?;
    if response.status() != StatusCode::UNAUTHORIZED {
        shared.authenticator.accepted(credential.generation());
        return Ok(response);
    }
    refused(shared, credential.generation(), copy, response).await
}

/// How often a request is sent again at most.
const MOST_REPLAYS: usize = 8;

/// A request got a 401. Sees to a new credential and, if the request can be had again, sends it again.
///
/// A credential that was accepted before has been replaced, so a newer one is worth a try. One that was never accepted may
/// have been replaced on its way; or the server will have none: it is worth one try.
pub(super) async fn refused<S, B, R>(
    shared: Arc<Shared<S>>,
    mut generation: u64,
    mut copy: RequestCopy<B>,
    mut response: Response<R>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    let authenticator = &shared.authenticator;
    let mut doubts = 0;
    for _ in 0..=MOST_REPLAYS {
        doubts += u8::from(!authenticator.has_been_accepted(generation));
        let told = authenticator.passes_refusals_on().then(|| told(&response));
        let credential = match authenticator.refused_with(generation, told).await {
            Ok(credential) => credential,
            Err(error) => {
                log(authenticator, &error);
                return Ok(response);
            }
        };
        let Some((mut request, again)) = copy.request().filter(|_| doubts <= 1) else {
            return Ok(response);
        };
        note_fetched(&mut request, &credential);
        authorize(request.headers_mut(), &credential).map_err(ExecError::Token)?;
        (copy, generation) = (again, credential.generation());
        drop(response);
        response = send_again(&shared, request).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            authenticator.metrics().replayed("accepted");
            authenticator.accepted(generation);
            return Ok(response);
        }
        authenticator.metrics().replayed("refused");
    }
    Ok(response)
}

/// Whoever makes the connection uses the same.
fn note_fetched<B>(request: &mut Request<B>, credential: &Credential) {
    request.extensions_mut().insert(Fetched(credential.generation()));
}

async fn send_again<S, B, R>(
    shared: &Shared<S>,
    request: Request<B>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    let mut service = shared.spare.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sent = async {
        poll_fn(|cx| service.poll_ready(cx)).await?;
        service.call(request).await
    };
    sent.await.map_err(|error| {
        shared.authenticator.metrics().replayed("failed");
        error.into()
    })
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

/// Nobody else learns of it: the caller gets the 401.
fn log(authenticator: &Authenticator, error: &AuthError) {
    let command = authenticator.command();
    let stderr = error.stderr().map(tracing::field::display);
    if error.retry_at().is_some() {
        tracing::debug!(command, %error, stderr, "credentials not refreshed after a 401");
    } else {
        tracing::warn!(command, %error, stderr, "refreshing credentials after a 401 failed");
    }
}
