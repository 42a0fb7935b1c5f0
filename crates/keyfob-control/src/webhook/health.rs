//! Whether a webhook can do its work.

use std::{
    error::Error,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keyfob_api::Chain;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::server::Certificates;

/// What a webhook needs: a certificate, and an API server that answers and whose audiences are known.
#[derive(Debug)]
pub struct Health {
    certificates: Arc<Certificates>,
    fresh: Duration,
    api_server: Mutex<Heard>,
}

/// What was last heard of the API server.
#[derive(Debug, Default)]
struct Heard {
    answered: Option<Instant>,
    audiences: Vec<String>,
    failure: Option<Box<dyn Error + Send + Sync>>,
}

impl Health {
    /// An answer of the API server is worth something for as long as it is `fresh`.
    pub fn new(certificates: Arc<Certificates>, fresh: Duration) -> Arc<Self> {
        Arc::new(Self { certificates, fresh, api_server: Mutex::default() })
    }

    /// Asks the API server every so often whether it is there, and what its own audiences are. It never ends. A failure is shown
    /// in the report with its sources, so none of them may hold a secret.
    pub async fn probe<A, E>(&self, every: Duration, ask: impl Fn() -> A)
    where
        A: Future<Output = Result<Vec<String>, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        loop {
            self.hear(ask().await.map_err(Into::into));
            tokio::time::sleep(every).await;
        }
    }

    fn hear(&self, answer: Result<Vec<String>, Box<dyn Error + Send + Sync>>) {
        let mut heard = self.heard();
        match answer {
            Ok(audiences) => {
                if heard.audiences != audiences {
                    tracing::info!(audiences = audiences.join(","), "audiences of the API server");
                }
                *heard = Heard { answered: Some(Instant::now()), audiences, failure: None };
            }
            Err(error) => heard.failure = Some(error),
        }
    }

    /// The API server's own audiences; none while they are not known.
    pub(crate) fn api_audiences(&self) -> Vec<String> {
        self.heard().audiences.clone()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for each part; an error if one of them is not well.
    pub(crate) fn report(&self) -> Result<String, String> {
        let parts = [("certificate", self.certificate()), ("api-server", self.api_server())];
        let well = parts.iter().all(|(_, state)| state.is_ok());
        let mut report = String::new();
        for (part, state) in parts {
            match state {
                Ok(()) => writeln!(report, "[+] {part}: ok"),
                Err(error) => writeln!(report, "[-] {part}: {error}"),
            }
            // A String takes everything.
            .unwrap_or_default();
        }
        if well { Ok(report) } else { Err(report) }
    }

    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.certificates.register_metrics(registry);
    }

    fn certificate(&self) -> Result<(), String> {
        if self.certificates.has_expired() { Err("it has expired".to_owned()) } else { Ok(()) }
    }

    fn api_server(&self) -> Result<(), String> {
        let heard = self.heard();
        let silence = heard.answered.map(|at| at.elapsed());
        if silence.is_some_and(|silence| silence <= self.fresh) {
            return Ok(());
        }
        let since = match silence {
            Some(silence) => format!("it last answered {}s ago", silence.as_secs()),
            None => "it has not answered yet".to_owned(),
        };
        match &heard.failure {
            Some(error) => Err(format!("{since}: {}", Chain(&**error))),
            None => Err(since),
        }
    }
}
