//! Where a secret may be sent to.

/// Why an address is none that a secret is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no telling where it leads.
    #[error("not an address such as https://host/path")]
    Unreadable,
    /// Anyone on the way could read along.
    #[error("begins with http://, and a token is sent only over https://")]
    Plain,
    /// Addresses end up in messages.
    #[error("holds a user name or a password, which do not belong there")]
    Userinfo,
}

/// Checks the address of a service that is sent a token: `https://host/path`, or `http://` if that is allowed.
pub fn address(url: &str, allow_http: bool) -> Result<(), AddressError> {
    let uri: http::Uri = url.parse().map_err(|_| AddressError::Unreadable)?;
    let host = uri.authority().filter(|authority| !authority.host().is_empty());
    let host = host.ok_or(AddressError::Unreadable)?;
    if host.as_str().contains('@') {
        return Err(AddressError::Userinfo);
    }
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if allow_http => Ok(()),
        Some("http") => Err(AddressError::Plain),
        _ => Err(AddressError::Unreadable),
    }
}

/// The same for a flag that takes `https://` only.
pub fn secure_address(url: &str) -> Result<String, AddressError> {
    address(url, false).map(|()| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_to_a_host_and_over_tls() {
        let rows = [
            ("https://sts.example/v1/token?x=1", false, Ok(())),
            ("http://127.0.0.1:8080/token", true, Ok(())),
            ("http://127.0.0.1:8080/token", false, Err(AddressError::Plain)),
            ("HTTP://sts.example/", false, Err(AddressError::Plain)),
            ("https://ada:hunter2@sts.example/", true, Err(AddressError::Userinfo)),
            ("sts.example/token", true, Err(AddressError::Unreadable)),
            ("/token", true, Err(AddressError::Unreadable)),
            ("ftp://sts.example/", true, Err(AddressError::Unreadable)),
            ("https:///token", true, Err(AddressError::Unreadable)),
            ("", true, Err(AddressError::Unreadable)),
        ];
        for (url, allow_http, expected) in rows {
            assert_eq!(address(url, allow_http), expected, "{url}");
        }
    }
}
