//! How the pod's token is sent.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::ValueEnum;
use keyfob_api::Secret;
use keyfob_plugin::{Failure, ImageRequest};
use serde_json::{Map, Value};

use super::{
    Args,
    template::{Field, Template},
};
use crate::http::{AddressError, Http, Sending, address};

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// How the token is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// In the form of an OAuth token exchange (RFC 8693).
    Form,
    /// The same fields, or your own, in JSON.
    Json,
    /// In the header, as a bearer token.
    Bearer,
    /// In the header, as the password of --username.
    Basic,
}

/// How it is asked when the token stands in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// GET
    Get,
    /// POST
    Post,
}

/// The request that trades a token, but for the token.
#[derive(Debug)]
pub(super) struct Exchange {
    url: String,
    style: Style,
    method: Method,
    token_field: String,
    fields: Vec<Field>,
}

const UNLESS_ALLOWED: &str =
    ": write https://, or add --allow-http if nobody else can listen on the way";

impl Exchange {
    /// As the command line wants it.
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        if super::template::has_a_place(&args.url) {
            return Err(Failure::new("--url: annotations cannot choose where a token is sent"));
        }
        if let Err(error) = address(&args.url, args.allow_http) {
            let unless = if error == AddressError::Plain { UNLESS_ALLOWED } else { "" };
            return Err(Failure::new(format!("--url: {error}{unless}")));
        }
        let in_header = matches!(args.style, Style::Bearer | Style::Basic);
        let usual = if in_header { Method::Get } else { Method::Post };
        let exchange = Self {
            url: args.url.clone(),
            style: args.style,
            method: args.method.unwrap_or(usual),
            token_field: args.token_field.clone().unwrap_or_else(|| "subject_token".to_owned()),
            fields: fields(args, in_header)?,
        };
        exchange.check(args)?;
        Ok(exchange)
    }

    fn check(&self, args: &Args) -> Result<(), Failure> {
        let has_body = self.method == Method::Post;
        let in_body = matches!(self.style, Style::Form | Style::Json);
        if in_body && !has_body {
            return Err(Failure::new("--method get: a token in a form or in JSON needs post"));
        }
        if !has_body && !self.fields.is_empty() {
            return Err(Failure::new("--field and the like need a body: add --method post"));
        }
        if self.style == Style::Basic && args.username.is_none() {
            return Err(Failure::new("--style basic: --username must say with which name to ask"));
        }
        Ok(())
    }

    /// The request for a pod.
    pub(super) fn sending<'a>(
        &self,
        http: &'a Http,
        token: &Secret<String>,
        username: Option<&str>,
        request: &ImageRequest,
    ) -> Result<Sending<'a>, Failure> {
        let filled = self.filled(request)?;
        let sending = match self.method {
            Method::Get => http.get(&*self.url),
            Method::Post => http.post(&*self.url),
        };
        let sending = sending.header("accept", "application/json");
        Ok(match self.style {
            Style::Form => {
                let mut pairs: Vec<_> =
                    filled.iter().map(|(name, value)| (*name, value.as_str())).collect();
                pairs.push((&self.token_field, token.expose()));
                sending.form(&pairs)
            }
            Style::Json => {
                let token = (&*self.token_field, token.expose().clone());
                sending.json(&object(filled.into_iter().chain([token])))
            }
            Style::Bearer => with_fields(sending, filled).header(
                "authorization",
                Secret::new(format!("Bearer {}", token.expose())).expose(),
            ),
            Style::Basic => with_fields(sending, filled)
                .header("authorization", basic(username, token).expose()),
        })
    }

    fn filled(&self, request: &ImageRequest) -> Result<Vec<(&str, String)>, Failure> {
        let fill = |field: &'_ Field| field.value.fill(request);
        self.fields.iter().map(|field| Ok((field.name.as_str(), fill(field)?))).collect()
    }
}

/// The standard's fields, unless the token has a field of another name: then the service follows no standard, and only
/// what is asked for is sent.
fn fields(args: &Args, in_header: bool) -> Result<Vec<Field>, Failure> {
    let mut fields: Vec<(&str, Template)> = Vec::new();
    if args.token_field.is_none() && !in_header {
        fields.push(("grant_type", GRANT_TYPE.parse()?));
        fields.push(("subject_token_type", args.subject_token_type.parse()?));
    }
    let told = [
        ("requested_token_type", &args.requested_token_type),
        ("audience", &args.audience),
        ("resource", &args.resource),
        ("scope", &args.scope),
    ];
    fields.extend(told.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let named = fields.into_iter().map(|(name, value)| Field { name: name.to_owned(), value });
    Ok(named.chain(args.field.iter().cloned()).collect())
}

fn with_fields<'a>(sending: Sending<'a>, filled: Vec<(&str, String)>) -> Sending<'a> {
    if filled.is_empty() { sending } else { sending.json(&object(filled.into_iter())) }
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> Value {
    let fields = fields.map(|(name, value)| (name.to_owned(), value.into()));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn basic(username: Option<&str>, token: &Secret<String>) -> Secret<String> {
    let both = Secret::new(format!("{}:{}", username.unwrap_or_default(), token.expose()));
    Secret::new(format!("Basic {}", BASE64_STANDARD.encode(both.expose())))
}
