//! The request on stdin.

use std::io::{self, Read as _};

use crate::outcome::Outcome;

/// A kubelet's request is a few kilobytes: an image name, annotations and a token.
pub(crate) const MAX_REQUEST: usize = 1024 * 1024;

/// Reads all of stdin, or gives the outcome of a run that cannot.
pub(crate) fn read() -> Result<Vec<u8>, Outcome> {
    let mut bytes = Vec::with_capacity(4096);
    let mut limited = io::stdin().lock().take(MAX_REQUEST as u64 + 1);
    match limited.read_to_end(&mut bytes) {
        Ok(_) if bytes.len() > MAX_REQUEST => Err(Outcome::failure(
            "keyfob-relay: the request on stdin is larger than 1 MiB\n".to_owned(),
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Outcome::failure(format!("keyfob-relay: cannot read stdin: {error}\n"))),
    }
}

/// Reads stdin to its end, at most `MAX_REQUEST`, so that the caller's write does not fail.
pub(crate) fn discard() {
    let mut limited = io::stdin().lock().take(MAX_REQUEST as u64);
    // It is not needed, so an error makes no difference.
    io::copy(&mut limited, &mut io::sink()).unwrap_or_default();
}
