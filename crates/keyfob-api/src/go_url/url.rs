//! A URL as Go takes it apart and puts it together again.
//!
//! Upstream: `net/url.Parse`, `ParseRequestURI` and `URL.String` (Go 1.26).

use std::fmt;

use thiserror::Error;

use super::{
    Authority, Colons, User,
    escape::{Into, Part, escape, escape_again, unescape},
    parse_authority,
};
use crate::Secret;

/// A URL. It may hold a password, so `Debug` shows the scheme only.
///
/// ```
/// use keyfob_api::GoUrl;
///
/// let url = GoUrl::parse("HTTP://me:pass%20word@proxy.test:3128/a b")?;
/// assert_eq!(url.scheme(), "http");
/// assert_eq!(url.text().expose(), "http://me:pass%20word@proxy.test:3128/a%20b");
/// # Ok::<(), keyfob_api::InvalidUrl>(())
/// ```
#[derive(Clone, Default)]
pub struct GoUrl {
    scheme: String,
    /// What follows a scheme without a slash.
    opaque: Secret<String>,
    user: Option<Secret<String>>,
    host: String,
    /// Whether there was no `//` for a host to stand behind.
    omits_host: bool,
    path: String,
    /// An empty one is a question mark at the end.
    query: Option<Secret<String>>,
    fragment: String,
}

impl GoUrl {
    /// Reads any URL; without a scheme it is a path.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::without_fragment(text, Form::Any)?;
        let decoded = unescape(fragment.as_bytes(), Part::Other).map_err(|_| InvalidUrl)?;
        url.fragment = escape_again(fragment, &decoded, Into::Fragment);
        Ok(url)
    }

    /// Reads an absolute URL or an absolute path. There are no fragments: `#` is part of what it stands in.
    pub fn parse_request_uri(text: &str) -> Result<Self, InvalidUrl> {
        Self::without_fragment(text, Form::Request)
    }

    /// The scheme in lower case; empty for none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Whether there is a host.
    pub fn has_host(&self) -> bool {
        !self.host.is_empty()
    }

    /// The path, encoded. A URL whose scheme no slash follows has none.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same without its query. A bare question mark at the end stays, as in Go.
    #[must_use]
    pub fn without_query(mut self) -> Self {
        self.query = self.query.filter(|query| query.expose().is_empty());
        self
    }

    /// The whole, put together again. It may hold a password.
    pub fn text(&self) -> Secret<String> {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.extend([&self.scheme, ":"]);
        }
        text.push_str(self.opaque.expose());
        let is_absolute = !self.scheme.is_empty() || self.has_host() || self.user.is_some();
        if is_absolute && !self.omits_host {
            if self.has_host() || !self.path.is_empty() || self.user.is_some() {
                text.push_str("//");
            }
            if let Some(user) = &self.user {
                text.extend([user.expose(), "@"]);
            }
            text.push_str(&self.host);
        }
        text.push_str(&self.path);
        if let Some(query) = &self.query {
            text.extend(["?", query.expose()]);
        }
        if !self.fragment.is_empty() {
            text.extend(["#", &self.fragment]);
        }
        text.into()
    }

    fn without_fragment(text: &str, form: Form) -> Result<Self, InvalidUrl> {
        if text.bytes().any(|byte| byte.is_ascii_control())
            || (text.is_empty() && form == Form::Request)
        {
            return Err(InvalidUrl);
        }
        if text == "*" {
            return Ok(Self { path: text.to_owned(), ..Self::default() });
        }
        let (scheme, rest) = split_scheme(text)?;
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        let rest = match rest.split_once('?') {
            Some((rest, query)) => {
                url.query = Some(query.into());
                rest
            }
            None => rest,
        };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                url.opaque = rest.into();
                return Ok(url);
            }
            let first = rest.split('/').next().unwrap_or_default();
            if form == Form::Request || first.contains(':') {
                return Err(InvalidUrl);
            }
        }
        url.read_hierarchy(rest, form)?;
        Ok(url)
    }

    /// Host and path.
    fn read_hierarchy(&mut self, rest: &str, form: Form) -> Result<(), InvalidUrl> {
        let takes_host = !self.scheme.is_empty() || (form == Form::Any && !rest.starts_with("///"));
        let path = match rest.strip_prefix("//") {
            Some(behind) if takes_host => {
                let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
                self.read_authority(authority)?;
                path
            }
            _ => {
                self.omits_host = !self.scheme.is_empty() && rest.starts_with('/');
                rest
            }
        };
        let decoded = unescape(path.as_bytes(), Part::Other).map_err(|_| InvalidUrl)?;
        self.path = escape_again(path, &decoded, Into::Path);
        Ok(())
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), InvalidUrl> {
        let colons = match self.scheme.as_str() {
            "http" | "https" => Colons::Strict,
            _ => Colons::Lax,
        };
        let authority = parse_authority(authority.as_bytes(), colons).map_err(|_| InvalidUrl)?;
        let Authority { user, host } = authority;
        self.user = user.map(|user| user.text().into());
        self.host = escape(&host, Into::Host);
        Ok(())
    }
}

impl User {
    fn text(&self) -> String {
        let name = escape(&self.name, Into::User);
        match &self.password {
            Some(password) => format!("{name}:{}", escape(password, Into::User)),
            None => name,
        }
    }
}

impl fmt::Debug for GoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoUrl").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// What a text may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Any,
    Request,
}

/// The scheme and what follows its colon; no scheme and all of it where there is none.
fn split_scheme(text: &str) -> Result<(&str, &str), InvalidUrl> {
    let Some((scheme, rest)) = text.split_once(':') else { return Ok(("", text)) };
    let in_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    match scheme.as_bytes() {
        [] => Err(InvalidUrl),
        [first, others @ ..] if first.is_ascii_alphabetic() && others.iter().all(in_scheme) => {
            Ok((scheme, rest))
        }
        _ => Ok(("", text)),
    }
}

/// A text that Go's parser refuses. What is wrong is not said: the text may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a URL")]
#[non_exhaustive]
pub struct InvalidUrl;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(url: Result<GoUrl, InvalidUrl>) -> String {
        url.map_or_else(|error| error.to_string(), |url| url.text().expose().clone())
    }

    #[test]
    fn a_url_is_put_together_as_go_does() {
        let cases = [
            ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
            ("HTTPS://Api.Test/", "https://Api.Test/"),
            ("https://é.test/a b?x= y#f g%41", "https://%C3%A9.test/a%20b?x= y#f%20gA"),
            ("https://api.test/a%2Fb%20c/(d)*", "https://api.test/a%2Fb%20c/(d)*"),
            ("https://api.test/a%2f\"", "https://api.test/a/%22"),
            ("http://me@api.test", "http://me@api.test"),
            ("http://me:@api.test", "http://me:@api.test"),
            ("http://m%2Fe:p%3a%40@api.test", "http://m%2Fe:p%3A%40@api.test"),
            ("https://[fe80::1%25en 0]:1/", "not a URL"),
            ("https://[fe80::1%25en%200]:1/", "https://[fe80::1%25en%200]:1/"),
            ("socks5://a:b:1", "socks5://a:b:1"),
            ("http://a:b:1", "not a URL"),
            ("file:///a", "file:///a"),
            ("file:/a", "file:/a"),
            ("mailto:a@b?c", "mailto:a@b?c"),
            ("https:", "https:"),
            ("//api.test/a", "//api.test/a"),
            ("///a", "///a"),
            ("a/b:c", "a/b:c"),
            ("a_b:c", "not a URL"),
            (":c", "not a URL"),
            ("", ""),
            ("*", "*"),
            ("a\tb", "not a URL"),
            ("a?", "a?"),
            ("a#", "a"),
            ("https://api.test/%zz", "not a URL"),
            ("https://api.test/#%zz", "not a URL"),
        ];
        for (url, want) in cases {
            assert_eq!(text(GoUrl::parse(url)), want, "{url}");
        }
    }

    #[test]
    fn a_request_has_no_fragment_and_is_absolute() {
        let cases = [
            ("https://api.test/x#frag", "https://api.test/x%23frag"),
            ("https://api.test#frag", "not a URL"),
            ("//api.test/a", "//api.test/a"),
            ("/a?b", "/a?b"),
            ("a/b", "not a URL"),
            ("", "not a URL"),
        ];
        for (url, want) in cases {
            assert_eq!(text(GoUrl::parse_request_uri(url)), want, "{url}");
        }
    }

    #[test]
    fn a_query_goes_but_for_a_bare_question_mark() {
        for (url, want) in [("https://a/b?c", "https://a/b"), ("https://a/b?", "https://a/b?")] {
            assert_eq!(text(GoUrl::parse(url).map(GoUrl::without_query)), want);
        }
    }

    #[test]
    fn debug_shows_no_password() {
        let url = GoUrl::parse("http://me:hunter2@proxy.test/?hunter2#hunter2").unwrap();
        assert_eq!(format!("{url:?}"), "GoUrl { scheme: \"http\", .. }");
    }
}
