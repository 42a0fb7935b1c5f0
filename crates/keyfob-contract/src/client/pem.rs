//! PEM, as far as it can be judged without cryptography.

/// One block of a text.
#[derive(Debug, PartialEq, Eq)]
struct Block<'a> {
    label: &'a str,
    body: Result<(), &'static str>,
}

/// What is wrong with a certificate and its key, and what to do about it; `None` if nothing is to be seen. Whether the
/// two belong together is not.
pub(super) fn flaw(certificate: &str, key: &str) -> Option<String> {
    flaw_of(certificate, |label| label == "CERTIFICATE")
        .map(|flaw| format!("clientCertificateData {flaw}"))
        .or_else(|| flaw_of(key, is_key).map(|flaw| format!("clientKeyData {flaw}")))
}

/// Lines of a secret that could only come from there.
pub(super) fn secret_lines(secret: &str) -> impl Iterator<Item = &str> {
    const SHORTEST: usize = 32;
    let lines = secret.lines().map(str::trim).filter(|_| secret.contains("PRIVATE KEY-----"));
    lines.filter(|line| line.len() >= SHORTEST && !line.starts_with('-'))
}

/// As Go chooses the key.
fn is_key(label: &str) -> bool {
    label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")
}

fn flaw_of(text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    /// How the base64 of a PEM text begins.
    const ENCODED: &str = "LS0tLS1CRUdJTi";
    if text.trim_start().starts_with(ENCODED) {
        return Some(
            "is the base64 of PEM, as a kubeconfig has it; here the PEM itself stands".into(),
        );
    }
    let blocks = blocks(text);
    match blocks.iter().find(|block| is_wanted(block.label)) {
        Some(Block { body: Err(flaw), .. }) => Some(format!("has a PEM block that {flaw}")),
        Some(_) => None,
        None if blocks.iter().any(|block| is_key(block.label)) => {
            Some("holds a private key in the place of a certificate".into())
        }
        None if blocks.is_empty() => Some("has no PEM block".into()),
        None => Some("has no PEM block of its kind".into()),
    }
}

/// The blocks of a text; what stands around them is skipped.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = marked(line, "-----BEGIN ") else { continue };
        let mut body = Vec::new();
        let end = lines.by_ref().find(|line| {
            body.push(*line);
            line.starts_with("-----")
        });
        body.pop();
        let is_closed = end.is_some_and(|end| marked(end, "-----END ") == Some(label));
        let body = if is_closed { check_body(&body) } else { Err("has no end") };
        let is_locked = label.starts_with("ENCRYPTED");
        let body = body.and(if is_locked { Err(LOCKED) } else { Ok(()) });
        blocks.push(Block { label, body });
    }
    blocks
}

const LOCKED: &str = "is encrypted, and no client has the passphrase";

fn marked<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark)?.strip_suffix("-----")
}

/// Base64 of something that begins as every certificate and key does.
fn check_body(lines: &[&str]) -> Result<(), &'static str> {
    if lines.iter().any(|line| line.contains("ENCRYPTED")) {
        return Err(LOCKED);
    }
    // Headers, if there are any, end at an empty line.
    let text = match lines.iter().position(|line| line.is_empty()) {
        Some(end) if lines.first().is_some_and(|line| line.contains(':')) => lines.get(end..),
        _ => Some(lines),
    };
    let text = text.unwrap_or_default().concat();
    let data = text.trim_end_matches('=');
    let in_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    if !text.len().is_multiple_of(4) || text.len() - data.len() > 2 || !data.bytes().all(in_base64)
    {
        Err("is not base64")
    } else if data.is_empty() {
        Err("is empty")
    } else if !data.starts_with('M') {
        Err("is not DER")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "MIIBezCCASGgAwIBAgIUTAraDHcpu6Ci7q0CyMKeEH63\nMAA=";

    fn block(label: &str, body: &str) -> String {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    }

    #[test]
    fn a_pair_that_looks_like_one_has_no_flaw() {
        let certificate = format!("some words\n{}", block("CERTIFICATE", BODY).repeat(2));
        for label in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"] {
            let key = block("EC PARAMETERS", "BggqhkjOPQMBBw==") + &block(label, BODY);
            assert_eq!(flaw(&certificate, &key), None, "{label}");
            assert_eq!(flaw(&certificate.replace('\n', "\r\n"), &key), None, "{label}");
        }
    }

    #[test]
    fn each_flaw_has_its_words_and_quotes_nothing() {
        let (certificate, key) = (block("CERTIFICATE", BODY), block("PRIVATE KEY", BODY));
        let legacy = format!("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n{BODY}");
        let rows = [
            ("hunter2", key.as_str(), "clientCertificateData has no PEM block"),
            ("LS0tLS1CRUdJTiBDRVJU", &key, "clientCertificateData is the base64 of PEM"),
            (&key, &certificate, "clientCertificateData holds a private key"),
            (&certificate, &certificate, "clientKeyData has no PEM block of its kind"),
            (
                &certificate,
                "-----BEGIN PRIVATE KEY-----\nMII",
                "clientKeyData has a PEM block that has no end",
            ),
            (&certificate, &block("PRIVATE KEY", ""), "that is empty"),
            (&certificate, &block("PRIVATE KEY", "MIIB"), ""),
            (&certificate, &block("PRIVATE KEY", "hunter2!"), "that is not base64"),
            (&certificate, &block("PRIVATE KEY", "MIIBe"), "that is not base64"),
            (&certificate, &block("PRIVATE KEY", "aHVudGVyMg=="), "that is not DER"),
            (&certificate, &block("RSA PRIVATE KEY", &legacy), "that is encrypted"),
            (&certificate, &block("ENCRYPTED PRIVATE KEY", BODY), "that is encrypted"),
        ];
        for (certificate, key, want) in rows {
            let told = flaw(certificate, key).unwrap_or_default();
            assert!(told.contains(want) && told.is_empty() == want.is_empty(), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn the_lines_of_a_key_are_secrets_and_its_frame_is_none() {
        let key = block("PRIVATE KEY", &format!("{BODY}\n"));
        assert_eq!(secret_lines(&key).collect::<Vec<_>>(), [BODY.lines().next().unwrap()]);
        assert_eq!(secret_lines("a token that is long enough to be a line").count(), 0);
    }
}
