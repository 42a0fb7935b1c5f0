//! A running `keyfob serve`, the real program, with plugins that are a small C program.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::{fs::symlink, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take that does not depend on a plugin.
const PATIENCE: Duration = Duration::from_mins(1);

/// The name of the plugin.
pub(crate) const PLUGIN: &str = "one";
/// The same program by another name.
pub(crate) const OTHER_PLUGIN: &str = "two";

/// An agent and its files, which are there as long as the value lives.
pub(crate) struct RunningAgent {
    folder: TempDir,
    process: Option<Child>,
}

impl RunningAgent {
    /// Starts an agent for `registry.example` with these arguments of its plugin, after the file for its runs, and with more fields
    /// of the provider and of the agent's file.
    pub(crate) fn start(plugin: [u32; 2], provider: &Value, fields: &Value) -> Self {
        let mut agent = Self::prepare();
        fs::create_dir(agent.path("plugins")).expect("a folder");
        compile(include_str!("plugin.c"), &agent.path("plugins").join(PLUGIN));
        symlink(PLUGIN, agent.path("plugins").join(OTHER_PLUGIN)).expect("a link");
        agent.write_providers(&[agent.provider(PLUGIN, plugin, provider)]);
        agent.write_file(fields);
        agent.come_up();
        agent
    }

    /// An agent whose plugins are in this directory.
    pub(crate) fn with_plugins(directory: &Path, provider: Value) -> Self {
        let mut agent = Self::prepare();
        agent.write_providers(&[provider]);
        agent.write_file(&json!({"pluginDirectory": directory}));
        agent.come_up();
        agent
    }

    fn prepare() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("state")).expect("a folder");
        Self { folder, process: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("agent.sock")
    }

    /// A provider whose plugin is the C program.
    pub(crate) fn provider(&self, name: &str, plugin: [u32; 2], more: &Value) -> Value {
        let mut provider = json!({
            "name": name,
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": ["registry.example"],
            "defaultCacheDuration": "12h",
            "args": self.plugin_args(plugin),
        });
        extend(&mut provider, more);
        provider
    }

    pub(crate) fn plugin_args(&self, [delay, length]: [u32; 2]) -> [String; 3] {
        [self.path("runs").display().to_string(), delay.to_string(), length.to_string()]
    }

    pub(crate) fn write_providers(&self, providers: &[Value]) {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": providers,
        });
        replace(&self.path("providers.json"), &config.to_string());
    }

    /// Writes the agent's file with these fields.
    pub(crate) fn write_file(&self, fields: &Value) {
        let uid = rustix::process::getuid().as_raw();
        let mut file = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": self.path("providers.json"),
            "pluginDirectory": self.path("plugins"),
            "listeners": {"agent": {"path": self.socket()}, "admin": {"path": self.path("admin.sock")}},
            "stateDirectory": self.path("state"),
            "audit": {"to": "file", "path": self.path("audit.log")},
            "limits": {"requestsPerSecond": 1_000_000},
            "rules": [{"name": "own", "callers": {"uids": [uid]}, "action": "Allow"}],
        });
        extend(&mut file, fields);
        replace(&self.path("agent.yaml"), &file.to_string());
    }

    /// Starts the program, and returns how long it took until it served.
    pub(crate) fn come_up(&mut self) -> Duration {
        let began = Instant::now();
        let log = File::options().create(true).append(true).open(self.path("agent.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        command.args(["serve", "--config"]).arg(self.path("agent.yaml"));
        command.stdin(Stdio::null()).stderr(log.expect("a file"));
        self.process = Some(command.spawn().expect("it starts"));
        self.wait_until("the agent serves", || UnixStream::connect(self.socket()).is_ok());
        began.elapsed()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it runs");
            process.wait().expect("it ends");
        }
    }

    pub(crate) fn admin(&self, method: &str, path: &str) -> Value {
        let mut connection = Connection::open(&self.path("admin.sock")).expect("an agent");
        let answer = connection.request(method, path, "").expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// How many processes of the plugin there were.
    pub(crate) fn runs(&self) -> u64 {
        fs::metadata(self.path("runs")).map_or(0, |file| file.len())
    }

    /// The memory of the process, in megabytes.
    pub(crate) fn resident(&self) -> f64 {
        let pid = self.process.as_ref().expect("it runs").id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kilobytes * 1024.0 / 1e6
    }

    /// Looks every two milliseconds.
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            let log = || fs::read_to_string(self.path("agent.log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "not in time: {what}\n{}", log());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.kill();
    }
}

fn extend(object: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

/// Writes a file as a whole: its readers see the old or the new text.
fn replace(path: &Path, text: &str) {
    let partial = path.with_extension("partial");
    fs::write(&partial, text).expect("a file");
    fs::rename(&partial, path).expect("a file");
}

/// A static program.
pub(crate) fn compile(source: &str, program: &Path) {
    let mut cc = Command::new("cc")
        .args(["-O2", "-static", "-x", "c", "-o"])
        .arg(program)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler is installed");
    let mut stdin = cc.stdin.take().expect("its stdin");
    stdin.write_all(source.as_bytes()).expect("it reads");
    drop(stdin);
    assert!(cc.wait().expect("it ends").success());
}

/// A connection to a socket of the agent.
pub(crate) struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

impl Connection {
    pub(crate) fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Any error means that there was no whole answer.
    pub(crate) fn request(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: agent\r\ncontent-length: {length}\r\n\r\n");
        self.stream.write_all((head + body).as_bytes())?;
        self.buffer.clear();
        let mut chunk = [0; 16 << 10];
        loop {
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(&chunk[..count]);
            if let Some(answer) = parse(&self.buffer) {
                return Ok(answer);
            }
        }
    }

    /// The first user name and password for an image.
    pub(crate) fn login(&mut self, image: &str) -> io::Result<Result<(String, String), u16>> {
        let body = json!({"image": image}).to_string();
        let answer = self.request("POST", "/v1/credentials", &body)?;
        if answer.status != 200 {
            return Ok(Err(answer.status));
        }
        let login = answer.json();
        let text = |name: &str| login["credentials"][0][name].as_str().unwrap_or("none").to_owned();
        Ok(Ok((text("username"), text("password"))))
    }
}

/// An answer that is complete.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&bytes[..head]).ok()?.to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let end = head + length.trim().parse::<usize>().ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: bytes.get(head..end)?.to_vec() })
}
