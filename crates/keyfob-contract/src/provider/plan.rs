//! What a plugin is asked, and how.

use std::{collections::BTreeMap, ffi::OsString, fmt, time::Duration};

use keyfob_api::{
    CredentialProviderRequest, ImageRef, ProviderVersion, RegistryCredentialPluginRequest, Secret,
    speaks_of_a_secret,
};
use keyfob_exec::{Invocation, Limits, Program, Stdin, Stdout};

use crate::{NoAnswer, common::Purpose};

/// When a kubelet gives up.
pub(crate) const KUBELETS_MINUTE: Duration = Duration::from_mins(1);

/// What takes longer than this delays pods that somebody looks at.
pub(crate) const SLOW: Duration = Duration::from_secs(10);

/// More than this is printed by nobody who has an answer; our own hosts read no more.
pub(crate) const MOST_OUTPUT: usize = 8 << 20;

/// How many run at once: a node that starts with a full queue of pods.
pub(crate) const AT_ONCE: usize = 8;

/// An image of a registry that nobody can have.
pub(crate) const UNKNOWN_IMAGE: &str = "nobody.keyfob.invalid/conformance/unknown";

/// Of the shape of a service account's token, with an end far away and no signature that anybody would take.
pub(crate) const MADE_UP_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im1hZGUtdXAifQ.\
     eyJhdWQiOlsia2V5Zm9iLWNvbmZvcm1hbmNlIl0sImV4cCI6NDA3MDkwODgwMCwiaXNzIjoiaHR0cHM6Ly9rdWJlcm5ldGVzLmludmFsaWQiLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6a2V5Zm9iOmNvbmZvcm1hbmNlIn0.\
     bm90LWEtc2lnbmF0dXJlLWp1c3QtYS1jb25mb3JtYW5jZS1jaGVjaw";

/// A plugin, and what it is to be asked.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(String, Secret<String>)>,
    pub(crate) images: Vec<ImageRef>,
    pub(crate) token: Option<Secret<String>>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) timeout: Duration,
    pub(crate) no_answer: NoAnswer,
}

/// One run's purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// What a kubelet asks, about the image of this number.
    Image(usize),
    /// The same about the first image, in an older version.
    Version(ProviderVersion),
    /// About a registry that nobody has.
    UnknownImage,
    /// Nothing at all.
    NoStdin,
    /// With a mebibyte of annotations.
    HugeRequest,
    /// With fields that no kubelet knows yet.
    ExtraFields,
    /// With a made-up token.
    ServiceAccount,
    /// The first once more.
    Again,
    /// The first, several at once.
    AtOnce,
    /// The first, and nobody listens.
    ClosedStdout,
    /// In the dialect of the first KEP.
    FirstKep,
}

impl Purpose for Probe {
    fn when(self) -> &'static str {
        match self {
            Self::Image(_) => "when asked as a kubelet asks",
            Self::Version(_) => "when asked in an older version",
            Self::UnknownImage => "when asked about an unknown registry",
            Self::NoStdin => "when stdin is empty",
            Self::HugeRequest => "when the request is huge",
            Self::ExtraFields => "when the request has unknown fields",
            Self::ServiceAccount => "when sent a service account's token",
            Self::Again => "when asked a second time",
            Self::AtOnce => "when several run at once",
            Self::ClosedStdout => "when nobody reads its stdout",
            Self::FirstKep => "when asked in the first KEP's dialect",
        }
    }
}

impl Subject {
    pub(crate) fn new(program: Program, image: ImageRef) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: Vec::new(),
            images: vec![image],
            token: None,
            annotations: BTreeMap::new(),
            timeout: KUBELETS_MINUTE,
            no_answer: NoAnswer::default(),
        }
    }

    /// Everything that is run after the first image, in order.
    pub(crate) fn further_probes(&self) -> impl Iterator<Item = Probe> {
        let older = ProviderVersion::ALL.into_iter().filter(|it| *it != ProviderVersion::V1);
        let made_up = self.token.is_none().then_some(Probe::ServiceAccount);
        (1..self.images.len())
            .map(Probe::Image)
            .chain(older.map(Probe::Version))
            .chain([Probe::UnknownImage, Probe::NoStdin, Probe::HugeRequest, Probe::ExtraFields])
            .chain(made_up)
            .chain([Probe::Again, Probe::ClosedStdout, Probe::FirstKep])
            .chain(std::iter::repeat_n(Probe::AtOnce, AT_ONCE))
    }

    pub(crate) fn invocation(&self, probe: Probe) -> Invocation {
        let limits = Limits { stdout: MOST_OUTPUT, ..Limits::default() };
        let mut invocation = Invocation::new(self.program.clone())
            .args(&self.args)
            .stdin(self.stdin(probe))
            .limits(limits)
            .deadline(self.deadline(probe))
            .redact(self.token_or_made_up());
        for (name, value) in &self.env {
            invocation = invocation.env(name, value.expose());
        }
        for (_, value) in self.secret_variables() {
            invocation = invocation.redact(value.clone());
        }
        match probe {
            Probe::ClosedStdout => invocation.stdout(Stdout::Closed),
            Probe::FirstKep => invocation.args(["get-credentials"]),
            _ => invocation,
        }
    }

    /// The token that some of the runs bring.
    pub(crate) fn token_or_made_up(&self) -> Secret<String> {
        self.token.clone().unwrap_or_else(|| MADE_UP_TOKEN.into())
    }

    /// The variables whose names say that they are secrets.
    pub(crate) fn secret_variables(&self) -> impl Iterator<Item = &(String, Secret<String>)> {
        self.env.iter().filter(|(name, _)| speaks_of_a_secret(name))
    }

    fn deadline(&self, probe: Probe) -> Duration {
        match probe {
            Probe::NoStdin | Probe::FirstKep => self.timeout.min(SLOW),
            _ => self.timeout,
        }
    }

    fn stdin(&self, probe: Probe) -> Stdin {
        let request = self.request(probe);
        Stdin::Bytes(match probe {
            Probe::NoStdin => return Stdin::Null,
            Probe::FirstKep => RegistryCredentialPluginRequest { image: request.image }.encode(),
            Probe::ExtraFields => with_unknown_fields(&request.encode(ProviderVersion::V1)),
            Probe::Version(version) => request.encode(version),
            _ => request.encode(ProviderVersion::V1),
        })
    }

    fn request(&self, probe: Probe) -> CredentialProviderRequest {
        let number = if let Probe::Image(number) = probe { number } else { 0 };
        let image = self.images.get(number).map(|image| image.repository().to_owned());
        let mut request = CredentialProviderRequest {
            image: image.unwrap_or_default(),
            service_account_token: self.token.clone(),
            service_account_annotations: self.annotations.clone(),
        };
        let mut annotate = |value: String| {
            let key = "conformance.keyfob.invalid/made-up".to_owned();
            request.service_account_annotations.insert(key, value);
        };
        match probe {
            Probe::UnknownImage => UNKNOWN_IMAGE.clone_into(&mut request.image),
            Probe::HugeRequest => annotate("x".repeat(1 << 20)),
            Probe::ServiceAccount => {
                annotate("true".to_owned());
                request.service_account_token = Some(MADE_UP_TOKEN.into());
            }
            _ => {}
        }
        request
    }
}

/// Arguments and variables may hold secrets.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images: Vec<_> = self.images.iter().map(ImageRef::repository).collect();
        f.debug_struct("Subject")
            .field("program", &self.program)
            .field("images", &images)
            .finish_non_exhaustive()
    }
}

/// A kubelet of the years to come.
fn with_unknown_fields(request: &Secret<Vec<u8>>) -> Secret<Vec<u8>> {
    const FIELDS: &[u8] =
        br#","futureField":{"list":[1,null,"text"]},"futureFlag":true,"podName":"conformance"}"#;
    let request = request.expose().trim_ascii_end();
    let open = request.strip_suffix(b"}").unwrap_or(request);
    Secret::new([open, FIELDS, b"\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        let image = ImageRef::parse("r.io/app:1").unwrap();
        Subject::new(Program::at("/opt/plugin").unwrap(), image)
    }

    fn sent(subject: &Subject, probe: Probe) -> CredentialProviderRequest {
        let Stdin::Bytes(stdin) = subject.stdin(probe) else { panic!("nothing is sent") };
        CredentialProviderRequest::decode(stdin.expose()).unwrap().1
    }

    #[test]
    fn a_plugin_is_asked_as_a_kubelet_asks_it() {
        let asked = sent(&subject(), Probe::Image(0));

        let want = CredentialProviderRequest { image: "r.io/app".into(), ..Default::default() };
        assert_eq!(asked, want);
    }

    #[test]
    fn unknown_fields_change_nothing_else() {
        let subject = subject();

        assert_eq!(sent(&subject, Probe::ExtraFields), sent(&subject, Probe::Image(0)));
        let Stdin::Bytes(stdin) = subject.stdin(Probe::ExtraFields) else { panic!("no stdin") };
        assert!(String::from_utf8_lossy(stdin.expose()).contains("futureFlag"));
    }

    #[test]
    fn a_token_is_made_up_only_if_none_is_given() {
        let mut subject = subject();
        let has_made_up = |subject: &Subject| {
            subject.further_probes().any(|probe| probe == Probe::ServiceAccount)
        };
        assert!(has_made_up(&subject));
        assert_eq!(sent(&subject, Probe::Image(0)).service_account_token, None);

        subject.token = Some("given".into());

        assert!(!has_made_up(&subject));
        assert_eq!(sent(&subject, Probe::Image(0)).service_account_token, Some("given".into()));
    }

    #[test]
    fn a_huge_request_has_a_mebibyte() {
        let Stdin::Bytes(stdin) = subject().stdin(Probe::HugeRequest) else { panic!("no stdin") };

        assert!(stdin.expose().len() > 1 << 20);
    }
}
