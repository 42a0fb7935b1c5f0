//! A provider of cluster credentials: what an `exec` user of a kubeconfig runs.

use std::{
    future::Future,
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{
    ClientIdentity, ExecCluster, ExecCredentialStatus, ExecVersion, Secret, Timestamp,
};
use keyfob_exec::{Clock, SystemClock, SystemEnvironment};

use crate::{
    AnonymousConfig, Call, ExecInfo, Failure, LoadError,
    process::{self, Spoken},
};

/// Long enough for a person to log in; a client sets no deadline of its own.
const DEADLINE: Duration = Duration::from_mins(10);

/// Knows how to log in to clusters.
pub trait ClusterCredentials {
    /// A token or a certificate for the cluster of the request.
    fn credentials(
        &self,
        request: &ClusterRequest,
    ) -> impl Future<Output = Result<ClusterAnswer, Failure>>;
}

/// The whole `main` of a kubeconfig's plugin.
///
/// ```no_run
#[doc = include_str!("../examples/cluster-token.rs")]
/// ```
#[expect(clippy::needless_pass_by_value, reason = "a `main` is the end of what it is given")]
pub fn cluster_main(provider: impl ClusterCredentials) -> ExitCode {
    let name = process::own_name();
    process::converse(&name, DEADLINE, async || {
        let info = ExecInfo::from_environment(&SystemEnvironment);
        speak(&name, &provider, info, Arc::new(SystemClock)).await
    })
}

/// Credentials for a cluster, please.
#[derive(Debug, Clone)]
pub struct ClusterRequest {
    info: ExecInfo,
    call: Call,
}

impl ClusterRequest {
    /// The cluster, if the kubeconfig says `provideClusterInfo: true`.
    pub fn cluster(&self) -> Option<&ExecCluster> {
        self.info.cluster()
    }

    /// How to reach the cluster before there is a credential for it; an error without `provideClusterInfo: true`.
    pub fn anonymous_config(&self) -> Result<AnonymousConfig, LoadError> {
        self.info.anonymous_config()
    }

    /// Whether stdin is a person's.
    pub fn interactive(&self) -> bool {
        self.info.interactive()
    }

    /// The version that the kubeconfig names.
    pub fn version(&self) -> ExecVersion {
        self.info.version()
    }

    /// The run this is part of: its clock, its deadline, its secrets.
    pub fn call(&self) -> &Call {
        &self.call
    }
}

/// A token, a certificate with its key, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterAnswer(ExecCredentialStatus);

impl ClusterAnswer {
    /// A bearer token.
    pub fn token(token: impl Into<Secret<String>>) -> Self {
        Self(ExecCredentialStatus { token: Some(token.into()), ..Default::default() })
    }

    /// A client certificate and its key, in PEM.
    pub fn certificate(
        certificate_pem: impl Into<Secret<String>>,
        key_pem: impl Into<Secret<String>>,
    ) -> Self {
        Self::default().and_certificate(certificate_pem, key_pem)
    }

    /// A client certificate and its key beside the token.
    #[must_use]
    pub fn and_certificate(
        mut self,
        certificate_pem: impl Into<Secret<String>>,
        key_pem: impl Into<Secret<String>>,
    ) -> Self {
        let (certificate_pem, key_pem) = (certificate_pem.into(), key_pem.into());
        self.0.identity = Some(ClientIdentity { certificate_pem, key_pem });
        self
    }

    /// When the credential ends; the client asks again after that. Without it, only when the cluster refuses it.
    #[must_use]
    pub fn expires_at(mut self, end: SystemTime) -> Self {
        self.0.expiration = Some(end.into());
        self
    }

    pub(crate) fn checked(self, now: SystemTime) -> Result<ExecCredentialStatus, Failure> {
        let is_blank = |secret: &Secret<String>| secret.expose().trim().is_empty();
        let status = self.0;
        if status.token.as_ref().is_some_and(is_blank) {
            return Err(Failure::new("the token is empty"));
        }
        if let Some(identity) = &status.identity {
            let (certificate, key) = (&identity.certificate_pem, &identity.key_pem);
            if !certificate.expose().contains("-----BEGIN CERTIFICATE-----") {
                return Err(Failure::new("the certificate is not in PEM"));
            }
            if !(key.expose().contains("-----BEGIN ") && key.expose().contains("PRIVATE KEY-----"))
            {
                return Err(Failure::new("the certificate's key is not in PEM"));
            }
        }
        match status.expiration {
            Some(end) if end <= Timestamp::from(now) => Err(Failure::new(format!(
                "the credential that was issued ended at {end}: look at the clocks of this machine and of the issuer"
            ))),
            _ => Ok(status),
        }
    }
}

/// One conversation, from what the client asks to what is printed.
pub(crate) async fn speak(
    name: &str,
    provider: &impl ClusterCredentials,
    info: Result<ExecInfo, LoadError>,
    clock: Arc<dyn Clock>,
) -> Spoken {
    let call = Call::new(clock, DEADLINE);
    match answer(provider, info, &call).await {
        Ok(stdout) => Spoken::answer(stdout),
        Err(failure) => Spoken::failure(format!("{name}: {}\n", call.tell(&failure.to_string()))),
    }
}

async fn answer(
    provider: &impl ClusterCredentials,
    info: Result<ExecInfo, LoadError>,
    call: &Call,
) -> Result<Secret<Vec<u8>>, Failure> {
    let info = info.map_err(|error| match error {
        LoadError::Unset => {
            Failure::new(format!("{error}: a kubeconfig's exec plugin is run by its client"))
        }
        other => other.into(),
    })?;
    let request = ClusterRequest { info, call: call.clone() };
    let answer = tokio::time::timeout(call.remaining(), provider.credentials(&request)).await;
    let answer = answer.map_err(|_| call.out_of_time())??;
    request.info.answer(answer, call.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nhunter2\n";
    const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nhunter2\n";

    #[test]
    fn what_a_client_can_use_is_handed_on() {
        let later = NOW + Duration::from_secs(1);
        for answer in [
            ClusterAnswer::token("hunter2"),
            ClusterAnswer::token("hunter2").expires_at(later),
            ClusterAnswer::certificate(CERTIFICATE, KEY).expires_at(later),
        ] {
            assert!(answer.clone().checked(NOW).is_ok(), "{answer:?}");
        }
    }

    #[test]
    fn what_no_client_can_use_is_a_failure_that_does_not_quote_it() {
        for (answer, reason) in [
            (ClusterAnswer::token(" \n"), "the token is empty"),
            (ClusterAnswer::token("hunter2").expires_at(NOW), "ended at 1970-01-01T00:00:00Z"),
            (ClusterAnswer::certificate("hunter2", KEY), "the certificate is not in PEM"),
            (ClusterAnswer::certificate(CERTIFICATE, "hunter2"), "the certificate's key"),
            (ClusterAnswer::certificate(CERTIFICATE, CERTIFICATE), "the certificate's key"),
        ] {
            let failure = answer.checked(NOW).unwrap_err().to_string();
            assert!(failure.contains(reason) && !failure.contains("hunter2"), "{failure}");
        }
    }
}
