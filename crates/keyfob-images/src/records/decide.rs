//! Must an image that is here be pulled for a pod?
//!
//! Upstream: `MustAttemptImagePull` in `image_pull_manager.go`.

use std::sync::Arc;

use keyfob_api::Chain;

use super::{
    PodCredentials, PullAccess, PullRecords, PulledRecord, RecordsError, SecretAccess,
    names::{Name, recorded_name},
};

/// So many secrets are recorded for an image by those that only come to use it: their number must have an end.
const MOST_WHILE_MATCHING: usize = 100;

/// Whether an image must be pulled for a pod.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub enum MustPull {
    /// It must: the image is not here, or nothing that the pod could show would do.
    Yes,
    /// It need not: every pod may use the image.
    No,
    /// That depends on what the pod has to show; only now that is asked for.
    Depends(Recorded),
}

/// Who proved access to an image. To be given to [`PullRecords::settle`] or [`PullRecords::unsettled`].
#[derive(Debug)]
#[must_use]
pub struct Recorded {
    image: String,
    image_ref: String,
    access: PullAccess,
}

impl Recorded {
    /// Who proved access to an image by this name. `image_ref` is its id.
    pub fn new(image: impl Into<String>, image_ref: impl Into<String>, access: PullAccess) -> Self {
        Self { image: image.into(), image_ref: image_ref.into(), access }
    }

    /// The image, as the pod names it.
    pub fn image(&self) -> &str {
        &self.image
    }
}

/// How a check ended, for those who count.
#[derive(Clone, Copy, Debug)]
pub(super) enum CheckResult {
    PolicyAllowed,
    RecordFound,
    MustAuthenticate,
    Error,
}

impl PullRecords {
    /// Whether an image must be pulled for a pod, as far as that can be said without its credentials. `image_ref` is the id of
    /// the image that is here, empty if none is.
    pub fn must_pull(&self, image: &str, image_ref: &str) -> MustPull {
        if image_ref.is_empty() {
            return MustPull::Yes;
        }
        let (result, must_pull) = self.decide(image, image_ref);
        if let Some(result) = result {
            self.metrics.checked(result);
        }
        must_pull
    }

    /// Whether the image must be pulled for a pod that has these credentials. What lets it in is recorded if it was not yet.
    pub fn settle(&self, recorded: Recorded, credentials: &PodCredentials) -> bool {
        let must_pull = match recorded.proof(credentials) {
            Proof::None => true,
            Proof::Known => false,
            Proof::New(secret) => {
                self.add(recorded, secret);
                false
            }
        };
        let result =
            if must_pull { CheckResult::MustAuthenticate } else { CheckResult::RecordFound };
        self.metrics.checked(result);
        must_pull
    }

    /// Says that the pod's credentials cannot be had, so that nothing can be said.
    pub fn unsettled(&self, recorded: Recorded) {
        let Recorded { image, .. } = recorded;
        tracing::debug!(image, "no credentials to verify a pod's access with");
        self.metrics.checked(CheckResult::Error);
    }

    /// How the check ended, unless it did not yet.
    fn decide(&self, image: &str, image_ref: &str) -> (Option<CheckResult>, MustPull) {
        let (record, was_pulled) = match self.look_up(image, image_ref) {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(image, image_ref, error = %Chain(&error), "cannot tell who may use an image");
                return (Some(CheckResult::Error), MustPull::Yes);
            }
        };
        if !self.policy.requires_verification(image, was_pulled) {
            return (Some(CheckResult::PolicyAllowed), MustPull::No);
        }
        let Some(record) = record else {
            return (Some(CheckResult::MustAuthenticate), MustPull::Yes);
        };
        let access = match recorded_name(image) {
            Ok(name) => record.credential_mapping.get(&name),
            Err(error) => {
                tracing::error!(image, error = %Chain(&error), "the name of an image cannot be looked up");
                return (Some(CheckResult::Error), MustPull::Yes);
            }
        };
        match access {
            Some(access) if access.node_pods_accessible => {
                (Some(CheckResult::RecordFound), MustPull::No)
            }
            Some(access) if !access.is_empty() => {
                (None, MustPull::Depends(Recorded::new(image, image_ref, access.clone())))
            }
            _ => (Some(CheckResult::MustAuthenticate), MustPull::Yes),
        }
    }

    /// The record of an image, and whether there is any trace of a pull of it.
    fn look_up(
        &self,
        image: &str,
        image_ref: &str,
    ) -> Result<(Option<Arc<PulledRecord>>, bool), RecordsError> {
        let record = || Ok(self.store.record(image_ref)?.map(|stored| stored.value));
        if let Some(record) = record()? {
            return Ok((Some(record), true));
        }
        if self.is_being_pulled(image)? {
            return Ok((None, true));
        }
        // A pull that ended in between has taken its intent away and has left its record: so its record is looked for last.
        let record = record()?;
        let was_pulled = record.is_some();
        Ok((record, was_pulled))
    }

    /// Whether there is an intent that may be about this image.
    fn is_being_pulled(&self, image: &str) -> Result<bool, RecordsError> {
        if self.files.is_pulling(image) || self.store.intent(image)?.is_some() {
            return Ok(true);
        }
        let (intents, errors) = self.intents();
        // One file that cannot be read is not held against all images.
        let is_of_all = |error: &RecordsError| matches!(error, RecordsError::List { .. });
        if let Some(error) = errors.into_iter().find(is_of_all) {
            return Err(error);
        }
        let asked = Name::new(image);
        Ok(intents.iter().any(|intent| asked.may_come_from(&Name::new(intent))))
    }

    /// From now on this secret gives access too.
    fn add(&self, recorded: Recorded, secret: &SecretAccess) {
        let Recorded { image, image_ref, .. } = recorded;
        let access = PullAccess { secrets: vec![secret.clone()], ..PullAccess::default() };
        let added = self
            .files
            .lock()
            .and_then(|lock| self.remember(&image, &image_ref, Some(&access), &lock));
        if let Err(error) = added {
            tracing::error!(image, image_ref, error = %Chain(&error), "cannot record a secret that gives access");
        }
    }
}

/// What a pod has to show.
enum Proof<'a> {
    None,
    Known,
    /// A secret that gives access, and is not recorded as it is.
    New(&'a SecretAccess),
}

impl Recorded {
    fn proof<'a>(&self, credentials: &'a PodCredentials) -> Proof<'a> {
        let known = &self.access.secrets;
        let has_room = known.len() < MOST_WHILE_MATCHING;
        for secret in &credentials.secrets {
            for known in known {
                let is_same = secret.secret == known.secret;
                // An empty hash is of a credential that could not be hashed.
                let has_same_hash = !known.credential_hash.is_empty()
                    && secret.credential_hash == known.credential_hash;
                match (has_same_hash, is_same, has_room) {
                    (true, true, _) | (true, false, false) => return Proof::Known,
                    (true, false, true) | (false, true, true) => return Proof::New(secret),
                    (false, false, _) | (false, true, false) => {}
                }
            }
        }
        let account = credentials.service_account.as_ref();
        match account.filter(|account| self.access.service_accounts.contains(account)) {
            Some(_) => Proof::Known,
            None => Proof::None,
        }
    }
}

#[cfg(test)]
mod tests;
