//! From what was asked to what is told.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{
    CacheKeyType, Chain, GoDuration, ImageRef, MatchPattern, MatchTarget, RegistryKey, Secret,
    Timestamp,
};
use keyfob_config::ValidProvider;
use keyfob_exec::{Clock as _, SystemClock, SystemEnvironment, TrustPolicy, check_trust};
use keyfob_host::{CachedAnswer, GlobalAnswers, Host, ProviderOutcome, ProviderReport, Pull};
use keyfob_keyring::{Credential, Logins};

use super::{
    advice::{self, Useless},
    command, identity,
    nearest::nearest,
    records::Recorded,
    report::{self, Cache, CacheState, Compared, File, Problem, ProviderResult, Report},
    verdict,
};
use crate::{
    agent_source::AgentAnswer,
    identity_args::Puller,
    lookup::{Found, Providers, Sources},
};

/// Everything there is to say about an image that was just asked about.
pub(super) fn report(
    typed: &str,
    image: &ImageRef,
    sources: &Sources,
    found: &Found,
    recorded: Option<&Recorded<'_>>,
) -> Report {
    let now = SystemClock.now();
    let providers = sources.providers.as_ref();
    let gatherer = Gatherer {
        image,
        target: image.target().ok(),
        pull: sources.pull(image, []),
        host: &sources.host,
        puller: sources.puller.as_ref(),
        global_answers: sources.global_answers,
        found,
        now,
        cached: sources.host.cached(),
        known: secrets(found),
    };
    let (records, recorded_problems) = recorded.map(|each| each.about(typed, found)).unzip();
    let mut problems = providers.map(|all| gatherer.problems(all)).unwrap_or_default();
    problems.extend(recorded_problems.unwrap_or_default());
    Report {
        image: typed.to_owned(),
        repository: image.repository().to_owned(),
        verdict: verdict::sentence(found, sources.puller.as_ref()),
        anonymous: verdict::is_anonymous(found),
        agent: found.agent.as_ref().map(AgentAnswer::report),
        rules: None,
        identity: sources.puller.as_ref().map(identity::puller),
        token_requests: sources.puller.as_ref().map(identity::requests).unwrap_or_default(),
        credentials: found.credentials.iter().map(credential).collect(),
        records,
        files: sources
            .secrets
            .iter()
            .chain(&sources.docker_config())
            .map(|logins| gatherer.file(logins))
            .collect(),
        providers: providers.map(|all| gatherer.providers(all)).unwrap_or_default(),
        problems,
    }
}

fn credential(credential: &Credential) -> report::Credential {
    report::Credential {
        source: credential.source().to_string(),
        key: credential.key().to_string(),
        username: credential.username().to_owned(),
    }
}

/// Every password and token that was seen.
fn secrets(found: &Found) -> Vec<Secret<String>> {
    let passwords = found.credentials.iter().map(|each| each.password().clone());
    let identities = found.reports.iter().filter_map(|report| report.identity.as_ref());
    passwords.chain(identities.map(|identity| identity.token.clone())).collect()
}

struct Gatherer<'a> {
    image: &'a ImageRef,
    target: Option<MatchTarget>,
    pull: Pull,
    host: &'a Host,
    puller: Option<&'a Puller>,
    global_answers: GlobalAnswers,
    found: &'a Found,
    now: SystemTime,
    /// What the providers now keep.
    cached: Vec<CachedAnswer>,
    /// Secrets that must not show, wherever they stand.
    known: Vec<Secret<String>>,
}

impl Gatherer<'_> {
    fn file(&self, logins: &Arc<Logins>) -> File {
        let keys = self.keys(logins);
        let mut problems = skipped_keys(logins);
        let used = logins.iter().zip(&keys).filter(|(_, key)| key.matches);
        let empty = used.filter(|((_, login), _)| {
            login.username.is_empty() && login.password.expose().is_empty()
        });
        problems.extend(empty.map(|(_, key)| advice::of_empty_login(&key.text)));
        File { source: logins.source().to_string(), keys, problems }
    }

    fn keys(&self, logins: &Arc<Logins>) -> Vec<Compared> {
        logins.keys().map(|key| self.key(key, logins)).collect()
    }

    /// A key is used if it matches, or as Docker Hub's when no other is.
    fn key(&self, key: &RegistryKey, logins: &Arc<Logins>) -> Compared {
        let is_used =
            self.found.credentials.iter().any(|credential| {
                Arc::ptr_eq(credential.logins(), logins) && credential.key() == key
            });
        let compared = match &self.target {
            Some(target) => key.check(target).map_err(|why| why.to_string()),
            None => Err(NO_URL.to_owned()),
        };
        let reason = match compared {
            Ok(()) => MATCHES.to_owned(),
            Err(_) if is_used => "Docker Hub's own key, used because no other matches".to_owned(),
            Err(why) => why,
        };
        Compared { text: key.to_string(), matches: is_used, reason }
    }

    fn pattern(&self, pattern: &MatchPattern) -> Compared {
        let checked = match &self.target {
            None => Err(NO_URL.to_owned()),
            Some(target) => pattern.check(target).map_err(|why| why.to_string()),
        };
        let matches = checked.is_ok();
        let reason = checked.err().unwrap_or_else(|| MATCHES.to_owned());
        Compared { text: pattern.to_string(), matches, reason }
    }

    fn providers(&self, all: &Providers) -> Vec<report::Provider> {
        all.config.providers().iter().map(|config| self.provider(config, all)).collect()
    }

    fn provider(&self, config: &ValidProvider, all: &Providers) -> report::Provider {
        let patterns: Vec<_> =
            config.match_images().iter().map(|each| self.pattern(each)).collect();
        let mut provider = report::Provider {
            name: config.name().to_owned(),
            matches: patterns.iter().any(|pattern| pattern.matches),
            patterns,
            identity: None,
            global_answers: None,
            command: None,
            result: ProviderResult::NotAsked,
            took_ms: None,
            cache: None,
            keys: Vec::new(),
            error: None,
            notes: Vec::new(),
            problems: Vec::new(),
        };
        let report = self.found.reports.iter().find(|report| &*report.provider == config.name());
        if let Some(report) = report {
            provider.command = self.command(config);
            provider.global_answers = identity::global_answers(config, self.global_answers);
            provider.identity =
                report.identity.as_deref().map(|identity| identity::told(identity, self.now));
            self.tell(&mut provider, report, config);
            let wants_one = config.token_attributes().is_some() && self.puller.is_none();
            if wants_one && provider.result != ProviderResult::Skipped {
                provider.notes.push(advice::WITHOUT_A_TOKEN.to_owned());
            }
            provider.problems.extend(trust(config, all));
        }
        provider
    }

    fn command(&self, config: &ValidProvider) -> Option<report::Command> {
        let invocation = self.host.invocation(config.name(), &self.pull)?.ok()?;
        Some(command::describe(&invocation, &self.known, &SystemEnvironment))
    }

    /// What a provider that matches did.
    fn tell(
        &self,
        provider: &mut report::Provider,
        report: &ProviderReport,
        config: &ValidProvider,
    ) {
        match &report.outcome {
            ProviderOutcome::Ran { logins, scope, expires, took } => {
                provider.result = ProviderResult::Ran;
                provider.took_ms = Some(milliseconds(*took));
                let state = expires.map_or(CacheState::NotKept, |_| CacheState::Stored);
                self.answered(provider, logins, self.cache(state, *scope, *expires, config));
            }
            ProviderOutcome::Cached { logins, scope, expires } => {
                provider.result = ProviderResult::Cached;
                let cache = self.cache(CacheState::Hit, *scope, Some(*expires), config);
                self.answered(provider, logins, cache);
            }
            ProviderOutcome::Skipped(skipped) => {
                provider.result = ProviderResult::Skipped;
                provider.problems.push(identity::of_skipped(skipped, self.puller));
            }
            ProviderOutcome::Failed(error) => {
                provider.result = ProviderResult::Failed;
                provider.took_ms = error.elapsed().map(milliseconds);
                let run = provider.command.as_ref();
                let by_hand = run.map(|run| {
                    let identity = provider.identity.as_ref();
                    advice::by_hand(config.protocol(), self.image.repository(), identity, run)
                });
                let text = Chain(&**error).to_string();
                let remedy = match identity::refused(error, self.puller) {
                    Some((identity, remedy)) => {
                        provider.identity = Some(identity);
                        remedy
                    }
                    None => advice::of_failure(error, by_hand.as_deref()),
                };
                provider.error = Some(text.clone());
                provider.problems.push(Problem::new(text, remedy));
            }
            _ => {}
        }
    }

    fn answered(&self, provider: &mut report::Provider, logins: &Arc<Logins>, cache: Cache) {
        provider.keys = self.keys(logins);
        provider.problems.extend(skipped_keys(logins));
        if !provider.keys.iter().any(|key| key.matches) {
            let registry = self.image.registry();
            let useless = match (provider.keys.is_empty(), logins.skipped().is_empty()) {
                (true, true) => Useless::Empty,
                (true, false) => Useless::OnlyMalformedKeys,
                (false, _) => Useless::Foreign,
            };
            provider.problems.push(advice::of_useless_answer(registry, useless));
            let is_global = cache.scope == CacheKeyType::Global.as_str();
            if is_global && cache.state != CacheState::NotKept {
                provider.problems.push(advice::of_useless_global_answer());
            }
        }
        provider.cache = Some(cache);
    }

    fn cache(
        &self,
        state: CacheState,
        scope: CacheKeyType,
        expires: Option<SystemTime>,
        config: &ValidProvider,
    ) -> Cache {
        let entry = self
            .cached
            .iter()
            .find(|entry| &*entry.provider == config.name() && Some(entry.expires) == expires);
        Cache {
            state,
            scope: scope.as_str().to_owned(),
            key: entry.map(|entry| entry.key.base().to_owned()),
            until: expires.map(|time| Timestamp::from(time).to_string()),
            lifetime: expires.map(|time| lifetime(time, self.now)),
        }
    }

    /// What concerns no single provider that was asked.
    fn problems(&self, all: &Providers) -> Vec<Problem> {
        let mut problems = Vec::new();
        let missing = all.missing().map(|error| {
            Problem::new(
                format!("a kubelet would not start with this configuration: {error}"),
                "install the plugin, or take its provider out of the configuration",
            )
        });
        problems.extend(missing);
        if self.found.reports.is_empty() {
            problems.extend(self.nobody_matches(all));
        }
        problems
    }

    fn nobody_matches(&self, all: &Providers) -> Option<Problem> {
        let Some(target) = &self.target else {
            return Some(Problem::new(NO_URL, "name the registry as a URL does: host and port"));
        };
        let near = nearest(all.config.providers(), target, self.image.registry())?;
        Some(Problem::new(
            format!(
                "no pattern matches; the nearest is {:?} of provider {}: {}",
                near.pattern, near.provider, near.reason
            ),
            near.instead.map_or_else(
                || NO_PATTERN.to_owned(),
                |instead| format!("if that provider is meant for this image, write {instead:?}"),
            ),
        ))
    }
}

const MATCHES: &str = "host, port and path match";
/// Only an address in brackets is so.
const NO_PATTERN: &str = "no pattern can name this registry, since the brackets of an address without a port are read as a \
                          character class: name the registry with its port, or by a host name";
const NO_URL: &str = "no pattern can match a registry that is no URL's host";

fn skipped_keys(logins: &Logins) -> Vec<Problem> {
    let remedy =
        "write the key as a host, with port and path if need be; it is never used as it is";
    logins.skipped().iter().map(|key| Problem::new(key.to_string(), remedy)).collect()
}

/// Whoever could have written a plugin could have read what it is told.
fn trust(config: &ValidProvider, all: &Providers) -> Vec<Problem> {
    let path = all.plugins.join(config.name());
    let concerns = check_trust(&path, TrustPolicy::Report).unwrap_or_default();
    let problem = |concern: &keyfob_exec::Concern| {
        let text = concern.to_string();
        let (what, remedy) = text.rsplit_once(": ").unwrap_or((&text, "mend its owner and mode"));
        Problem::new(format!("somebody else could replace the plugin: {what}"), remedy)
    };
    concerns.iter().map(problem).collect()
}

/// To the second, which is as exact as anybody reads it.
pub(super) fn lifetime(until: SystemTime, now: SystemTime) -> String {
    let left = until.duration_since(now).unwrap_or_default() + Duration::from_millis(500);
    GoDuration::from(Duration::from_secs(left.as_secs())).to_string()
}

/// To the microsecond.
fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
