//! Everything that the checks look at.

use keyfob_api::{ExecAnswerError, ExecCredentialStatus, ExecVersion, Secret, Timestamp};

use super::{
    super::{
        NoAnswer,
        case::Likeness,
        observe::{Heard as HeardBy, Observed},
        report::Verdict,
        secrets::{Secrets, passwords},
    },
    pem,
    plan::{Probe, Subject, Usual},
};

const V1: ExecVersion = ExecVersion::V1;

/// What a client makes of a run.
pub(super) type Heard = HeardBy<ExecCredentialStatus, ExecAnswerError>;

/// A plugin and its runs.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) subject: &'a Subject,
    /// When it began.
    pub(super) now: Timestamp,
    pub(super) usual: Usual,
    pub(super) runs: Vec<Observed<Probe>>,
    pub(super) secrets: Secrets,
}

impl Observed<Probe> {
    pub(super) fn heard(&self, version: ExecVersion) -> Heard {
        self.heard_by(|stdout| ExecCredentialStatus::decode(stdout, version))
    }

    /// The answer, even one that says it is of another version.
    pub(super) fn answer(&self) -> Option<ExecCredentialStatus> {
        match self.heard(V1) {
            Heard::Answer(status) => Some(status),
            Heard::Unreadable(ExecAnswerError::Version { returned: Some(version), .. }) => {
                ExecCredentialStatus::decode(self.stdout.expose(), version).ok()
            }
            _ => None,
        }
    }
}

impl<'a> Case<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        now: Timestamp,
        usual: Usual,
        runs: Vec<Observed<Probe>>,
    ) -> Self {
        let secrets = secrets_of(subject, &runs);
        Self { subject, now, usual, runs, secrets }
    }

    pub(super) fn run(&self, probe: Probe) -> Option<&Observed<Probe>> {
        self.runs.iter().find(|run| run.probe == probe)
    }

    /// Judges one run, if there was one.
    pub(super) fn for_run(
        &self,
        probe: Probe,
        judge: impl FnOnce(&Observed<Probe>) -> Verdict,
    ) -> Vec<Verdict> {
        self.run(probe).map(judge).into_iter().collect()
    }

    /// Judges the run that others are compared with.
    pub(super) fn for_usual(
        &self,
        judge: impl FnOnce(&Observed<Probe>) -> Verdict,
    ) -> Vec<Verdict> {
        self.usual_run().map(judge).into_iter().collect()
    }

    fn usual_run(&self) -> Option<&Observed<Probe>> {
        self.run(match self.usual {
            Usual::WithoutCluster => Probe::Plain,
            Usual::WithCluster => Probe::Cluster,
        })
    }

    /// The answer that others are compared with.
    pub(super) fn first_answer(&self) -> Option<ExecCredentialStatus> {
        self.usual_run()?.answer()
    }

    pub(super) fn likeness(&self, run: &Observed<Probe>) -> Likeness {
        let heard = run.heard(V1);
        match (self.first_answer(), run.answer()) {
            (None, _) => self.crash(&heard).map_or(Likeness::Incomparable, Likeness::Broke),
            (Some(first), Some(answer)) if same_shape(&first, &answer) => Likeness::Same,
            (Some(_), Some(_)) => Likeness::Differs,
            (Some(_), None) => Likeness::Broke(self.secrets.told(run, &heard)),
        }
    }

    /// What no plugin may do, whatever it is asked; unless it does so always, which was said before.
    pub(super) fn crash(&self, heard: &Heard) -> Option<String> {
        let first = self.usual_run().and_then(|run| run.heard(V1).crash());
        heard.crash().filter(|_| first.is_none())
    }

    /// For a plugin that fails as it should.
    pub(super) fn no_answer(&self, reason: String) -> Verdict {
        match self.subject.no_answer {
            NoAnswer::MayBe => Verdict::not_checked(reason),
            NoAnswer::Fails => Verdict::fail(
                reason,
                "run it with the arguments, the variables and the cluster (--exec-info) that it needs to log in without a \
                 person; or allow it to have no answer here (--allow-no-answer)",
            ),
        }
    }
}

/// Tokens and times may differ from run to run.
fn same_shape(one: &ExecCredentialStatus, other: &ExecCredentialStatus) -> bool {
    let shape = |status: &ExecCredentialStatus| {
        (status.token.is_some(), status.identity.is_some(), status.expiration.is_some())
    };
    shape(one) == shape(other)
}

fn secrets_of(subject: &Subject, runs: &[Observed<Probe>]) -> Secrets {
    let variable =
        |(name, value): &(String, Secret<String>)| (format!("the value of {name}"), value.clone());
    let proxy = subject.cluster.iter().map(|cluster| cluster.proxy_url.clone());
    let proxy = proxy.map(|url| ("the proxy's URL".to_owned(), url));
    let printed = runs.iter().flat_map(|run| passwords(run.stdout.expose()));
    // Of a key each line tells as much as the whole.
    let printed = printed.flat_map(|secret| {
        let lines = pem::secret_lines(secret.expose());
        lines.map(Secret::from).chain([secret.clone()]).collect::<Vec<_>>()
    });
    let credential = |secret| ("a token or key that it hands out".to_owned(), secret);
    let known =
        subject.secret_variables().map(variable).chain(proxy).chain(printed.map(credential));
    let unreadable = runs.iter().filter(|run| run.answer().is_none());
    Secrets::new(known, unreadable.map(|run| run.stdout.clone()))
}
