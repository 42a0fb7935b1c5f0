//! One request, from its arrival to its line in the audit log.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use keyfob_exec::PeerProcess;
use tokio::time::Instant;

use super::{Granted, GrantedCredential, ProviderDecision, Requester, rfc3339};
use crate::{
    agent::Shared,
    audit::{AuditCredential, AuditEvent, Outcome, Suppressed},
    error::{ApiError, ErrorCode},
    rate_limit::CallerKey,
};

/// How many requests a second are logged for one caller, of those by which it got nothing.
const LOGGED_REFUSALS: u32 = 5;

/// A request that is under way. It is logged once: when it is finished, or when this is dropped, because the server drops a request whose
/// client has closed the connection.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    shared: &'a Shared,
    peer: Option<&'a PeerProcess>,
    request: RequestKind,
    requester: Option<Arc<Requester>>,
    pub(crate) image: String,
    /// The rule that decided, and the providers that were asked.
    pub(crate) rule: Option<String>,
    pub(crate) providers: Vec<String>,
    /// What the log says, if that is not what the caller is told.
    pub(crate) reason: Option<String>,
    credentials: Vec<AuditCredential>,
    began: Instant,
    is_finished: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestKind {
    /// The path, as metrics and the log name it.
    pub(crate) path: &'static str,
    /// Whether the answer has logins in it. What has none is logged only if it is refused.
    pub(crate) gives_logins: bool,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        peer: Option<&'a PeerProcess>,
        request: RequestKind,
    ) -> Self {
        Self {
            shared,
            peer,
            request,
            requester: None,
            image: String::new(),
            rule: None,
            providers: Vec::new(),
            reason: None,
            credentials: Vec::new(),
            began: Instant::now(),
            is_finished: false,
        }
    }

    pub(crate) fn peer(&self) -> Option<&'a PeerProcess> {
        self.peer
    }

    /// How long ago it arrived. What is known about the caller was read after that.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Attests the caller, and refuses one that asks too often. This comes before its request is read.
    pub(crate) async fn identify(&mut self) -> Result<Arc<Requester>, ApiError> {
        let requester = self.attest().await?;
        self.shared.admit(&requester.key())?;
        Ok(requester)
    }

    /// Attests the caller, and refuses everybody but root on the host, who may ask as often as necessary.
    pub(crate) async fn identify_administrator(&mut self) -> Result<(), ApiError> {
        let requester = self.attest().await?;
        if requester.is_root_on_host() {
            return Ok(());
        }
        self.shared.admit(&requester.key())?;
        let message = format!("only root may do this, and not {}", requester.described());
        Err(ApiError::new(ErrorCode::Denied, message).help("use sudo"))
    }

    async fn attest(&mut self) -> Result<Arc<Requester>, ApiError> {
        match self.requester().await {
            Ok(requester) => {
                let requester = Arc::new(requester);
                self.requester = Some(requester.clone());
                Ok(requester)
            }
            Err(error) => {
                self.shared.admit(&self.key())?;
                Err(error)
            }
        }
    }

    async fn requester(&self) -> Result<Requester, ApiError> {
        let caller = self.shared.attest_process(self.peer)?;
        self.shared.find_pod_or_wait(caller).await
    }

    /// Notes which providers are asked, and the rule that allows the first of them.
    pub(super) fn asks(&mut self, decisions: &[ProviderDecision]) {
        self.rule = decisions.iter().find_map(|each| Some(each.allowed()?.0.clone()));
        let allowed = decisions.iter().filter(|each| each.allowed().is_some());
        self.providers = allowed.map(|each| each.provider.to_string()).collect();
    }

    /// Notes a provider of what is told.
    pub(crate) fn add_provider(&mut self, provider: &str) {
        if !self.providers.iter().any(|each| each == provider) {
            self.providers.push(provider.to_owned());
        }
    }

    /// Notes what is handed out, and the rule that allows it.
    pub(super) fn granted(&mut self, granted: &Granted) {
        self.rule = Some(granted.rule.clone());
        self.providers = granted.providers();
        self.credentials = granted.credentials.iter().map(|each| self.audited(each)).collect();
    }

    /// Logs what became of the request, unless it is logged already.
    pub(crate) fn finish(&mut self, result: Result<(), &ApiError>) {
        let Err(error) = result else {
            return self.log(Outcome::Allowed, None);
        };
        let outcome = match error.code {
            ErrorCode::Denied => Outcome::Denied,
            ErrorCode::RateLimited => Outcome::RateLimited,
            ErrorCode::NotFound if self.request.gives_logins => Outcome::Empty,
            ErrorCode::BadRequest | ErrorCode::NotFound => Outcome::BadRequest,
            ErrorCode::Failed | ErrorCode::Unavailable => Outcome::Failed,
        };
        self.log(outcome, Some(&error.message));
    }

    fn log(&mut self, outcome: Outcome, reason: Option<&str>) {
        let is_finished = std::mem::replace(&mut self.is_finished, true);
        let RequestKind { path, gives_logins } = self.request;
        if is_finished || (outcome == Outcome::Allowed && !gives_logins) {
            return;
        }
        let event = AuditEvent {
            time: rfc3339(self.shared.clock.now()),
            request: path,
            peer_uid: match &self.requester {
                Some(_) => None,
                None => self.peer.map(PeerProcess::uid),
            },
            caller: self.requester.as_deref().map(Requester::audited),
            image: std::mem::take(&mut self.image),
            outcome,
            rule: self.rule.take(),
            providers: std::mem::take(&mut self.providers),
            credentials: match outcome {
                Outcome::Allowed => std::mem::take(&mut self.credentials),
                _ => Vec::new(),
            },
            reason: reason.map(|reason| self.reason.take().unwrap_or_else(|| reason.to_owned())),
            suppressed: Suppressed::default(),
        };
        self.shared.metrics.decided(&event, self.began.elapsed());
        self.shared.history.answered(event.outcome);
        self.record(event);
    }

    /// Logs an event, or counts it: of requests by which a caller got nothing, or nothing new, only some a second are logged, because nobody
    /// shall be able to push other events out of the log. What root on the host gets or asks for in vain is logged in full, because a
    /// kubelet may start hundreds of pods at once.
    fn record(&self, mut event: AuditEvent) {
        let (shared, caller) = (self.shared, self.key().for_log());
        let is_root = self.requester.as_ref().is_some_and(|requester| requester.is_root_on_host());
        let refusal_is_logged = || shared.logged_refusals.admit(&caller, LOGGED_REFUSALS);
        let is_logged = match event.outcome {
            Outcome::Allowed => is_root || shared.logged_grants.admit(&caller, &event),
            Outcome::Denied | Outcome::BadRequest | Outcome::RateLimited => refusal_is_logged(),
            Outcome::Empty | Outcome::Failed | Outcome::Abandoned => is_root || refusal_is_logged(),
        };
        let mut suppressed = shared.suppressed.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_logged {
            match event.outcome {
                Outcome::Allowed => suppressed.repeats += 1,
                _ => suppressed.refusals += 1,
            }
            shared.metrics.suppressed();
            return;
        }
        event.suppressed = std::mem::take(&mut *suppressed);
        drop(suppressed);
        shared.audit.record(&event);
        shared.history.decided(event);
    }

    fn key(&self) -> CallerKey {
        let requester = self.requester.as_ref();
        requester.map_or(CallerKey::Unattested, |requester| requester.key())
    }

    fn audited(&self, granted: &GrantedCredential) -> AuditCredential {
        let credential = &granted.credential;
        AuditCredential {
            provider: granted.provider.to_string(),
            hash: self.shared.audit.credential_hash(credential.username(), credential.password()),
            expires: granted.expires.map(rfc3339),
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.log(Outcome::Abandoned, Some("the connection was closed before the answer"));
    }
}

impl Shared {
    /// Logs how many requests were not logged since the last event, at the end.
    pub(crate) fn log_suppressed(&self) {
        let mut suppressed = self.suppressed.lock().unwrap_or_else(PoisonError::into_inner);
        let suppressed = std::mem::take(&mut *suppressed);
        if suppressed != Suppressed::default() {
            self.audit.record_suppressed(rfc3339(self.clock.now()), suppressed);
        }
    }
}
