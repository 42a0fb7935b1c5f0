//! What is printed for other programs.

use std::{fs, process::Stdio};

use serde_json::json;

use crate::{Home, TOKEN, certificate, home, nobody, with_kubeconfig};

#[test]
fn the_token_is_printed_alone_or_as_a_header() {
    let home = home(&json!({"token": TOKEN}));

    let said = with_kubeconfig(&home, &["token"]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "hunter2-token\n", ""));
    let said = with_kubeconfig(&home, &["token", "-o", "header"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "Authorization: Bearer hunter2-token\n"));
    assert_eq!(home.runs(), 2);
}

#[test]
fn json_has_everything_and_null_for_what_there_is_not() {
    let mut status = certificate("ada");
    status["token"] = json!(TOKEN);
    status["expirationTimestamp"] = json!("2130-01-01T01:00:00+01:00");
    let said = with_kubeconfig(&home(&status), &["token", "-o", "json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(
        said.json(),
        json!({
            "token": TOKEN,
            "expirationTimestamp": "2130-01-01T00:00:00Z",
            "certificate": {
                "clientCertificateData": status["clientCertificateData"],
                "clientKeyData": status["clientKeyData"],
                "notBefore": "1975-01-01T00:00:00Z",
                "notAfter": "4096-01-01T00:00:00Z",
            },
        })
    );

    let said = with_kubeconfig(&home(&json!({"token": TOKEN})), &["token", "-o", "json"]);
    let alone = r#"{"token":"hunter2-token","expirationTimestamp":null,"certificate":null}"#;
    assert_eq!(said.stdout, format!("{alone}\n"));
}

#[test]
fn a_certificate_is_no_token() {
    let home = home(&certificate("ada"));

    for output in ["token", "header"] {
        let said = with_kubeconfig(&home, &["token", "-o", output]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        let why = "keyfob: there is no token, but a certificate: -o json prints it\n";
        assert_eq!(said.stderr, why);
    }
    let said = with_kubeconfig(&home, &["token", "-o", "json"]).json();
    assert!(said["token"].is_null() && said["certificate"]["clientKeyData"].is_string(), "{said}");
}

#[test]
fn what_the_user_has_of_its_own_is_printed_and_said_to_be() {
    let home = Home::new();
    let file = home.file("token", " hunter2-of-the-file\n");
    let (pem, key) = keyfob_testkit::self_signed("ada");
    let [pem_file, key_file] =
        [("ada.crt", &pem), ("ada.key", &key)].map(|(name, text)| home.file(name, text));
    let pair = json!({"client-certificate": pem_file, "client-key": key_file});
    for (own, output, want) in [
        (json!({"token": TOKEN}), "token", "hunter2-token\n".to_owned()),
        (json!({"tokenFile": file}), "token", "hunter2-of-the-file\n".to_owned()),
        (
            pair,
            "json",
            json!({"token": null, "expirationTimestamp": null, "certificate": {
                "clientCertificateData": pem, "clientKeyData": key,
                "notBefore": "1975-01-01T00:00:00Z", "notAfter": "4096-01-01T00:00:00Z",
            }})
            .to_string(),
        ),
    ] {
        let mut user = home.answering(&json!({"token": "never asked for"}));
        user.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        home.kubeconfig(&nobody(), &user);

        let said = with_kubeconfig(&home, &["token", "-o", output]);

        assert_eq!(said.code, 0, "{}", said.stderr);
        match output {
            "json" => assert_eq!(said.json().to_string(), want),
            _ => assert_eq!(said.stdout, want),
        }
        assert_eq!(said.stderr, "keyfob: it is the kubeconfig's own; no plugin was run\n");
    }
    assert_eq!(home.runs(), 0);
}

#[test]
fn a_password_is_neither_a_token_nor_a_certificate() {
    let home = Home::new();
    home.kubeconfig(&nobody(), &json!({"username": "ada", "password": "hunter2"}));

    for output in ["token", "json"] {
        let said = crate::run(&home, &["token", "-o", output]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.contains("logs in with a name and a password"), "{}", said.stderr);
    }
}

#[test]
fn a_token_that_could_not_be_written_or_that_nobody_reads_is_a_failure() {
    let home = home(&json!({"token": TOKEN}));
    let code = |stdout: Stdio| {
        let mut command = home.kube(&["token", "--kubeconfig", "kubeconfig"]);
        command.stdout(stdout).stderr(Stdio::null()).status().unwrap().code()
    };

    assert_eq!(code(fs::File::create("/dev/full").unwrap().into()), Some(4));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(code(writer.into()), Some(4));
}
