//! One pull: intent, back-off, a place among the pulls, and every attempt in order until one succeeds.
//!
//! Upstream: `pullImage` in `pkg/kubelet/images/image_manager.go`, `PullImage` in
//! `pkg/kubelet/kuberuntime/kuberuntime_image.go`.
//! Differs: a credential that a registry refuses is asked for once more, and the new one tried in its place.
//! Differs: who may use the image is recorded before anything else is asked about it.

use std::{
    slice,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{Chain, GoDuration, Quoted, SecretSet};

use super::{ImageManager, Order};
use crate::{
    Attempt, EnsureError, EnsureReason, Ensured, EventReason, FailedAttempt, PullAccess,
    PullFailure, PullProgress, Pulled, Wanted,
    images::{intent::Intent, lookup::Lookup, outcome::learn},
};

/// An attempt that succeeded.
struct Success {
    image_id: String,
    attempt: Attempt,
    failed: Vec<FailedAttempt>,
}

/// The attempts of a pull that failed. What a registry says about one of them may hold the secrets of any.
struct Failures<'a> {
    /// All that are known from the beginning.
    attempts: &'a [Attempt],
    /// Empty until something fails.
    secrets: SecretSet,
    failed: Vec<FailedAttempt>,
}

impl Failures<'_> {
    fn add(&mut self, attempt: &Attempt, failure: PullFailure) -> &FailedAttempt {
        learn(&self.secrets, self.attempts.iter().filter_map(|each| each.credential.as_ref()));
        self.failed.push_mut(FailedAttempt::new(attempt, failure, &self.secrets))
    }

    /// The failures, without the secrets of attempts that were made later.
    fn told(self) -> Vec<FailedAttempt> {
        self.failed.into_iter().map(|failure| failure.redacted(&self.secrets)).collect()
    }
}

impl ImageManager {
    /// Pulls with whatever the pod has, unless that failed a while ago.
    pub(super) async fn pull(
        &self,
        order: &Order<'_>,
        lookup: &mut Lookup<'_>,
    ) -> Result<Ensured, EnsureError> {
        lookup.attempts().await?;
        if let Err(error) = self.recover().await {
            tracing::warn!(error = %Chain(&error), "pulls that ended halfway are not looked into");
        }
        let name = &order.wanted.image;
        let intent = Intent::record(self.ledger.as_ref(), name).await.map_err(|error| {
            let (name, why) = (Quoted(name), Chain(&error));
            let message =
                format!("Failed to record image pull intent for container image {name}: {why}");
            EnsureError::new(EnsureReason::PullIntentNotRecorded, message).caused_by(error)
        })?;
        if let Some(error) = self.held_back(order) {
            intent.failed().await;
            return Err(error);
        }
        self.pull_now(order, lookup, intent).await
    }

    /// Why it is not tried yet.
    fn held_back(&self, Order { wanted, .. }: &Order<'_>) -> Option<EnsureError> {
        let mut last = self.backoff.holds(wanted, self.clock.now())?;
        let message = format!("Back-off pulling image {}", Quoted(&wanted.image));
        self.tell(wanted, EventReason::BackOff, &message);
        last.message = format!("{message}: {}: {last}", last.reason);
        last.reason = EnsureReason::ImagePullBackOff;
        Some(last)
    }

    async fn pull_now(
        &self,
        order: &Order<'_>,
        lookup: &mut Lookup<'_>,
        mut intent: Intent,
    ) -> Result<Ensured, EnsureError> {
        let (wanted, name) = (order.wanted, Quoted(&order.wanted.image));
        self.tell(wanted, EventReason::Pulling, &format!("Pulling image {name}"));
        let began = self.clock.now();
        let _place = self.gate.place().await;
        let placed = self.clock.now();
        let success = match self.try_all(order, lookup, &mut intent).await {
            Ok(success) => success,
            Err(error) => {
                let message = format!("Failed to pull image {name}: {error}");
                self.tell(wanted, EventReason::Failed, &message);
                self.backoff.failed(wanted, &error, self.clock.now());
                intent.failed().await;
                return Err(error);
            }
        };
        let Success { image_id, attempt, failed } = success;
        let access = PullAccess::of(attempt.credential.as_ref());
        let unrecorded = intent.pulled(&image_id, access).await.err().map(Arc::new);
        if let Some(error) = &unrecorded {
            let error = Chain(&**error).to_string();
            tracing::info!(image = wanted.image, image_id, error, "cannot record a pull");
        }
        let size = if image_id.is_empty() { None } else { self.service.size(&order.spec).await };
        let (took, took_with_waiting) = (self.since(placed), self.since(began));
        let pulled = Pulled { attempt, failed, size, took, took_with_waiting, unrecorded };
        self.tell(wanted, EventReason::Pulled, &successfully_pulled(wanted, &pulled));
        self.backoff.tidy(self.clock.now());
        Ok(Ensured { image_id, pulled: Some(pulled) })
    }

    async fn try_all(
        &self,
        order: &Order<'_>,
        lookup: &mut Lookup<'_>,
        intent: &mut Intent,
    ) -> Result<Success, EnsureError> {
        if !self.gate.admits(self.clock.now()) {
            return Err(EnsureError::new(EnsureReason::ErrImagePull, "pull QPS exceeded"));
        }
        let credentials = lookup.credentials;
        let plain = Attempt { from: order.image.clone(), credential: None };
        let attempts = match lookup.attempts().await? {
            [] => slice::from_ref(&plain),
            attempts => attempts,
        };
        if order.is_here {
            (self.progress)(order.wanted, PullProgress::AccessNotProved);
        }
        let mut failures = Failures { attempts, secrets: SecretSet::default(), failed: Vec::new() };
        for attempt in attempts {
            if let Some(image_id) = self.try_one(order, attempt, intent, &mut failures).await {
                let (attempt, failed) = (attempt.clone(), failures.told());
                return Ok(Success { image_id, attempt, failed });
            }
            if !failures.failed.last().is_some_and(FailedAttempt::was_refused) {
                continue;
            }
            let Some(again) = credentials.refused(attempt).await else { continue };
            if let Some(image_id) = self.try_one(order, &again, intent, &mut failures).await {
                return Ok(Success { image_id, attempt: again, failed: failures.told() });
            }
        }
        let notes = credentials.notes();
        let failed = failures.told();
        Err(EnsureError::of_attempts(&order.wanted.image, &order.image, failed, &notes))
    }

    /// The image's id, or one more among those that failed.
    async fn try_one(
        &self,
        Order { wanted, spec, .. }: &Order<'_>,
        attempt: &Attempt,
        intent: &mut Intent,
        failures: &mut Failures<'_>,
    ) -> Option<String> {
        (self.progress)(wanted, PullProgress::AttemptBegins(attempt));
        intent.pulling();
        match self.service.pull(spec, attempt).await {
            Ok(image_id) => Some(image_id),
            Err(failure) => {
                intent.missed();
                let failure = failures.add(attempt, failure);
                (self.progress)(wanted, PullProgress::AttemptFailed(failure));
                tracing::debug!(image = spec.image, %failure, "an attempt to pull failed");
                None
            }
        }
    }

    fn since(&self, then: SystemTime) -> Duration {
        self.clock.now().duration_since(then).unwrap_or_default()
    }
}

fn successfully_pulled(wanted: &Wanted, pulled: &Pulled) -> String {
    let (name, bytes) = (Quoted(&wanted.image), pulled.size.unwrap_or_default());
    let [took, in_all] = [pulled.took, pulled.took_with_waiting].map(to_the_millisecond);
    format!(
        "Successfully pulled image {name} in {took} ({in_all} including waiting). Image size: {bytes} bytes."
    )
}

fn to_the_millisecond(duration: Duration) -> GoDuration {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(milliseconds).into()
}
