//! What a client tells a kubeconfig's plugin, for programs with a `main` of their own.
//!
//! Upstream: `LoadExecCredential` and `LoadExecCredentialFromEnv` in `tools/auth/exec`, `ExecClusterToConfig` in `rest`.
//! Differs: the object can be had without the cluster too; no error quotes what the client sent, nor the proxy's URL.

use std::{fmt, time::SystemTime};

use keyfob_api::{
    ExecCluster, ExecCredentialSpec, ExecInfoError, ExecVersion, GoUrl, InvalidUrl,
    NoClusterInformation, Secret, document::StrictIssue,
};
use keyfob_exec::Environment;
use thiserror::Error;

use crate::{ClusterAnswer, Failure};

/// The variable that clients set to the request.
const EXEC_INFO: &str = "KUBERNETES_EXEC_INFO";

/// The request of a client: an `ExecCredential` in the version that the kubeconfig names.
///
/// [`cluster_main`](crate::cluster_main) does all of this. A program that has another `main`:
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use keyfob_plugin::{ClusterAnswer, ExecInfo};
///
/// # let value = br#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",
/// #     "spec":{"cluster":{"server":"https://c.example","config":null},"interactive":false}}"#;
/// let info = ExecInfo::read(value)?; // or ExecInfo::from_environment(&SystemEnvironment)
/// let cluster = info.anonymous_config()?;
/// let token = format!("a token for {}", cluster.server);
/// let end = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
/// let answer = ClusterAnswer::token(token).expires_at(end);
/// let line = info.answer(answer, SystemTime::UNIX_EPOCH)?; // for stdout, and nothing else there
/// # assert!(line.expose().ends_with(b"\"token\":\"a token for https://c.example\"}}\n"));
/// # Ok::<(), keyfob_plugin::Failure>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecInfo {
    version: ExecVersion,
    spec: ExecCredentialSpec,
    ignored: Vec<StrictIssue>,
}

impl ExecInfo {
    /// What the client of this process asks.
    pub fn from_environment(environment: &dyn Environment) -> Result<Self, LoadError> {
        Self::read(environment.var(EXEC_INFO).unwrap_or_default().as_encoded_bytes())
    }

    /// Reads the value of `KUBERNETES_EXEC_INFO`, in any version.
    pub fn read(info: &[u8]) -> Result<Self, LoadError> {
        if info.is_empty() {
            return Err(LoadError::Unset);
        }
        match ExecCredentialSpec::decode_with_issues(info) {
            Ok((version, spec, ignored)) => Ok(Self { version, spec, ignored }),
            Err(error @ ExecInfoError::OtherKind(_)) => Err(LoadError::OtherKind(error)),
            Err(error) => Err(LoadError::Decode(error)),
        }
    }

    /// The version that the kubeconfig names, which an answer must have too.
    pub fn version(&self) -> ExecVersion {
        self.version
    }

    /// Whether stdin is a person's.
    pub fn interactive(&self) -> bool {
        self.spec.interactive
    }

    /// The cluster, if the kubeconfig says `provideClusterInfo: true`.
    pub fn cluster(&self) -> Option<&ExecCluster> {
        self.spec.cluster.as_ref()
    }

    /// Fields of the request that its version does not have, or has only once, in their order; at most a hundred. A plugin
    /// ignores them, because a later client may send more than it knows.
    pub fn ignored(&self) -> &[StrictIssue] {
        &self.ignored
    }

    /// How to reach the cluster, as nobody in particular: this plugin is the one who would know as whom.
    pub fn anonymous_config(&self) -> Result<AnonymousConfig, LoadError> {
        AnonymousConfig::of(self.spec.required_cluster()?)
    }

    /// The request as the client sent it, without what no version has.
    pub fn encode(&self) -> Secret<Vec<u8>> {
        self.spec.encode(self.version)
    }

    /// An answer as it is printed, in the version asked for; a failure if no client could use it at this time.
    pub fn answer(
        &self,
        answer: ClusterAnswer,
        now: SystemTime,
    ) -> Result<Secret<Vec<u8>>, Failure> {
        Ok(answer.checked(now)?.encode(self.version))
    }
}

/// A cluster's address, whom to trust there, and which way to go: what any HTTP client is made of.
///
/// For [`reqwest`], [`kube`] and the like: `server` is the base of every address; `certificate_authority_data`, unless it
/// is empty, takes the place of the system's roots; `tls_server_name`, unless it is empty, is the name that the
/// certificate must have. Proxies of the environment are not in it. With `keyfob-net`,
/// `Clients::builder().ca_pem(config.certificate_authority_data)` trusts the cluster; that client always checks the
/// server's own name and knows the environment's proxies only, so refuse a cluster with `tls_server_name`,
/// `insecure_skip_tls_verify` or `proxy_url` rather than send it something else than was configured.
///
/// [`reqwest`]: https://docs.rs/reqwest
/// [`kube`]: https://docs.rs/kube
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnonymousConfig {
    /// The server's URL.
    pub server: String,
    /// The name to check the server's certificate against, if not the URL's.
    pub tls_server_name: String,
    /// Whether the server's certificate is not checked at all.
    pub insecure_skip_tls_verify: bool,
    /// PEM certificates to check the server's with; empty means the system's.
    pub certificate_authority_data: Vec<u8>,
    /// The proxy's URL, which may hold a password. It can be parsed.
    pub proxy_url: Option<Secret<String>>,
    /// Whether answers must not be compressed.
    pub disable_compression: bool,
}

impl AnonymousConfig {
    fn of(cluster: &ExecCluster) -> Result<Self, LoadError> {
        let proxy_url = Some(&cluster.proxy_url).filter(|url| !url.expose().is_empty());
        if let Some(url) = proxy_url {
            GoUrl::parse(url.expose()).map_err(LoadError::ProxyUrl)?;
        }
        Ok(Self {
            server: cluster.server.clone(),
            tls_server_name: cluster.tls_server_name.clone(),
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
            certificate_authority_data: cluster.certificate_authority_data.clone(),
            proxy_url: proxy_url.cloned(),
            disable_compression: cluster.disable_compression,
        })
    }
}

/// The switches only: URLs may hold passwords, and certificates are long.
impl fmt::Debug for AnonymousConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnonymousConfig")
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("disable_compression", &self.disable_compression)
            .finish_non_exhaustive()
    }
}

/// Why a plugin does not know what it is asked, or about which cluster. The sentences are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Nobody asked.
    #[error("{EXEC_INFO} env var is unset or empty")]
    Unset,
    /// What was sent cannot be read.
    #[error("decode: {0}")]
    Decode(ExecInfoError),
    /// What was sent is another object.
    #[error("{0}")]
    OtherKind(ExecInfoError),
    /// The cluster is not told of.
    #[error(transparent)]
    NoCluster(#[from] NoClusterInformation),
    /// The cluster's proxy is none.
    #[error("cannot create rest.Config: cannot parse proxy URL: {0}")]
    ProxyUrl(InvalidUrl),
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::{LeakCheck, MapEnvironment};

    use super::*;

    fn info(cluster: &str) -> String {
        format!(
            r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{{"cluster":{cluster},"interactive":true}}}}"#
        )
    }

    #[test]
    fn a_program_of_its_own_learns_what_it_is_asked_and_how_to_reach_the_cluster() {
        let text = info(
            r#"{"server":"https://c.example/k","tls-server-name":"n","insecure-skip-tls-verify":true,"certificate-authority-data":"cGVt","proxy-url":"http://me:hunter2@p","disable-compression":true,"config":{"a":[1]}}"#,
        );
        let environment: MapEnvironment = [(EXEC_INFO, text.as_str())].into_iter().collect();

        let info = ExecInfo::from_environment(&environment).unwrap();

        assert_eq!((info.version(), info.interactive()), (ExecVersion::V1Beta1, true));
        assert_eq!(info.cluster().unwrap().config.as_ref().unwrap().as_str(), r#"{"a":[1]}"#);
        assert_eq!(info.encode().expose().trim_ascii_end(), text.as_bytes());
        let config = info.anonymous_config().unwrap();
        let want = AnonymousConfig {
            server: "https://c.example/k".into(),
            tls_server_name: "n".into(),
            insecure_skip_tls_verify: true,
            certificate_authority_data: b"pem".to_vec(),
            proxy_url: Some("http://me:hunter2@p".into()),
            disable_compression: true,
        };
        assert!(config == want, "{config:?}");
        LeakCheck::new(["hunter2"]).debug("info", &info).debug("config", &config);
    }

    #[test]
    fn what_is_missing_is_said_in_upstreams_words() {
        let told = |text: &str| match ExecInfo::read(text.as_bytes()) {
            Ok(info) => info.anonymous_config().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        let bad_proxy = info(r#"{"server":"","proxy-url":"hunter2- url\n"}"#);
        let rows = [
            ("", "KUBERNETES_EXEC_INFO env var is unset or empty"),
            ("{", "decode: invalid JSON at line 1, column 2"),
            (
                "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v9",
                "decode: version client.authentication.k8s.io/v9 is not supported",
            ),
            (
                r#"{"kind":"Status","apiVersion":"v1"}"#,
                "invalid group/kind: wanted ExecCredential.client.authentication.k8s.io, got Status",
            ),
            (&info("null"), "ExecCredential does not contain cluster information"),
            (&bad_proxy, "cannot create rest.Config: cannot parse proxy URL: not a URL"),
        ];
        for (text, want) in rows {
            let told = told(text);
            assert!(told.starts_with(want) && !told.contains("hunter2"), "{told}");
        }
        let nobody = ExecInfo::from_environment(&MapEnvironment::default());
        assert_eq!(nobody, Err(LoadError::Unset));
    }

    #[test]
    fn an_answer_is_of_the_version_asked_for_or_is_none() {
        let now = SystemTime::UNIX_EPOCH;
        let info = ExecInfo::read(info("null").as_bytes()).unwrap();

        let printed = info.answer(ClusterAnswer::token("hunter2"), now).unwrap();
        let status = keyfob_api::ExecCredentialStatus::decode(printed.expose(), info.version());
        assert_eq!(status.unwrap().token.unwrap().expose(), "hunter2");
        assert!(info.answer(ClusterAnswer::token("hunter2").expires_at(now), now).is_err());
    }
}
