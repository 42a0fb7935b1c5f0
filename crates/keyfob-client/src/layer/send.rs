//! What takes its time: waiting for a credential, fetching a new one, sending again.

use std::{
    future::poll_fn,
    sync::{Arc, PoisonError},
};

use http::{Request, Response, StatusCode};
use keyfob_api::ExecResponse;
use tower::{BoxError, Service};

use super::{ExecError, Fetched, Shared, authorize, copy::RequestCopy};
use crate::Credential;

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
const MOST_REPLAYS: u8 = 8;

/// A request got a 401. Sees to a new credential and, if the request can be sent again, sends it again.
///
/// A credential that was accepted before has been replaced, so a newer one is worth a try. One that was never accepted may
/// have been replaced on its way; or the server will have none: it is worth one try.
///
/// The plugin is run only for an answer that this request will use. After the last attempt the credential is invalidated, and
/// the next request that needs one has the plugin run. Without replays it is as in client-go: the plugin is run at once.
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
    let mut never_accepted = 0;
    for replays in 0..=MOST_REPLAYS {
        never_accepted += u8::from(!authenticator.has_been_accepted(generation));
        let is_worth_a_try = never_accepted <= 1 && replays < MOST_REPLAYS;
        let refusal = authenticator.passes_refusals_on().then(|| told(&response));
        let again = copy.request().filter(|_| is_worth_a_try);
        if again.is_none() && authenticator.behaviour().replay {
            authenticator.invalidate_with(generation, refusal);
            return Ok(response);
        }
        let credential = match authenticator.refused_with(generation, refusal).await {
            Ok(credential) => credential,
            Err(error) => {
                authenticator.log_not_replaced(&error);
                return Ok(response);
            }
        };
        let Some((mut request, copied)) = again else { return Ok(response) };
        note_fetched(&mut request, &credential);
        authorize(request.headers_mut(), &credential).map_err(ExecError::Token)?;
        (copy, generation) = (copied, credential.generation());
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
