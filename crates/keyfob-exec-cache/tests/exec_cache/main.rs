//! Answers that are kept across processes: by a clock that is turned by hand, and a plugin that needs no process.
//!
//! A lock belongs to whoever opened its file, so that two caches in one process are as strange to each other as two
//! processes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod damage;
mod keeping;
mod keys;
mod refusals;
mod renewal;
mod sharing;
mod tidiness;

use std::{
    ffi::OsString,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use keyfob_api::{ExecCredentialSpec, ExecCredentialStatus, ExecVersion, Secret, Timestamp};
use keyfob_exec::{
    BoxFuture, Clock as _, Finished, Invocation, RunError, Runner, Status, StderrTail, SystemClock,
    Terminal,
};
use keyfob_exec_cache::{
    AskerId, ExecCache, ExecCacheError, ExecCacheOptions, ExecQuestion, ParentProcess,
    Surroundings, VariablePattern,
};
use keyfob_testkit::{LeakCheck, ManualClock, MapEnvironment};
use tempfile::TempDir;
use tokio::sync::Semaphore;

const MINUTE: Duration = Duration::from_mins(1);

/// A place for caches: a directory, a clock, a plugin, and what people saw.
struct Stage {
    folder: TempDir,
    clock: ManualClock,
    plugin: Plugin,
    told: Arc<Mutex<Vec<String>>>,
    options: ExecCacheOptions,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let stage = Self {
            folder,
            clock: ManualClock::new(whole_second()),
            plugin: Plugin::default(),
            told: Arc::default(),
            options: ExecCacheOptions::default(),
        };
        stage.install("plugin", "first");
        stage.says(Some(60 * MINUTE));
        stage
    }

    fn with(mut self, change: impl FnOnce(&mut ExecCacheOptions)) -> Self {
        change(&mut self.options);
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a program on the path, in the place of the one that is there.
    fn install(&self, name: &str, content: &str) {
        let new = self.path("new");
        fs::write(&new, content).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, self.path("bin").join(name)).unwrap();
    }

    /// The plugin answers with tokens `hunter2-1`, `hunter2-2`, … that live so long.
    fn says(&self, life: Option<Duration>) {
        let clock = self.clock.clone();
        self.plugin.set(move |run, version| {
            let expiration = life.map(|life| Timestamp::from(clock.now() + life));
            let token = Some(Secret::new(format!("hunter2-{run}")));
            let status = ExecCredentialStatus { expiration, token, identity: None };
            Ok(status.encode(version).expose().clone())
        });
    }

    fn fails(&self) {
        self.plugin.set(|_, _| Err(3));
    }

    /// As another process would have it.
    fn cache(&self) -> ExecCache {
        let told = Arc::clone(&self.told);
        let tell = Arc::new(move |notice: &keyfob_exec_cache::ExecCacheNotice<'_>| {
            told.lock().unwrap().push(notice.to_string());
        });
        let (clock, runner) = (Arc::new(self.clock.clone()), Arc::new(self.plugin.clone()));
        ExecCache::open(&self.path("cache"), self.options.clone(), clock, runner, tell).unwrap()
    }

    /// One client after the other, each a process of its own.
    fn question(&self) -> ExecQuestion {
        static CLIENTS: AtomicUsize = AtomicUsize::new(1);
        let number = CLIENTS.fetch_add(1, Ordering::SeqCst);
        Ask { client: Some(u32::try_from(number).unwrap()), ..Ask::default() }.on(self)
    }

    /// The token that a client gets.
    async fn token(&self, question: &ExecQuestion) -> Result<String, ExecCacheError> {
        let cache = self.cache();
        match cache.ready(question) {
            Some(answer) => Ok(token_of(&answer)),
            None => cache.fetch(question).await.map(|answer| token_of(&answer)),
        }
    }

    async fn next(&self) -> String {
        self.token(&self.question()).await.unwrap()
    }

    async fn failure(&self) -> String {
        let error = self.token(&self.question()).await.unwrap_err();
        LeakCheck::new(["hunter2"]).error(&error);
        error.to_string()
    }

    fn runs(&self) -> usize {
        self.plugin.runs.load(Ordering::SeqCst)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// The files, by what they are for.
    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
    }

    fn the_file(&self, extension: &str) -> PathBuf {
        let [file] = self.files(extension).try_into().unwrap();
        file
    }
}

/// Now, as the files have it, without the fraction that an expiry does not have.
fn whole_second() -> SystemTime {
    let seconds = Timestamp::from(SystemClock.now()).unix_seconds();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs())
}

/// What a client asks, and around what.
struct Ask {
    command: &'static str,
    args: Vec<&'static str>,
    vars: Vec<(&'static str, &'static str)>,
    named: Vec<&'static str>,
    /// The version and what is told of the cluster, if anything is told.
    info: Option<(ExecVersion, ExecCredentialSpec)>,
    directory: Option<PathBuf>,
    client: Option<u32>,
    /// What the client itself was started with.
    inherited: Option<Vec<(&'static str, &'static str)>>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            command: "plugin",
            args: vec!["get-token"],
            vars: vec![("HOME", "/home/ada")],
            named: Vec::new(),
            info: Some((ExecVersion::V1, ExecCredentialSpec::default())),
            directory: None,
            client: None,
            inherited: None,
        }
    }
}

impl Ask {
    fn on(&self, stage: &Stage) -> ExecQuestion {
        let pair = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        let mut vars: Vec<_> = self.vars.iter().map(pair).collect();
        vars.push(("PATH".into(), stage.path("bin").into()));
        if let Some((version, spec)) = &self.info {
            let info = spec.encode(*version);
            let info = String::from_utf8(info.expose().clone()).unwrap();
            vars.push(("KUBERNETES_EXEC_INFO".into(), info.into()));
        }
        let environment: MapEnvironment = vars.into_iter().collect();
        let named: Vec<VariablePattern> =
            self.named.iter().map(|text| text.parse().unwrap()).collect();
        let mut parent = ParentProcess::at(std::process::id()).unwrap();
        parent.id = AskerId { pid: self.client.unwrap_or_default(), started: 1, file: 1 };
        parent.environment = self.inherited.as_ref().map(|vars| vars.iter().map(pair).collect());
        let around = Surroundings {
            environment: &environment,
            variables: &named,
            directory: self.directory.as_deref(),
            parent: self.client.map(|_| &parent),
            terminal: &NoTerminal,
        };
        let args = self.args.iter().map(OsString::from).collect();
        ExecQuestion::new(self.command, args, &around).unwrap()
    }
}

#[derive(Debug)]
struct NoTerminal;

impl Terminal for NoTerminal {
    fn stdin_is_terminal(&self) -> bool {
        false
    }
}

/// What a run prints, or the code it exits with.
type Says = dyn Fn(usize, ExecVersion) -> Result<Vec<u8>, i32> + Send + Sync;

/// A plugin that says what it is told to, when it is let.
#[derive(Clone)]
struct Plugin {
    says: Arc<Mutex<Arc<Says>>>,
    runs: Arc<AtomicUsize>,
    version: ExecVersion,
    /// A run ends when it gets a permit.
    let_go: Arc<Semaphore>,
}

impl Default for Plugin {
    fn default() -> Self {
        Self {
            says: Arc::new(Mutex::new(Arc::new(|_, _| Err(1)))),
            runs: Arc::default(),
            version: ExecVersion::V1,
            let_go: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }
}

impl Plugin {
    fn set(
        &self,
        says: impl Fn(usize, ExecVersion) -> Result<Vec<u8>, i32> + Send + Sync + 'static,
    ) {
        *self.says.lock().unwrap() = Arc::new(says);
    }

    fn prints(&self, stdout: &str) {
        let stdout = stdout.to_owned();
        self.set(move |_, _| Ok(stdout.clone().into()));
    }

    /// From now on each run waits for [`Plugin::release`].
    fn hold(&self) {
        self.let_go.forget_permits(Semaphore::MAX_PERMITS);
    }

    fn release(&self, runs: usize) {
        self.let_go.add_permits(runs);
    }
}

impl Runner for Plugin {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        let says = Arc::clone(&self.says.lock().unwrap());
        Box::pin(async move {
            self.let_go.acquire().await.unwrap().forget();
            let program = invocation.program().to_owned();
            let (elapsed, stderr) = (Duration::ZERO, StderrTail::default());
            match says(run, self.version) {
                Ok(stdout) => {
                    let status = Status::Exited(0);
                    Ok(Finished { program, status, stdout: stdout.into(), stderr, elapsed })
                }
                Err(code) => {
                    let status = Status::Exited(code);
                    Err(RunError::Failed { program, status, stderr, elapsed })
                }
            }
        })
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plugin")
    }
}

fn token_of(answer: &Secret<Vec<u8>>) -> String {
    let status = ExecCredentialStatus::decode(answer.expose(), ExecVersion::V1).unwrap();
    status.token.unwrap().expose().clone()
}
