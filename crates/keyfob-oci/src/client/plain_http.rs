//! With whom plain http is spoken.

use std::net::IpAddr;

use reqwest::Url;

use crate::PullError;

/// This machine, and hosts that were named.
#[derive(Debug, Default)]
pub(crate) struct PlainHttp {
    named: Vec<String>,
    /// Whether registries of this machine speak https, because certificates to trust were given.
    loopback_has_tls: bool,
}

impl PlainHttp {
    /// `host` stands for every port of it, `host:port` for one.
    pub(crate) fn new(named: impl IntoIterator<Item = String>) -> Self {
        let named = named.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { named, loopback_has_tls: false }
    }

    /// Expects https of registries of this machine too, unless they were named.
    pub(crate) fn with_tls_on_loopback(self, loopback_has_tls: bool) -> Self {
        Self { loopback_has_tls, ..self }
    }

    /// Whether plain http may be spoken with the host of this address.
    fn allows(&self, url: &Url) -> bool {
        url.host_str().is_some_and(is_loopback) || self.names(url)
    }

    /// Whether plain http is what the registry at this address speaks.
    pub(crate) fn is_spoken_by(&self, url: &Url) -> bool {
        let is_loopback = !self.loopback_has_tls && url.host_str().is_some_and(is_loopback);
        is_loopback || self.names(url)
    }

    fn names(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let port = url.port_or_known_default().map(|port| format!("{host}:{port}"));
        self.named.iter().any(|named| *named == host || Some(named) == port.as_ref())
    }

    /// Refuses an address that is neither https nor allowed, or may hold a password.
    pub(crate) fn check(&self, url: &Url, why: &'static str) -> Result<(), PullError> {
        let address = || without_secrets(url);
        let bad = |reason: &str| PullError::BadAnswer { what: address(), reason: reason.into() };
        if !url.has_host() || !url.username().is_empty() || url.password().is_some() {
            return Err(bad("not an address that can be asked"));
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.allows(url) => Ok(()),
            "http" => Err(PullError::PlainHttp { address: address(), why }),
            _ => Err(bad("neither https nor http")),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// `https://host:port/path`.
pub(crate) fn without_secrets(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_and_for_hosts_that_were_named() {
        let rule =
            PlainHttp::new(["Reg.test:5000".into(), "other.test".into(), "[fd00::1]".into()]);
        let rows = [
            ("http://localhost:5000", true),
            ("http://127.0.0.1", true),
            ("http://127.9.9.9:80", true),
            ("http://[::1]:5000", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://reg.test:5000", true),
            ("http://reg.test", false),
            ("http://reg.test:5001", false),
            ("http://other.test", true),
            ("http://other.test:81", true),
            ("http://[fd00::1]:5000", true),
            ("http://another.test", false),
            ("http://localhost.test", false),
            ("http://128.0.0.1", false),
            ("http://127.0.0.1.test", false),
            ("http://[::2]", false),
        ];
        for (url, expected) in rows {
            let url: Url = url.parse().unwrap();
            assert_eq!(rule.allows(&url), expected, "{url}");
            assert_eq!(rule.is_spoken_by(&url), expected, "{url}");
            assert_eq!(rule.check(&url, "why").is_ok(), expected, "{url}");
        }
        assert!(
            PlainHttp::new(["other.test:80".into()]).allows(&"http://other.test".parse().unwrap())
        );
    }

    #[test]
    fn with_certificates_to_trust_this_machine_speaks_https_unless_it_was_named() {
        let rule = PlainHttp::new(["127.0.0.1:5000".into()]).with_tls_on_loopback(true);
        let is_plain = |url: &str| rule.is_spoken_by(&url.parse().unwrap());

        assert!(!is_plain("http://localhost:5000") && !is_plain("http://127.0.0.1:5001"));
        assert!(is_plain("http://127.0.0.1:5000"));
    }

    #[test]
    fn no_address_with_a_login_or_of_another_kind_is_asked() {
        let rule = PlainHttp::default();
        let refusal = |url: &str| rule.check(&url.parse().unwrap(), "why").unwrap_err().to_string();

        assert!(rule.check(&"https://r.io/x?y".parse().unwrap(), "why").is_ok());
        assert_eq!(
            refusal("https://ada:hunter2@r.io/x?key=hunter2"),
            "https://r.io/x: not an address that can be asked"
        );
        assert_eq!(refusal("ftp://r.io/x"), "ftp://r.io/x: neither https nor http");
        assert!(refusal("http://r.io/x?key=hunter2").starts_with("http://r.io/x: plain http is"));
    }
}
