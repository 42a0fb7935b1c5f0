//! The server's address decides who is told anything.

use std::fs;

use crate::{Folder, PLUGIN, config};

fn address(server: &str) -> (String, bool) {
    let config = config(&format!("{{server: '{server}'}}"), PLUGIN).unwrap();
    (config.server, config.exec.is_some())
}

#[test]
fn only_an_https_server_is_told_credentials() {
    for (server, is_told) in [
        ("https://hall.test", true),
        ("HTTPS://hall.test", true),
        ("http://hall.test", false),
        ("hall.test:6443", false),
        ("hall.test", false),
        ("https:hall.test", false),
        ("https:///hall", false),
    ] {
        assert_eq!(address(server), (server.to_owned(), is_told), "{server}");
    }
}

#[test]
fn an_address_without_tls_has_no_use_for_certificates_either() {
    let cluster = "{server: 'hall.test:80', insecure-skip-tls-verify: true, tls-server-name: hall}";
    let config = config(cluster, "{token: t, as: bob}").unwrap();

    assert_eq!(config.tls, keyfob_client::ServerTls::default());
    assert!(!config.user.has_any());
    assert_eq!(config.impersonate.user, "bob");
}

#[test]
fn an_address_with_a_path_is_written_anew() {
    for (server, wanted) in [
        ("https://hall.test/?a=b", "https://hall.test/?a=b"),
        ("https://hall.test/lab?a=b", "https://hall.test/lab"),
        ("https://hall.test/lab#top", "https://hall.test/lab%23top"),
        ("https://hall.test/the lab/%41%2F", "https://hall.test/the%20lab/A/"),
        ("HTTPS://hall.test/lab", "https://hall.test/lab"),
    ] {
        assert_eq!(address(server).0, wanted);
    }
}

#[test]
fn a_token_is_read_from_its_file_unless_there_is_one() {
    let folder = Folder::new(&[("token", "from the file\n")]);
    let file = folder.at("token");
    let user = |more: &str| format!("{{tokenFile: '{}'{more}}}", file.display());

    let read = config(crate::SERVER, &user("")).unwrap().user;
    assert_eq!(read.token.unwrap().expose(), "from the file\n");
    assert_eq!(read.token_file, Some(file.clone()));

    let both = config(crate::SERVER, &user(", token: its own")).unwrap().user;
    assert_eq!(both.token.unwrap().expose(), "its own");

    fs::remove_file(&file).unwrap();
    let error = config(crate::SERVER, &user("")).unwrap_err();
    assert_eq!(folder.shown(&error), "open $DIR/token: no such file or directory");
}

#[test]
fn a_key_without_a_certificate_and_a_password_without_a_name_are_nothing() {
    let key = config(crate::SERVER, "{client-key-data: eA==}").unwrap().user;
    assert!(!key.has_any() && key.key_data.expose().is_empty());

    let password = config(crate::SERVER, "{password: p}").unwrap().user;
    assert!(!password.has_any());
}

#[test]
fn an_install_hint_cannot_steer_a_terminal() {
    let user = PLUGIN.replace("command:", "installHint: \"\\e]0;x\\a get it\", command:");
    let exec = config(crate::SERVER, &user).unwrap().exec.unwrap();

    assert_eq!(exec.install_hint, "U+001B]0;xU+0007 get it");
}
