//! What a host has for a pull, from the image's own registry and from its mirrors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use keyfob_api::{Chain, ImageRef, SecretSet};
use keyfob_exec::BoxFuture;
use keyfob_host::{Answer, Host, ProviderOutcome, Pull};
use keyfob_keyring::{Credential, Source};

use super::{Attempt, CredentialLookupError, PullCredentials, outcome::learn};

/// The credentials that a host finds for one pull. The mirrors come first, each with its own.
#[derive(Debug)]
pub struct HostCredentials<'h> {
    host: &'h Host,
    pull: Pull,
    /// The mirrors, and then the image itself.
    places: Vec<ImageRef>,
    answers: Mutex<Vec<Arc<PlaceAnswer>>>,
    secrets: SecretSet,
}

/// What a host said about a place that an image can be pulled from.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlaceAnswer {
    /// The place.
    pub from: ImageRef,
    /// What the host said.
    pub answer: Answer,
}

impl<'h> HostCredentials<'h> {
    /// For an image, with the secrets and the pod of a pull.
    pub fn new(host: &'h Host, image: &ImageRef, pull: &Pull) -> Self {
        let (answers, secrets) = (Mutex::default(), SecretSet::default());
        Self { host, pull: pull.clone(), places: vec![image.clone()], answers, secrets }
    }

    /// Tells the secrets of all credentials to this set as soon as they are found, before any of them is tried: a registry may
    /// know more than one of them.
    #[must_use]
    pub fn telling(mut self, secrets: SecretSet) -> Self {
        self.secrets = secrets;
        self
    }

    /// With the image on its mirrors, which are tried first, in this order.
    #[must_use]
    pub fn with_mirrors(mut self, mirrors: impl IntoIterator<Item = ImageRef>) -> Self {
        let before = self.places.len().saturating_sub(1);
        self.places.splice(before..before, mirrors);
        self
    }

    /// What the host said so far, in the order in which it was asked: which providers matched, and which failed.
    pub fn answers(&self) -> Vec<Arc<PlaceAnswer>> {
        self.lock().clone()
    }

    async fn ask(&self, from: &ImageRef) -> Arc<PlaceAnswer> {
        let answer = self.host.credentials(&self.pull.elsewhere(from)).await;
        learn(&self.secrets, &answer.credentials);
        Arc::new(PlaceAnswer { from: from.clone(), answer })
    }

    /// What there is in the place of a credential that was refused, if it really is another.
    async fn anew(&self, from: &ImageRef, refused: &Credential) -> Option<Attempt> {
        self.host.reject(refused);
        let asked = self.ask(from).await;
        let is_new = |login: &Credential| {
            let answers = self.lock();
            let mut known = answers.iter().flat_map(|known| &known.answer.credentials);
            !known.any(|known| known.login() == login.login())
        };
        let mut found = asked.answer.credentials.iter();
        let found = found.find(|each| {
            each.source() == refused.source() && each.key() == refused.key() && is_new(each)
        });
        let credential = found.cloned();
        self.lock().push(asked);
        Some(Attempt { from: from.clone(), credential: Some(credential?) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<PlaceAnswer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PullCredentials for HostCredentials<'_> {
    fn attempts(&self) -> BoxFuture<'_, Result<Vec<Attempt>, CredentialLookupError>> {
        Box::pin(async {
            let asked = join_all(self.places.iter().map(|place| self.ask(place))).await;
            let attempts = asked.iter().flat_map(|asked| {
                let PlaceAnswer { from, answer } = &**asked;
                let attempt = |credential| Attempt { from: from.clone(), credential };
                answer.tries().map(move |credential| attempt(credential.cloned()))
            });
            let attempts = attempts.collect();
            self.lock().extend(asked);
            Ok(attempts)
        })
    }

    /// A pod's secret is what it is; everything else may be another by now.
    fn refused<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Option<Attempt>> {
        Box::pin(async {
            let credential = attempt.credential.as_ref()?;
            match credential.source() {
                Source::PullSecret(_) => None,
                _ => self.anew(&attempt.from, credential).await,
            }
        })
    }

    fn notes(&self) -> Vec<String> {
        let answers = self.answers();
        let last = |place: &ImageRef| answers.iter().rfind(|asked| asked.from == *place);
        let mut notes = Vec::new();
        for note in self.places.iter().filter_map(last).flat_map(|asked| notes_of(asked)) {
            let note = self.secrets.redact(&note);
            // The node's docker configuration is the same for all places.
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }
}

fn notes_of(PlaceAnswer { from, answer }: &PlaceAnswer) -> Vec<String> {
    let repository = from.repository();
    let of_provider = answer.reports.iter().filter_map(|report| match &report.outcome {
        ProviderOutcome::Failed(error) => {
            let (provider, error) = (&report.provider, Chain(&**error));
            Some(format!("provider {provider} gave nothing for {repository}: {error}"))
        }
        ProviderOutcome::Skipped(why) => {
            Some(format!("provider {} was not asked for {repository}: {why}", report.provider))
        }
        _ => None,
    });
    let of_node = answer
        .docker_config_error
        .as_ref()
        .map(|error| format!("the node's docker configuration gave nothing: {}", Chain(error)));
    of_provider.chain(of_node).collect()
}
