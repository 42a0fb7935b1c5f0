use std::slice;

use keyfob_testkit::LeakCheck;
use proptest::{collection::vec, prelude::*};

use super::*;

const PASSWORD: &str = "hunter2 <&> hunter3";

fn login(username: &str) -> Login {
    Login { username: username.into(), password: PASSWORD.into(), email: "".into() }
}

/// A source whose user names are the places of its keys: `plugin:0`, `plugin:1`, …
fn source(name: &str, keys: &[&str]) -> Arc<Logins> {
    let login =
        |(place, key): (usize, &&str)| ((*key).to_owned(), login(&format!("{name}:{place}")));
    Logins::new(Source::provider(name), keys.iter().enumerate().map(login)).into()
}

fn found(image: &str, sources: &[Arc<Logins>]) -> Vec<String> {
    let target = MatchTarget::parse(image).ok();
    let credentials = select(image, target.as_ref(), sources);
    credentials.iter().map(|credential| credential.username().to_owned()).collect()
}

#[test]
fn keys_come_in_descending_byte_order_across_sources() {
    let sources = [
        source("a", &["reg.test", "*.test", "reg.test/team"]),
        source("b", &["reg.test/team/app", "other.test", "https://reg.test/v2/", "reg.*"]),
    ];
    assert_eq!(found("reg.test/team/app", &sources), ["b:0", "a:2", "a:0", "b:2", "b:3", "a:1"]);
    assert_eq!(found("reg.test/x", &sources), ["a:0", "b:2", "b:3", "a:1"]);
    assert_eq!(found("reg.test:80/x", &sources), [""; 0]);
}

#[test]
fn docker_hubs_key_serves_its_images_when_no_other_does() {
    let hub = [source("a", &["x.test", "https://index.docker.io/v1/", "index.docker.io"])];
    for image in ["redis", "ada/redis", "docker.io/library/redis", "localhost/redis"] {
        assert_eq!(found(image, &hub), ["a:1", "a:2"], "{image}");
    }
    for image in ["reg.test/redis", "localhost:80/redis", "/redis", ""] {
        assert_eq!(found(image, &hub), [""; 0], "{image}");
    }
    let both = [hub[0].clone(), source("b", &["docker.io/library"])];
    assert_eq!(found("docker.io/library/redis", &both), ["b:0"]);
    assert_eq!(found("docker.io/ada/redis", &both), ["a:1", "a:2"]);
}

#[test]
fn an_image_that_is_no_url_can_still_be_docker_hubs() {
    let hub = [source("a", &["index.docker.io", "*"])];
    assert!(MatchTarget::parse("a b").is_err());
    assert_eq!(found("a b", &hub), ["a:0"]);
    assert_eq!(found("a b.test/x", &hub), [""; 0]);
}

#[test]
fn a_credential_knows_all_about_itself() {
    let logins = source("a", &["reg.test:x", "https://reg.test/v1/"]);
    let target = MatchTarget::parse("reg.test/app").unwrap();
    let [credential] = &select("reg.test/app", Some(&target), slice::from_ref(&logins))[..] else {
        panic!("one credential")
    };
    assert_eq!(credential.source(), &Source::provider("a"));
    assert_eq!(credential.key().to_string(), "reg.test");
    assert_eq!((credential.username(), credential.password().expose().as_str()), ("a:1", PASSWORD));
    assert_eq!(credential.login(), &login("a:1"));
    assert!(Arc::ptr_eq(credential.logins(), &logins));
    assert_eq!(logins.keys().map(ToString::to_string).collect::<Vec<_>>(), ["reg.test"]);
    assert_eq!(
        logins.skipped()[0].to_string(),
        "key number 1: the key is no registry: what follows the host name's colon is no port"
    );
}

#[test]
fn a_source_without_keys_gives_none() {
    let none = source("a", &["reg.test:x"]);
    assert_eq!((none.keys().count(), none.skipped().len()), (0, 1));
    assert_eq!(found("", slice::from_ref(&none)), [""; 0]);
    assert_eq!(found("redis", &[none]), [""; 0]);
    assert_eq!(source("a", &["", "reg.test/%0A"]).keys().count(), 2);
}

#[test]
fn the_hash_is_over_what_go_would_write() {
    let entry = |username: &str, password: &str, email: &str| Login {
        username: username.into(),
        password: password.into(),
        email: email.into(),
    };
    let hash = |login: Login| {
        let logins = Logins::new(Source::provider("a"), [("r.test", login)]);
        let target = MatchTarget::parse("r.test").unwrap();
        select("r.test", Some(&target), &[logins.into()])[0].hash()
    };
    let sha256 = |text: &str| hex::encode(Sha256::digest(text));
    assert_eq!(hash(Login::default()), sha256("{}"));
    assert_eq!(
        hash(entry("a<b", "\u{2028}&", "e@x")),
        sha256(r#"{"username":"a\u003cb","password":"\u2028\u0026","email":"e@x"}"#)
    );
    assert_eq!(hash(entry("", "p", "")), sha256(r#"{"password":"p"}"#));
}

#[test]
fn nothing_shows_a_password() {
    let leaks = LeakCheck::new(["hunter2", "hunter3"]);
    let keys = ["reg.test", "me:hunter2@reg.test/a", "me:hunter2/@reg.test", "reg.test:hunter3"];
    let logins = source("a", &keys);
    let target = MatchTarget::parse("reg.test/a").unwrap();
    leaks
        .debug("logins", &logins)
        .debug("credentials", &select("reg.test/a", Some(&target), slice::from_ref(&logins)));
    assert_eq!(logins.skipped().len(), 2);
    for skipped in logins.skipped() {
        leaks.error(skipped);
    }
}

#[test]
fn an_entry_is_small() {
    assert!(size_of::<Logins>() <= 152, "{}", size_of::<Logins>());
    assert!(size_of::<Entry>() <= 96, "{}", size_of::<Entry>());
    assert_eq!(size_of::<Credential>(), 16);
    let mut roomy = String::with_capacity(1000);
    roomy.push('x');
    let login = Login { password: roomy.into(), ..Login::default() }.compact();
    assert_eq!(login.password.expose().capacity(), 1);
}

/// Upstream, word by word: a map from stored keys to lists, and an index of its keys in reverse.
fn model(image: &str, sources: &[Vec<String>]) -> Vec<String> {
    let mut index: Vec<Vec<u8>> = Vec::new();
    let mut lists = std::collections::HashMap::<Vec<u8>, Vec<String>>::new();
    for (number, keys) in sources.iter().enumerate() {
        for (place, key) in keys.iter().enumerate() {
            let Ok(key) = RegistryKey::parse(key) else { continue };
            index.push(key.as_bytes().to_vec());
            lists.entry(key.as_bytes().to_vec()).or_default().push(format!("{number}:{place}"));
        }
    }
    index.sort();
    index.dedup();
    index.reverse();
    let matches = |stored: &Vec<u8>| {
        let pattern = keyfob_api::MatchPattern::parse(str::from_utf8(stored).unwrap());
        let target = MatchTarget::parse(image);
        pattern.is_ok_and(|pattern| target.is_ok_and(|target| pattern.matches(&target)))
    };
    let all: Vec<String> =
        index.iter().filter(|stored| matches(stored)).flat_map(|key| lists[key].clone()).collect();
    if all.is_empty() && is_on_docker_hub(image) {
        return lists.get(b"index.docker.io".as_slice()).cloned().unwrap_or_default();
    }
    all
}

const KEY: &str = r"(https://)?(r\.io|\*\.io|r\.\*|\*|index\.docker\.io|docker\.io|x)(:80)?(/v1/|/v2/|/|/a|/ab|/%61)?";

proptest! {
    #[test]
    fn the_order_is_that_of_a_plain_keyring(
        keys in vec(vec(KEY, 0..5), 0..4),
        image in r"(r\.io|docker\.io|index\.docker\.io|x)(:80)?(/a|/ab|/abc)",
    ) {
        let sources: Vec<Arc<Logins>> = keys
            .iter()
            .enumerate()
            .map(|(number, keys)| {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                source(&number.to_string(), &keys)
            })
            .collect();
        prop_assert_eq!(found(&image, &sources), model(&image, &keys));
    }
}
