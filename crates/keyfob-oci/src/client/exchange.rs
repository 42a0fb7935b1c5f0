//! A question to a registry, with all that comes before its answer: being let in, and being sent elsewhere.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use keyfob_net::{ConnectionError, named};
use reqwest::Url;

use super::{Repository, answer::Answer, challenge::Challenge, grant::Grant};
use crate::PullError;

/// How often an answer may lead on to another address.
const MOST_REDIRECTS: usize = 5;

/// What a refusal may say at most and still leave its connection in use.
const WORTH_READING: u64 = 64 << 10;

impl Repository {
    /// Asks for something, and is let in if need be. What comes back is a success, or says that a range is none.
    pub(super) async fn get(&self, url: Url, headers: &HeaderMap) -> Result<Answer, PullError> {
        let answer = self.admitted(url, headers).await;
        answer.map_err(|error| error.redacted(&self.secrets))
    }

    async fn admitted(&self, url: Url, headers: &HeaderMap) -> Result<Answer, PullError> {
        let mut grant = self.granted().await;
        let mut answer = self.follow(url.clone(), headers, grant.as_deref()).await?;
        if answer.wants_a_credential() {
            grant = Some(self.admission(answer, grant).await?);
            answer = self.follow(url, headers, grant.as_deref()).await?;
        }
        match answer.status() {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(answer),
            status if status.is_success() => Ok(answer),
            _ => Err(answer.failure(&self.secrets).await),
        }
    }

    /// What let us in the last time, while it lives.
    async fn granted(&self) -> Option<Arc<Grant>> {
        let grant = self.slot.lock().await.clone();
        grant.filter(|grant| grant.is_alive(self.client.0.clock.now()))
    }

    /// What lets us in, after something did not, or nothing was shown.
    async fn admission(
        &self,
        mut answer: Answer,
        refused: Option<Arc<Grant>>,
    ) -> Result<Arc<Grant>, PullError> {
        let mut slot = self.slot.lock().await;
        let is_refused =
            |grant: &Arc<Grant>| refused.as_ref().is_some_and(|old| Arc::ptr_eq(old, grant));
        let now = self.client.0.clock.now();
        if let Some(renewed) =
            slot.as_ref().filter(|grant| !is_refused(grant) && grant.is_alive(now))
        {
            return Ok(Arc::clone(renewed));
        }
        *slot = None;
        let was_the_login = refused.as_ref().is_some_and(|grant| grant.token().is_none());
        let grant = match Challenge::of(answer.headers()) {
            Some(Challenge::Bearer(bearer)) => {
                // The connection can be used again once it has been heard out.
                answer.body(WORTH_READING).await.unwrap_or_default();
                self.token(&bearer).await?
            }
            Some(Challenge::Basic) if self.login.is_some() && !was_the_login => {
                answer.body(WORTH_READING).await.unwrap_or_default();
                Grant::Basic
            }
            _ => return Err(answer.failure(&self.secrets).await),
        };
        Ok(Arc::clone(slot.insert(Arc::new(grant))))
    }

    /// Asks, and asks on where the answer says so. What lets us in is shown to nobody but the registry.
    async fn follow(
        &self,
        mut url: Url,
        headers: &HeaderMap,
        grant: Option<&Grant>,
    ) -> Result<Answer, PullError> {
        let mut shown = grant.and_then(|grant| grant.header(self.login.as_ref()));
        match (grant.and_then(Grant::token), &self.login) {
            (Some(token), _) => self.secrets.learn_issued(token),
            (None, Some(login)) => self.secrets.learn_login(&login.username, &login.password),
            (None, None) => {}
        }
        let mut is_elsewhere = false;
        for _ in 0..=MOST_REDIRECTS {
            let (what, response) = self.send(&url, headers, shown.as_ref()).await?;
            let Some(next) = redirection(&url, &what, &response).transpose()? else {
                return Ok(Answer::new(what, response, is_elsewhere, self.client.0.pace));
            };
            self.client.0.plain_http.check(&next, "the registry leads on to this")?;
            if next.origin() != url.origin() {
                (shown, is_elsewhere) = (None, true);
            }
            url = next;
        }
        let reason = format!("leads on to another address more than {MOST_REDIRECTS} times");
        Err(PullError::BadAnswer { what: named(&Method::GET, url.as_str()), reason })
    }

    async fn send(
        &self,
        url: &Url,
        headers: &HeaderMap,
        shown: Option<&HeaderValue>,
    ) -> Result<(String, reqwest::Response), PullError> {
        let what = self.secrets.redact(&named(&Method::GET, url.as_str()));
        let unanswered = |error| PullError::unanswered(what.clone(), error);
        let client = self.client.0.clients.client(url.scheme() == "https").map_err(unanswered)?;
        let mut request = client.get(url.clone()).headers(headers.clone());
        if let Some(shown) = shown {
            request = request.header(header::AUTHORIZATION, shown);
        }
        let response =
            request.send().await.map_err(|error| unanswered(ConnectionError::of(error)))?;
        tracing::trace!(what, status = response.status().as_u16(), "asked a registry");
        Ok((what, response))
    }
}

/// Where an answer leads on to, if it does.
fn redirection(
    url: &Url,
    what: &str,
    response: &reqwest::Response,
) -> Option<Result<Url, PullError>> {
    let leads_on = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(header::LOCATION).filter(|_| leads_on)?;
    let next = location.to_str().ok().and_then(|location| url.join(location).ok());
    Some(next.ok_or_else(|| PullError::BadAnswer {
        what: what.to_owned(),
        reason: "leads on to something that is no address".into(),
    }))
}
