//! What is a secret by its look: signed tokens, private keys, logins in addresses.

use std::ops::Range;

use memchr::memmem;

/// Everything in a text that looks like a secret.
pub(super) fn secrets(text: &[u8]) -> Vec<Range<usize>> {
    [tokens(text), private_keys(text), logins(text)].concat()
}

/// Tokens, whole or cut off at their end: JSON Web Tokens, and those of services that mark theirs.
fn tokens(text: &[u8]) -> Vec<Range<usize>> {
    const MARKS: [&[u8]; 8] =
        [b"eyJ", b"ya29.", b"ghp_", b"gho_", b"ghs_", b"github_pat_", b"glpat-", b"dckr_pat_"];
    const SHORTEST: usize = 20;
    let in_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(*byte);
    let mut found = Vec::new();
    for mark in MARKS {
        let mut end = 0;
        for start in memmem::find_iter(text, mark) {
            // Another one inside a token would end where it ends.
            if start < end {
                continue;
            }
            let length = text.get(start..).unwrap_or_default().iter().take_while(in_token).count();
            end = start + length;
            if length >= SHORTEST {
                found.push(start..end);
            }
        }
    }
    found
}

/// From the line that begins a key to the one that ends it, or to the end of the text.
fn private_keys(text: &[u8]) -> Vec<Range<usize>> {
    const LONGEST_LABEL: usize = 40;
    let mut found = Vec::new();
    for start in memmem::find_iter(text, "-----BEGIN ") {
        let inside = text.get(start..).unwrap_or_default();
        let label = inside.get(..LONGEST_LABEL.min(inside.len())).unwrap_or_default();
        if memmem::find(label, b"PRIVATE KEY").is_some() {
            let end = memmem::find(inside, b"-----END ").map(|end| end + b"-----END ".len());
            let last = end.and_then(|end| {
                memmem::find(inside.get(end..)?, b"-----").map(|dashes| end + dashes + 5)
            });
            found.push(start..start + last.unwrap_or(inside.len()));
        }
    }
    found
}

/// What stands before the host of an address: `https://user:password@host`.
fn logins(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for slashes in memmem::find_iter(text, "://") {
        let start = slashes + 3;
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>\\`".contains(byte);
        let authority = text.get(start..).unwrap_or_default();
        let authority = authority.split(ends).next().unwrap_or_default();
        let Some(length) = authority.iter().rposition(|byte| *byte == b'@') else { continue };
        let login = authority.get(..length).unwrap_or_default();
        let is_name = login.iter().all(u8::is_ascii_alphabetic);
        if !is_name {
            found.push(start..start + length);
        }
    }
    found
}
