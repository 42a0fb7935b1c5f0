//! A world made by hand.

use std::{
    collections::VecDeque,
    fmt,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use keyfob_api::{ClientIdentity, ExecCredentialStatus, ExecVersion, Timestamp};
use keyfob_client::{
    Authenticator, Authenticators, Behaviour, ExecConfig, InteractiveMode, Messages, World,
};
use keyfob_exec::{
    BoxFuture, Clock as _, Finished, Invocation, ProcessRunner, RunError, Runner, Status,
    StderrTail, Terminal,
};
use keyfob_testkit::{ManualClock, MapEnvironment};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// A world with a clock, a plugin and a terminal of its own.
pub(crate) struct Stage {
    pub(crate) clock: ManualClock,
    pub(crate) plugin: FakePlugin,
    pub(crate) terminal: FakeTerminal,
    pub(crate) behaviour: Behaviour,
    pub(crate) said: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            clock: ManualClock::default(),
            plugin: FakePlugin::default(),
            terminal: FakeTerminal::default(),
            behaviour: Behaviour::default(),
            said: Arc::default(),
        }
    }

    pub(crate) fn with(behaviour: Behaviour) -> Self {
        Self { behaviour, ..Self::new() }
    }

    pub(crate) fn world(&self, runner: Arc<dyn Runner>) -> World {
        let said = Arc::clone(&self.said);
        let mut world = World::system();
        world.clock = Arc::new(self.clock.clone());
        world.environment = Arc::new(MapEnvironment::from_iter([("PATH", "/usr/bin:/bin")]));
        world.runner = runner;
        world.terminal = Arc::new(self.terminal.clone());
        world.messages = Messages::to(move |line| said.lock().unwrap().push(line.to_owned()));
        world
    }

    /// Authenticators whose plugins are functions.
    pub(crate) fn authenticators(&self) -> Authenticators {
        Authenticators::new(self.world(Arc::new(self.plugin.clone())), self.behaviour.clone())
    }

    /// One of them.
    pub(crate) fn authenticator(&self) -> Authenticator {
        self.authenticators().get(&config(), None).unwrap()
    }

    /// One whose plugin is a real process.
    pub(crate) fn real(&self, config: &ExecConfig) -> Authenticator {
        let environment = MapEnvironment::from_iter([("PATH", "/usr/bin:/bin")]);
        let runner = Arc::new(ProcessRunner::new(environment));
        Authenticators::new(self.world(runner), self.behaviour.clone()).get(config, None).unwrap()
    }

    /// An answer with a token that ends so many seconds from now.
    pub(crate) fn token(&self, token: &str, seconds: u64) -> Vec<u8> {
        let end = self.clock.now() + Duration::from_secs(seconds);
        answer(&ExecCredentialStatus {
            token: Some(token.into()),
            expiration: Some(Timestamp::from(end)),
            identity: None,
        })
    }
}

/// A user whose plugin never has a terminal.
pub(crate) fn config() -> ExecConfig {
    ExecConfig {
        command: "/opt/plugin".into(),
        api_version: ExecVersion::V1.api_version().into(),
        interactive_mode: InteractiveMode::Never,
        ..ExecConfig::default()
    }
}

/// An answer with a token that never ends.
pub(crate) fn token(token: &str) -> Vec<u8> {
    answer(&ExecCredentialStatus { token: Some(token.into()), ..<_>::default() })
}

/// An answer with a certificate that is valid from and until so many seconds from now.
pub(crate) fn pair(clock: &ManualClock, from: i64, until: i64) -> Vec<u8> {
    let now = Timestamp::from(clock.now()).unix_seconds();
    let at = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs((now + seconds).cast_unsigned())
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (at(from), at(until));
    let certificate_pem = params.self_signed(&key).unwrap().pem().into();
    let identity = ClientIdentity { certificate_pem, key_pem: key.serialize_pem().into() };
    answer(&ExecCredentialStatus { identity: Some(identity), ..<_>::default() })
}

pub(crate) fn answer(status: &ExecCredentialStatus) -> Vec<u8> {
    status.encode(ExecVersion::V1).expose().clone()
}

/// What one run of a plugin does.
#[derive(Clone)]
pub(crate) enum Does {
    Print(Vec<u8>),
    Exit(i32),
}

/// Does one thing after the other, and the last for ever; counts its runs; may be held back.
#[derive(Clone, Default)]
pub(crate) struct FakePlugin {
    script: Arc<Mutex<VecDeque<Does>>>,
    runs: Arc<AtomicUsize>,
    gate: Arc<Mutex<Option<Arc<Semaphore>>>>,
    pub(crate) infos: Arc<Mutex<Vec<String>>>,
}

impl FakePlugin {
    pub(crate) fn does(&self, steps: impl IntoIterator<Item = Does>) {
        *self.script.lock().unwrap() = steps.into_iter().collect();
    }

    pub(crate) fn prints(&self, answer: Vec<u8>) {
        self.does([Does::Print(answer)]);
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// From now on each run waits for a permit.
    pub(crate) fn hold(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    fn next(&self) -> Does {
        let mut script = self.script.lock().unwrap();
        match script.len() {
            0 => Does::Exit(1),
            1 => script.front().unwrap().clone(),
            _ => script.pop_front().unwrap(),
        }
    }
}

impl Runner for FakePlugin {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let info = invocation.variables().last().unwrap().1.to_str().unwrap().to_owned();
        self.infos.lock().unwrap().push(info);
        let gate = self.gate.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            Ok::<_, RunError>(match self.next() {
                Does::Print(stdout) => finished(invocation, 0, stdout),
                Does::Exit(code) => finished(invocation, code, Vec::new()),
            })
        })
    }
}

fn finished(invocation: &Invocation, code: i32, stdout: Vec<u8>) -> Finished {
    Finished {
        program: invocation.program().into(),
        status: Status::Exited(code),
        stdout: stdout.into(),
        stderr: StderrTail::default(),
        elapsed: Duration::ZERO,
    }
}

impl fmt::Debug for FakePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FakePlugin({} runs)", self.runs())
    }
}

/// A terminal that is there or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeTerminal(pub(crate) Arc<AtomicBool>);

impl FakeTerminal {
    pub(crate) fn appears(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Terminal for FakeTerminal {
    fn stdin_is_terminal(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Lets spawned tasks get on, as far as they can without waiting for anything outside.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// A shell script in a folder of its own.
pub(crate) struct Script {
    folder: TempDir,
}

impl Script {
    pub(crate) fn new(text: &str) -> Self {
        let script = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(script.folder().join("plugin"), format!("#!/bin/sh\n{text}\n")).unwrap();
        script.make_executable("plugin");
        script
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn make_executable(&self, name: &str) {
        fs::set_permissions(self.folder().join(name), Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn path(&self) -> String {
        self.folder().join("plugin").to_str().unwrap().to_owned()
    }

    /// A user whose plugin it is.
    pub(crate) fn config(&self) -> ExecConfig {
        ExecConfig { command: self.path(), ..config() }
    }
}
