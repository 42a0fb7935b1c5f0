//! What a server says is wrong, fit to be shown: short, on one line, and without any form of the secret it was sent.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_api::{Secret, SecretSet};
use keyfob_exec::{on_one_line, shortened};
use keyfob_keyring::Login;
use reqwest::Url;
use serde::Deserialize;

/// How registries say what is wrong; `details` is Docker Hub's token server.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    errors: Vec<Fault>,
    details: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fault {
    code: String,
    message: String,
}

/// What the body of a failure says, without the secrets of the exchange.
pub(crate) fn said(body: &[u8], secrets: &SecretSet) -> String {
    const LONGEST: usize = 300;
    let said: Said = serde_json::from_slice(body).unwrap_or_default();
    let text = match said.errors.first() {
        Some(Fault { code, message }) if message.is_empty() => code.clone(),
        Some(Fault { code, message }) if code.is_empty() => message.clone(),
        Some(Fault { code, message }) => format!("{code}: {message}"),
        None if !said.details.is_empty() => said.details,
        None => keyfob_net::complaint(body),
    };
    shortened(&on_one_line(&secrets.redact(&text)), LONGEST)
}

/// User name and password as `Basic` sends them.
pub(crate) fn basic(login: &Login) -> Secret<String> {
    let both = Secret::new(format!("{}:{}", login.username, login.password.expose()));
    Secret::new(BASE64_STANDARD.encode(both.expose()))
}

/// Fields as a form or a query has them.
pub(crate) fn form(fields: &[(&str, &str)]) -> Secret<String> {
    #[expect(clippy::expect_used, reason = "a constant address")]
    let mut any: Url = "http://form/".parse().expect("an address");
    any.query_pairs_mut().extend_pairs(fields);
    Secret::new(any.query().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::{LeakCheck, echoes};

    use super::*;

    #[test]
    fn what_is_wrong_is_told_as_code_and_message() {
        let rows = [
            (
                r#"{"errors":[{"code":"DENIED","message":"not yours","detail":{"a":1}}]}"#,
                "DENIED: not yours",
            ),
            (r#"{"errors":[{"code":"DENIED"}]}"#, "DENIED"),
            (r#"{"errors":[{"message":"not yours"},{"code":"X"}]}"#, "not yours"),
            (r#"{"details":"incorrect username or password"}"#, "incorrect username or password"),
            (
                r#"{"error":"invalid_grant","error_description":"too old"}"#,
                "invalid_grant: too old",
            ),
            (r#"{"errors":[{"code":"X","message":"a\n\u001b[2Jb"}]}"#, r"X: a\n\u{1b}[2Jb"),
            ("<html>", ""),
            ("", ""),
        ];
        for (body, expected) in rows {
            assert_eq!(said(body.as_bytes(), &SecretSet::default()), expected, "{body}");
        }
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "no ".repeat(10_000));
        assert!(said(long.as_bytes(), &SecretSet::default()).len() < 310);
    }

    #[test]
    fn no_form_of_a_secret_is_told() {
        let (password, token) = ("hünter 2/+\"x", "the-token-of-ada");
        let secrets = SecretSet::default();
        secrets.learn_login("ada", &password.into());
        secrets.learn(&token.into());
        let leaks = LeakCheck::new([password, token]);
        for (encoding, echo) in [echoes(password), echoes(token)].concat() {
            let text = format!("you sent {echo} and that is wrong");
            for body in [
                serde_json::json!({"errors": [{"code": "X", "message": text}]}),
                serde_json::json!({"errors": [{"code": text}]}),
                serde_json::json!({"error": text}),
                serde_json::json!({"details": text}),
            ] {
                let told = said(body.to_string().as_bytes(), &secrets);
                leaks.text(encoding, &told);
                assert!(told.contains("[redacted]"), "{encoding}: {told}");
            }
        }
    }
}
