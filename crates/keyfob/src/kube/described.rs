//! What may be told of a credential: whose it is and when it ends, never the credential.

use std::time::{Duration, SystemTime};

use keyfob_api::{Claims, GoDuration, Secret, Timestamp};
use keyfob_client::Identity;
use serde::Serialize;

use super::held::{Held, Source};
use crate::{match_images::shown, page::Page};

/// A credential, without its secrets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    /// `plugin`, or `kubeconfig` if it is the user's own.
    source: &'static str,
    /// What was run; `null` if nothing was.
    command: Option<String>,
    /// Which answer of the plugin it is, from 1.
    generation: Option<u64>,
    token: Option<Token>,
    certificate: Option<Certificate>,
    /// Who logs in with a password.
    username: Option<String>,
    /// When the plugin says that it ends; `null` if it does not say.
    expiration_timestamp: Option<String>,
    /// How long that is from now, as Go writes it; negative if it is past.
    expires_in: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    /// `jwt`, or `opaque` if only the server knows what it says.
    kind: &'static str,
    /// What it claims, which nobody verified here.
    claims: Option<Claimed>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Claimed {
    subject: Option<String>,
    issuer: Option<String>,
    audiences: Vec<String>,
    issued: Option<String>,
    expires: Option<String>,
    expires_in: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    /// Kubernetes takes it for the user.
    common_name: Option<String>,
    /// Kubernetes takes them for groups.
    organizations: Vec<String>,
    not_before: String,
    not_after: String,
    expires_in: Option<String>,
}

impl Described {
    pub(super) fn new(held: &Held, now: SystemTime) -> Self {
        let (source, command, generation) = match &held.source {
            Source::Plugin { command, generation } => {
                ("plugin", Some(command.clone()), Some(*generation))
            }
            Source::Kubeconfig => ("kubeconfig", None, None),
        };
        Self {
            source,
            command,
            generation,
            token: held.token.as_ref().map(|token| Token::new(token, now)),
            certificate: held.identity.as_ref().map(|identity| Certificate::new(identity, now)),
            username: held.username.clone(),
            expiration_timestamp: held.expiration.map(|end| end.to_string()),
            expires_in: held.expiration.and_then(|end| until(end, now)),
        }
    }

    /// In a few words.
    pub(super) fn summary(&self) -> String {
        let token = self.token.as_ref().map(|token| match token.kind {
            "jwt" => "a JSON web token",
            _ => "a token",
        });
        let certificate = self.certificate.as_ref().map(|_| "a certificate");
        let password = self.username.as_ref().map(|_| "a user name and a password");
        let parts: Vec<_> = [token, certificate, password].into_iter().flatten().collect();
        let end = self.expires_in.as_deref().map(|left| format!(", which {}", ends(left)));
        parts.join(" and ") + &end.unwrap_or_default()
    }

    /// A page's facts.
    pub(super) fn print(&self, page: &mut Page) {
        let from = match (&self.command, self.generation) {
            (Some(command), Some(generation)) => {
                format!("from the plugin {}, generation {generation}", shown(command))
            }
            _ => "the kubeconfig's own; no plugin is run".to_owned(),
        };
        page.fact("credential", &from);
        if let Some(token) = &self.token {
            token.print(page);
        }
        if let Some(certificate) = &self.certificate {
            certificate.print(page);
        }
        if let Some(username) = &self.username {
            page.fact("user name", &format!("{}, with a password", shown(username)));
        }
        match (&self.expiration_timestamp, &self.expires_in) {
            (Some(end), Some(left)) => page.fact("ends", &format!("{end}: {}", ends(left))),
            _ if self.source == "plugin" => {
                page.fact("ends", "when the server refuses it: the plugin does not say");
            }
            _ => {}
        }
    }
}

impl Token {
    fn new(token: &Secret<String>, now: SystemTime) -> Self {
        let claims = Claims::of(token).map(|claims| Claimed::new(claims, now));
        Self { kind: if claims.is_some() { "jwt" } else { "opaque" }, claims }
    }

    fn print(&self, page: &mut Page) {
        let Some(claims) = &self.claims else {
            return page.fact("token", "opaque: only the server knows what it says");
        };
        page.fact("token", "a JSON web token; what it claims is not verified here:");
        let claim = |page: &mut Page, name: &str, value: &Option<String>| {
            let value = value.as_deref().map_or("none".into(), shown);
            page.fact(&format!("  {name}"), &value);
        };
        claim(page, "subject", &claims.subject);
        claim(page, "issuer", &claims.issuer);
        match claims.audiences.as_slice() {
            [] => page.fact("  audiences", "none"),
            audiences => page.facts("  audiences", audiences.iter().map(|each| shown(each))),
        }
        if let (Some(end), Some(left)) = (&claims.expires, &claims.expires_in) {
            page.fact("  expires", &format!("{end}: {}", ends(left)));
        }
    }
}

impl Claimed {
    fn new(claims: Claims, now: SystemTime) -> Self {
        let time = |time: Option<SystemTime>| time.map(Timestamp::from);
        Self {
            subject: claims.subject,
            issuer: claims.issuer,
            audiences: claims.audiences,
            issued: time(claims.issued).map(|issued| issued.to_string()),
            expires: time(claims.expires).map(|end| end.to_string()),
            expires_in: time(claims.expires).and_then(|end| until(end, now)),
        }
    }
}

impl Certificate {
    fn new(identity: &Identity, now: SystemTime) -> Self {
        Self {
            common_name: identity.common_name().map(str::to_owned),
            organizations: identity.organizations().to_vec(),
            not_before: identity.not_before().to_string(),
            not_after: identity.not_after().to_string(),
            expires_in: until(identity.not_after(), now),
        }
    }

    fn print(&self, page: &mut Page) {
        let user = self.common_name.as_deref().map_or("nobody".into(), shown);
        page.fact("certificate", &format!("for the user {user}"));
        page.facts("  groups", self.organizations.iter().map(|group| shown(group)));
        let left = self.expires_in.as_deref().map(ends).unwrap_or_default();
        let valid = format!("from {} until {}: {left}", self.not_before, self.not_after);
        page.fact("  valid", &valid);
    }
}

/// How long it is to a time, to the second.
fn until(end: Timestamp, now: SystemTime) -> Option<String> {
    let end = end.to_system_time()?;
    let rounded = |left: Duration| {
        let left = left + Duration::from_millis(500);
        GoDuration::from(Duration::from_secs(left.as_secs())).to_string()
    };
    Some(match end.duration_since(now) {
        Ok(left) => rounded(left),
        Err(past) => format!("-{}", rounded(past.duration())),
    })
}

fn ends(left: &str) -> String {
    match left.strip_prefix('-') {
        Some(past) => format!("ended {past} ago"),
        None => format!("ends in {left}"),
    }
}
