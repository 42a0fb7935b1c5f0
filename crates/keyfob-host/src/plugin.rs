//! One question to one plugin.
//!
//! Upstream: `execPlugin.ExecPlugin` in `pkg/credentialprovider/plugin/plugin.go`.
//! Differs: an answer may have 8 MiB; an error says what is wrong with an answer, and quotes nothing of it.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{
    CacheKeyType, CacheKeyTypeHint, CredentialProviderRequest, GoDuration,
    RegistryCredentialPluginRequest, RegistryCredentialPluginResponse, Secret, SecretSet,
    UncheckedResponse, registry_of,
};
use keyfob_config::{EnvVar, PluginProtocol, ValidProvider};
use keyfob_exec::{
    Finished, Invocation, Limits, LookupError, MOST_OUTPUT, Program, Runner, Stdin, TrustPolicy,
    check_trust,
};
use keyfob_keyring::Login;

use crate::{CallError, HostOptions, Identity};

/// How a plugin is asked.
pub(crate) struct Plugin {
    name: Arc<str>,
    directory: Arc<Path>,
    args: Vec<String>,
    env: Vec<EnvVar>,
    protocol: PluginProtocol,
    timeout: Duration,
    trust: TrustPolicy,
}

/// Nothing that may hold a secret.
impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({} in {})", self.name, self.directory.display())
    }
}

/// What it said.
#[derive(Debug)]
pub(crate) struct PluginAnswer {
    pub(crate) entries: Vec<(String, Login)>,
    /// For which images it may be used again, or what is wrong with what it says of that.
    pub(crate) scope: Result<CacheKeyType, CacheKeyTypeHint>,
    pub(crate) lifetime: Lifetime,
}

/// How long an answer may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As the provider's configuration says.
    ProviderDefault,
    /// For so long; zero is not at all.
    For(GoDuration),
    /// Until then.
    Until(SystemTime),
}

impl Plugin {
    /// The plugin of a provider.
    pub(crate) fn new(
        config: &ValidProvider,
        name: Arc<str>,
        directory: Arc<Path>,
        options: &HostOptions,
    ) -> Self {
        let (args, env) = (config.args().to_vec(), config.env().to_vec());
        let (timeout, trust) = (options.timeout_of(&name), options.trust);
        Self { name, directory, args, env, protocol: config.protocol(), timeout, trust }
    }

    /// The run that asks about an image. The file is looked up anew each time, so a replaced one is used.
    pub(crate) fn invocation(
        &self,
        image: &str,
        identity: Option<&Identity>,
    ) -> Result<Invocation, LookupError> {
        let program = Program::in_directory(&self.directory, &self.name)?;
        let limits = Limits { stdout: MOST_OUTPUT, ..Limits::default() };
        let mut invocation = Invocation::new(program).limits(limits).deadline(self.timeout);
        let request = match self.protocol {
            PluginProtocol::Kubelet(version) => request(image, identity).encode(version),
            PluginProtocol::FirstKep => {
                invocation = invocation.args(["get-credentials"]);
                RegistryCredentialPluginRequest { image: image.to_owned() }.encode()
            }
        };
        invocation = invocation.args(&self.args).stdin(Stdin::Bytes(request));
        for EnvVar { name, value } in &self.env {
            invocation = invocation.env(name, value.expose());
            if may_be_secret(name, value.expose()) {
                invocation = invocation.redact(value.clone());
            }
        }
        if let Some(token) = identity.and_then(Identity::some_token) {
            invocation = invocation.redact(token.clone());
        }
        Ok(invocation)
    }

    /// Asks, and reads the answer. Says also how long the plugin ran. What it says about `secrets` is not shown.
    pub(crate) async fn ask(
        &self,
        image: &str,
        identity: Option<&Identity>,
        secrets: &[Secret<String>],
        runner: &dyn Runner,
    ) -> (Duration, Result<PluginAnswer, CallError>) {
        let invocation = match self.trusted_invocation(image, identity) {
            Ok(invocation) => invocation,
            Err(error) => return (Duration::ZERO, Err(error)),
        };
        let invocation = secrets.iter().cloned().fold(invocation, Invocation::redact);
        match runner.run(&invocation).await {
            Err(error) => (error.elapsed().unwrap_or_default(), Err(error.into())),
            Ok(finished) => (finished.elapsed, self.read(finished, image)),
        }
    }

    fn trusted_invocation(
        &self,
        image: &str,
        identity: Option<&Identity>,
    ) -> Result<Invocation, CallError> {
        let invocation = self.invocation(image, identity)?;
        if self.trust == TrustPolicy::Strict {
            check_trust(invocation.program(), TrustPolicy::Strict)?;
        }
        Ok(invocation)
    }

    fn read(&self, finished: Finished, image: &str) -> Result<PluginAnswer, CallError> {
        let stdout = finished.success()?;
        match self.protocol {
            PluginProtocol::Kubelet(version) => {
                Ok(UncheckedResponse::decode(stdout.expose(), version)?.into())
            }
            PluginProtocol::FirstKep => {
                let response = RegistryCredentialPluginResponse::decode(stdout.expose())?;
                Ok(PluginAnswer::of_first_kep(response, image))
            }
        }
    }
}

fn request(image: &str, identity: Option<&Identity>) -> CredentialProviderRequest {
    let annotations = identity.map(|identity| identity.annotations.clone());
    CredentialProviderRequest {
        image: image.to_owned(),
        service_account_token: identity.and_then(Identity::some_token).cloned(),
        service_account_annotations: annotations.unwrap_or_default(),
    }
}

/// Whatever a variable is called, its value is not shown if the plugin repeats it; but short words, and paths under names
/// that speak of places, are no secrets, and without them no message of a plugin could be understood.
fn may_be_secret(name: &str, value: &str) -> bool {
    const PLACES: [&str; 5] = ["DIR", "FILE", "HOME", "PATH", "SOCK"];
    let is_a_path = value.starts_with('/') && PLACES.iter().any(|place| name.ends_with(place));
    value.len() >= 8 && !is_a_path
}

impl From<UncheckedResponse> for PluginAnswer {
    fn from(response: UncheckedResponse) -> Self {
        let entries = response.auth.into_iter().map(|(key, auth)| {
            let login = Login {
                username: auth.username.into(),
                password: auth.password,
                email: Box::default(),
            };
            (key, login)
        });
        Self {
            entries: entries.collect(),
            scope: response.cache_key_type,
            lifetime: response.cache_duration.map_or(Lifetime::ProviderDefault, Lifetime::For),
        }
    }
}

impl PluginAnswer {
    /// Makes its passwords known.
    pub(crate) fn teach(&self, secrets: &SecretSet) {
        /// An answer of more logins is remembered in part.
        const MOST: usize = 100;
        for (_, login) in self.entries.iter().take(MOST) {
            secrets.learn_login(&login.username, &login.password);
        }
    }

    /// Whether one of its passwords, for whatever key, is this.
    pub(crate) fn has_password(&self, password: &Secret<String>) -> bool {
        self.entries.iter().any(|(_, login)| login.password == *password)
    }

    /// One login, for the registry of the image that was asked about; it may be kept for that image.
    fn of_first_kep(response: RegistryCredentialPluginResponse, image: &str) -> Self {
        let registry = registry_of(image).to_owned();
        let login = Login {
            username: response.username.into(),
            password: response.password,
            email: Box::default(),
        };
        let until = response.expiration.and_then(keyfob_api::Timestamp::to_system_time);
        Self {
            entries: vec![(registry, login)],
            scope: Ok(CacheKeyType::Image),
            lifetime: until.map_or(Lifetime::ProviderDefault, Lifetime::Until),
        }
    }
}

impl Lifetime {
    /// When an answer given now expires; nothing if it may not be kept.
    pub(crate) fn expiry(self, now: SystemTime, default: Duration) -> Option<SystemTime> {
        let duration = match self {
            Self::Until(time) => return Some(time),
            Self::For(duration) => duration,
            Self::ProviderDefault => default.into(),
        };
        if duration.is_zero() {
            return None;
        }
        let length = Duration::from_nanos(duration.as_nanos().unsigned_abs());
        if duration.is_negative() { now.checked_sub(length) } else { now.checked_add(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn minutes(count: i64) -> GoDuration {
        GoDuration::from_nanos(count * 60_000_000_000)
    }

    #[test]
    fn an_absent_duration_is_the_providers_and_a_zero_one_is_no_lifetime() {
        let now = at(1_000);
        let expiry = |lifetime: Lifetime, default: GoDuration| {
            lifetime.expiry(now, default.to_std().unwrap())
        };

        assert_eq!(expiry(Lifetime::ProviderDefault, minutes(2)), Some(at(1_120)));
        assert_eq!(expiry(Lifetime::ProviderDefault, minutes(0)), None);
        assert_eq!(expiry(Lifetime::For(minutes(1)), minutes(2)), Some(at(1_060)));
        assert_eq!(expiry(Lifetime::For(minutes(0)), minutes(2)), None);
        assert_eq!(expiry(Lifetime::For(minutes(-1)), minutes(2)), Some(at(940)));
        assert_eq!(expiry(Lifetime::Until(at(7)), minutes(2)), Some(at(7)));
    }
}
