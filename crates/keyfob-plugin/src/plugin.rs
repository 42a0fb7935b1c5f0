//! A provider of image credentials, and what stands around it.

use std::{ffi::OsString, future::Future, process::ExitCode, sync::Arc, time::Duration};

use keyfob_api::{
    CredentialProviderRequest, CredentialProviderResponse, ProviderVersion,
    RegistryCredentialPluginResponse, Secret, Timestamp,
};
use keyfob_exec::{Clock, SystemClock};
use tokio::time::Instant;

use crate::{
    Answer, Call, Failure, ImageRequest,
    asked::Asked,
    check::{checked, usable_by_a_kubelet},
    docker_helper::{self, Action},
    fitting,
    process::{self, Spoken},
};

/// Well before the kubelet's minute, so that it is the plugin that says what took so long.
const DEADLINE: Duration = Duration::from_secs(50);

/// No clock can be added more to than it has room for.
const LATEST_DEADLINE: Duration = Duration::from_hours(24);

/// Knows the logins of registries.
pub trait ImageCredentials {
    /// The logins for the image of the request. [`Answer::nothing`] if it is none of this provider's; a [`Failure`] if it
    /// is and there is no login to be had.
    fn credentials(&self, request: &ImageRequest) -> impl Future<Output = Result<Answer, Failure>>;
}

/// The whole of a plugin's `main`.
pub fn main(provider: impl ImageCredentials) -> ExitCode {
    Plugin::new(provider).main()
}

/// A provider as a program, for those who want to say more than [`main`] asks.
#[derive(Debug)]
pub struct Plugin<P> {
    provider: P,
    name: String,
    version: &'static str,
    words: Vec<String>,
    deadline: Duration,
    clock: Arc<dyn Clock>,
    versions: &'static [ProviderVersion],
}

impl<P: ImageCredentials> Plugin<P> {
    /// A plugin with the name and the words that this process was started with.
    pub fn new(provider: P) -> Self {
        let words = std::env::args_os().skip(1).map(OsString::into_string).filter_map(Result::ok);
        Self {
            provider,
            name: process::own_name(),
            version: "0",
            words: words.filter(|word| !word.starts_with('-')).collect(),
            deadline: DEADLINE,
            clock: Arc::new(SystemClock),
            versions: &[ProviderVersion::V1, ProviderVersion::V1Beta1, ProviderVersion::V1Alpha1],
        }
    }

    /// What it calls itself in messages, and its version.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, version: &'static str) -> Self {
        (self.name, self.version) = (name.into(), version);
        self
    }

    /// The arguments that are neither flags nor values of flags.
    #[must_use]
    pub fn words(mut self, words: impl IntoIterator<Item = String>) -> Self {
        self.words = words.into_iter().collect();
        self
    }

    /// When to give up; 50 seconds unless told, below the kubelet's minute. A day at most.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.min(LATEST_DEADLINE);
        self
    }

    /// Another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The versions it answers; all of them unless told.
    #[must_use]
    pub fn versions(mut self, versions: &'static [ProviderVersion]) -> Self {
        self.versions = versions;
        self
    }

    /// Reads the request, answers it, and says how the process shall end.
    pub fn main(mut self) -> ExitCode {
        let began = Instant::now();
        // Someone at a terminal who asks for the version has nothing to say on stdin.
        let stdin = if self.words == ["version"] {
            Ok(Secret::default())
        } else {
            process::read_stdin(self.deadline)
        };
        self.deadline = self.deadline.saturating_sub(began.elapsed());
        process::converse(&self.name, self.deadline, async || match stdin {
            Ok(stdin) => self.speak(stdin.expose()).await,
            Err(failure) => self.failed(&self.call(), &failure),
        })
    }

    /// One conversation, from what is on stdin to what is printed.
    pub(crate) async fn speak(&self, stdin: &[u8]) -> Spoken {
        let call = self.call();
        match self.converse(stdin, &call).await {
            Ok(spoken) => spoken,
            Err(failure) => self.failed(&call, &failure),
        }
    }

    async fn converse(&self, stdin: &[u8], call: &Call) -> Result<Spoken, Failure> {
        match Asked::read(&self.words, stdin)? {
            Asked::Kubelet(version, asked) => {
                let asked = self.supported(version, asked)?;
                let answer = self.ask(&ImageRequest::new(asked, call.clone())?).await?.1;
                Ok(Spoken::answer(usable_by_a_kubelet(answer)?.encode(version)))
            }
            Asked::FirstKep(asked) => {
                let image = asked.image;
                let asked = CredentialProviderRequest { image, ..Default::default() };
                let request = ImageRequest::new(asked, call.clone())?;
                let (end, answer) = self.ask(&request).await?;
                let answer = usable_by_a_kubelet(answer)?;
                Ok(Spoken::answer(in_the_first_dialect(&request, end, &answer)?))
            }
            Asked::Docker(action) => Ok(self.answer_docker(action, call).await),
        }
    }

    fn supported(
        &self,
        version: ProviderVersion,
        asked: CredentialProviderRequest,
    ) -> Result<CredentialProviderRequest, Failure> {
        if self.versions.contains(&version) {
            return Ok(asked);
        }
        let version = version.api_version();
        Err(Failure::new(format!("group version {version} is not supported")))
    }

    /// When the credential ends, and the answer.
    async fn ask(
        &self,
        request: &ImageRequest,
    ) -> Result<(Option<Timestamp>, CredentialProviderResponse), Failure> {
        let left = request.call().remaining();
        let answer = tokio::time::timeout(left, self.provider.credentials(request)).await;
        let answer = answer.map_err(|_| request.call().out_of_time())??;
        let end = answer.expires.map(|(end, _)| end.into());
        Ok((end, checked(answer, request)?))
    }

    async fn answer_docker(&self, action: Action, call: &Call) -> Spoken {
        let server_url = match action {
            Action::Get { server_url } => server_url,
            Action::Said(text, code) => {
                return Spoken { code, ..Spoken::answer(Secret::new(text.into_bytes())) };
            }
            Action::Version => {
                let line = format!("{} (keyfob) {}\n", self.name, self.version);
                return Spoken::answer(Secret::new(line.into_bytes()));
            }
        };
        let request = match ImageRequest::for_server(&server_url, call.clone()) {
            Ok(request) => request,
            Err(failure) => return docker_helper::failed(&call.tell(&failure.to_string())),
        };
        match self.ask(&request).await {
            Ok((_, answer)) => docker_helper::login(&server_url, request.image(), &answer),
            Err(failure) => docker_helper::failed(&call.tell(&failure.to_string())),
        }
    }

    fn failed(&self, call: &Call, failure: &Failure) -> Spoken {
        Spoken::failure(format!("{}: {}\n", self.name, call.tell(&failure.to_string())))
    }

    fn call(&self) -> Call {
        Call::new(Arc::clone(&self.clock), self.deadline)
    }
}

/// That dialect has one login and an end.
fn in_the_first_dialect(
    request: &ImageRequest,
    end: Option<Timestamp>,
    answer: &CredentialProviderResponse,
) -> Result<Secret<Vec<u8>>, Failure> {
    let nothing = || Failure::new(format!("no credentials for {}", request.image()));
    let auth = fitting::login(answer, request.image()).ok_or_else(nothing)?.clone();
    let lasting = answer.cache_duration.and_then(keyfob_api::GoDuration::to_std);
    let end = end.or_else(|| lasting.map(|lasting| (request.call().now() + lasting).into()));
    let (username, password) = (auth.username, auth.password);
    Ok(RegistryCredentialPluginResponse { expiration: end, username, password }.encode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;

    struct Robot;

    impl ImageCredentials for Robot {
        async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
            Ok(Answer::login(request.registry(), "robot", "hunter2"))
        }
    }

    #[tokio::test]
    async fn the_first_dialect_is_told_the_login_of_the_most_exact_key() {
        struct Two;

        impl ImageCredentials for Two {
            async fn credentials(&self, _: &ImageRequest) -> Result<Answer, Failure> {
                Ok(Answer::login("*.io", "wide", "p").and("r.io", "exact", "p"))
            }
        }

        let spoken = Plugin::new(Two).words([]).speak(br#"{"image":"r.io/app"}"#).await;

        let told = RegistryCredentialPluginResponse::decode(spoken.stdout.expose()).unwrap();
        assert_eq!(told.username, "exact");
    }

    #[tokio::test]
    async fn a_version_that_is_left_out_is_not_answered() {
        let plugin = Plugin::new(Robot).words([]).versions(&[ProviderVersion::V1]);
        let asked = CredentialProviderRequest { image: "r.io/app".into(), ..Default::default() };
        let code = async |version| plugin.speak(asked.encode(version).expose()).await.code;

        assert_eq!(code(ProviderVersion::V1).await, 0);
        assert_eq!(code(ProviderVersion::V1Beta1).await, 1);
    }
}
