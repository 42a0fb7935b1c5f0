//! An agent with its files, its plugins and its log, and a client for its sockets.

use std::{
    fmt::Write as _,
    fs::{self, Permissions},
    future::Future,
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_agent::{Agent, AgentBuilder, AgentError, InheritedSockets, SocketError, Sockets};
use keyfob_agent_config::AgentConfig;
use keyfob_testkit::{LeakCheck, LogCapture, ManualClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    sync::watch,
    task::{JoinHandle, yield_now},
    time::{sleep, timeout},
};

use crate::plugins::{Plugins, SECRET};

/// How long anything may take before its test has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const APP: &str = "registry.example/team/app";

/// The files of an agent, and what happened to it. Agents that are started one after the other share it all.
pub(crate) struct Rig {
    folder: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) plugins: Plugins,
    /// The user who counts as root, by default the one who runs the tests.
    pub(crate) administrator: u32,
    /// Whether agents notice by themselves that their files change. Off by default, so that a reload happens when a test asks for it.
    watch_files: bool,
    logs: LogCapture,
    /// Bodies of refusals.
    refusals: Arc<Mutex<String>>,
}

/// What is in the agent's file, apart from its paths.
#[derive(Clone, Debug)]
pub(crate) struct AgentFile {
    /// The rules, as YAML; by default this user may have everything.
    pub(crate) rules: String,
    pub(crate) limits: String,
    pub(crate) warm: String,
    pub(crate) audit: String,
    pub(crate) http: String,
}

impl Default for AgentFile {
    fn default() -> Self {
        Self {
            rules: rule("own", &format!("{{uids: [{}]}}", own_uid()), "Allow"),
            limits: "{requestsPerSecond: 1000000}".to_owned(),
            warm: "{}".to_owned(),
            audit: String::new(),
            http: "{address: \"127.0.0.1:0\"}".to_owned(),
        }
    }
}

/// One rule, as YAML.
pub(crate) fn rule(name: &str, callers: &str, rest: &str) -> String {
    format!("- {{name: {name}, callers: {callers}, action: {rest}}}\n")
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

impl Rig {
    /// One provider, `one`, for `registry.example`, whose user is `ada`.
    pub(crate) fn new() -> Self {
        let rig = Self {
            folder: tempfile::tempdir().unwrap(),
            clock: ManualClock::default(),
            plugins: Plugins::default(),
            administrator: own_uid(),
            watch_files: false,
            logs: LogCapture::start(),
            refusals: Arc::default(),
        };
        fs::create_dir(rig.path("plugins")).unwrap();
        fs::create_dir(rig.path("state")).unwrap();
        rig.plugins.login("one", "ada");
        rig.write_providers(&provider("one", "registry.example"));
        rig.write(&AgentFile::default());
        rig
    }

    /// The same, where the user who runs the tests does not count as root.
    pub(crate) fn without_rights() -> Self {
        Self { administrator: own_uid() + 1, ..Self::new() }
    }

    /// The same, where agents notice by themselves that their files change.
    pub(crate) fn watching() -> Self {
        Self { watch_files: true, ..Self::new() }
    }

    /// The same with other rules.
    pub(crate) fn with_rules(rules: impl Into<String>) -> Self {
        let rig = Self::new();
        rig.write(&AgentFile { rules: rules.into(), ..AgentFile::default() });
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent's file.
    pub(crate) fn file(&self) -> PathBuf {
        self.path("agent.yaml")
    }

    pub(crate) fn write(&self, file: &AgentFile) {
        fs::write(self.file(), self.text(file)).unwrap();
    }

    pub(crate) fn text(&self, file: &AgentFile) -> String {
        let AgentFile { rules, limits, warm, audit, http } = file;
        let audit = match audit.as_str() {
            "" => format!("{{to: file, path: {}}}", self.path("audit.log").display()),
            audit => audit.to_owned(),
        };
        let folder = self.folder.path().display();
        format!(
            "apiVersion: keyfob.dev/v1alpha1\nkind: AgentConfiguration\n\
             providerConfig: {folder}/providers.yaml\npluginDirectory: {folder}/plugins\n\
             stateDirectory: {folder}/state\n\
             listeners: {{agent: {{path: {folder}/agent.sock}}, admin: {{path: {folder}/admin.sock}}, \
             http: {http}}}\n\
             audit: {audit}\nlimits: {limits}\nwarm: {warm}\nrules:\n{rules}"
        )
    }

    /// Writes the provider configuration and installs its plugins.
    pub(crate) fn write_providers(&self, providers: &str) {
        fs::write(self.path("providers.yaml"), provider_config(providers)).unwrap();
        for line in providers.lines() {
            if let Some(name) = line.strip_prefix("- name: ") {
                self.install(name);
            }
        }
    }

    /// The file is never run, but must be there.
    pub(crate) fn install(&self, name: &str) {
        let path = self.path("plugins").join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn build(&self) -> Result<Agent, AgentError> {
        let config = AgentConfig::read(&self.file()).map_err(AgentError::Config)?;
        let plugins = self.plugins.clone();
        AgentBuilder::new(self.file(), config)
            .clock(Arc::new(self.clock.clone()))
            .administrator(self.administrator)
            .watch_files(self.watch_files)
            .host(move |host| host.runner(plugins))
            .build()
    }

    /// Starts an agent.
    pub(crate) fn start(&self) -> RunningAgent {
        self.start_with(Sockets::open)
    }

    /// Starts another agent in the place of one that runs.
    pub(crate) fn take_over(&self) -> RunningAgent {
        self.start_with(Sockets::take_over)
    }

    fn start_with(
        &self,
        open: impl FnOnce(&AgentConfig, InheritedSockets) -> Result<Sockets, SocketError>,
    ) -> RunningAgent {
        let agent = Arc::new(self.build().unwrap());
        let config = AgentConfig::read(&self.file()).unwrap();
        let sockets = open(&config, InheritedSockets::default()).unwrap();
        let http = sockets.http_address();
        let (stop, stopped) = watch::channel(false);
        let serving = agent.clone();
        let task = tokio::spawn(async move { serving.serve(sockets, stopped).await });
        let socket = Socket { path: self.path("agent.sock"), refusals: self.refusals.clone() };
        let admin = Socket { path: self.path("admin.sock"), refusals: self.refusals.clone() };
        RunningAgent { agent, socket, admin, http, stop, task }
    }

    /// The lines of the audit log.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("audit.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn logs(&self) -> String {
        self.logs.text()
    }

    /// Stops the agent, and checks that no password is anywhere but in the answers.
    pub(crate) async fn finish(self, agent: RunningAgent) {
        agent.stop().await;
        self.check_leaks();
    }

    pub(crate) fn check_leaks(&self) {
        let leaks = LeakCheck::new([SECRET]);
        leaks.text("the log", &self.logs());
        leaks.text("a refusal", &self.refusals.lock().unwrap());
        for folder in [self.folder.path(), &self.path("state")] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    leaks.text(&path.display().to_string(), &fs::read_to_string(&path).unwrap());
                }
            }
        }
    }
}

/// A provider configuration of these providers.
pub(crate) fn provider_config(providers: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n{providers}"
    )
}

/// A provider, as YAML.
pub(crate) fn provider(name: &str, pattern: &str) -> String {
    format!(
        "- name: {name}\n  matchImages: [\"{pattern}\"]\n  defaultCacheDuration: 1h\n  \
         apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
    )
}

/// An agent that serves.
pub(crate) struct RunningAgent {
    pub(crate) agent: Arc<Agent>,
    pub(crate) socket: Socket,
    pub(crate) admin: Socket,
    /// Where metrics are served, unless the file has a socket for them.
    pub(crate) http: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RunningAgent {
    pub(crate) fn begin_to_stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) async fn stop(self) {
        self.begin_to_stop();
        timeout(PATIENCE, self.task).await.expect("the agent stops").unwrap();
    }

    /// The users that the agent hands out.
    pub(crate) async fn users(&self, image: &str) -> Vec<String> {
        self.socket.credentials(image).await.users()
    }

    /// The agent's status, for users who count as root.
    pub(crate) async fn status(&self) -> Value {
        let reply = self.admin.call("GET", "/v1/status", "").await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }

    /// Sends a request to the listener for metrics, with a header field for the host unless it is empty.
    pub(crate) async fn http_call(&self, method: &str, path: &str, host: &str) -> Reply {
        let host = if host.is_empty() { String::new() } else { format!("host: {host}\r\n") };
        let request = format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n\r\n");
        let mut stream = TcpStream::connect(self.http.unwrap()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        Reply::parse(&answer).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    pub(crate) async fn http_get(&self, path: &str) -> Reply {
        self.http_call("GET", path, &self.http.unwrap().to_string()).await
    }

    /// What a scrape gets. Over a socket, because with TCP a paused clock runs ahead while the kernel delivers.
    pub(crate) async fn metrics(&self) -> String {
        let reply = self.admin.call("GET", "/metrics", "").await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body
    }

    /// The value of a series, with its labels; 0 if it is not there.
    pub(crate) async fn metric(&self, series: &str) -> String {
        let text = self.metrics().await;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or("0").to_owned()
    }
}

/// One of the agent's sockets.
#[derive(Clone)]
pub(crate) struct Socket {
    pub(crate) path: PathBuf,
    refusals: Arc<Mutex<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Socket {
    pub(crate) async fn connect(&self) -> UnixStream {
        loop {
            match UnixStream::connect(&self.path).await {
                // The queue of the listener is full.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => yield_now().await,
                connected => return connected.unwrap(),
            }
        }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Reply {
        let body = body.as_ref();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: keyfob-agent\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let reply = self.send([head.as_bytes(), body].concat()).await;
        reply.unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Sends these bytes and reads an answer to its end; nothing if the connection is closed without one.
    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) -> Option<Reply> {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.ok()?;
        self.read(&mut stream).await
    }

    pub(crate) async fn read(&self, stream: &mut UnixStream) -> Option<Reply> {
        let mut answer = Vec::new();
        let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        // Whatever came before a reset counts.
        drop(read.expect("the agent answers in time"));
        let reply = Reply::parse(&String::from_utf8(answer).unwrap())?;
        if reply.status >= 400 {
            writeln!(self.refusals.lock().unwrap(), "{}", reply.body).unwrap();
        }
        Some(reply)
    }

    pub(crate) async fn credentials(&self, image: &str) -> Reply {
        self.call("POST", "/v1/credentials", json!({"image": image}).to_string()).await
    }

    pub(crate) async fn docker_get(&self, url: &str) -> Reply {
        self.call("POST", "/v1/docker/get", url).await
    }
}

impl Reply {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head: head.to_lowercase(), body: body.to_owned() })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    /// The users of an answer of `/v1/credentials`; none if it is an error.
    pub(crate) fn users(&self) -> Vec<String> {
        let answer = self.json();
        let credentials = answer["credentials"].as_array().cloned().unwrap_or_default();
        credentials.iter().map(|each| each["username"].as_str().unwrap().to_owned()).collect()
    }

    /// The status, code and message of a refusal. Each is a JSON object of the same form.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        assert!(self.head.contains("content-type: application/json"), "{}", self.head);
        let error = &self.json()["error"];
        assert!(error.is_object(), "no refusal: {}", self.body);
        let field = |name: &str| error[name].as_str().unwrap().to_owned();
        assert!(!field("message").contains('\n'), "{}", self.body);
        (self.status, field("code"), field("message"))
    }
}

/// Waits until something is true.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, is_true: impl Fn() -> F) {
    let waiting = async {
        while !is_true().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Replaces a file as careful programs do.
pub(crate) fn rename_over(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}
