//! Which way a request goes.

use std::fmt;

use keyfob_exec::{Environment, proxy_address, proxy_variable};
use reqwest::{ClientBuilder, NoProxy, Proxy};

use crate::ConnectionError;

/// Never through a proxy: a proxy has other neighbours than this machine.
const DIRECT: &str = "localhost,127.0.0.0/8,::1,169.254.0.0/16,fe80::/10,fd00:ec2::254,metadata.google.internal,\
                      metadata.google.internal.";

/// The proxies that the environment names.
#[derive(Default)]
pub(crate) struct Proxies {
    http: Option<String>,
    https: Option<String>,
    except: String,
}

impl Proxies {
    pub(crate) fn of(environment: &dyn Environment) -> Self {
        let named = |name: &str| proxy_address(name, environment);
        let all = named("ALL_PROXY");
        let except = match proxy_variable("NO_PROXY", environment) {
            Some(except) => format!("{except},{DIRECT}"),
            None => DIRECT.into(),
        };
        Self {
            http: named("HTTP_PROXY").or_else(|| all.clone()),
            https: named("HTTPS_PROXY").or(all),
            except,
        }
    }

    pub(crate) fn need_tls(&self) -> bool {
        [&self.http, &self.https].into_iter().flatten().any(|url| url.starts_with("https://"))
    }

    pub(crate) fn apply(
        &self,
        mut builder: ClientBuilder,
    ) -> Result<ClientBuilder, ConnectionError> {
        // What the address of a proxy holds besides is a password.
        let invalid = |_| ConnectionError::Proxy;
        if let Some(url) = &self.http {
            builder = builder.proxy(Proxy::http(url).map_err(invalid)?.no_proxy(self.except()));
        }
        if let Some(url) = &self.https {
            builder = builder.proxy(Proxy::https(url).map_err(invalid)?.no_proxy(self.except()));
        }
        Ok(builder)
    }

    fn except(&self) -> Option<NoProxy> {
        NoProxy::from_string(&self.except)
    }
}

/// The address of a proxy may hold a password.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").field("except", &self.except).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::MapEnvironment;

    use super::*;

    fn proxies(environment: &[(&str, &str)]) -> Proxies {
        Proxies::of(&environment.iter().copied().collect::<MapEnvironment>())
    }

    #[test]
    fn an_empty_variable_does_not_hide_the_other_spelling() {
        for (empty, set) in [("HTTPS_PROXY", "https_proxy"), ("https_proxy", "HTTPS_PROXY")] {
            let found = proxies(&[(empty, ""), (set, "proxy:1")]);
            assert_eq!(found.https.as_deref(), Some("http://proxy:1"), "{empty} is empty");
        }
        let found = proxies(&[
            ("NO_PROXY", ""),
            ("no_proxy", "a.example"),
            ("ALL_PROXY", ""),
            ("all_proxy", "b:2"),
        ]);
        assert!(found.except.starts_with("a.example,"), "{}", found.except);
        assert_eq!(found.http.as_deref(), Some("http://b:2"));
    }

    #[test]
    fn a_cgi_program_has_no_http_proxy() {
        let found =
            proxies(&[("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil:1"), ("HTTPS_PROXY", "b:2")]);
        assert_eq!((found.http, found.https.as_deref()), (None, Some("http://b:2")));
    }
}
