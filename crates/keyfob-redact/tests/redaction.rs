//! Secrets that come back from outside, in every form.

use std::time::Duration;

use keyfob_document::Secret;
use keyfob_redact::{REDACTED, Redactor, SecretSet, speaks_of_a_secret};
use keyfob_testkit::{LeakCheck, echoes};
use proptest::prelude::*;

fn redactor(secret: &str) -> Redactor {
    Redactor::new([&Secret::from(secret)])
}

/// What is shown of a text that nobody knows a secret of.
fn shown(text: &str) -> String {
    Redactor::default().redact(text)
}

#[test]
fn a_secret_that_is_echoed_in_any_encoding_is_hidden() {
    for secret in
        ["hunter2", "correct-horse-battery", "p@ss/w+rd %41&amp;\\n\"x", "grüße 😀 an alle"]
    {
        let (redactor, leaks) = (redactor(secret), LeakCheck::new([secret]));
        for (encoding, echo) in echoes(secret) {
            for said in [
                format!("you sent {echo} and that is wrong"),
                format!("https://r.io/v2/{echo}/blobs?next={echo}&x=1"),
                format!("{{\"message\":\"{echo}\"}}"),
                echo.clone(),
            ] {
                let shown = redactor.redact(&said);
                leaks.text(encoding, &shown);
                assert!(shown.contains(REDACTED), "{encoding} of {secret}: {shown}");
                let without = shown.replace(REDACTED, "");
                let rest = said.len() - echo.len() * said.matches(&echo).count();
                // Padding and punctuation may stay.
                assert!(without.len() <= rest + 8, "{encoding} of {secret}: {shown}");
            }
        }
    }
}

#[test]
fn a_secret_that_is_cut_off_is_hidden_in_any_encoding() {
    let secret = "correct-horse-battery-staple-0123456789";
    let redactor = redactor(secret);
    for (encoding, echo) in echoes(secret) {
        let half = echo.chars().count() / 2;
        let cut: String = echo.chars().take(half).collect();
        let shown = redactor.redact(&format!("you sent {cut}"));
        let left = shown.replace("you sent ", "").replace(REDACTED, "");
        assert!(left.len() < 8 || left.len() < half / 4, "{encoding}: {shown}");
    }
    assert_eq!(redactor.redact("token correct-horse-batt… is old"), "token [redacted]… is old");
}

#[test]
fn eight_characters_of_a_secret_are_hidden_wherever_it_is_cut_off() {
    let secret = "hunter2-Very_s3cret+0815/xyz";
    let base64 = echoes(secret).into_iter().find(|(name, _)| *name == "base64").unwrap().1;
    for (said, expected) in [
        ("hunter2-Very... is wrong".to_owned(), "[redacted]... is wrong"),
        ("got \"hunter2-V\", which is bad".to_owned(), "got \"[redacted]\", which is bad"),
        ("hunter2-V… is wrong".to_owned(), "[redacted]… is wrong"),
        (format!("{}... is bad", &base64[..12]), "[redacted]... is bad"),
        ("a hunter2 is welcome".to_owned(), "a hunter2 is welcome"),
    ] {
        assert_eq!(redactor(secret).redact(&said), expected, "{said}");
    }
}

#[test]
fn what_many_texts_begin_with_stays() {
    for (secret, said) in [
        ("https://sts.example.test/one", "cannot reach https://r.io/v2/"),
        (r#"{"type": "service_account"}"#, r#"{"type": "error"}"#),
        ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE", "no -----BEGIN CERTIFICATE----- there"),
    ] {
        assert_eq!(redactor(secret).redact(said), said);
    }
    let secrets = SecretSet::default();
    secrets.learn_login("oauth2accesstoken", &"correct-horse".into());
    assert_eq!(secrets.redact("no oauth2accesstoken here"), "no oauth2accesstoken here");
    assert_eq!(secrets.redact("oauth2accesstoken:correct-horse"), REDACTED);
}

#[test]
fn prose_and_digests_stay_readable_beside_a_known_secret() {
    let redactor = redactor("hunter2-Very_s3cret+0815/xyz");
    for said in [
        "the manifest sha256:68a756f1e43b7c9d0f5a2c4e6d8b0a1c3e5f7092b4d6f8a0c2e4f6081a3c5d7e is unknown",
        "a faded facade decade: bad cafe, dead beef and a cabbage bed; 104 of 119 are 110, 116 and 101",
        "dGhpcyBpcyBub3QgdGhlIHNlY3JldCBhdCBhbGw= and 7468697320697320 mean nothing",
        "2026-11-18T02:44:18.364203Z 127.0.0.1:35717 0x7f3a 0xdeadbeef उदाहरण é",
    ] {
        assert_eq!(redactor.redact(said), said);
    }
}

#[test]
fn a_login_is_hidden_with_its_user_name_and_the_user_name_alone_is_not() {
    let secrets = SecretSet::default();
    secrets.learn_authorization("Basic QVdTOnB3"); // AWS:pw
    assert_eq!(secrets.redact("AWS may not; QVdTOnB3"), "AWS may not; [redacted]");
    assert_eq!(secrets.redact("you are AWS:pw"), "you are [redacted]");
    assert_eq!(format!("{secrets:?}"), "SecretSet(3 secrets)");
}

#[test]
fn a_value_is_hidden_by_the_name_in_front_of_it() {
    let rows = [
        ("password=hunter2", "password=[redacted]"),
        ("password = hunter2 is wrong", "password = [redacted] is wrong"),
        ("password: hunter2", "password: [redacted]"),
        ("Password: correct horse battery", "Password: [redacted]"),
        (r#"{"password":"hunter2","user":"ada"}"#, r#"{"password":"[redacted]","user":"ada"}"#),
        (r#"{"password": "a\"b c", "x": 1}"#, r#"{"password": "[redacted]", "x": 1}"#),
        (r#"{\"password\":\"hunter2\"}"#, r#"{\"password\":\"[redacted]\"}"#),
        ("{'password': 'it''s me'}", "{'password': '[redacted]'}"),
        ("run --password hunter2 --user ada", "run --password [redacted] --user ada"),
        ("run --password=hunter2 --user ada", "run --password=[redacted] --user ada"),
        ("run --password 'two words'", "run --password '[redacted]'"),
        ("Authorization: Basic YWRhOg==", "Authorization: [redacted]"),
        ("authorization: Bearer abc def\nnext", "authorization: [redacted]\nnext"),
        ("curl -H \"Authorization: Bearer abc\" x", "curl -H \"Authorization: [redacted]\" x"),
        ("Proxy-Authorization: Basic YWRhOg==", "Proxy-Authorization: [redacted]"),
        ("sent Bearer abc123def to it", "sent Bearer [redacted] to it"),
        ("sent Basic YWRhOnB3 to it", "sent Basic [redacted] to it"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("export API_KEY='a b c'; run", "export API_KEY='[redacted]'; run"),
        ("?X-Amz-Security-Token=abc&X-Amz-Date=1", "?X-Amz-Security-Token=[redacted]&X-Amz-Date=1"),
        ("?sv=1&sig=abc%3D&sp=r", "?sv=1&sig=[redacted]&sp=r"),
        ("X-Amz-Signature=0a1b", "X-Amz-Signature=[redacted]"),
        (
            "client_secret=abc&refresh_token=def",
            "client_secret=[redacted]&refresh_token=[redacted]",
        ),
        ("id_token=abc access_token=def", "id_token=[redacted] access_token=[redacted]"),
        ("api_key: abc1, apikey: def2", "api_key: [redacted], apikey: [redacted]"),
        ("client_secret: hunter", "client_secret: [redacted]"),
        ("token: s3cr3t99", "token: [redacted]"),
        ("login with password: hunter2 failed", "login with password: [redacted] failed"),
        ("pwd=x passwd=y secret=z", "pwd=[redacted] passwd=[redacted] secret=[redacted]"),
        ("password%3Dhunter2", "password%3D[redacted]"),
        ("password: |\n  line one\n  line two\nuser: ada", "password: |\n[redacted]user: ada"),
        ("https://ada:hunter2@r.io/v2/", "https://[redacted]@r.io/v2/"),
        ("https://x-access-token1@github.com/a", "https://[redacted]@github.com/a"),
        ("-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nok", "[redacted]\nok"),
        ("Cookie: session=1; b=2", "Cookie: [redacted]"),
        ("<password>hunter2</password>", "<password>[redacted]</password>"),
        ("pw=hunter2", "pw=[redacted]"),
        ("Authorization: Basic\n YWRhOg==\nnext", "Authorization: [redacted]\nnext"),
    ];
    for (said, expected) in rows {
        assert_eq!(shown(said), expected, "{said}");
    }
}

#[test]
fn sentences_about_secrets_stay_readable() {
    for said in [
        "token expired",
        "the token is expired, log in again",
        "password authentication failed for user \"ada\"",
        "secret \"foo\" not found",
        "secrets \"regcred\" is forbidden: User \"system:node:a\" cannot get resource \"secrets\"",
        "no token for audience X",
        "failed to get token: context deadline exceeded",
        "failed to get token: Post \"https://sts.example/\": dial tcp: connection refused",
        "getting credentials: exec: executable aws not found",
        "auth: token expired",
        "invalid peer certificate: BadSignature: is the authority the one to trust?",
        "Bearer realm=\"https://r.io/token\",service=\"r.io\"",
        "Basic authentication is required",
        "bearer token missing",
        "Unauthorized",
        "use --password-stdin to read it",
        "AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/token",
        "token_type=bearer secretName=regcred",
        "has_token=true password=",
        "git clone ssh://git@github.com/a https://r.io/a@sha256:0123456789abcdef",
        "tests passed: 12, author: ada",
        "no authorization needed: public",
        "key: value, cacheKeyType: Registry",
        "docker-config-credential-provider: /etc/logins.json: No such file or directory",
        "docker-credential-ecr-login: not found",
        "aws-credential-helper: exit status 1",
        "client_secret: missing in azure.json",
        "imagePullSecret: not found in namespace team",
        "panic: credentials: nil pointer",
        "loading credentials: credential_process of the profile p",
        "-----BEGIN CERTIFICATE-----",
    ] {
        assert_eq!(shown(said), said);
    }
}

#[test]
fn redacting_twice_changes_nothing_more() {
    for said in
        ["password: hunter2", "secret: [hunter2]", "Authorization: Basic YWRhOg==", "token=abc"]
    {
        let once = shown(said);
        assert_eq!(shown(&once), once, "{said}");
    }
}

#[test]
fn what_a_server_issues_does_not_displace_what_it_was_sent() {
    let secrets = SecretSet::default();
    secrets.learn_login("ada", &"correct-horse".into());
    for number in 0..200 {
        secrets.learn_issued(&format!("issued-token-{number}").into());
    }
    assert_eq!(secrets.redact("you sent correct-horse"), "you sent [redacted]");
}

#[test]
fn a_set_that_lives_long_forgets_what_was_used_longest_ago() {
    let secrets = SecretSet::default();
    let number = |n: u32| Secret::new(format!("password-number-{n:04}-"));
    for n in 0..1_000 {
        secrets.learn(&number(n));
        secrets.learn(&number(0));
    }
    assert!(secrets.sent().len() <= 256, "{}", secrets.sent().len());
    for n in [0, 900, 999] {
        assert_eq!(secrets.redact(number(n).expose()), REDACTED, "{n}");
    }
    for n in 0..8 {
        secrets.learn(&Secret::new(n.to_string().repeat(300_000)));
    }
    assert!(secrets.sent().iter().map(|each| each.expose().len()).sum::<usize>() <= 1 << 20);
}

#[test]
fn the_password_of_a_login_that_a_plugin_printed_is_hidden() {
    // ada:hunter2
    let redactor = redactor("unrelated-secret").knowing(br#"{"auth":"YWRhOmh1bnRlcjI="}"#);
    assert_eq!(redactor.redact("wrong: hunter2"), "wrong: [redacted]");
}

#[test]
fn one_list_says_which_names_speak_of_secrets() {
    for name in [
        "registry_password",
        "API_TOKEN",
        "--client-secret",
        "clientSecret",
        "Authorization",
        "auth",
        "REGISTRYAUTH",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_KEY",
        "DB_PASS",
        "PWD_ROOT",
        "x-amz-signature",
        "apikey",
        "GITHUB_PAT_TOKEN",
    ] {
        assert!(speaks_of_a_secret(name), "{name}");
    }
    for name in [
        "AWS_REGION",
        "TOKEN_FILE",
        "secretName",
        "token_url",
        "AUTHOR",
        "authority",
        "compass",
        "passed",
        "PUBLIC_KEY",
        "cacheKey",
        "key",
        "authentication",
    ] {
        assert!(!speaks_of_a_secret(name), "{name}");
    }
}

#[test]
fn binary_noise_is_looked_through_too() {
    let noise: String = (0..4_096_u32).filter_map(|n| char::from_u32(n % 0x500)).collect();
    let said = format!("{noise}hunter2-token{noise}%zz%\\u12\\x&#;&#x110000;\\");
    let shown = redactor("hunter2-token").redact(&said);
    LeakCheck::new(["hunter2-token"]).text("noise", &shown);
}

/// These made the redactor hang once.
#[test]
fn a_text_made_to_be_slow_is_redacted() {
    let redactor = redactor("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let pieces =
        ["token:", "token=", "\\u{", "&#", "%25", "Bearer ", "\"token\":\"", "://", "-----BEGIN "];
    for piece in pieces {
        let said = piece.repeat(8_192 / piece.len());
        assert!(redactor.redact(&said).len() <= 4 * said.len(), "{piece}");
    }
}

/// Eight times the text takes about eight times as long; with a square it would be 64 times.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that it really takes is what is tested")]
fn the_time_to_redact_grows_with_the_text_and_not_with_its_square() {
    let redactor = redactor("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    for piece in ["a", "V", "YWFhYWFh", "68 ", "JTI1", "Vm0wd2Qy", "097, ", "\u{332}a", "\\u0061"] {
        // Others use the machine too: the least of three counts.
        let time = |bytes: usize| {
            let said = piece.repeat(bytes / piece.len());
            let once = |_| {
                let began = std::time::Instant::now();
                redactor.redact(&said);
                began.elapsed()
            };
            (0..3).map(once).min().unwrap()
        };
        // Long enough to be measured.
        let mut bytes = 1_000;
        while time(bytes) < Duration::from_millis(5) {
            bytes *= 2;
        }
        let (short, long) = (time(bytes), time(8 * bytes));
        assert!(long < short * 32, "{piece}: {short:?}, {long:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_encoding_of_any_secret_survives_in_any_text(
        secret in "[!-~äß ]{8,40}".prop_filter("not blank", |secret| secret.trim() == secret && secret.len() > 7),
        before in "[ -~ü\n]{0,40}",
        behind in "[ -~ü\n]{0,40}",
        which in 0_usize..100,
    ) {
        let echoes = echoes(&secret);
        let (encoding, echo) = &echoes[which % echoes.len()];
        let shown = redactor(&secret).redact(&format!("{before} {echo} {behind}"));
        LeakCheck::new([&secret]).text(encoding, &shown);
        prop_assert!(!shown.contains(echo.as_str()), "{}: {}", encoding, shown);
    }

    #[test]
    fn any_text_is_looked_through_to_its_end(said in "\\PC{0,200}", secret in "\\PC{0,20}") {
        redactor(&secret).redact(&said);
    }
}
