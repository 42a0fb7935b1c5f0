//! What differs between the two exec protocols, for everything that is done alike.

use std::fmt::{Debug, Display};

use keyfob_exec::Invocation;

use crate::{checks::Check, observe::Observed, plugin::Plugin, secrets::Secrets};

/// One of the two exec protocols. A value holds what the plugin is asked about, such as images or a cluster.
pub(crate) trait Protocol: Debug + Sized + 'static {
    /// The purpose of one run.
    type Probe: Debug + Copy + PartialEq + Send + 'static;
    /// A response as its caller decodes it.
    type Response;
    /// Why a caller cannot use a response.
    type Error: Display + PartialEq;
    /// A part of a response. The order is that in which the parts are read, so a fault hides all later parts.
    type Part: Copy + Ord;

    /// The first run. A plugin that cannot be started, or does not end, has no further one.
    const FIRST: Self::Probe;
    /// The same request once more.
    const AGAIN: Self::Probe;
    /// The same request, several times at once.
    const AT_ONCE: Self::Probe;
    /// The same request, but nobody reads stdout.
    const CLOSED_STDOUT: Self::Probe;
    /// All checks, in the order of the report.
    const CHECKS: &'static [Check<Self>];
    /// What the shared checks say in terms of this protocol.
    const TEXTS: Texts;

    /// The runs after the first, in order, without those of [`Self::AT_ONCE`].
    fn further_probes(&self) -> Vec<Self::Probe>;

    /// The run that others are compared with, chosen by what was seen so far.
    fn reference(runs: &[Observed<Self>]) -> Self::Probe;

    /// Adds to an invocation of the plugin what makes it this run.
    fn prepare(
        &self,
        invocation: Invocation,
        probe: Self::Probe,
        reference: Self::Probe,
    ) -> Invocation;

    /// Whether a run gets a short deadline, because a plugin has nothing to ask anybody then.
    fn must_be_quick(probe: Self::Probe) -> bool;

    /// Which run it is, in a report.
    fn when(probe: Self::Probe) -> &'static str;

    /// Decodes a response to a request of the current version.
    fn decode(stdout: &[u8]) -> Result<Self::Response, Self::Error>;

    /// Decodes a response, even one of another version than was asked for.
    fn decode_any_version(stdout: &[u8]) -> Result<Self::Response, Self::Error>;

    /// The response of a run that is compared with those of other runs.
    fn comparable(run: &Observed<Self>) -> Option<Self::Response>;

    /// Whether two responses differ only in what may differ from run to run.
    fn are_alike(one: &Self::Response, other: &Self::Response) -> bool;

    /// The part that is at fault.
    fn part_at_fault(error: &Self::Error) -> Self::Part;

    /// Whether the only fault is the version, so that the parts behind it can be read all the same.
    fn is_other_version(error: &Self::Error) -> bool;

    /// Whether a failure without a message is excused, because another check reports what is wrong.
    fn excuses_silence(plugin: &Plugin, run: &Observed<Self>) -> bool;

    /// What the plugin was given and what it printed.
    fn secrets(&self, plugin: &Plugin, runs: &[Observed<Self>]) -> Secrets;
}

/// What the shared checks say in terms of one protocol.
pub(crate) struct Texts {
    /// The reason for a response that differs from the reference.
    pub(crate) differs: &'static str,
    /// The reason for exit code 0 without output, and advice.
    pub(crate) no_output: (&'static str, &'static str),
    /// Advice for a plugin that must have a response and has none.
    pub(crate) no_response: &'static str,
    /// What a plugin does that passes the check `repeated`, and advice for one that does not.
    pub(crate) repeated: (&'static str, &'static str),
    /// Advice for the check `concurrent`.
    pub(crate) concurrent: &'static str,
    /// Advice for the check `leftovers`.
    pub(crate) leftovers: &'static str,
    /// Advice for the check `stderr-noise`.
    pub(crate) stderr_noise: &'static str,
    /// Advice for the check `stderr-secrets`.
    pub(crate) stderr_secrets: &'static str,
    /// Advice for the check `failure-message`.
    pub(crate) failure_message: &'static str,
}
