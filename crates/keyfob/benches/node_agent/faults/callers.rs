//! Clients that ask again and again, and check every answer.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use crate::agent::{Connection, RunningAgent};

/// Different images, so that an answer for another one is noticed.
pub(crate) const IMAGES: usize = 20;

pub(crate) fn image(number: usize) -> String {
    format!("registry.example/team/application-{}", number % IMAGES)
}

/// What the plugin answers for an image.
pub(crate) fn is_login(image: &str, username: &str, password: &str) -> bool {
    username == image && password.starts_with("node.")
}

/// How a client asks.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    KeptConnection,
    NewConnection,
    Relay { program: PathBuf, if_down: Vec<String> },
}

/// What became of the requests of some clients.
pub(crate) struct Callers {
    pub(crate) what: &'static str,
    pub(crate) way: Way,
    /// How many there are.
    pub(crate) count: usize,
    pub(crate) answered: AtomicUsize,
    /// Not answered, because the agent was down.
    pub(crate) down: AtomicUsize,
    /// Wrong answers, and errors that an agent which is down does not explain.
    pub(crate) wrong: Mutex<Vec<String>>,
}

enum Reply {
    Right,
    Down,
    Wrong(String),
}

impl Callers {
    pub(crate) fn new(what: &'static str, count: usize, way: Way) -> Self {
        let (answered, down) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { what, way, count, answered, down, wrong: Mutex::default() }
    }

    pub(crate) fn relays(
        what: &'static str,
        count: usize,
        relay: &Path,
        if_down: &[String],
    ) -> Self {
        let way = Way::Relay { program: relay.to_owned(), if_down: if_down.to_vec() };
        Self::new(what, count, way)
    }

    /// Asks until it is told to stop.
    pub(crate) fn ask(&self, socket: &Path, first: usize, stop: &AtomicBool) {
        let mut kept = None;
        let mut number = first;
        while !stop.load(Ordering::Relaxed) {
            let image = image(number);
            number += 1;
            let reply = match &self.way {
                Way::KeptConnection => over_socket(&mut kept, socket, &image),
                Way::NewConnection => over_socket(&mut None, socket, &image),
                Way::Relay { program, if_down } => relayed(program, socket, if_down, &image),
            };
            match reply {
                Reply::Right => self.answered.fetch_add(1, Ordering::Relaxed),
                Reply::Down => self.down.fetch_add(1, Ordering::Relaxed),
                Reply::Wrong(why) => {
                    self.wrong.lock().unwrap().push(why);
                    0
                }
            };
        }
    }

    pub(crate) fn row(&self) -> String {
        let [answered, down] = [&self.answered, &self.down].map(|it| it.load(Ordering::Relaxed));
        let wrong = self.wrong.lock().unwrap().len();
        format!("| {} {} | {answered} | {down} | {wrong} |", self.count, self.what)
    }

    /// Fails if there was a wrong answer, or no answer at all.
    pub(crate) fn assert_right(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{}: {} wrong, such as {:?}", self.what, wrong.len(), wrong[0]);
        assert!(self.answered.load(Ordering::Relaxed) > 0, "{}: no answer", self.what);
    }
}

/// Has all of them ask while something else is done.
pub(crate) fn while_asking(
    agent: &mut RunningAgent,
    callers: &[Callers],
    act: impl FnOnce(&mut RunningAgent),
) {
    let (stop, socket) = (AtomicBool::new(false), agent.socket());
    std::thread::scope(|scope| {
        for callers in callers {
            for number in 0..callers.count {
                let (socket, stop) = (&socket, &stop);
                scope.spawn(move || callers.ask(socket, number * 7, stop));
            }
        }
        // The clients stop also if this panics.
        let stopping = Stopping(&stop);
        act(agent);
        drop(stopping);
    });
}

struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn over_socket(kept: &mut Option<Connection>, socket: &Path, image: &str) -> Reply {
    let Ok(mut connection) = kept.take().map_or_else(|| Connection::open(socket), Ok) else {
        // Nobody else would run on a machine with few cores.
        std::thread::yield_now();
        return Reply::Down;
    };
    match connection.login(image) {
        Ok(Ok((username, password))) => {
            *kept = Some(connection);
            judge(image, &username, &password)
        }
        Ok(Err(status)) => Reply::Wrong(format!("status {status} for {image}")),
        Err(_) => Reply::Down,
    }
}

/// As a kubelet runs it.
fn relayed(program: &Path, socket: &Path, if_down: &[String], image: &str) -> Reply {
    let mut child = Command::new(program)
        .args(["provider", "--socket"])
        .arg(socket)
        .args(if_down)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let request = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": image,
    });
    let mut stdin = child.stdin.take().expect("its stdin");
    stdin.write_all(request.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(1) && output.stdout.is_empty() && says_down(&stderr) {
        return Reply::Down;
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let login = answer["auth"].as_object().and_then(|auth| auth.values().next());
    match login {
        Some(login) => judge(
            image,
            login["username"].as_str().unwrap_or_default(),
            login["password"].as_str().unwrap_or_default(),
        ),
        None => Reply::Wrong(format!("{}: {stderr}", output.status)),
    }
}

/// The relay's words for an agent that is down.
fn says_down(stderr: &str) -> bool {
    ["the agent is not running: ", "the agent closed the connection without an answer: "]
        .iter()
        .any(|words| stderr.starts_with(&format!("keyfob-relay: {words}")))
        && stderr.lines().count() == 1
}

fn judge(image: &str, username: &str, password: &str) -> Reply {
    if is_login(image, username, password) {
        Reply::Right
    } else {
        Reply::Wrong(format!("the login of {username} for {image}"))
    }
}
