//! What the agent does without being asked: it keeps answers fresh and remembers the names of images.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use keyfob_agent_config::may_be_asked_as_node;
use keyfob_host::{ProviderOutcome, Pull};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

use super::{Shared, blocking};
use crate::{
    access::expiry,
    rate_limit::CallerKey,
    warm::{DueImage, earliest_renewal},
};

/// How often the agent looks whether an answer must be renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// How often remembered images are written.
const STORE_INTERVAL: Duration = Duration::from_secs(30);
/// After a restart, remembered images are requested again one after the other, with this pause between them.
const WARM_UP_PAUSE: Duration = Duration::from_millis(50);
/// How many answers of the same providers are renewed at the same time for root, or for one caller. Their plugin runs wait in the same
/// queue as those for requests.
const RENEWALS_AT_ONCE: usize = 4;
/// On whose account the plugin runs that renew what root has requested.
const OWN_RENEWALS: &str = "renewals";

/// Requests remembered images again: after the start, and before their answers expire.
pub(super) async fn stay_warm(shared: Arc<Shared>) {
    let images = blocking(&shared, |shared| {
        shared.remembered.load(shared.config().warm.remembered_images, shared.clock.now())
    });
    let images = stream::iter(images.await.unwrap_or_default()).then(|image| async {
        tokio::time::sleep(WARM_UP_PAUSE).await;
        image
    });
    let mut warm_up = pin!(images.fuse());
    let mut renewals = Renewals::new(shared.clone());
    let mut ticks = tokio::time::interval(RENEWAL_INTERVAL);
    loop {
        tokio::select! {
            Some(image) = warm_up.next() => renewals.start(image),
            Some(_) = renewals.tasks.join_next() => {}
            _ = ticks.tick() => {
                renewals.forget_ended();
                for image in shared.remembered.take_due(shared.clock.now()) {
                    renewals.start(image);
                }
            }
        }
    }
}

/// The renewals that are under way. Each has a task of its own and waits for its turn among those that ask the same providers for the same
/// caller, so that a plugin that hangs holds up no other provider, and a caller no other caller. They end when this is dropped.
struct Renewals {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    by_image: HashMap<String, AbortHandle>,
    by_queue: HashMap<Queue, Arc<Semaphore>>,
}

/// The renewals that take turns: of what the same caller requested from the same providers.
#[derive(PartialEq, Eq, Hash)]
struct Queue {
    providers: Vec<Arc<str>>,
    caller: Option<CallerKey>,
}

impl Renewals {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, tasks: JoinSet::new(), by_image: HashMap::new(), by_queue: HashMap::new() }
    }

    /// Renews the answers for an image, unless that is under way.
    fn start(&mut self, image: DueImage) {
        if self.by_image.get(&image.name).is_some_and(|renewal| !renewal.is_finished()) {
            return;
        }
        let DueImage { name, caller } = image;
        let providers = self.shared.allowed_providers(&Pull::of_repository(&name));
        let new_turns = || Arc::new(Semaphore::new(RENEWALS_AT_ONCE));
        let queue = Queue { providers, caller: caller.clone() };
        let turns = self.by_queue.entry(queue).or_insert_with(new_turns).clone();
        let (shared, image) = (self.shared.clone(), name.clone());
        let renewal = async move {
            // The semaphore is never closed.
            if let Ok(_turn) = turns.acquire().await {
                shared.renew(&image, caller).await;
            }
        };
        self.by_image.insert(name, self.tasks.spawn(renewal));
    }

    fn forget_ended(&mut self) {
        self.by_image.retain(|_, renewal| !renewal.is_finished());
        self.by_queue.retain(|_, turns| Arc::strong_count(turns) > 1);
    }
}

/// Writes the names of remembered images from time to time.
pub(super) async fn store_images(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(STORE_INTERVAL);
    loop {
        ticks.tick().await;
        blocking(&shared, Shared::store_images).await;
    }
}

impl Shared {
    /// Writes the names of remembered images, unless they are written already.
    pub(super) fn store_images(&self) {
        if let Err(error) = self.remembered.store() {
            tracing::warn!(%error, "remembered images cannot be written");
        }
    }

    /// Asks with the node's identity, for the cache.
    async fn renew(&self, image: &str, caller: Option<CallerKey>) {
        // Nobody waits for a renewal. So it takes turns with the runs of other callers, also if root has requested the image.
        let caller = caller.map_or_else(|| OWN_RENEWALS.into(), |caller| caller.queue_name());
        let pull = Pull::of_repository(image).for_caller(caller);
        let providers = self.allowed_providers(&pull);
        let ahead = self.config().warm.refresh_ahead;
        if providers.is_empty() {
            // The configuration has changed: nobody may have this credential any more, so it is not due either.
            self.remembered.answered(image, None, ahead, self.clock.now());
            return;
        }
        let wanted = earliest_renewal(ahead) + RENEWAL_INTERVAL;
        let answer = self.host.credentials(&pull.only(providers).fresh_for(wanted)).await;
        self.metrics.answered(&answer.reports);
        let outcomes = || answer.reports.iter().map(|report| &report.outcome);
        let has_failed = outcomes().any(|outcome| matches!(outcome, ProviderOutcome::Failed(_)));
        let has_run = outcomes().any(|outcome| matches!(outcome, ProviderOutcome::Ran { .. }));
        let (expires, now) = (outcomes().filter_map(expiry).min(), self.clock.now());
        let mut is_old = false;
        // A failure is tried again after a while; an answer that is not cached is not renewed.
        if !has_failed || expires.is_some() {
            let is_new = self.remembered.answered(image, expires, ahead, now);
            is_old = !is_new && expires.is_some_and(|expires| expires < now + wanted);
        }
        if has_failed || (is_old && !has_run) {
            // The old answer, if there is one, serves while it is valid.
            self.metrics.renewed(false);
        } else if has_run {
            self.metrics.renewed(true);
        }
    }

    /// The providers that may be asked about an image for some caller with the node's identity.
    fn allowed_providers(&self, pull: &Pull) -> Vec<Arc<str>> {
        let Some(target) = pull.target() else { return Vec::new() };
        let config = self.config();
        let mut providers = self.host.matching(pull);
        providers.retain(|provider| may_be_asked_as_node(&config.rules, target, provider));
        providers
    }
}
