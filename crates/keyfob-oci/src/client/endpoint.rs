//! Where a repository is.

use keyfob_api::ImageRef;
use reqwest::Url;

use super::plain_http::PlainHttp;
use crate::{Digest, PullError};

/// What Docker Hub is called in images, and where its registry is.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A repository's place on its registry.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// `https://host:port/v2/path/`.
    base: Url,
    path: String,
}

impl Endpoint {
    /// https, unless the host speaks plain http.
    pub(crate) fn of(image: &ImageRef, plain_http: &PlainHttp) -> Result<Self, PullError> {
        let registry = image.registry();
        let host = if registry == DOCKER_HUB.0 { DOCKER_HUB.1 } else { registry };
        let path = image.path().to_owned();
        let at = |scheme: &str| Url::parse(&format!("{scheme}://{host}/v2/{path}/"));
        // The default port is another for each, and decides what was named.
        let plain = at("http").ok().filter(|plain| plain_http.is_spoken_by(plain));
        let base = plain
            .map_or_else(|| at("https"), Ok)
            .map_err(|_| PullError::Registry { image: image.to_string() })?;
        Ok(Self { base, path })
    }

    /// Its whole address, which no other repository has.
    pub(crate) fn name(&self) -> String {
        self.base.to_string()
    }

    /// Scheme, host and port of its registry.
    pub(crate) fn registry(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    /// What a token must allow.
    pub(crate) fn scope(&self) -> String {
        format!("repository:{}:pull", self.path)
    }

    /// A manifest by its tag or digest.
    pub(crate) fn manifest(&self, reference: &str) -> Url {
        self.below(&format!("manifests/{reference}"))
    }

    pub(crate) fn blob(&self, digest: &Digest) -> Url {
        self.below(&format!("blobs/{digest}"))
    }

    fn below(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(image: &str) -> Result<Endpoint, PullError> {
        let rule = PlainHttp::new(["reg.test:80".into(), "reg.test:5000".into()]);
        Endpoint::of(&ImageRef::parse(image).unwrap(), &rule)
    }

    #[test]
    fn a_registry_is_asked_over_https_unless_it_may_be_asked_over_http() {
        let rows = [
            ("nginx", "https://registry-1.docker.io/v2/library/nginx/manifests/v1"),
            ("docker.io/ada/app", "https://registry-1.docker.io/v2/ada/app/manifests/v1"),
            ("r.io:5000/a/b", "https://r.io:5000/v2/a/b/manifests/v1"),
            ("reg.test:5000/app", "http://reg.test:5000/v2/app/manifests/v1"),
            ("reg.test/app", "http://reg.test/v2/app/manifests/v1"),
            ("reg.test:5001/app", "https://reg.test:5001/v2/app/manifests/v1"),
            ("localhost:5000/app", "http://localhost:5000/v2/app/manifests/v1"),
            ("[::1]:5000/app", "http://[::1]:5000/v2/app/manifests/v1"),
        ];
        for (image, expected) in rows {
            assert_eq!(endpoint(image).unwrap().manifest("v1").as_str(), expected);
        }
        let digest = Digest::sha256(b"");
        let blob = endpoint("r.io/a").unwrap().blob(&digest);
        assert_eq!(blob.as_str(), format!("https://r.io/v2/a/blobs/{digest}"));
        assert_eq!(endpoint("r.io/a").unwrap().registry(), "https://r.io");
        assert_eq!(endpoint("nginx").unwrap().scope(), "repository:library/nginx:pull");
    }

    #[test]
    fn a_registry_that_is_no_host_is_refused() {
        let refusal = endpoint("[a:]/app").unwrap_err().to_string();
        assert_eq!(refusal, "[a:]/app:latest: its registry is no host that can be asked");
    }
}
