//! What a host may do beyond a kubelet. All of it is off unless asked for, but that no server is waited for without end.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use keyfob_exec::{Backoff, TrustPolicy};

use keyfob_config::{TokenDialect, ValidProvider};

/// How a host behaves where upstream leaves no choice. The default is what a kubelet does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostOptions {
    /// When a plugin is killed. A kubelet waits a minute.
    pub timeout: Duration,
    /// The same for single providers, by name.
    pub timeouts: BTreeMap<String, Duration>,
    /// After a failed run, how long the same question is not asked again. A kubelet asks again at once.
    pub backoff: Option<Backoff>,
    /// How long before its expiry a cached answer is renewed in the background. A kubelet waits until it has expired.
    pub refresh_ahead: Option<Duration>,
    /// How many answers each provider may keep. A kubelet has no limit.
    pub max_cache_entries: Option<NonZeroUsize>,
    /// How many processes of one provider may run at once. Further runs wait, and the deadline of each begins when it starts. A run
    /// whose callers have all left before its turn is not started. A kubelet has no limit.
    ///
    /// Runs start in the order in which they were asked for. But those for [callers](crate::Pull::for_caller) that are told apart wait
    /// for all others, leave one place to them, and take turns: the caller with the fewest runs is next, and one caller leaves a place
    /// to the others. With two places all callers share one, and with one place everybody shares it.
    pub max_runs_per_provider: Option<NonZeroUsize>,
    /// Whether a pull without credentials is tried after all credentials were refused. A kubelet tries it only if there
    /// are none.
    pub anonymous_last: bool,
    /// What to do about plugins that somebody else could have written. A kubelet does not look.
    pub trust: TrustPolicy,
    /// What to do about plugins that are not there. A kubelet does not start.
    pub missing_plugins: MissingPlugins,
    /// How long each answer about a service account may take. A kubelet sets no limit.
    pub identity_timeout: Duration,
    /// Whether providers that use service accounts may answer for every image.
    pub global_answers: GlobalAnswers,
}

impl HostOptions {
    pub(crate) fn timeout_of(&self, provider: &str) -> Duration {
        self.timeouts.get(provider).copied().unwrap_or(self.timeout)
    }
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            timeouts: BTreeMap::new(),
            backoff: None,
            refresh_ahead: None,
            max_cache_entries: None,
            max_runs_per_provider: None,
            anonymous_last: false,
            trust: TrustPolicy::Report,
            missing_plugins: MissingPlugins::Refuse,
            identity_timeout: Duration::from_secs(30),
            global_answers: GlobalAnswers::default(),
        }
    }
}

/// Whether a provider with `tokenAttributes` may answer for every image (`cacheKeyType: Global`).
///
/// KEP-4412 forbids it, kubelets allow it. What is kept for such an answer is kept for one service account in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GlobalAnswers {
    /// As the dialect of the configuration has it: refused from providers that are written as in KEP-4412, which no kubelet
    /// reads, and allowed from all others.
    #[default]
    ByDialect,
    /// Allowed, as by a kubelet.
    Allow,
    /// Refused.
    Refuse,
}

impl GlobalAnswers {
    /// Whether such an answer of this provider is refused.
    pub fn refused_from(self, provider: &ValidProvider) -> bool {
        let Some(attributes) = provider.token_attributes() else { return false };
        match self {
            Self::ByDialect => attributes.dialect() == TokenDialect::Kep4412,
            Self::Allow => false,
            Self::Refuse => true,
        }
    }
}

/// What to do about plugins that are not in the plugin directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingPlugins {
    /// No host comes of it.
    #[default]
    Refuse,
    /// They fail when they are asked.
    FailWhenAsked,
}
