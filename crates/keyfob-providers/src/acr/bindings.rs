//! AKS identity bindings: the cluster's API server trades a pod's token for one of Microsoft Entra ID.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use keyfob_api::Secret;
use keyfob_plugin::{Call, Failure};
use serde::Deserialize;

use super::SCOPE;
use crate::http::{Http, Reply};

/// What is told of identity bindings at the command line.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BindingsArgs {
    /// Trade the pod's token at the API server, which is known by this name in TLS.
    #[arg(long = "ib-sni-name", value_name = "NAME", help_heading = HEADING)]
    sni_name: Option<String>,
    /// The client ID for service accounts without the annotation.
    #[arg(long = "ib-default-client-id", value_name = "ID", help_heading = HEADING)]
    default_client_id: Option<String>,
    /// The tenant ID for service accounts without the annotation.
    #[arg(long = "ib-default-tenant-id", value_name = "ID", help_heading = HEADING)]
    default_tenant_id: Option<String>,
    /// Where the API server is: an address or a name, with a port if it is not 443.
    #[arg(long = "ib-apiserver-ip", value_name = "ADDRESS", help_heading = HEADING)]
    apiserver_ip: Option<String>,
    /// The certificates that the API server's must come from.
    #[arg(long = "ib-ca-file", id = "ib_ca_file", value_name = "FILE", default_value = CA_FILE, help_heading = HEADING)]
    ca_file: PathBuf,
}

const HEADING: &str = "Identity bindings";
const CA_FILE: &str = "/etc/kubernetes/certs/ca.crt";

/// Identity bindings, as they are configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bindings {
    sni: String,
    server: Server,
    ca_file: PathBuf,
    pub(super) client_id: Option<String>,
    pub(super) tenant_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    At(SocketAddr),
    Named(String),
}

const NOT_AN_ADDRESS: &str = "ib-apiserver-ip must be a valid IP address or resolvable FQDN";

impl BindingsArgs {
    /// The bindings, if the cluster has them. A flag with an empty value is as good as none.
    pub(super) fn checked(self) -> Result<Option<Bindings>, Failure> {
        let flags =
            [self.sni_name, self.apiserver_ip, self.default_client_id, self.default_tenant_id];
        let (sni, server, client_id, tenant_id) =
            match flags.map(|flag| flag.filter(|value| !value.is_empty())) {
                [None, None, None, None] => return Ok(None),
                [Some(sni), server, client_id, tenant_id] => (sni, server, client_id, tenant_id),
                _ => return refused("ib-sni-name must be set when another --ib flag is"),
            };
        if sni.contains("://") {
            return refused("ib-sni-name must not contain protocol prefix: it is a bare name");
        }
        if !is_name(&sni) {
            return refused("ib-sni-name must be the name of a host, and nothing else");
        }
        let Some(server) = server else {
            return refused("ib-apiserver-ip must be set when ib-sni-name is");
        };
        let Some(server) = Server::parse(server) else { return refused(NOT_AN_ADDRESS) };
        Ok(Some(Bindings { sni, server, ca_file: self.ca_file, client_id, tenant_id }))
    }
}

fn refused<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::new(why))
}

impl Server {
    const PORT: u16 = 443;

    fn parse(text: String) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::At((address, Self::PORT).into()));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::At(address));
        }
        is_name(&text).then_some(Self::Named(text))
    }

    async fn address(&self) -> Result<SocketAddr, Failure> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let name = match self {
            Self::At(address) => return Ok(*address),
            Self::Named(name) => name.as_str(),
        };
        let found =
            tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, Self::PORT))).await;
        let found: Vec<_> = found.ok().and_then(Result::ok).into_iter().flatten().collect();
        let first = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
        first.copied().ok_or_else(|| Failure::new(format!("{NOT_AN_ADDRESS}: {name} is not found")))
    }
}

/// What DNS could know: what ends in a number is an address, or none at all.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[derive(Deserialize)]
struct Traded {
    #[serde(default)]
    access_token: String,
}

impl Bindings {
    /// A token of Microsoft Entra ID for the pod's. The API server is asked at its own address, past any proxy.
    pub(super) async fn token(
        &self,
        client_id: &str,
        token: &Secret<String>,
        call: &Call,
    ) -> Result<Secret<String>, Failure> {
        call.step("trading the pod's token at the API server");
        let http = Http::pinned(&self.sni, self.server.address().await?, &self.ca_file);
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("scope", SCOPE),
            ("client_assertion", token.expose()),
            ("client_id", client_id),
        ];
        let sent = http.post(format!("https://{}", self.sni)).form(&form).send(call).await;
        let traded: Traded = sent.and_then(Reply::success)?.json()?;
        if traded.access_token.is_empty() {
            return Err(Failure::new("identity bindings: the API server gave no access token"));
        }
        Ok(traded.access_token.into())
    }

    #[cfg(test)]
    pub(super) fn for_tests(sni: &str) -> Self {
        let server = Server::At(([127, 0, 0, 1], Server::PORT).into());
        let (ca_file, sni) = (PathBuf::new(), sni.to_owned());
        Self { sni, server, ca_file, client_id: None, tenant_id: None }
    }

    #[cfg(test)]
    pub(super) fn with_client(self, client_id: &str) -> Self {
        Self { client_id: Some(client_id.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(
        sni: &str,
        client: &str,
        tenant: &str,
        ip: &str,
    ) -> Result<Option<Bindings>, String> {
        let args = BindingsArgs {
            sni_name: Some(sni.into()),
            default_client_id: Some(client.into()),
            default_tenant_id: Some(tenant.into()),
            apiserver_ip: Some(ip.into()),
            ca_file: "/ca".into(),
        };
        args.checked().map_err(|failure| failure.to_string())
    }

    fn refusal(sni: &str, client: &str, tenant: &str, ip: &str) -> String {
        checked(sni, client, tenant, ip).unwrap_err()
    }

    #[test]
    fn without_flags_there_are_no_bindings() {
        assert_eq!(checked("", "", "", ""), Ok(None));
    }

    #[test]
    fn the_api_server_is_an_address_or_a_name() {
        for (given, server) in [
            ("10.0.0.1", Server::At("10.0.0.1:443".parse().unwrap())),
            ("2001:db8::1", Server::At("[2001:db8::1]:443".parse().unwrap())),
            ("10.0.0.1:6443", Server::At("10.0.0.1:6443".parse().unwrap())),
            ("api.internal", Server::Named("api.internal".into())),
        ] {
            let bindings = checked("api.example.com", "c", "t", given).unwrap().unwrap();
            assert_eq!(bindings.server, server);
            assert_eq!(bindings.client_id.as_deref(), Some("c"));
        }
    }

    #[test]
    fn flags_that_make_no_sense_are_told_so() {
        let server = "10.0.0.1";
        for prefix in ["http://", "https://"] {
            let refusal = refusal(&format!("{prefix}api.example.com"), "", "", server);
            assert!(refusal.contains("must not contain protocol prefix"), "{refusal}");
        }
        assert!(refusal("a.example/x", "", "", server).contains("must be the name of a host"));
        assert!(refusal("api.example.com", "", "", "").contains("ib-apiserver-ip must be set"));
        for (client, tenant, ip) in [("c", "", ""), ("", "t", ""), ("", "", server)] {
            assert!(refusal("", client, tenant, ip).contains("ib-sni-name must be set"));
        }
        for ip in ["999.999.999.999", "a b", "10.0.0.1/8", "https://api"] {
            let refusal = refusal("api.example.com", "", "", ip);
            assert!(refusal.contains("must be a valid IP address or resolvable FQDN"), "{refusal}");
        }
    }

    #[tokio::test]
    async fn a_name_is_looked_up() {
        let address = Server::Named("localhost".into()).address().await.unwrap();
        assert!(address.ip().is_loopback() && address.port() == 443, "{address}");
    }
}
