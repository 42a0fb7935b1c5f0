//! Service accounts by hand, and a host that asks them.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use keyfob_api::{
    AuthConfig, CacheKeyType, Chain, CredentialProviderRequest, CredentialProviderResponse,
    FeatureGates, GoDuration, ProviderVersion,
};
use keyfob_config::{Config, ProviderConfig, TokenAttributes};
use keyfob_exec::{BoxFuture, Clock as _, Stdin};
use keyfob_host::{
    Answer, Host, HostBuilder, IdentityError, PodIdentity, PodReference, Pull, ServiceAccount,
    ServiceAccounts, ServiceAccountsError, Token, TokenRequest,
};
use keyfob_testkit::{FakeRunner, LeakCheck, ManualClock, scripted_plugin};
use tempfile::TempDir;

/// In every token.
pub(crate) const SECRET: &str = "token-5d0c";
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// Service accounts and their tokens. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    clock: ManualClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) accounts: BTreeMap<(String, String), ServiceAccount>,
    /// What is said instead of a service account.
    pub(crate) get: Mood,
    /// What is said instead of a token.
    pub(crate) token: Mood,
    /// What the token of a number and a request is.
    pub(crate) issue: fn(usize, &TokenRequest) -> String,
    pub(crate) expires_in: Duration,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) gets: usize,
    pub(crate) requests: Vec<TokenRequest>,
}

/// How a server is.
#[derive(Clone, Debug)]
pub(crate) enum Mood {
    Well,
    /// It fails.
    Failing(IdentityError),
    /// It never answers.
    Silent,
    /// It never answers who wants a token for this.
    SilentAbout(&'static str),
}

impl Cluster {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        let state = State {
            accounts: BTreeMap::new(),
            get: Mood::Well,
            token: Mood::Well,
            issue: |number, _| format!("{SECRET}-{number}"),
            expires_in: HOUR,
            lifetime: Some(HOUR),
            gets: 0,
            requests: Vec::new(),
        };
        Self { clock: clock.clone(), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How many accounts and tokens were asked for.
    pub(crate) fn asked(&self) -> (usize, usize) {
        let state = self.state();
        (state.gets, state.requests.len())
    }

    /// The uid is `uid-of-NAME`.
    pub(crate) fn account<const N: usize>(&self, name: &str, annotations: [(&str, &str); N]) {
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let uid = format!("uid-of-{name}");
        let account = ServiceAccount { uid, annotations: annotations.into() };
        self.state().accounts.insert(("team".into(), name.into()), account);
    }
}

impl Mood {
    async fn checked(self, audience: &str) -> Result<(), IdentityError> {
        match self {
            Self::SilentAbout(about) if about != audience => Ok(()),
            Self::Well => Ok(()),
            Self::Failing(error) => Err(error),
            Self::Silent | Self::SilentAbout(_) => std::future::pending().await,
        }
    }
}

impl ServiceAccounts for Cluster {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        Box::pin(async move {
            let mood = {
                let mut state = self.state();
                state.gets += 1;
                state.get.clone()
            };
            mood.checked("").await?;
            let account = self.state().accounts.get(&(namespace.into(), name.into())).cloned();
            let said = format!("serviceaccounts \"{name}\" not found");
            account.ok_or(IdentityError::NotFound(ServiceAccountsError::new(said)))
        })
    }

    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        Box::pin(async move {
            let (mood, number) = {
                let mut state = self.state();
                state.requests.push(request.clone());
                (state.token.clone(), state.requests.len())
            };
            // A real server takes a moment.
            tokio::task::yield_now().await;
            mood.checked(&request.audiences[0]).await?;
            let state = self.state();
            Ok(Token {
                token: (state.issue)(number, request).into(),
                expires: self.clock.now() + state.expires_in,
                lifetime: state.lifetime,
            })
        })
    }
}

/// A place for hosts.
pub(crate) struct Rig {
    plugins: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) cluster: Cluster,
    pub(crate) runner: FakeRunner,
    requests: Arc<Mutex<Vec<CredentialProviderRequest>>>,
}

impl Rig {
    /// Plugins answer with what a function makes of the request.
    pub(crate) fn new(
        says: impl Fn(&CredentialProviderRequest) -> CredentialProviderResponse + Send + Sync + 'static,
    ) -> Self {
        let clock = ManualClock::default();
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let seen = requests.clone();
        let runner = FakeRunner::new(move |invocation| {
            let Stdin::Bytes(stdin) = invocation.input() else { unreachable!() };
            let request = CredentialProviderRequest::decode(stdin.expose()).unwrap().1;
            let stdout = says(&request).encode(ProviderVersion::V1).expose().clone();
            seen.lock().unwrap().push(request);
            Ok(keyfob_exec::Finished {
                program: invocation.program().into(),
                status: keyfob_exec::Status::Exited(0),
                stdout: stdout.into(),
                stderr: keyfob_exec::StderrTail::default(),
                elapsed: Duration::ZERO,
            })
        });
        let cluster = Cluster::new(&clock);
        Self { plugins: tempfile::tempdir().unwrap(), clock, cluster, runner, requests }
    }

    /// Plugins answer with a login for `r.io`, for the whole registry.
    pub(crate) fn simple() -> Self {
        let rig = Self::new(|_| login(CacheKeyType::Registry, "password"));
        rig.cluster.account("puller", []);
        rig
    }

    /// A host that has no service accounts.
    pub(crate) fn standalone(
        &self,
        providers: impl IntoIterator<Item = ProviderConfig>,
    ) -> HostBuilder {
        let config = Config::new(providers);
        for provider in &config.providers {
            self.install(&provider.name);
        }
        let config = config.validate(FeatureGates::default()).unwrap();
        Host::builder(config, self.plugins.path())
            .clock(Arc::new(self.clock.clone()))
            .runner(self.runner.clone())
    }

    pub(crate) fn builder(
        &self,
        providers: impl IntoIterator<Item = ProviderConfig>,
    ) -> HostBuilder {
        self.standalone(providers).service_accounts(self.cluster.clone())
    }

    pub(crate) fn host(&self, providers: impl IntoIterator<Item = ProviderConfig>) -> Host {
        self.builder(providers).build().unwrap()
    }

    /// The file is never run, but must be there.
    fn install(&self, name: &str) {
        let path = self.plugins.path().join(name);
        if !path.exists() {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// A plugin that does what its argument says when it is really run.
    pub(crate) fn install_scripted(&self, name: &str) {
        symlink(scripted_plugin(), self.plugins.path().join(name)).unwrap();
    }

    /// What plugins were asked so far.
    pub(crate) fn requests(&self) -> Vec<CredentialProviderRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// The tokens that plugins were given.
    pub(crate) fn tokens(&self) -> Vec<Option<String>> {
        let token = |request: CredentialProviderRequest| {
            request.service_account_token.map(|token| token.expose().clone())
        };
        self.requests().into_iter().map(token).collect()
    }
}

/// An answer for `r.io` that may be kept for an hour.
pub(crate) fn login(scope: CacheKeyType, password: &str) -> CredentialProviderResponse {
    let login = AuthConfig { username: "user".into(), password: password.into() };
    CredentialProviderResponse {
        cache_key_type: scope,
        cache_duration: GoDuration::parse("1h").ok(),
        auth: [("r.io".to_owned(), login)].into(),
    }
}

/// A provider for `r.io` that is asked without service accounts.
pub(crate) fn plain(name: &str) -> ProviderConfig {
    ProviderConfig {
        name: name.into(),
        match_images: vec!["r.io".into()],
        default_cache_duration: GoDuration::parse("10m").ok(),
        api_version: ProviderVersion::V1.api_version().into(),
        ..ProviderConfig::default()
    }
}

/// A provider for `r.io` that requires a service account.
pub(crate) fn with_account(name: &str) -> ProviderConfig {
    with_attributes(name, |_| ())
}

pub(crate) fn with_attributes(
    name: &str,
    change: impl FnOnce(&mut TokenAttributes),
) -> ProviderConfig {
    let mut attributes = TokenAttributes {
        service_account_token_audience: "registry".into(),
        cache_type: "ServiceAccount".into(),
        require_service_account: Some(true),
        ..TokenAttributes::default()
    };
    change(&mut attributes);
    ProviderConfig { token_attributes: Some(attributes), ..plain(name) }
}

/// A pod of the namespace `team`, whose uid is `uid-of-POD`.
pub(crate) fn pod(service_account: &str, pod: &str) -> PodIdentity {
    PodIdentity {
        namespace: "team".into(),
        service_account: service_account.into(),
        pod: Some(PodReference { name: pod.into(), uid: format!("uid-of-{pod}") }),
    }
}

/// A pull of `r.io/app` by a pod of this service account.
pub(crate) fn pull(service_account: &str) -> Pull {
    Pull::parse("r.io/app").unwrap().with_pod(pod(service_account, "web"))
}

pub(crate) fn errors(answer: &Answer) -> Vec<String> {
    answer.errors().map(|(_, error)| Chain(error).to_string()).collect()
}

/// Nothing that can be printed has a token.
pub(crate) fn check_leaks(host: &Host, answer: &Answer) {
    let check = LeakCheck::new([SECRET]);
    check.debug("the host", host).debug("an answer", answer);
    for (_, error) in answer.errors() {
        check.error(error).text("a chain", &Chain(error).to_string());
    }
}
