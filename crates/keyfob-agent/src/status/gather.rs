//! From the agent to a [`Status`].

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_config::ValidProvider;
use keyfob_host::{CachedAnswer, Pull};

use super::{
    explanation::Explanation,
    history::{LastAttempt, LastError, ProviderHistory, ReloadRecord, Snapshot},
    model::{
        AuditStatus, CachedStatus, ErrorStatus, ProviderState, ProviderStatus, ReloadStatus,
        RunStatus, Status,
    },
    problems::{Looked, problems},
    time::Moment,
};
use crate::agent::{Reloads, Shared, blocking};

/// How many cached answers are listed.
const CACHED: usize = 100;

/// How the agent is doing now; `None` if the runtime is shutting down.
pub(crate) async fn gather(shared: &Arc<Shared>) -> Option<Status> {
    // There may be thousands of cached answers and remembered images.
    let mut status = blocking(shared, status).await?;
    if let Some(directory) = &shared.config().pull_records {
        status.pull_records = Some(shared.status_page.records.get(directory).await);
    }
    Some(status)
}

/// All of it except the pull records.
fn status(shared: &Shared) -> Status {
    let (config, reloads, now) = (shared.config(), shared.reloads(), shared.clock.now());
    let configured = shared.host.providers();
    let is_configured = |name: &str| configured.iter().any(|provider| provider.name() == name);
    let Snapshot { decisions, reloads: history, providers: known, minutes } =
        shared.history.snapshot(is_configured);
    let mut cached = shared.host.cached();
    cached.retain(|each| each.expires >= now);
    let providers = providers(shared, &configured, &cached, &known);
    let (written, lost) = shared.audit.counts();
    let audit = AuditStatus { written, lost };
    let provider_config_hash = reloads.hash.clone();
    let reloads = reload_status(reloads, history);
    let config_file = shared.path().display().to_string();
    let port = shared.unavailable_port();
    let looked = Looked {
        now,
        config_file: &config_file,
        providers: &providers,
        reloads: &reloads,
        audit,
        port: port.as_ref(),
    };
    Status {
        version: env!("CARGO_PKG_VERSION"),
        node: node_name(),
        now: Moment(now),
        started: Moment(shared.started),
        problems: problems(&looked),
        provider_config: config.provider_config.display().to_string(),
        provider_config_hash,
        reloads,
        providers,
        cached_answers: cached.len(),
        cached: first_to_expire(cached),
        remembered_images: shared.remembered.count(),
        rules: config.rules.iter().map(|rule| rule.name.clone()).collect(),
        audit,
        decisions,
        pull_records: None,
        minutes,
        config_file,
    }
}

fn reload_status(reloads: Reloads, history: Vec<ReloadRecord>) -> ReloadStatus {
    ReloadStatus {
        succeeded: reloads.succeeded,
        failed: reloads.failed,
        last: reloads.last.as_ref().map(|last| Moment(last.time)),
        last_error: reloads.last.and_then(|last| last.error),
        restart_needed: reloads.restart_needed,
        history,
    }
}

/// The configured providers, in their order.
fn providers(
    shared: &Shared,
    configured: &[Arc<ValidProvider>],
    cached: &[CachedAnswer],
    known: &BTreeMap<String, ProviderHistory>,
) -> Vec<ProviderStatus> {
    let renewals = renewals(shared);
    let mut expiries: BTreeMap<&str, Vec<SystemTime>> = BTreeMap::new();
    for answer in cached {
        expiries.entry(&answer.provider).or_default().push(answer.expires);
    }
    let status = |provider: &Arc<ValidProvider>| {
        let name = provider.name();
        let expiries = expiries.get(name).map(Vec::as_slice).unwrap_or_default();
        ProviderStatus {
            match_images: provider.match_images().iter().map(ToString::to_string).collect(),
            cached_answers: expiries.len(),
            next_expiry: expiries.iter().min().copied().map(Moment),
            next_renewal: renewals.get(name).copied().map(Moment),
            ..provider_status(name, known.get(name))
        }
    };
    configured.iter().map(status).collect()
}

fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What is known from the history.
fn provider_status(name: &str, known: Option<&ProviderHistory>) -> ProviderStatus {
    let default = ProviderHistory::default();
    let history = known.unwrap_or(&default);
    let state = match &history.last {
        None => ProviderState::NotAsked,
        Some(last) if last.succeeded => ProviderState::Working,
        Some(_) => ProviderState::Failing,
    };
    let run = |LastAttempt { time, image, took, succeeded }: &LastAttempt| RunStatus {
        time: Moment(*time),
        image: image.clone(),
        succeeded: *succeeded,
        milliseconds: took.map(milliseconds),
    };
    let error = |LastError { time, image, error }: &LastError| ErrorStatus {
        time: Moment(*time),
        image: image.clone(),
        explanation: Explanation::of(error),
    };
    ProviderStatus {
        name: name.to_owned(),
        match_images: Vec::new(),
        state,
        cached_answers: 0,
        next_expiry: None,
        next_renewal: None,
        runs: history.runs,
        failures: history.failures,
        failing_since: history.failing_since.map(Moment),
        failures_in_a_row: history.failures_in_a_row,
        last_run: history.last.as_ref().map(run),
        last_error: history.last_error.as_ref().map(error),
    }
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// When each provider is asked again although nobody requests an image.
fn renewals(shared: &Shared) -> BTreeMap<String, SystemTime> {
    let mut renewals = BTreeMap::new();
    for (image, due) in shared.remembered.due() {
        for provider in shared.host.matching(&Pull::of_repository(&image)) {
            let first = renewals.entry(provider.to_string()).or_insert(due);
            *first = due.min(*first);
        }
    }
    renewals
}

fn first_to_expire(mut cached: Vec<CachedAnswer>) -> Vec<CachedStatus> {
    if cached.len() > CACHED {
        cached.select_nth_unstable_by_key(CACHED, |each| each.expires);
        cached.truncate(CACHED);
    }
    cached.sort_by(|a, b| (a.expires, a.key.base()).cmp(&(b.expires, b.key.base())));
    let status = |each: CachedAnswer| CachedStatus {
        provider: each.provider.to_string(),
        key: each.key.base().to_owned(),
        service_account: each
            .logins
            .source()
            .service_account()
            .map(|account| format!("{}/{}", account.namespace, account.name)),
        expires: Moment(each.expires),
    };
    cached.into_iter().map(status).collect()
}
