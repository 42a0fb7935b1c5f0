//! Drives a provider without a process.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use keyfob_plugin::{Answer, Failure, ImageCredentials, ImageRequest, testing::Asking};
//!
//! struct Robot;
//!
//! impl ImageCredentials for Robot {
//!     async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
//!         Ok(Answer::login(request.registry(), "robot", "hunter2"))
//!     }
//! }
//!
//! let answer = Asking::about("r.io/app").of(Robot).await.unwrap();
//! assert_eq!(answer.auth[0].0, "r.io");
//! assert_eq!(answer.auth[0].1.password.expose(), "hunter2");
//! # }
//! ```

use std::{sync::Arc, time::Duration};

use keyfob_api::{
    CredentialProviderRequest, ExecAnswerError, ExecCluster, ExecCredentialSpec, ExecVersion,
    ProviderVersion, ResponseError, Secret,
};
pub use keyfob_api::{CredentialProviderResponse, ExecCredentialStatus};
use keyfob_exec::{Clock, SystemClock};
use thiserror::Error;

use crate::{ClusterCredentials, ExecInfo, ImageCredentials, Plugin, cluster, process::Spoken};

/// A request to come.
#[derive(Debug, Clone)]
pub struct Asking {
    request: CredentialProviderRequest,
    version: ProviderVersion,
    clock: Arc<dyn Clock>,
    deadline: Duration,
}

impl Asking {
    /// A request of version `v1`, without a service account.
    pub fn about(image: impl Into<String>) -> Self {
        let request = CredentialProviderRequest { image: image.into(), ..Default::default() };
        Self {
            request,
            version: ProviderVersion::V1,
            clock: Arc::new(SystemClock),
            deadline: Duration::from_secs(50),
        }
    }

    /// With the token of a service account.
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret<String>>) -> Self {
        self.request.service_account_token = Some(token.into());
        self
    }

    /// With an annotation of the service account.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.service_account_annotations.insert(key.into(), value.into());
        self
    }

    /// In another version.
    #[must_use]
    pub fn version(mut self, version: ProviderVersion) -> Self {
        self.version = version;
        self
    }

    /// At another time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// With another deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Asks, from the bytes of the request to the bytes of the answer. The time may be paused.
    pub async fn of(
        self,
        provider: impl ImageCredentials,
    ) -> Result<CredentialProviderResponse, Refused> {
        let plugin = Plugin::new(provider)
            .named("plugin", "0")
            .words([])
            .deadline(self.deadline)
            .clock(self.clock);
        let spoken = plugin.speak(self.request.encode(self.version).expose()).await;
        let stdout = printed(spoken)?;
        Ok(CredentialProviderResponse::decode(stdout.expose(), self.version)?)
    }
}

/// A request for the credentials of a cluster, to come.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use keyfob_plugin::{
///     ClusterAnswer, ClusterCredentials, ClusterRequest, Failure, testing::AskingForCluster,
/// };
///
/// struct Fixed;
///
/// impl ClusterCredentials for Fixed {
///     async fn credentials(&self, _: &ClusterRequest) -> Result<ClusterAnswer, Failure> {
///         Ok(ClusterAnswer::token("hunter2"))
///     }
/// }
///
/// let status = AskingForCluster::new().of(Fixed).await.unwrap();
/// assert_eq!(status.token.unwrap().expose(), "hunter2");
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct AskingForCluster {
    spec: ExecCredentialSpec,
    version: ExecVersion,
    clock: Arc<dyn Clock>,
}

impl AskingForCluster {
    /// A request of version `v1`, without the cluster and without a person.
    #[expect(clippy::new_without_default, reason = "nothing would be asked by default")]
    pub fn new() -> Self {
        let spec = ExecCredentialSpec::default();
        Self { spec, version: ExecVersion::V1, clock: Arc::new(SystemClock) }
    }

    /// With the cluster, as by `provideClusterInfo: true`.
    #[must_use]
    pub fn cluster(mut self, cluster: ExecCluster) -> Self {
        self.spec.cluster = Some(cluster);
        self
    }

    /// With a person at the terminal.
    #[must_use]
    pub fn interactive(mut self) -> Self {
        self.spec.interactive = true;
        self
    }

    /// In another version.
    #[must_use]
    pub fn version(mut self, version: ExecVersion) -> Self {
        self.version = version;
        self
    }

    /// At another time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Asks, from the value of `KUBERNETES_EXEC_INFO` to the bytes of the answer.
    pub async fn of(
        self,
        provider: impl ClusterCredentials,
    ) -> Result<ExecCredentialStatus, Refused> {
        let info = ExecInfo::read(self.spec.encode(self.version).expose());
        let spoken = cluster::speak("plugin", &provider, info, self.clock).await;
        Ok(ExecCredentialStatus::decode(printed(spoken)?.expose(), self.version)?)
    }
}

fn printed(spoken: Spoken) -> Result<Secret<Vec<u8>>, Refused> {
    match spoken.code {
        0 => Ok(spoken.stdout),
        _ => Err(Refused::Failed { stderr: spoken.stderr }),
    }
}

/// Why there was no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The plugin failed, and said so.
    #[error("{stderr}")]
    Failed {
        /// Its line on stderr.
        stderr: String,
    },
    /// What it printed is no answer.
    #[error(transparent)]
    Unreadable(#[from] ResponseError),
    /// What it printed is no answer for a cluster.
    #[error(transparent)]
    UnreadableForCluster(#[from] ExecAnswerError),
}
