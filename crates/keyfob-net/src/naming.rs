//! What was asked, in a message.

/// `POST https://host/path`, without what may be a secret: what follows the path, and a login before the host.
///
/// ```
/// let what = keyfob_net::named(&http::Method::GET, "https://ada:hunter2@r.io/v2/?key=hunter2");
/// assert_eq!(what, "GET https://r.io/v2/");
/// ```
pub fn named(method: &http::Method, url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(url) if url.has_host() => {
            let host = url.host_str().unwrap_or_default();
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{method} {}://{host}{port}{}", url.scheme(), url.path())
        }
        _ => method.to_string(),
    }
}
