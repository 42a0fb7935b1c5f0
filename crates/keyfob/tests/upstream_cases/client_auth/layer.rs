//! Requests to a server that is a function.

use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode, header::AUTHORIZATION};
use keyfob_client::{Authenticator, ExecLayer};
use tower::{BoxError, Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::stage::block_on;

/// Says what to answer to the value of an `Authorization` header.
type Judge = dyn Fn(&str) -> u16 + Send + Sync;

#[derive(Clone)]
pub(super) struct Server {
    judge: Arc<Judge>,
    pub(super) seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(super) fn new(judge: impl Fn(&str) -> u16 + Send + Sync + 'static) -> Self {
        Self { judge: Arc::new(judge), seen: Arc::default() }
    }

    /// One that wants a token.
    pub(super) fn wanting(token: &Arc<Mutex<String>>) -> Self {
        let token = Arc::clone(token);
        let judge = move |given: &str| format!("Bearer {}", token.lock().unwrap()) == given;
        Self::new(move |given| if judge(given) { 200 } else { 401 })
    }

    /// The status that a caller gets.
    pub(super) async fn ask(
        &self,
        authenticator: &Authenticator,
        own: Option<&str>,
    ) -> Result<u16, BoxError> {
        let server = self.clone();
        let service = service_fn(move |request: Request<()>| {
            let given = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes().to_vec());
            let given = String::from_utf8(given.unwrap_or_default()).unwrap();
            let status = StatusCode::from_u16((server.judge)(&given)).unwrap();
            server.seen.lock().unwrap().push(given);
            async move { Ok::<_, BoxError>(Response::builder().status(status).body(()).unwrap()) }
        });
        let mut request = Request::new(());
        if let Some(own) = own {
            request.headers_mut().insert(AUTHORIZATION, own.parse().unwrap());
        }
        let mut service = ExecLayer::new(authenticator.clone()).layer(service);
        Ok(service.ready().await?.call(request).await?.status().as_u16())
    }

    pub(super) fn get(&self, authenticator: &Authenticator) -> Result<u16, String> {
        block_on(self.ask(authenticator, None)).map_err(|error| error.to_string())
    }

    /// Many at once.
    pub(super) fn get_all(&self, authenticator: &Authenticator, count: usize) -> Vec<u16> {
        block_on(async {
            let mut asking = tokio::task::JoinSet::new();
            for _ in 0..count {
                let (server, authenticator) = (self.clone(), authenticator.clone());
                asking.spawn(async move { server.ask(&authenticator, None).await.unwrap() });
            }
            asking.join_all().await
        })
    }
}
