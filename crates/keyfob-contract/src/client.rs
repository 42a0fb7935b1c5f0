//! The plugins of a kubeconfig: what a client asks them, and the checks that are theirs alone.

mod credential;
mod pem;
mod plan;
mod requests;
mod response;

use std::{ffi::OsString, fmt, os::unix::ffi::OsStringExt as _, sync::Arc};

use keyfob_api::{ExecAnswerError, ExecCluster, ExecCredentialStatus, ExecVersion, Secret};
use keyfob_exec::{Clock, Invocation, Program, Runner};

use crate::{
    PluginConformance, Report,
    case::Case,
    checks::{self, Check, check},
    observe::{End, Observed, span},
    plugin::{Plugin, SLOW},
    process,
    protocol::{Protocol, Texts},
    report::Verdict,
    secrets::{Secrets, passwords},
};
use plan::Probe;
use response::Part;

/// A plugin of a kubeconfig's `exec` user, and what it is to be asked.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use keyfob_exec::{ProcessRunner, Program, SystemEnvironment};
/// use keyfob_contract::{ClientConformance, Grade};
///
/// let report = ClientConformance::of(Program::at("/opt/bin/my-login")?)
///     .args(["get-token", "--issuer=https://login.example.com"])
///     .report(Arc::new(ProcessRunner::new(SystemEnvironment)))
///     .await;
/// assert_eq!(report.count(Grade::Fail), 0, "{report:#?}");
/// # Ok(())
/// # }
/// ```
pub type ClientConformance = PluginConformance<Client>;

/// The protocol of a kubeconfig's clients, with the cluster of their requests.
#[derive(Clone, Default)]
pub struct Client {
    cluster: Option<ExecCluster>,
}

#[rustfmt::skip]
const CHECKS: [Check<Client>; 24] = [
    check("start", "the file is there and can be run", process::start),
    check("non-interactive", "without a person at the terminal it does not wait for one", non_interactive),
    check("answer", "it answers", response::answer),
    check("json", "the answer is one JSON object, and nothing else is on stdout", response::json),
    check("api-version", "a request of v1 is answered in v1", response::api_version),
    check("kind", "the answer is an ExecCredential", response::kind),
    check("fields", "no field is of the wrong type", response::fields),
    check("status", "there is a token, or a certificate with its key, or both", response::status),
    check("token", "the token can stand in a header", credential::token),
    check("identity", "certificate and key are PEM", credential::identity),
    check("expiry", "expirationTimestamp is RFC 3339, in UTC and in the future", credential::expiry),
    check("older-version", "v1beta1 is answered in kind, or refused", requests::older_version),
    check("cluster-info", "it copes with the cluster's description, and without", requests::cluster_info),
    check("large-authority", "a cluster with many authorities changes nothing", requests::large_authority),
    check("extra-fields", "fields that a later client may send change nothing", requests::extra_fields),
    check("no-info", "without KUBERNETES_EXEC_INFO it fails, and says so", requests::no_info),
    check("repeated", "asked again, it answers alike", process::repeated),
    check("concurrent", "eight at once all answer", process::concurrent),
    check("closed-stdout", "it notices when nobody reads its answer", process::closed_stdout),
    check("time", "it is quick: somebody waits for each command", time),
    check("leftovers", "nothing that it started stays behind with its stdout or stderr", process::leftovers),
    check("stderr-noise", "it is silent when all is well", process::stderr_noise),
    check("stderr-secrets", "no token and no key is on stderr", process::stderr_secrets),
    check("failure-message", "when it fails it says why", process::failure_message),
];

const TEXTS: Texts = Texts {
    differs: "there is another sort of credential than before",
    no_output: (
        "exit code 0, and nothing on stdout: a client takes that for a broken plugin",
        "print an ExecCredential; if there is none to be had, say why on stderr and exit with 1",
    ),
    no_response: "run it with the arguments, the variables and the cluster (--exec-info) that it needs to log in without a \
                  person; or allow it to have no answer here (--allow-no-answer)",
    repeated: (
        "the same sort of answer",
        "answer each request for itself: every kubectl asks again",
    ),
    concurrent: "share no file or port between runs without a lock: people run several kubectls at once",
    leftovers: "wait for what it starts, or give that other streams: a client waits until all have closed its stdout, \
                for ever",
    stderr_noise: "keep quiet: a client shows stderr to the person at each command",
    stderr_secrets: "never print it: a client shows stderr to the person, and pipelines keep it in their logs",
    failure_message: "say in one line what failed and what to do: a client knows the exit code only",
};

/// The name of each check of a kubeconfig's plugin, and what it looks at.
pub fn client_checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    checks::listed::<Client>()
}

impl ClientConformance {
    /// This plugin.
    pub fn of(program: Program) -> Self {
        Self::new(program, Client::default())
    }

    /// The cluster that the plugin is told of. Without one it is made up, and nobody is there.
    #[must_use]
    pub fn cluster(mut self, cluster: ExecCluster) -> Self {
        self.protocol.cluster = Some(cluster);
        self
    }

    /// Another clock, by which credentials end.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.plugin.clock = clock;
        self
    }

    /// Runs the plugin some fifteen times, and judges.
    pub async fn report(&self, runner: Arc<dyn Runner>) -> Report {
        crate::report(self, runner).await
    }
}

/// The cluster may hold secrets.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Protocol for Client {
    type Probe = Probe;
    type Response = ExecCredentialStatus;
    type Error = ExecAnswerError;
    type Part = Part;

    const FIRST: Probe = Probe::Plain;
    const AGAIN: Probe = Probe::Again;
    const AT_ONCE: Probe = Probe::AtOnce;
    const CLOSED_STDOUT: Probe = Probe::ClosedStdout;
    const CHECKS: &'static [Check<Self>] = &CHECKS;
    const TEXTS: Texts = TEXTS;

    fn further_probes(&self) -> Vec<Probe> {
        vec![
            Probe::Cluster,
            Probe::Older,
            Probe::LargeAuthority,
            Probe::ExtraFields,
            Probe::NoInfo,
            Probe::Again,
            Probe::ClosedStdout,
        ]
    }

    /// A plugin that answers only when it is told of the cluster needs it in the other runs too.
    fn reference(runs: &[Observed<Self>]) -> Probe {
        let answers = |probe| {
            runs.iter().find(|run| run.probe == probe).and_then(Observed::response).is_some()
        };
        if !answers(Probe::Plain) && answers(Probe::Cluster) {
            Probe::Cluster
        } else {
            Probe::Plain
        }
    }

    fn prepare(&self, invocation: Invocation, probe: Probe, reference: Probe) -> Invocation {
        match self.info(probe, reference) {
            Some(info) => {
                let info = OsString::from_vec(info.expose().clone());
                invocation.env("KUBERNETES_EXEC_INFO", info)
            }
            None => invocation,
        }
    }

    fn must_be_quick(probe: Probe) -> bool {
        probe == Probe::NoInfo
    }

    fn when(probe: Probe) -> &'static str {
        probe.when()
    }

    fn decode(stdout: &[u8]) -> Result<ExecCredentialStatus, ExecAnswerError> {
        ExecCredentialStatus::decode(stdout, ExecVersion::V1)
    }

    fn decode_any_version(stdout: &[u8]) -> Result<ExecCredentialStatus, ExecAnswerError> {
        match Self::decode(stdout) {
            Err(ExecAnswerError::Version { returned: Some(version), .. }) => {
                ExecCredentialStatus::decode(stdout, version)
            }
            decoded => decoded,
        }
    }

    fn comparable(run: &Observed<Self>) -> Option<ExecCredentialStatus> {
        run.response()
    }

    /// Tokens and times may differ from run to run.
    fn are_alike(one: &ExecCredentialStatus, other: &ExecCredentialStatus) -> bool {
        let shape = |status: &ExecCredentialStatus| {
            (status.token.is_some(), status.identity.is_some(), status.expiration.is_some())
        };
        shape(one) == shape(other)
    }

    fn part_at_fault(error: &ExecAnswerError) -> Part {
        Part::at_fault(error)
    }

    fn is_other_version(error: &ExecAnswerError) -> bool {
        matches!(error, ExecAnswerError::Version { returned: Some(_), .. })
    }

    fn excuses_silence(_: &Plugin, _: &Observed<Self>) -> bool {
        false
    }

    fn secrets(&self, plugin: &Plugin, runs: &[Observed<Self>]) -> Secrets {
        let proxy = self.cluster.iter().map(|cluster| cluster.proxy_url.clone());
        let proxy = proxy.map(|url| ("the proxy's URL".to_owned(), url));
        let printed = runs.iter().flat_map(|run| passwords(run.stdout.expose()));
        // Of a key each line tells as much as the whole.
        let printed = printed.flat_map(|secret| {
            let lines = pem::secret_lines(secret.expose());
            lines.map(Secret::from).chain([secret.clone()]).collect::<Vec<_>>()
        });
        let credential = |secret| ("a token or key that it hands out".to_owned(), secret);
        let known = plugin.described_secrets().chain(proxy).chain(printed.map(credential));
        let unreadable = runs.iter().filter(|run| run.response().is_none());
        Secrets::new(known, unreadable.map(|run| run.stdout.clone()))
    }
}

fn non_interactive(case: &Case<'_, Client>) -> Vec<Verdict> {
    case.for_run(Probe::Plain, |run| match run.end {
        End::Hung(after) => Verdict::fail(
            format!(
                "it was still running after {} and was killed, though \"interactive\" is false and stdin is empty{}",
                span(after),
                case.secrets.stderr_excerpt(run)
            ),
            "without a person, fail at once and say how to log in; give what it asks over the network a deadline",
        ),
        End::Ended(_) => Verdict::pass("it waits for nobody"),
        End::Flood | End::NotStarted(_) => Verdict::not_checked("it did not get that far"),
    })
}

fn time(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "keep what it got until it ends, or ask fewer servers; \"keyfob kube exec-cache\" keeps it for any plugin";
    let judge =
        |(time, took)| if time > SLOW { Verdict::warn(took, advice) } else { Verdict::pass(took) };
    process::slowest(&case.runs).map(judge).into_iter().collect()
}
