//! What a plugin is asked, and how.

use std::{ffi::OsString, fmt, os::unix::ffi::OsStringExt as _, sync::Arc, time::Duration};

use keyfob_api::{ExecCluster, ExecCredentialSpec, ExecVersion, Secret, speaks_of_a_secret};
use keyfob_exec::{Clock, Invocation, Limits, Program, Runner, Stdout, SystemClock};
use tokio::task::JoinSet;

use super::super::{
    NoAnswer,
    common::Purpose,
    observe::Observed,
    plan::{AT_ONCE, MOST_OUTPUT, SLOW},
};

/// A server that nobody can have.
const MADE_UP_SERVER: &str = "https://kubernetes.keyfob.invalid:6443";

/// The certificate of an authority whose key nobody has.
const MADE_UP_AUTHORITY: &str = include_str!("authority.pem");

/// As much of an authority's data as fits into a variable, in base64, with room for the rest.
const LARGE_AUTHORITY: usize = 84 << 10;

/// A plugin, and what it is to be asked.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) program: Program,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(String, Secret<String>)>,
    pub(super) cluster: Option<ExecCluster>,
    pub(super) timeout: Duration,
    pub(super) no_answer: NoAnswer,
    pub(super) clock: Arc<dyn Clock>,
}

/// One run's purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// What a client asks, without the cluster.
    Plain,
    /// The same with the cluster, as by `provideClusterInfo: true`.
    Cluster,
    /// As usual, in the older version.
    Older,
    /// With the certificates of many authorities.
    LargeAuthority,
    /// With fields that no client knows yet.
    ExtraFields,
    /// Nothing at all.
    NoInfo,
    /// As usual, once more.
    Again,
    /// As usual, several at once.
    AtOnce,
    /// As usual, and nobody listens.
    ClosedStdout,
}

/// Whether requests tell of the cluster unless there is a reason: a plugin may need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usual {
    WithoutCluster,
    WithCluster,
}

impl Purpose for Probe {
    fn when(self) -> &'static str {
        match self {
            Self::Plain => "when asked as a client asks",
            Self::Cluster => "when told of the cluster",
            Self::Older => "when asked in v1beta1",
            Self::LargeAuthority => "when the cluster has many authorities",
            Self::ExtraFields => "when the request has unknown fields",
            Self::NoInfo => "when KUBERNETES_EXEC_INFO is not set",
            Self::Again => "when asked a second time",
            Self::AtOnce => "when several run at once",
            Self::ClosedStdout => "when nobody reads its stdout",
        }
    }
}

impl Subject {
    pub(super) fn new(program: Program) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: Vec::new(),
            cluster: None,
            timeout: Duration::from_mins(1),
            no_answer: NoAnswer::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// Runs the whole plan. A plugin that cannot be started, or does not end, is run only once.
    pub(super) async fn observe(&self, runner: Arc<dyn Runner>) -> (Usual, Vec<Observed<Probe>>) {
        let one =
            async |probe, usual| Observed::of(probe, self.invocation(probe, usual), &*runner).await;
        let plain = one(Probe::Plain, Usual::WithoutCluster).await;
        if !plain.has_an_end() {
            return (Usual::WithoutCluster, vec![plain]);
        }
        let cluster = one(Probe::Cluster, Usual::WithCluster).await;
        let usual = match (plain.answer(), cluster.answer()) {
            (None, Some(_)) => Usual::WithCluster,
            _ => Usual::WithoutCluster,
        };
        let mut runs = vec![plain, cluster];
        for probe in [
            Probe::Older,
            Probe::LargeAuthority,
            Probe::ExtraFields,
            Probe::NoInfo,
            Probe::Again,
            Probe::ClosedStdout,
        ] {
            runs.push(one(probe, usual).await);
        }
        let mut at_once = JoinSet::new();
        for _ in 0..AT_ONCE {
            let invocation = self.invocation(Probe::AtOnce, usual);
            let runner = Arc::clone(&runner);
            at_once.spawn(async move { Observed::of(Probe::AtOnce, invocation, &*runner).await });
        }
        runs.extend(at_once.join_all().await);
        (usual, runs)
    }

    fn invocation(&self, probe: Probe, usual: Usual) -> Invocation {
        let limits = Limits { stdout: MOST_OUTPUT, ..Limits::default() };
        let mut invocation = Invocation::new(self.program.clone())
            .args(&self.args)
            .limits(limits)
            .deadline(self.deadline(probe));
        for (name, value) in &self.env {
            invocation = invocation.env(name, value.expose());
        }
        for (_, value) in self.secret_variables() {
            invocation = invocation.redact(value.clone());
        }
        if let Some(info) = self.info(probe, usual) {
            let info = OsString::from_vec(info.expose().clone());
            invocation = invocation.env("KUBERNETES_EXEC_INFO", info);
        }
        match probe {
            Probe::ClosedStdout => invocation.stdout(Stdout::Closed),
            _ => invocation,
        }
    }

    /// The variables whose names say that they are secrets.
    pub(super) fn secret_variables(&self) -> impl Iterator<Item = &(String, Secret<String>)> {
        self.env.iter().filter(|(name, _)| speaks_of_a_secret(name))
    }

    fn deadline(&self, probe: Probe) -> Duration {
        match probe {
            Probe::NoInfo => self.timeout.min(SLOW),
            _ => self.timeout,
        }
    }

    fn info(&self, probe: Probe, usual: Usual) -> Option<Secret<Vec<u8>>> {
        let cluster = match (probe, usual) {
            (Probe::NoInfo, _) => return None,
            (Probe::LargeAuthority, _) => Some(with_many_authorities(self.told_cluster())),
            (Probe::Cluster, _) | (_, Usual::WithCluster) => Some(self.told_cluster()),
            (_, Usual::WithoutCluster) => None,
        };
        let spec = ExecCredentialSpec { cluster, ..Default::default() };
        Some(match probe {
            Probe::Older => spec.encode(ExecVersion::V1Beta1),
            Probe::ExtraFields => with_unknown_fields(&spec.encode(ExecVersion::V1)),
            _ => spec.encode(ExecVersion::V1),
        })
    }

    fn told_cluster(&self) -> ExecCluster {
        self.cluster.clone().unwrap_or_else(|| ExecCluster {
            server: MADE_UP_SERVER.into(),
            certificate_authority_data: MADE_UP_AUTHORITY.into(),
            ..Default::default()
        })
    }
}

fn with_many_authorities(mut cluster: ExecCluster) -> ExecCluster {
    let data = &mut cluster.certificate_authority_data;
    while data.len() + MADE_UP_AUTHORITY.len() < LARGE_AUTHORITY {
        data.extend_from_slice(MADE_UP_AUTHORITY.as_bytes());
    }
    cluster
}

/// A client of the years to come.
fn with_unknown_fields(info: &Secret<Vec<u8>>) -> Secret<Vec<u8>> {
    const FIELDS: &str = r#""futureField":{"list":[1,null,"text"]},"futureFlag":true,"#;
    let mut text = String::from_utf8_lossy(info.expose()).into_owned();
    for object in ["\"spec\":{", "\"cluster\":{"] {
        text = text.replacen(object, &format!("{object}{FIELDS}"), 1);
    }
    text = text.replacen('{', &format!("{{{FIELDS}"), 1);
    Secret::new(text.into_bytes())
}

/// Arguments, variables and the cluster may hold secrets.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("program", &self.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(probe: Probe, usual: Usual) -> (ExecVersion, ExecCredentialSpec) {
        let subject = Subject::new(Program::at("/opt/plugin").unwrap());
        let info = subject.info(probe, usual).unwrap();
        ExecCredentialSpec::decode(info.expose()).unwrap()
    }

    #[test]
    fn a_plugin_is_asked_as_a_client_asks_it() {
        let plain = (ExecVersion::V1, ExecCredentialSpec::default());
        assert_eq!(told(Probe::Plain, Usual::WithoutCluster), plain);
        let (version, spec) = told(Probe::Older, Usual::WithCluster);
        assert_eq!((version, spec.interactive), (ExecVersion::V1Beta1, false));
        assert_eq!(spec.cluster.unwrap().server, MADE_UP_SERVER);
    }

    #[test]
    fn unknown_fields_stand_everywhere_and_change_nothing_else() {
        let usual = Usual::WithCluster;
        assert_eq!(told(Probe::ExtraFields, usual), told(Probe::Again, usual));
        let subject = Subject::new(Program::at("/opt/plugin").unwrap());
        let info = subject.info(Probe::ExtraFields, usual).unwrap();
        let times = String::from_utf8_lossy(info.expose()).matches("futureFlag").count();
        assert_eq!(times, 3);
    }

    #[test]
    fn many_authorities_fit_into_a_variable_just_so() {
        let subject = Subject::new(Program::at("/opt/plugin").unwrap());
        let info = subject.info(Probe::LargeAuthority, Usual::WithoutCluster).unwrap();
        assert!((110_000..131_000).contains(&info.expose().len()), "{}", info.expose().len());
    }
}
