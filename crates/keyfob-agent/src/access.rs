//! From a caller and an image to credentials: attest, decide, ask the host, log.
//!
//! The caller is attested before its request is read, and again before it gets anything, if that took longer than a moment: a process
//! that is gone, or that is no longer what it was, gets nothing.

mod attempt;
mod reports;
mod requester;

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime},
};

use keyfob_agent_config::{Action, AgentConfig, Precaution, RuleMismatch, Subject, may_be_allowed};
use keyfob_api::{Chain, MatchTarget, Timestamp};
use keyfob_caller::{Caller, CallerPlace};
use keyfob_exec::PeerProcess;
use keyfob_host::{GivenToken, ProviderOutcome, ProviderReport, Pull};
use keyfob_keyring::{Credential, select};
use tokio::time::timeout;
use tracing::Instrument as _;

use self::reports::Reports;
pub(crate) use self::{
    attempt::{Attempt, RequestKind},
    requester::Requester,
};
use crate::{
    agent::Shared,
    error::{ApiError, ErrorCode},
    rate_limit::{ActiveLimits, ActiveRequest, CallerKey},
    repository::Repository,
    spans,
};

/// How long what was read about a caller counts, if it has not exited since. To read it again takes as long as everything else that an
/// answer from the cache needs.
const FACTS_ARE_RECENT: Duration = Duration::from_millis(10);
/// What somebody wants.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The repository that it is about.
    pub(crate) repository: &'a Repository,
    /// How long the credential must still be valid, if that can be had.
    pub(crate) fresh_for: Duration,
    /// The token of a pod, if the caller is a kubelet.
    pub(crate) token: Option<GivenToken>,
}

/// What somebody gets.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The rule that allows the first of them now.
    pub(crate) rule: String,
    pub(crate) credentials: Vec<GrantedCredential>,
}

#[derive(Clone, Debug)]
pub(crate) struct GrantedCredential {
    pub(crate) credential: Credential,
    pub(crate) provider: Arc<str>,
    pub(crate) expires: Option<SystemTime>,
}

/// What providers answered, and by which rules it may be handed out.
struct Asked {
    /// What the rules said when they were asked.
    before: Vec<ProviderDecision>,
    reports: Reports,
    /// The rule by which the first was asked.
    rule: Option<String>,
    /// The configuration that must allow it now.
    config: Arc<AgentConfig>,
}

/// What the rules say about one provider.
#[derive(Clone, Debug)]
pub(crate) struct ProviderDecision {
    pub(crate) provider: Arc<str>,
    /// The rule that decided; nothing if none applies.
    pub(crate) rule: Option<(String, Action)>,
    /// Why it applies, if it is for processes on the host and denies a process in a container.
    pub(crate) precaution: Option<Precaution>,
    /// Why the rules before it do not apply.
    pub(crate) others: Vec<(String, RuleMismatch)>,
}

impl Shared {
    /// Decides, asks, and notes it in the attempt.
    pub(crate) async fn grant(
        &self,
        attempt: &mut Attempt<'_>,
        requester: &Requester,
        wanted: Wanted<'_>,
    ) -> Result<Granted, ApiError> {
        wanted.repository.as_str().clone_into(&mut attempt.image);
        let limit = self.config().limits.request_timeout;
        let span = spans::decision(wanted.repository.as_str(), requester.caller.uid);
        let granting = self.grant_in_time(attempt, requester, wanted).instrument(span.clone());
        let granted = timeout(limit, granting).await.unwrap_or_else(|_| {
            let message = format!("no answer within {} s", limit.as_secs());
            Err(ApiError::new(ErrorCode::Unavailable, message))
        });
        spans::decided(&span, &granted);
        granted
    }

    async fn grant_in_time(
        &self,
        attempt: &mut Attempt<'_>,
        requester: &Requester,
        wanted: Wanted<'_>,
    ) -> Result<Granted, ApiError> {
        let _active = self.activate(requester)?;
        if wanted.token.is_some() && !requester.is_root_on_host() {
            // Nobody verifies a token before its claims are believed. A kubelet got it from the API server.
            let message =
                "only root on the host, such as a kubelet, may pass a service account token";
            return Err(ApiError::new(ErrorCode::Denied, message));
        }
        let repository = wanted.repository.as_str();
        let pull = Pull::of_repository(repository).fresh_for(wanted.fresh_for);
        let Some(target) = pull.target().cloned() else {
            let message = format!("{repository:?} is not the name of an image");
            return Err(ApiError::new(ErrorCode::BadRequest, message));
        };
        let Asked { before, reports, rule, config } =
            self.ask_between_reloads(attempt, requester, &wanted, (&pull, &target)).await?;
        let mut credentials = reports.credentials();
        if credentials.is_empty() {
            let (error, reason) = reports.error(repository, requester.is_root_on_host());
            (attempt.rule, attempt.reason) = (rule, Some(reason));
            return Err(error);
        }
        // The rules may have changed as well: what is handed out is allowed now.
        let decisions = self.decide_by(&config, &requester.subject(), &pull, &target);
        credentials.retain(|each| is_still_allowed(&each.provider, &before, &decisions));
        let first =
            credentials.first().and_then(|first| rule_allowing(&first.provider, &decisions));
        let Some((rule, _)) = first else {
            return Err(denied(attempt, requester, repository, &decisions));
        };
        let granted = Granted { rule: rule.clone(), credentials };
        self.remember(requester, repository, &decisions, &granted);
        attempt.granted(&granted);
        Ok(granted)
    }

    /// Decides and asks, and asks again if more than one reload happened meanwhile: whoever was asked then may be of neither configuration
    /// by which it is decided.
    async fn ask_between_reloads(
        &self,
        attempt: &mut Attempt<'_>,
        requester: &Requester,
        wanted: &Wanted<'_>,
        (pull, target): (&Pull, &MatchTarget),
    ) -> Result<Asked, ApiError> {
        let repository = wanted.repository.as_str();
        loop {
            let ended = self.reloads_ended();
            let before = self.decide(&requester.subject(), pull, target);
            if before.is_empty() {
                return Err(self.unmatched(requester, repository));
            }
            attempt.asks(&before);
            if attempt.rule.is_none() {
                return Err(denied(attempt, requester, repository, &before));
            }
            let reports = self.ask(requester, pull.clone(), &before, wanted.token.clone()).await;
            // No rule decides about a process that is gone.
            let rule = attempt.rule.take();
            self.attest_again(attempt, requester).await?;
            let config = self.next_config();
            if self.is_at_most_one_reload_later(ended) {
                return Ok(Asked { before, reports, rule, config });
            }
        }
    }

    /// The refusal of an image that no provider matches. Whom the rules allow nothing at all is not told what providers there are.
    fn unmatched(&self, requester: &Requester, repository: &str) -> ApiError {
        if !self.may_have_anything(requester) {
            let message = format!("no rule allows {repository} to {}", requester.described());
            return ApiError::new(ErrorCode::Denied, message)
                .help(requester.help(None, repository));
        }
        let message = format!("no provider matches {repository}");
        ApiError::new(ErrorCode::NotFound, message)
            .help("add its registry to matchImages of a provider; keyfob validate checks the file")
    }

    /// Whether the rules could allow the caller anything. Otherwise it is told nothing about rules and providers.
    pub(crate) fn may_have_anything(&self, requester: &Requester) -> bool {
        let any = [Action::Allow, Action::AllowAsPod];
        may_be_allowed(&self.config().rules, &requester.subject(), &any)
    }

    /// What the rules say about each provider that matches.
    pub(crate) fn decide(
        &self,
        subject: &Subject,
        pull: &Pull,
        target: &MatchTarget,
    ) -> Vec<ProviderDecision> {
        self.decide_by(&self.config(), subject, pull, target)
    }

    fn decide_by(
        &self,
        config: &AgentConfig,
        subject: &Subject,
        pull: &Pull,
        target: &MatchTarget,
    ) -> Vec<ProviderDecision> {
        let decision = |provider: Arc<str>| {
            let mut others = Vec::new();
            for rule in &config.rules {
                match rule.mismatch(subject, target, &provider) {
                    None => {
                        let precaution = rule.precaution(subject);
                        let rule = Some((rule.name.clone(), rule.action));
                        return ProviderDecision { provider, rule, precaution, others };
                    }
                    Some(mismatch) => others.push((rule.name.clone(), mismatch)),
                }
            }
            ProviderDecision { provider, rule: None, precaution: None, others }
        };
        self.host.matching(pull).into_iter().map(decision).collect()
    }

    /// Asks the allowed providers: some with the node's identity, some with the pod's.
    pub(crate) async fn ask(
        &self,
        requester: &Requester,
        pull: Pull,
        decisions: &[ProviderDecision],
        token: Option<GivenToken>,
    ) -> Reports {
        let with = |action: Action| {
            let of_action = decisions
                .iter()
                .filter(move |each| each.allowed().is_some_and(|(_, allowed)| allowed == action));
            of_action.map(|each| each.provider.clone()).collect::<Vec<_>>()
        };
        let (as_node, as_pod) = (with(Action::Allow), with(Action::AllowAsPod));
        let pull = requester.queue(pull);
        let for_node = async {
            if as_node.is_empty() {
                return Vec::new();
            }
            let mut pull = pull.clone().only(as_node);
            if let Some(token) = token {
                pull = pull.with_service_account_token(token);
            }
            self.host.credentials(&pull).await.reports
        };
        let for_pod = async {
            let (false, Some(pod)) = (as_pod.is_empty(), requester.pod_identity()) else {
                return Vec::new();
            };
            // A provider that does not use service accounts would answer with the node's identity.
            let pull = pull.clone().only(as_pod).with_pod(pod).only_as_pod();
            self.host.credentials(&pull).await.reports
        };
        let (mut reports, of_pod) = tokio::join!(for_node, for_pod);
        reports.extend(of_pod);
        let place = |report: &ProviderReport| {
            decisions.iter().position(|each| each.provider == report.provider)
        };
        reports.sort_by_key(place);
        self.metrics.answered(&reports);
        let answers = reports.iter().filter_map(|report| report.outcome.logins());
        Reports { credentials: select(pull.image(), pull.target(), answers), reports }
    }

    /// Refuses a caller that asks too often.
    fn admit(&self, caller: &CallerKey) -> Result<(), ApiError> {
        let limit = self.config().limits.requests_per_second;
        if self.limiter.admit(caller, limit) {
            return Ok(());
        }
        let message = format!("more than {limit} requests a second");
        Err(ApiError::new(ErrorCode::RateLimited, message)
            .help("ask less often, or raise limits.requestsPerSecond in the agent's file"))
    }

    /// Counts a request as under way, unless the caller has more than its share of them: a quarter of the connections for each, and half of
    /// them for all together. Pods that run as root connect as user id 0 too, and must leave connections to the kubelet. Root on the host,
    /// such as a kubelet that starts hundreds of pods, may have any number.
    pub(crate) fn activate(
        &self,
        requester: &Requester,
    ) -> Result<Option<ActiveRequest>, ApiError> {
        if requester.is_root_on_host() {
            return Ok(None);
        }
        self.enter(&requester.key()).map(Some)
    }

    /// Finds the pod of a process that has just connected. While that must wait for the API server, it counts as a request under way:
    /// nobody knows yet whose pod it is. Callers in pods that are known already do not wait, and are never refused because of others.
    async fn find_pod_or_wait(&self, caller: Caller) -> Result<Requester, ApiError> {
        let mut finding = pin!(self.find_pod(caller));
        let at_once = poll_fn(|context| Poll::Ready(finding.as_mut().poll(context))).await;
        if let Poll::Ready(found) = at_once {
            return found;
        }
        let _active = self.enter(&CallerKey::UnknownPod)?;
        finding.await
    }

    fn enter(&self, caller: &CallerKey) -> Result<ActiveRequest, ApiError> {
        let connections = self.config().limits.connections as usize;
        let limits =
            ActiveLimits { caller: (connections / 4).max(4), all: (connections / 2).max(4) };
        self.active.enter(caller, limits).map_err(|too_many| {
            ApiError::new(ErrorCode::RateLimited, too_many.to_string())
                .help("wait for answers before asking again")
        })
    }

    /// Who the peer is, as far as can be proved.
    pub(crate) async fn attest(&self, peer: Option<&PeerProcess>) -> Result<Requester, ApiError> {
        self.find_pod(self.attest_process(peer)?).await
    }

    /// Makes sure, before anything is handed out, that the caller is the same process as before and still there. Within
    /// [`FACTS_ARE_RECENT`] only liveness is checked.
    pub(crate) async fn attest_again(
        &self,
        attempt: &Attempt<'_>,
        requester: &Requester,
    ) -> Result<(), ApiError> {
        let (peer, is_recent) = (attempt.peer(), attempt.elapsed() < FACTS_ARE_RECENT);
        if is_recent && peer.is_some_and(|peer| peer.is_running().unwrap_or(false)) {
            return Ok(());
        }
        if self.attest(peer).await?.subject() != requester.subject() {
            let message = "the caller has changed while it was waiting";
            return Err(ApiError::new(ErrorCode::Denied, message));
        }
        Ok(())
    }

    fn attest_process(&self, peer: Option<&PeerProcess>) -> Result<Caller, ApiError> {
        let Some(peer) = peer else {
            return Err(unattested("the system did not say which process it is"));
        };
        Caller::attest(peer, &self.host_reference).map_err(|error| unattested(Chain(&error)))
    }

    async fn find_pod(&self, caller: Caller) -> Result<Requester, ApiError> {
        let pod = match &caller.place {
            CallerPlace::Container { pod_uid: Some(uid), .. } => {
                self.pods.pod(uid).await.map_err(|error| unattested(Chain(&error)))?
            }
            _ => None,
        };
        Ok(Requester { caller, pod, administrator: self.administrator })
    }

    fn remember(
        &self,
        requester: &Requester,
        image: &str,
        decisions: &[ProviderDecision],
        granted: &Granted,
    ) {
        let as_node = decisions
            .iter()
            .any(|each| each.allowed().is_some_and(|(_, action)| action == Action::Allow));
        if !as_node || requester.pod.is_some() {
            return;
        }
        let (warm, now) = (self.config().warm, self.clock.now());
        let caller = (!requester.is_root_on_host()).then(|| requester.key());
        self.remembered.requested(image, caller, now, warm.remembered_images);
        let expires = granted.credentials.iter().filter_map(|each| each.expires).min();
        self.remembered.answered(image, expires, warm.refresh_ahead, now);
    }
}

fn unattested(why: impl fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Denied, format!("the caller could not be identified: {why}"))
}

/// Whether a provider may be asked now, and with the same identity as before.
fn is_still_allowed(provider: &str, before: &[ProviderDecision], now: &[ProviderDecision]) -> bool {
    let action = |decisions| rule_allowing(provider, decisions).map(|(_, action)| action);
    action(now).is_some_and(|now| action(before) == Some(now))
}

/// The rule that allows a provider, if one does.
fn rule_allowing<'a>(
    provider: &str,
    decisions: &'a [ProviderDecision],
) -> Option<(&'a String, Action)> {
    decisions.iter().find(|each| *each.provider == *provider).and_then(ProviderDecision::allowed)
}

/// The refusal of a caller to which nothing may be handed out. That can be so although a rule allows a provider now: if the rules have
/// changed while other providers were asked.
fn denied(
    attempt: &mut Attempt<'_>,
    requester: &Requester,
    image: &str,
    decisions: &[ProviderDecision],
) -> ApiError {
    let mut denying = decisions.iter().filter(|each| each.allowed().is_none());
    let rule = denying.find_map(|each| each.rule.as_ref()).map(|(name, _)| name.clone());
    let who = requester.described();
    let message = match &rule {
        Some(rule) => format!("rule {rule:?} denies {image} to {who}"),
        None if decisions.iter().any(|each| each.allowed().is_some()) => {
            format!("the rules about {image} have changed while {who} was waiting")
        }
        None => format!("no rule allows {image} to {who}"),
    };
    let help = requester.help(rule.as_deref(), image);
    (attempt.rule, attempt.providers) = (rule, Vec::new());
    ApiError::new(ErrorCode::Denied, message).help(help)
}

impl ProviderDecision {
    /// The rule that allows it, if one does.
    fn allowed(&self) -> Option<(&String, Action)> {
        match &self.rule {
            Some((name, action @ (Action::Allow | Action::AllowAsPod))) => Some((name, *action)),
            _ => None,
        }
    }
}

impl Granted {
    fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for each in &self.credentials {
            if !names.iter().any(|name| **name == *each.provider) {
                names.push(each.provider.to_string());
            }
        }
        names
    }
}

/// When a provider's answer expires, if it has one that does.
pub(crate) fn expiry(outcome: &ProviderOutcome) -> Option<SystemTime> {
    match outcome {
        ProviderOutcome::Cached { expires, .. } => Some(*expires),
        ProviderOutcome::Ran { expires, .. } => *expires,
        _ => None,
    }
}

pub(crate) fn rfc3339(time: SystemTime) -> String {
    Timestamp::from(time).to_string()
}

#[cfg(test)]
pub(crate) mod tests;
