//! What a plugin is asked, and how.

use keyfob_api::{ExecCluster, ExecCredentialSpec, ExecVersion, Secret};

use super::Client;

/// A server that nobody can have.
const MADE_UP_SERVER: &str = "https://kubernetes.keyfob.invalid:6443";

/// The certificate of an authority whose key nobody has.
const MADE_UP_AUTHORITY: &str = include_str!("authority.pem");

/// As much of an authority's data as fits into a variable, in base64, with room for the rest.
const LARGE_AUTHORITY: usize = 84 << 10;

/// One run's purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// What a client asks, without the cluster.
    Plain,
    /// The same with the cluster, as by `provideClusterInfo: true`.
    Cluster,
    /// As the reference run, in the older version.
    Older,
    /// With the certificates of many authorities.
    LargeAuthority,
    /// With fields that no client knows yet.
    ExtraFields,
    /// Nothing at all.
    NoInfo,
    /// As the reference run, once more.
    Again,
    /// As the reference run, several at once.
    AtOnce,
    /// As the reference run, and nobody listens.
    ClosedStdout,
}

impl Probe {
    /// Which run it is, in a report.
    pub(super) fn when(self) -> &'static str {
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

impl Client {
    /// The request of a run. A plugin that needs the cluster is told of it in all runs, so the reference run decides.
    pub(super) fn info(&self, probe: Probe, reference: Probe) -> Option<Secret<Vec<u8>>> {
        let cluster = match (probe, reference) {
            (Probe::NoInfo, _) => return None,
            (Probe::LargeAuthority, _) => Some(with_many_authorities(self.told_cluster())),
            (Probe::Cluster, _) | (_, Probe::Cluster) => Some(self.told_cluster()),
            _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(probe: Probe, reference: Probe) -> (ExecVersion, ExecCredentialSpec) {
        let client = Client::default();
        let info = client.info(probe, reference).unwrap();
        ExecCredentialSpec::decode(info.expose()).unwrap()
    }

    #[test]
    fn a_plugin_is_asked_as_a_client_asks_it() {
        let plain = (ExecVersion::V1, ExecCredentialSpec::default());
        assert_eq!(told(Probe::Plain, Probe::Plain), plain);
        let (version, spec) = told(Probe::Older, Probe::Cluster);
        assert_eq!((version, spec.interactive), (ExecVersion::V1Beta1, false));
        assert_eq!(spec.cluster.unwrap().server, MADE_UP_SERVER);
    }

    #[test]
    fn unknown_fields_stand_everywhere_and_change_nothing_else() {
        let reference = Probe::Cluster;
        assert_eq!(told(Probe::ExtraFields, reference), told(Probe::Again, reference));
        let client = Client::default();
        let info = client.info(Probe::ExtraFields, reference).unwrap();
        let times = String::from_utf8_lossy(info.expose()).matches("futureFlag").count();
        assert_eq!(times, 3);
    }

    #[test]
    fn many_authorities_fit_into_a_variable_just_so() {
        let client = Client::default();
        let info = client.info(Probe::LargeAuthority, Probe::Plain).unwrap();
        assert!((110_000..131_000).contains(&info.expose().len()), "{}", info.expose().len());
    }
}
