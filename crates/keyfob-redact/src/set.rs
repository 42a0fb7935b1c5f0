//! The secrets of an exchange, while it goes on.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::Redactor;
use keyfob_document::Secret;

/// The secrets that were sent to a server or came from it, shared by everybody who takes part in the exchange. Whatever the
/// server says goes through [`SecretSet::redact`] before it becomes part of an error or a log line.
///
/// A clone is the same set.
///
/// ```
/// use keyfob_redact::SecretSet;
///
/// let secrets = SecretSet::default();
/// secrets.learn_authorization("Bearer correct-horse");
/// assert_eq!(secrets.redact("who is correct-horse?"), "who is [redacted]?");
/// ```
#[derive(Clone, Default)]
pub struct SecretSet(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// What we sent, or may send: the one used longest ago comes first.
    sent: Vec<Secret<String>>,
    /// What the other side issued. However much it is, it displaces nothing that we sent.
    issued: Vec<Secret<String>>,
    redactor: Option<Arc<Redactor>>,
}

impl SecretSet {
    /// How many secrets of each kind are remembered; then the one used longest ago is forgotten.
    const MOST: usize = 256;

    /// How many bytes the secrets of each kind may have together.
    const MOST_BYTES: usize = 1 << 20;

    /// From here on this is hidden.
    pub fn learn(&self, secret: &Secret<String>) {
        let mut known = self.known();
        if remember(&mut known.sent, secret) {
            known.redactor = None;
        }
    }

    /// From here on something that the other side issued is hidden.
    pub fn learn_issued(&self, secret: &Secret<String>) {
        let mut known = self.known();
        if remember(&mut known.issued, secret) {
            known.redactor = None;
        }
    }

    /// From here on a password is hidden, and user name and password together.
    pub fn learn_login(&self, username: &str, password: &Secret<String>) {
        if !password.expose().is_empty() {
            self.learn(password);
            self.learn(&Secret::new(format!("{username}:{}", password.expose())));
        }
    }

    /// From here on what an `Authorization` header shows is hidden.
    pub fn learn_authorization(&self, header: &str) {
        let (scheme, shown) = header.split_once(' ').unwrap_or(("", header));
        self.learn(&Secret::from(shown.trim()));
        if !scheme.eq_ignore_ascii_case("basic") {
            return;
        }
        let login = BASE64_STANDARD.decode(shown.trim()).map(Secret::new);
        let login = login.ok().and_then(|login| String::from_utf8(login.expose().clone()).ok());
        let login = Secret::new(login.unwrap_or_default());
        if let Some((username, password)) = login.expose().split_once(':') {
            self.learn_login(username, &Secret::from(password));
        }
    }

    /// The secrets that were sent or may be sent, the one used last at the end.
    pub fn sent(&self) -> Vec<Secret<String>> {
        self.known().sent.clone()
    }

    /// The text without the secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redactor().redact(text)
    }

    /// Knows what is known by now.
    pub fn redactor(&self) -> Arc<Redactor> {
        let mut known = self.known();
        let Known { sent, issued, redactor } = &mut *known;
        let secrets = || sent.iter().chain(&*issued);
        Arc::clone(redactor.get_or_insert_with(|| Arc::new(Redactor::new(secrets()))))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a secret, or notes that it is used; true if it is new.
fn remember(secrets: &mut Vec<Secret<String>>, secret: &Secret<String>) -> bool {
    if secret.expose().trim().is_empty() {
        return false;
    }
    if let Some(at) = secrets.iter().position(|each| each == secret) {
        secrets.get_mut(at..).unwrap_or_default().rotate_left(1);
        return false;
    }
    secrets.push(secret.clone());
    let mut bytes: usize = secrets.iter().map(|each| each.expose().len()).sum();
    while secrets.len() > SecretSet::MOST || (bytes > SecretSet::MOST_BYTES && secrets.len() > 1) {
        bytes -= secrets.remove(0).expose().len();
    }
    true
}

impl fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known();
        write!(f, "SecretSet({} secrets)", known.sent.len() + known.issued.len())
    }
}
