//! Whether a client can use what it is given, and for how long.

use keyfob_api::{ExecCredentialStatus, Timestamp};

use super::{
    Client, pem,
    response::{Part, text_at},
};
use crate::{case::Case, report::Verdict, response::fault_of_part};

pub(super) fn token(case: &Case<'_, Client>) -> Vec<Verdict> {
    of_status(case, |status| {
        let Some(token) = &status.token else {
            return Verdict::pass("none; there is a certificate");
        };
        usable_token(token.expose())
    })
}

fn usable_token(token: &str) -> Verdict {
    let advice = "print the token itself, without spaces or line breaks around it";
    if token.bytes().any(|byte| byte.is_ascii_control()) {
        Verdict::fail("the token has a line break or another control character in it", advice)
    } else if token.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("bearer ")) {
        Verdict::fail("the token begins with \"Bearer\", which the client writes itself", advice)
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Verdict::warn("the token has characters in it that no token should have", advice)
    } else {
        Verdict::pass(format!("{} characters", token.len()))
    }
}

pub(super) fn identity(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "write PEM: the certificate first and those above it behind it; the key without a passphrase";
    of_status(case, |status| {
        let Some(identity) = &status.identity else {
            return Verdict::pass("none; there is a token");
        };
        match pem::flaw(identity.certificate_pem.expose(), identity.key_pem.expose()) {
            Some(flaw) => Verdict::fail(flaw, advice),
            None => Verdict::pass("both are PEM (whether they belong together is not looked at)"),
        }
    })
}

pub(super) fn expiry(case: &Case<'_, Client>) -> Vec<Verdict> {
    let advice = "write the end in UTC, such as \"2030-01-01T00:00:00Z\"";
    case.for_reference(|run| {
        fault_of_part(run, Part::Expiry, advice).unwrap_or_else(|| match run.response() {
            Some(status) => {
                let written = text_at(run, &["status", "expirationTimestamp"]).unwrap_or_default();
                sensible(status.expiration, &written, case.started)
            }
            None => Verdict::not_checked("the answer could not be read that far"),
        })
    })
}

fn sensible(end: Option<Timestamp>, written: &str, now: Timestamp) -> Verdict {
    /// Less than this is gone before the next command.
    const SHORT: i64 = 60;
    let Some(end) = end else {
        return Verdict::pass("none, so a client keeps the credential until it is refused");
    };
    let left = end.unix_seconds().saturating_sub(now.unix_seconds());
    if end <= now {
        Verdict::fail(
            format!("the credential ended at {end}, before it was asked for"),
            "hand out none that has ended: exit with 1, or renew it; look at the clocks",
        )
    } else if !written.ends_with('Z') {
        Verdict::warn(
            "expirationTimestamp is not in UTC",
            "write the end in UTC, such as \"2030-01-01T00:00:00Z\": not every client reads offsets",
        )
    } else if left < SHORT {
        Verdict::warn(
            format!("the credential ends in {left} s"),
            "hand out one that lasts: a client runs the plugin again for nearly every request",
        )
    } else {
        Verdict::pass(format!("{end}"))
    }
}

/// Judges what is in an answer that can be read.
fn of_status(
    case: &Case<'_, Client>,
    judge: impl FnOnce(&ExecCredentialStatus) -> Verdict,
) -> Vec<Verdict> {
    case.for_reference(|run| match run.response() {
        Some(status) => judge(&status),
        None => Verdict::not_checked("there was no credential"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Grade;

    #[test]
    fn tokens_are_graded_by_whether_a_header_can_hold_them() {
        let rows = [
            ("eyJ.a_b-c.d/e+f=", Grade::Pass),
            ("a b", Grade::Warn),
            (" a", Grade::Warn),
            ("hé", Grade::Warn),
            ("a\n", Grade::Fail),
            ("a\u{0}", Grade::Fail),
            ("bearer a", Grade::Fail),
        ];
        for (token, want) in rows {
            assert_eq!(usable_token(token).grade, want, "{token:?}");
        }
    }

    #[test]
    fn ends_are_graded_by_their_sense() {
        let time = |text: &str| Timestamp::parse(text).unwrap();
        let now = time("2030-01-01T00:00:00Z");
        let rows = [
            ("2030-01-01T01:00:00Z", Grade::Pass),
            ("2030-01-01T03:00:00+02:00", Grade::Warn),
            ("2030-01-01T00:00:59Z", Grade::Warn),
            ("2030-01-01T00:00:00Z", Grade::Fail),
            ("1970-01-01T00:00:00+02:00", Grade::Fail),
        ];
        for (written, want) in rows {
            assert_eq!(sensible(Some(time(written)), written, now).grade, want, "{written}");
        }
        assert_eq!(sensible(None, "", now).grade, Grade::Pass);
    }
}
