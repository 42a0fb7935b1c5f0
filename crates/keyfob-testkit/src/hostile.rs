//! A server that repeats what it was shown.

use crate::{Internet, Request, Response, echoes};

/// Where a hostile registry or API server repeats a secret, in every encoding that fits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EchoAt {
    /// In the message of a Kubernetes `Status`.
    StatusMessage,
    /// In the errors of a registry.
    RegistryError,
    /// In the description of an OAuth error.
    OauthError,
    /// In a body that is no JSON.
    PlainBody,
    /// In the path of a redirect, and in what is found there.
    RedirectPath,
    /// In the query of a redirect, and in what is found there.
    RedirectQuery,
    /// In the host of a redirect to plain http, where nobody follows.
    RedirectHost,
    /// In the address of a token server, which repeats it too.
    Realm,
}

impl EchoAt {
    /// Every place.
    pub const ALL: [Self; 8] = [
        Self::StatusMessage,
        Self::RegistryError,
        Self::OauthError,
        Self::PlainBody,
        Self::RedirectPath,
        Self::RedirectQuery,
        Self::RedirectHost,
        Self::Realm,
    ];

    /// A server that asks for a login, and repeats these secrets to whoever shows one.
    pub fn server(self, secrets: &[&str]) -> Internet {
        let all: Vec<String> =
            secrets.iter().flat_map(|secret| echoes(secret)).map(|(_, echo)| echo).collect();
        Internet::start(move |request| match request.header("authorization") {
            None if self == Self::Realm && request.path().starts_with("/v2/") => {
                self.answer(request, &all)
            }
            None if !request.target.contains("echo") => {
                Response::status(401).header("WWW-Authenticate", "Basic realm=\"r\"")
            }
            _ => self.answer(request, &all),
        })
    }

    fn answer(self, request: &Request, all: &[String]) -> Response {
        let said = format!("you sent {}", all.join(" | "));
        let fits =
            |echo: &&String| echo.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let in_address = all.iter().filter(fits).cloned().collect::<Vec<_>>();
        let is_there = request.target.contains("echo");
        match self {
            _ if is_there => registry_error(&said),
            Self::RegistryError => registry_error(&said),
            Self::StatusMessage => Response::json(
                serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": said,
                    "reason": "Forbidden", "code": 403,
                })
                .to_string(),
            )
            .with_status(403),
            Self::OauthError => {
                let error = serde_json::json!({"error": "denied", "error_description": said});
                Response::json(error.to_string()).with_status(403)
            }
            Self::PlainBody => Response::text(said).with_status(500),
            Self::RedirectPath => redirect(&format!("/v2/echo/{}", in_address.join("/"))),
            Self::RedirectQuery => redirect(&format!("/v2/echo?x={}", in_address.join("&x="))),
            Self::RedirectHost => {
                let host = all.first().map(String::as_str).unwrap_or_default();
                redirect(&format!("http://{host}.test/{}", in_address.join("/")))
            }
            Self::Realm => {
                let host = request.header("host").unwrap_or_default();
                let realm = format!("http://{host}/echo/{}", in_address.join("/"));
                let challenge =
                    format!("Bearer realm=\"{realm}\",service=\"{realm}\",scope=\"{realm}\"");
                Response::status(401).header("WWW-Authenticate", &challenge)
            }
        }
    }
}

fn registry_error(said: &str) -> Response {
    let errors = serde_json::json!({"errors": [{"code": "DENIED", "message": said}]});
    Response::json(errors.to_string()).with_status(403)
}

fn redirect(location: &str) -> Response {
    Response::status(307).header("Location", location)
}
