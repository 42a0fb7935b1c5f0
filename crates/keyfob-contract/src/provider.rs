//! The kubelet's image credential providers: what they are asked, and the checks that are theirs alone.

mod docker;
mod keys;
mod plan;
mod requests;
mod response;
mod time;

use std::{collections::BTreeMap, fmt, sync::Arc};

use keyfob_api::{CredentialProviderResponse, ImageRef, ProviderVersion, ResponseError, Secret};
use keyfob_exec::{Invocation, Program, Runner};

use crate::{
    PluginConformance, Report,
    checks::{self, Check, check},
    observe::{Heard, Observed},
    plugin::Plugin,
    process,
    protocol::{Protocol, Texts},
    secrets::{Secrets, passwords},
};
use plan::Probe;
use response::Part;

/// A kubelet's plugin, and what it is to be asked.
pub type Conformance = PluginConformance<Provider>;

/// The kubelet's protocol, with the images, the token and the annotations of its requests.
#[derive(Clone)]
pub struct Provider {
    images: Vec<ImageRef>,
    token: Option<Secret<String>>,
    annotations: BTreeMap<String, String>,
}

#[rustfmt::skip]
const CHECKS: [Check<Provider>; 26] = [
    check("start", "the file is there and can be run", process::start),
    check("protocol", "it speaks the kubelet's protocol, not that of docker's helpers", docker::protocol),
    check("answer", "it answers for each image", response::answer),
    check("json", "the answer is one JSON object and a line break", response::json),
    check("api-version", "a request of v1 is answered in v1", response::api_version),
    check("kind", "the answer is a CredentialProviderResponse", response::kind),
    check("fields", "no field is unknown, repeated, misplaced or of the wrong type", response::fields),
    check("cache-key-type", "cacheKeyType is Image, Registry or Global", response::cache_key_type),
    check("cache-duration", "cacheDuration is a Go duration that makes sense", response::cache_duration),
    check("keys", "the keys of auth are registries, and one matches the image", keys::keys),
    check("logins", "each login has a user name and a password", keys::logins),
    check("older-versions", "v1beta1 and v1alpha1 are answered in kind, or refused", requests::older_versions),
    check("unknown-image", "a registry that nobody has gets no credentials", requests::unknown_image),
    check("no-stdin", "without a request it fails, and soon", requests::no_stdin),
    check("huge-request", "a mebibyte of annotations changes nothing", requests::huge_request),
    check("extra-fields", "fields that a later kubelet may send change nothing", requests::extra_fields),
    check("service-account", "the token of a service account is not handed out", requests::service_account),
    check("first-kep", "whether it knows the first KEP's dialect, for information", requests::first_kep),
    check("repeated", "asked again, it answers the same", process::repeated),
    check("concurrent", "eight at once all answer", process::concurrent),
    check("closed-stdout", "it notices when nobody reads its answer", process::closed_stdout),
    check("time", "it is quick, and ends before the kubelet's minute does", time::time),
    check("leftovers", "nothing that it started stays behind with its stdout or stderr", process::leftovers),
    check("stderr-noise", "it is silent when all is well", process::stderr_noise),
    check("stderr-secrets", "no password and no token is on stderr", process::stderr_secrets),
    check("failure-message", "when it fails it says why", process::failure_message),
];

const TEXTS: Texts = Texts {
    differs: "the answer has other keys, or another cacheKeyType, than before",
    no_output: (
        "exit code 0, and nothing on stdout: a kubelet takes that for a broken plugin",
        "print an answer with an empty auth if there is nothing to offer; if something failed, say so on stderr and exit with 1",
    ),
    no_response: "ask about an image that the plugin has a login for, with the arguments, variables and token that it needs; \
                  or allow it to have no answer here (--allow-no-answer)",
    repeated: (
        "the same answer",
        "answer each request for itself: a kubelet asks again whenever its cache is empty",
    ),
    concurrent: "share no file or port between runs without a lock: a kubelet runs a plugin for several pulls at once",
    leftovers: "wait for what it starts, or give that other streams: a kubelet waits until all have closed them, even \
                beyond its minute",
    stderr_noise: "keep quiet: a kubelet drops stderr unless the plugin fails",
    stderr_secrets: "never print it: a kubelet writes the stderr of a plugin that fails to its log",
    failure_message: "say in one line what failed and what to do: it is all that the kubelet's log will have",
};

/// The name of each check of a kubelet's plugin, and what it looks at.
pub fn checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    checks::listed::<Provider>()
}

impl Conformance {
    /// This plugin, asked about an image that it has a login for.
    pub fn of(program: Program, image: ImageRef) -> Self {
        Self::new(program, Provider::new(image))
    }

    /// One more image.
    #[must_use]
    pub fn image(mut self, image: ImageRef) -> Self {
        self.protocol.images.push(image);
        self
    }

    /// The token of a service account, sent with every request. Without one, a single request brings a made-up token.
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret<String>>) -> Self {
        self.protocol.token = Some(token.into());
        self
    }

    /// An annotation of the service account, sent with every request.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.protocol.annotations.insert(key.into(), value.into());
        self
    }

    /// Runs the plugin some twenty times, and judges.
    pub async fn report(&self, runner: Arc<dyn Runner>) -> Report {
        crate::report(self, runner).await
    }
}

impl Provider {
    fn new(image: ImageRef) -> Self {
        Self { images: vec![image], token: None, annotations: BTreeMap::new() }
    }
}

/// The token is a secret, and annotations may hold some.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images: Vec<_> = self.images.iter().map(ImageRef::repository).collect();
        f.debug_struct("Provider").field("images", &images).finish_non_exhaustive()
    }
}

impl Protocol for Provider {
    type Probe = Probe;
    type Response = CredentialProviderResponse;
    type Error = ResponseError;
    type Part = Part;

    const FIRST: Probe = Probe::Image(0);
    const AGAIN: Probe = Probe::Again;
    const AT_ONCE: Probe = Probe::AtOnce;
    const CLOSED_STDOUT: Probe = Probe::ClosedStdout;
    const CHECKS: &'static [Check<Self>] = &CHECKS;
    const TEXTS: Texts = TEXTS;

    fn further_probes(&self) -> Vec<Probe> {
        self.probes_after_the_first().collect()
    }

    fn reference(_: &[Observed<Self>]) -> Probe {
        Self::FIRST
    }

    fn prepare(&self, invocation: Invocation, probe: Probe, _: Probe) -> Invocation {
        let invocation = invocation.stdin(self.stdin(probe)).redact(self.token_or_made_up());
        match probe {
            Probe::FirstKep => invocation.args(["get-credentials"]),
            _ => invocation,
        }
    }

    fn must_be_quick(probe: Probe) -> bool {
        matches!(probe, Probe::NoStdin | Probe::FirstKep)
    }

    fn when(probe: Probe) -> &'static str {
        probe.when()
    }

    fn decode(stdout: &[u8]) -> Result<CredentialProviderResponse, ResponseError> {
        CredentialProviderResponse::decode(stdout, ProviderVersion::V1)
    }

    fn decode_any_version(stdout: &[u8]) -> Result<CredentialProviderResponse, ResponseError> {
        CredentialProviderResponse::decode_any_version(stdout)
    }

    /// A kubelet has no use for a response of another version.
    fn comparable(run: &Observed<Self>) -> Option<CredentialProviderResponse> {
        match run.heard() {
            Heard::Answer(response) => Some(response),
            _ => None,
        }
    }

    /// Passwords and durations may differ from run to run.
    fn are_alike(one: &CredentialProviderResponse, other: &CredentialProviderResponse) -> bool {
        let keys = |response: &CredentialProviderResponse| {
            let mut keys: Vec<_> = response.auth.iter().map(|(key, _)| key.clone()).collect();
            keys.sort();
            keys
        };
        one.cache_key_type == other.cache_key_type && keys(one) == keys(other)
    }

    fn part_at_fault(error: &ResponseError) -> Part {
        Part::at_fault(error)
    }

    fn is_other_version(error: &ResponseError) -> bool {
        matches!(error, ResponseError::Version { .. })
    }

    fn excuses_silence(plugin: &Plugin, run: &Observed<Self>) -> bool {
        docker::is_docker_helper(plugin, run)
    }

    fn secrets(&self, plugin: &Plugin, runs: &[Observed<Self>]) -> Secrets {
        let token = ("the service account's token".to_owned(), self.token_or_made_up());
        let printed = runs.iter().flat_map(|run| passwords(run.stdout.expose()));
        let password = |password| ("a password that it hands out".to_owned(), password);
        let known = std::iter::once(token).chain(plugin.described_secrets());
        let is_unreadable =
            |run: &&Observed<Self>| Self::decode_any_version(run.stdout.expose()).is_err();
        let unreadable = runs.iter().filter(is_unreadable).map(|run| run.stdout.clone());
        Secrets::new(known.chain(printed.map(password)), unreadable)
    }
}
