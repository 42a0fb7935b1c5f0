//! `keyfob audience serve`.
//!
//! It is the one command that lingers after a signal: API servers learn only after a while that its pod goes, and send it reviews
//! until then. So after a SIGTERM it takes requests for `LINGER` more; after any signal those that it has may end within
//! `DRAIN`. A second signal ends it at once.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use keyfob_api::GoDuration;
use keyfob_control::{
    facts::Cluster,
    rule::Policy,
    server::{CertificateError, Certificates, Limits, TlsError, serve, tls_with},
    webhook::{BODY_SIZE, Health, OnUndecided, Options, router},
};
use keyfob_exec::SystemClock;
use thiserror::Error;
use tokio::{net::TcpListener, signal::unix::SignalKind};

use crate::{
    Outcome, Verdict,
    api_args::{ApiArgs, ApiError},
    audience::api_audiences::ApiAudiences,
    logging::LogArgs,
    signals::{self, GRACE, Stop, Workers},
};

/// How often the certificate's files are read.
const RENEWAL: Duration = Duration::from_secs(10);
/// How often the API server is asked whether it is there and what its audiences are, and how long its answer counts.
const PROBE: Duration = Duration::from_secs(10);
const FRESH: Duration = Duration::from_secs(30);
/// How long requests still come after a SIGTERM: until every API server knows that this pod goes.
const LINGER: Duration = Duration::from_secs(5);
/// How long requests may go on when no more come: a decision may take so long.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "Paths: /validate for the API server, /livez, /readyz and /metrics.\n\
                  Exit codes: 0 it was stopped, 2 wrong usage, or the certificate, the cluster or the address cannot be used, \
                  4 the result could not be written.")]
pub(super) struct ServeArgs {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443")]
    listen: SocketAddr,
    /// The certificate, PEM. It is read again when it changes, and so is its key.
    #[arg(long, value_name = "FILE")]
    tls_cert: PathBuf,
    /// The private key of the certificate, PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// How long a decision may take. It takes less if the API server waits less.
    #[arg(long, value_name = "DURATION", default_value = "4s", value_parser = duration)]
    timeout: Duration,
    /// What happens when the API server cannot be asked, or not in time.
    #[arg(long, value_enum, default_value_t)]
    on_undecided: Choice,
    /// How many decisions may be on their way; more are refused at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    at_once: u16,
    /// KEP-4412's list: audiences that every node may ask for.
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',')]
    allowed_kubelet_audiences: Vec<String>,
    /// The API server's own audiences, as in its flag of this name. Without it: those of the token of the pod this runs in, else
    /// the issuer of the API server's tokens.
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    api_audiences: Vec<String>,
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Choice {
    /// No token is given: pods that need one wait.
    #[default]
    Deny,
    /// The token is given, with a warning: a node may have what the rule forbids.
    Allow,
}

pub(super) fn run(args: &ServeArgs) -> Outcome {
    args.logs.start();
    match Workers::new().and_then(|runtime| runtime.block_on(args.serve())) {
        Ok(Ok(())) => Outcome::default(),
        Ok(Err(error)) => error.into(),
        Err(error) => ServeError::from(error).into(),
    }
}

impl ServeArgs {
    async fn serve(&self) -> Result<(), ServeError> {
        let (certificate, key) = (self.tls_cert.clone(), self.tls_key.clone());
        let certificates = Certificates::watch(certificate, key, RENEWAL, Arc::new(SystemClock))?;
        let tls = tls_with(Arc::clone(&certificates) as _)?;
        let api = self.api.open()?;
        let cluster = Cluster::new(api.client).redacting(api.secrets);
        let health = Health::new(certificates, FRESH);
        let app = router(Arc::new(cluster.clone()), self.options(), Arc::clone(&health));
        let given = self.api_audiences.clone();
        let audiences = ApiAudiences { given, token_file: api.token_file, cluster };
        // Whoever reads that it listens may stop it at once.
        let mut stop = signals::listen(Verdict::Yes, LINGER + DRAIN + GRACE)?;
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|source| ServeError::Listen { address: self.listen, source })?;
        tracing::info!(address = %listener.local_addr()?, api_server = api.server, "webhook listens");
        let limits = Limits { body_size: BODY_SIZE, drain: DRAIN, ..Limits::default() };
        tokio::select! {
            () = serve(listener, tls, app, limits, stopped(&mut stop)) => tracing::info!("webhook stopped"),
            () = health.probe(PROBE, || audiences.learn()) => {}
        }
        Ok(())
    }

    fn options(&self) -> Options {
        Options {
            policy: Policy {
                allowed_kubelet_audiences: self.allowed_kubelet_audiences.clone(),
                api_audiences: self.api_audiences.clone(),
                ..Policy::default()
            },
            on_undecided: match self.on_undecided {
                Choice::Deny => OnUndecided::Deny,
                Choice::Allow => OnUndecided::Allow,
            },
            timeout: self.timeout,
            at_once: usize::from(self.at_once),
        }
    }
}

/// Ends when we shall: at once for people, a little later for a kubelet.
async fn stopped(stop: &mut Stop) {
    if stop.signal().await == SignalKind::terminate() {
        tracing::info!("webhook is to stop; it goes on for a little while");
        tokio::time::sleep(LINGER).await;
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = GoDuration::parse(text).map_err(|error| error.to_string())?;
    let positive = duration.to_std().filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "a decision needs some time: write a duration such as 4s".to_owned())
}

/// Why there is no webhook.
#[derive(Debug, Error)]
enum ServeError {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("cannot listen on {address}: {source}; choose another with --listen")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

impl From<ServeError> for Outcome {
    fn from(error: ServeError) -> Self {
        Self {
            stderr: format!("keyfob: {error}\n"),
            verdict: Verdict::WrongInput,
            ..Self::default()
        }
    }
}
