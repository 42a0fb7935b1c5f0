//! Everything that the checks look at.

use keyfob_api::Timestamp;

use crate::{
    NoAnswer, PluginConformance,
    observe::{Heard, Observed},
    plugin::Plugin,
    protocol::Protocol,
    report::Verdict,
    secrets::Secrets,
};

/// The reason for not checking what needs a response of the reference run.
pub(crate) const NO_REFERENCE: &str = "there was no answer to compare with";

/// A plugin and its runs.
#[derive(Debug)]
pub(crate) struct Case<'a, P: Protocol> {
    pub(crate) plugin: &'a Plugin,
    pub(crate) protocol: &'a P,
    /// When the first run began.
    pub(crate) started: Timestamp,
    pub(crate) runs: Vec<Observed<P>>,
    pub(crate) secrets: Secrets,
}

/// How a run went that should go as the reference run did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    Same,
    /// It answered, but not alike.
    Differs,
    /// There was no such answer, for this reason.
    Broke(String),
    /// The reference run had no answer either.
    Incomparable,
}

impl<'a, P: Protocol> Case<'a, P> {
    pub(crate) fn new(
        conformance: &'a PluginConformance<P>,
        started: Timestamp,
        runs: Vec<Observed<P>>,
    ) -> Self {
        let PluginConformance { plugin, protocol } = conformance;
        let secrets = protocol.secrets(plugin, &runs);
        Self { plugin, protocol, started, runs, secrets }
    }

    pub(crate) fn run(&self, probe: P::Probe) -> Option<&Observed<P>> {
        self.runs.iter().find(|run| run.probe == probe)
    }

    /// The run that others are compared with.
    fn reference_run(&self) -> Option<&Observed<P>> {
        self.run(P::reference(&self.runs))
    }

    /// Judges one run, if there was one.
    pub(crate) fn for_run(
        &self,
        probe: P::Probe,
        judge: impl FnOnce(&Observed<P>) -> Verdict,
    ) -> Vec<Verdict> {
        self.run(probe).map(judge).into_iter().collect()
    }

    /// Judges the run that others are compared with.
    pub(crate) fn for_reference(
        &self,
        judge: impl FnOnce(&Observed<P>) -> Verdict,
    ) -> Vec<Verdict> {
        self.reference_run().map(judge).into_iter().collect()
    }

    /// The response that others are compared with.
    pub(crate) fn reference_response(&self) -> Option<P::Response> {
        P::comparable(self.reference_run()?)
    }

    pub(crate) fn likeness(&self, run: &Observed<P>) -> Likeness {
        let heard = run.heard();
        match (self.reference_response(), P::comparable(run)) {
            (None, _) => self.crash(&heard).map_or(Likeness::Incomparable, Likeness::Broke),
            (Some(first), Some(response)) if P::are_alike(&first, &response) => Likeness::Same,
            (Some(_), Some(_)) => Likeness::Differs,
            (Some(_), None) => Likeness::Broke(self.secrets.failure(run, &heard)),
        }
    }

    /// Judges a run that should have gone as the reference run did.
    pub(crate) fn judge_likeness(&self, run: &Observed<P>, passed: &str, advice: &str) -> Verdict {
        Self::verdict_on(self.likeness(run), passed, advice)
    }

    pub(crate) fn verdict_on(likeness: Likeness, passed: &str, advice: &str) -> Verdict {
        match likeness {
            Likeness::Same => Verdict::pass(passed),
            Likeness::Differs => Verdict::warn(P::TEXTS.differs, advice),
            Likeness::Broke(reason) => Verdict::fail(reason, advice),
            Likeness::Incomparable => Verdict::not_checked(NO_REFERENCE),
        }
    }

    /// Judges a run without a response, to a request that a plugin may refuse but not break on.
    pub(crate) fn judge_failure(
        &self,
        run: &Observed<P>,
        heard: &Heard<P::Response, P::Error>,
        advice: &str,
    ) -> Verdict {
        match (self.crash(heard), self.reference_response()) {
            (_, Some(_)) => Verdict::fail(self.secrets.failure(run, heard), advice),
            (Some(crash), None) => Verdict::fail(crash, advice),
            (None, None) => Verdict::not_checked(NO_REFERENCE),
        }
    }

    /// What no plugin may do, whatever it is asked; unless the reference run did so too, which another check reports.
    pub(crate) fn crash(&self, heard: &Heard<P::Response, P::Error>) -> Option<String> {
        let first = self.reference_run().and_then(|run| run.heard().crash());
        heard.crash().filter(|_| first.is_none())
    }

    /// Judges a plugin that fails as it should, or has nothing to offer.
    pub(crate) fn no_response(&self, reason: String) -> Verdict {
        match self.plugin.no_answer {
            NoAnswer::MayBe => Verdict::not_checked(reason),
            NoAnswer::Fails => Verdict::fail(reason, P::TEXTS.no_response),
        }
    }
}
