//! What a plugin is asked, and how.

use keyfob_api::{
    CredentialProviderRequest, ProviderVersion, RegistryCredentialPluginRequest, Secret,
};
use keyfob_exec::Stdin;

use super::Provider;

/// An image of a registry that nobody can have.
pub(super) const UNKNOWN_IMAGE: &str = "nobody.keyfob.invalid/conformance/unknown";

/// Of the shape of a service account's token, with an end far away and no signature that anybody would take.
pub(super) const MADE_UP_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im1hZGUtdXAifQ.\
     eyJhdWQiOlsia2V5Zm9iLWNvbmZvcm1hbmNlIl0sImV4cCI6NDA3MDkwODgwMCwiaXNzIjoiaHR0cHM6Ly9rdWJlcm5ldGVzLmludmFsaWQiLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6a2V5Zm9iOmNvbmZvcm1hbmNlIn0.\
     bm90LWEtc2lnbmF0dXJlLWp1c3QtYS1jb25mb3JtYW5jZS1jaGVjaw";

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

impl Probe {
    /// Which run it is, in a report.
    pub(super) fn when(self) -> &'static str {
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

impl Provider {
    /// Everything that is run after the first image, but for those at once.
    pub(super) fn probes_after_the_first(&self) -> impl Iterator<Item = Probe> {
        let older = ProviderVersion::ALL.into_iter().filter(|it| *it != ProviderVersion::V1);
        let made_up = self.token.is_none().then_some(Probe::ServiceAccount);
        (1..self.images.len())
            .map(Probe::Image)
            .chain(older.map(Probe::Version))
            .chain([Probe::UnknownImage, Probe::NoStdin, Probe::HugeRequest, Probe::ExtraFields])
            .chain(made_up)
            .chain([Probe::Again, Probe::ClosedStdout, Probe::FirstKep])
    }

    /// The token that some of the runs bring.
    pub(super) fn token_or_made_up(&self) -> Secret<String> {
        self.token.clone().unwrap_or_else(|| MADE_UP_TOKEN.into())
    }

    pub(super) fn stdin(&self, probe: Probe) -> Stdin {
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
    use keyfob_api::ImageRef;

    use super::*;

    fn provider() -> Provider {
        Provider::new(ImageRef::parse("r.io/app:1").unwrap())
    }

    fn sent(provider: &Provider, probe: Probe) -> CredentialProviderRequest {
        let Stdin::Bytes(stdin) = provider.stdin(probe) else { panic!("nothing is sent") };
        CredentialProviderRequest::decode(stdin.expose()).unwrap().1
    }

    #[test]
    fn a_plugin_is_asked_as_a_kubelet_asks_it() {
        let asked = sent(&provider(), Probe::Image(0));

        let want = CredentialProviderRequest { image: "r.io/app".into(), ..Default::default() };
        assert_eq!(asked, want);
    }

    #[test]
    fn unknown_fields_change_nothing_else() {
        let provider = provider();

        assert_eq!(sent(&provider, Probe::ExtraFields), sent(&provider, Probe::Image(0)));
        let Stdin::Bytes(stdin) = provider.stdin(Probe::ExtraFields) else { panic!("no stdin") };
        assert!(String::from_utf8_lossy(stdin.expose()).contains("futureFlag"));
    }

    #[test]
    fn a_token_is_made_up_only_if_none_is_given() {
        let mut provider = provider();
        let has_made_up = |provider: &Provider| {
            provider.probes_after_the_first().any(|probe| probe == Probe::ServiceAccount)
        };
        assert!(has_made_up(&provider));
        assert_eq!(sent(&provider, Probe::Image(0)).service_account_token, None);

        provider.token = Some("given".into());

        assert!(!has_made_up(&provider));
        assert_eq!(sent(&provider, Probe::Image(0)).service_account_token, Some("given".into()));
    }

    #[test]
    fn a_huge_request_has_a_mebibyte() {
        let Stdin::Bytes(stdin) = provider().stdin(Probe::HugeRequest) else { panic!("no stdin") };

        assert!(stdin.expose().len() > 1 << 20);
    }
}
