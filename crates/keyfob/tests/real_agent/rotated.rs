//! The password changes while clients pull.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use crate::{
    agent::RunningAgent,
    clients::{CLIENTS, Client, Image},
    docker_registry::{Registry, is_wanted, run},
};

const IMAGE: &str = "team/app:v1";
/// How many logins there are, one after the other.
const LOGINS: usize = 12;
/// How often there is a new one.
const INTERVAL: Duration = Duration::from_millis(500);
/// How many logins are valid: a client that has just got one has five seconds to use it.
const VALID: usize = 10;

/// A registry whose logins change, and the file from which a plugin takes the one of now.
pub(crate) struct Rotation {
    pub(crate) registry: Registry,
    files: TempDir,
}

impl Rotation {
    /// Starts a registry with an image.
    pub(crate) fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let users = files.path().join("users");
        fs::write(&users, htpasswd("first", "hunter2-0")).unwrap();
        let auth = json!({"htpasswd": {"realm": "test", "path": users}});
        let registry = Registry::start_with(tempfile::tempdir().unwrap(), &auth);
        registry.push(IMAGE, Some("first:hunter2-0"), &[1000]);
        let rotation = Self { registry, files };
        rotation.hand_out("first", "hunter2-0");
        rotation
    }

    /// The plugin that reads the file. The agent may keep its answers for so long.
    pub(crate) fn provider(&self, cache_duration: &str) -> Value {
        json!({
            "name": "docker-config-credential-provider",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [self.registry.address],
            "defaultCacheDuration": "1m",
            "args": [
                format!("--path={}", self.logins().display()),
                format!("--cache-duration={cache_duration}"),
            ],
        })
    }

    pub(crate) fn image(&self) -> Image<'_> {
        Image { registry: &self.registry.address, name: IMAGE }
    }

    fn logins(&self) -> PathBuf {
        self.files.path().join("logins.json")
    }

    /// The registry lets in these users from now on.
    fn let_in(&self, users: impl IntoIterator<Item = String>) {
        let users: String = users.into_iter().collect();
        replace(&self.files.path().join("users"), &users);
    }

    fn hand_out(&self, user: &str, password: &str) {
        let address = &self.registry.address;
        let logins = json!({"auths": {address: {"username": user, "password": password}}});
        replace(&self.logins(), &logins.to_string());
    }

    /// Replaces the only login.
    fn rotate(&self) {
        self.let_in([htpasswd("second", "hunter2-1")]);
        self.hand_out("second", "hunter2-1");
    }

    /// Makes new logins and counts them.
    fn keep_rotating(&self, count: &AtomicUsize) {
        let mut valid = VecDeque::from([htpasswd("first", "hunter2-0")]);
        for number in 1..=LOGINS {
            let (user, password) = (format!("ada-{number}"), format!("hunter2-{number}"));
            valid.push_back(htpasswd(&user, &password));
            if valid.len() > VALID {
                valid.pop_front();
            }
            self.let_in(valid.iter().cloned());
            self.hand_out(&user, &password);
            count.store(number, Ordering::SeqCst);
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Writes a file as a whole: its readers see the old or the new text.
fn replace(path: &Path, text: &str) {
    let partial = NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    fs::write(partial.path(), text).unwrap();
    partial.persist(path).unwrap();
}

fn htpasswd(user: &str, password: &str) -> String {
    let line = String::from_utf8(run("htpasswd", &["-Bbn", user, password]).stdout).unwrap();
    format!("{}\n", line.trim())
}

#[test]
fn every_client_pulls_while_the_password_is_rotated() {
    if !is_wanted() {
        return;
    }
    let (rotation, logins) = (Rotation::start(), AtomicUsize::new(0));
    let agent = RunningAgent::start(&[rotation.provider("1s")], &json!({}));
    let pull = |client: &Client| {
        let mut pulls = 0;
        while logins.load(Ordering::SeqCst) < LOGINS {
            client.succeed(&agent, rotation.image());
            pulls += 1;
        }
        println!("{}: {pulls} times", client.name);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| rotation.keep_rotating(&logins));
        for client in &CLIENTS {
            scope.spawn(|| pull(client));
        }
    });

    let events = agent.audit();
    let hashes: BTreeSet<_> =
        events.iter().filter_map(|event| event["credentials"][0]["hash"].as_str()).collect();
    println!("{LOGINS} logins, of which {} were used in {} pulls", hashes.len(), events.len());
    assert!(hashes.len() > LOGINS / 2, "{hashes:?}");
    assert!(events.iter().all(|event| event["outcome"] == "allowed"), "{events:#?}");
    let log = fs::read_to_string(agent.path("audit.log")).unwrap();
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn a_revoked_password_is_given_until_it_is_forgotten() {
    if !is_wanted() {
        return;
    }
    let rotation = Rotation::start();
    let agent = RunningAgent::start(&[rotation.provider("1h")], &json!({}));
    for client in &CLIENTS {
        client.succeed(&agent, rotation.image());
    }
    rotation.rotate();
    for client in &CLIENTS {
        client.be_refused(&agent, rotation.image());
    }
    assert_eq!(agent.admin(&["forget"]), "forgot 1 cached answer\n");
    for client in &CLIENTS {
        client.succeed(&agent, rotation.image());
    }
}
