//! A registry's refresh token for a token of Microsoft Entra ID.

use keyfob_api::Secret;
use keyfob_plugin::{Call, Doing as _, Failure};
use reqwest::Url;
use serde::Deserialize;

use super::{challenge::Challenge, login_server::LoginServer};
use crate::http::{Http, HttpError, Reply};

const USER_AGENT: &str = "kubernetes-credentialprovider-acr";

/// A token of Microsoft Entra ID.
#[derive(Debug)]
pub(super) struct EntraToken {
    pub(super) token: Secret<String>,
    /// The tenant of whoever got it, if that is known.
    pub(super) tenant: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Exchanged {
    refresh_token: String,
}

/// Asks the registry where it gives out tokens, and for one.
pub(super) async fn refresh_token(
    login: &LoginServer,
    entra: &EntraToken,
    http: &Http,
    call: &Call,
) -> Result<Secret<String>, Failure> {
    let challenge = challenge(login, http, call).await?;
    let url = exchange_url(&challenge.realm, login)?;
    call.step(format!("trading the token at {}", login.host));
    let mut form = vec![
        ("service", challenge.service.as_str()),
        ("grant_type", "access_token_refresh_token"),
        ("access_token", entra.token.expose()),
        ("refresh_token", entra.token.expose()),
    ];
    if !entra.tenant.is_empty() {
        form.push(("tenant", &entra.tenant));
    }
    let reply = http.post(url).header("user-agent", USER_AGENT).form(&form).send(call).await?;
    let correlation = correlation(&reply);
    let exchanged = reply.success().and_then(|reply| reply.json::<Exchanged>());
    let exchanged =
        exchanged.map_err(|error: HttpError| Failure::new(format!("{error}{correlation}")))?;
    if exchanged.refresh_token.is_empty() {
        return Err(Failure::new(format!(
            "{} answered without a refresh token{correlation}",
            login.host
        )));
    }
    Ok(exchanged.refresh_token.into())
}

async fn challenge(login: &LoginServer, http: &Http, call: &Call) -> Result<Challenge, Failure> {
    call.step(format!("asking {} where its tokens are", login.host));
    let url = format!("https://{}/v2/", login.host.to_lowercase());
    let reply = http.get(url).header("user-agent", USER_AGENT).send(call).await?;
    let headers = reply.headers().get_all("www-authenticate").iter();
    let headers: Vec<_> =
        headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    Challenge::read(reply.status(), &headers).doing(format!("the challenge of {}", login.host))
}

/// The token goes to the registry that was asked, over TLS, whatever its challenge says. Upstream sends it anywhere.
fn exchange_url(realm: &str, login: &LoginServer) -> Result<String, Failure> {
    let here = Url::parse(realm).ok().filter(|url| {
        let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
        url.scheme() == "https" && port == Some(443) && login.is_at(host)
    });
    let Some(host) = here.as_ref().and_then(Url::host_str) else {
        return Err(Failure::new(format!(
            "the challenge of {} names a realm elsewhere: the token is not sent there",
            login.host
        )));
    };
    Ok(format!("https://{host}/oauth2/exchange"))
}

/// What the registry's operators ask for.
fn correlation(reply: &Reply) -> String {
    let id = reply.headers().get("x-ms-correlation-request-id");
    let id = id.and_then(|id| id.to_str().ok()).filter(|id| id.len() <= 64);
    id.map(|id| format!(" (correlation ID {id})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_the_registry_that_was_asked() {
        let login = LoginServer::of("foo.eastus2.geo.azurecr.io/x", "").unwrap();
        let url = |realm: &str| exchange_url(realm, &login).ok();
        for (realm, expected) in [
            ("https://foo.azurecr.io/oauth2/token", "https://foo.azurecr.io/oauth2/exchange"),
            (
                "https://FOO.eastus2.geo.azurecr.io:443/oauth2/token?a=b",
                "https://foo.eastus2.geo.azurecr.io/oauth2/exchange",
            ),
            ("https://u:p@foo.azurecr.io/", "https://foo.azurecr.io/oauth2/exchange"),
        ] {
            assert_eq!(url(realm).as_deref(), Some(expected), "{realm}");
        }
        for realm in [
            "https://evil.example/oauth2/token",
            "https://foo.azurecr.io@evil.example/",
            "https://foo.azurecr.io.evil.example/",
            "https://bar.azurecr.io/oauth2/token",
            "https://foo.azurecr.io:8443/oauth2/token",
            "http://foo.azurecr.io/oauth2/token",
            "http://foo.azurecr.io:443/oauth2/token",
            "foo.azurecr.io",
            "",
        ] {
            assert_eq!(url(realm), None, "{realm}");
        }
    }
}
