//! Everything that the checks look at.

use keyfob_api::{CredentialProviderResponse, ImageRef, ProviderVersion};

use crate::{
    NoAnswer,
    observe::{Heard, Observed},
    plan::{Probe, Subject},
    report::Verdict,
    secrets::Secrets,
};

const V1: ProviderVersion = ProviderVersion::V1;

/// A plugin and its runs.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) runs: Vec<Observed>,
    pub(crate) secrets: Secrets,
}

/// How a run went that should go as the first did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    Same,
    /// It answered, with other keys or another cache key type.
    Differs,
    /// There was no such answer, for this reason.
    Broke(String),
    /// The first had no answer either.
    Incomparable,
}

impl<'a> Case<'a> {
    pub(crate) fn new(subject: &'a Subject, runs: Vec<Observed>) -> Self {
        let secrets = Secrets::of(subject, &runs);
        Self { subject, runs, secrets }
    }

    pub(crate) fn run(&self, probe: Probe) -> Option<&Observed> {
        self.runs.iter().find(|run| run.probe == probe)
    }

    /// Judges the run of each image; none if the plugin could not be run.
    pub(crate) fn for_each_image(
        &self,
        judge: impl Fn(&ImageRef, &Observed) -> Verdict,
    ) -> Vec<Verdict> {
        let many = self.subject.images.len() > 1;
        let images = self.subject.images.iter().enumerate();
        let judged = images.filter_map(|(number, image)| {
            let verdict = judge(image, self.run(Probe::Image(number))?);
            let image = many.then(|| image.repository().to_owned());
            Some(Verdict { image, ..verdict })
        });
        judged.collect()
    }

    /// Judges one run, if there was one.
    pub(crate) fn for_run(
        &self,
        probe: Probe,
        judge: impl FnOnce(&Observed) -> Verdict,
    ) -> Vec<Verdict> {
        self.run(probe).map(judge).into_iter().collect()
    }

    /// The answer that others are compared with.
    pub(crate) fn first_answer(&self) -> Option<CredentialProviderResponse> {
        match self.run(Probe::Image(0))?.heard(V1) {
            Heard::Answer(answer) => Some(answer),
            _ => None,
        }
    }

    pub(crate) fn likeness(&self, run: &Observed) -> Likeness {
        let heard = run.heard(V1);
        let Some(first) = self.first_answer() else {
            return self.crash(&heard).map_or(Likeness::Incomparable, Likeness::Broke);
        };
        match heard {
            Heard::Answer(answer) if same_shape(&first, &answer) => Likeness::Same,
            Heard::Answer(_) => Likeness::Differs,
            other => Likeness::Broke(self.told(run, &other)),
        }
    }

    /// What no plugin may do, whatever it is asked; unless it does so always, which was said before.
    pub(crate) fn crash(&self, heard: &Heard) -> Option<String> {
        let first = self.run(Probe::Image(0)).and_then(|run| run.heard(V1).crash());
        heard.crash().filter(|_| first.is_none())
    }

    /// What went wrong with a run that has no answer.
    pub(crate) fn told(&self, run: &Observed, heard: &Heard) -> String {
        self.secrets.told(run, heard)
    }

    /// What it said on stderr, as far as that may be shown.
    pub(crate) fn said(&self, run: &Observed) -> String {
        self.secrets.said_by(run)
    }

    /// For a plugin that fails as it should, or has nothing to offer.
    pub(crate) fn no_answer(&self, reason: String) -> Verdict {
        match self.subject.no_answer {
            NoAnswer::MayBe => Verdict::not_checked(reason),
            NoAnswer::Fails => Verdict::fail(
                reason,
                "ask about an image that the plugin has a login for, with the arguments, variables and token that it needs; \
                 or allow it to have no answer here (--allow-no-answer)",
            ),
        }
    }
}

/// Passwords and durations may differ from run to run.
fn same_shape(one: &CredentialProviderResponse, other: &CredentialProviderResponse) -> bool {
    let keys = |answer: &CredentialProviderResponse| {
        let mut keys: Vec<_> = answer.auth.iter().map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys
    };
    one.cache_key_type == other.cache_key_type && keys(one) == keys(other)
}
