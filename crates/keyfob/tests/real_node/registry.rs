//! Debian's docker-registry behind a host of [`Hosts`](crate::hosts::Hosts), which keeps a log and can hold requests back.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::{Request, Response};
use serde_json::{Value, json};

use crate::{
    image::{Base, Blob, Image},
    process::{Process, free_port},
    shell::run,
    token_issuer::{TokenIssuer, scope},
    wait::wait_for,
    world::World,
};

/// Whom a registry lets in.
pub(crate) enum Access {
    Everybody,
    /// These users with these passwords, by HTTP's Basic scheme.
    Passwords(Vec<(String, String)>),
    /// Whoever this function accepts, by docker's token authentication.
    Tokens(Box<dyn Fn(&Login) -> bool + Send + Sync>),
}

impl Access {
    pub(crate) fn password(user: &str, password: &str) -> Self {
        Self::Passwords(vec![(user.to_owned(), password.to_owned())])
    }
}

/// Who asks a token server for access to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) repository: String,
}

/// A request and how it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The user name and the password of the Basic scheme.
    pub(crate) login: Option<(String, String)>,
    pub(crate) status: u16,
}

/// An image in a registry.
#[derive(Clone, Debug)]
pub(crate) struct Pushed {
    /// The name with its tag, as a pod names it.
    pub(crate) reference: String,
    /// The digest of the manifest.
    pub(crate) digest: String,
    /// The digest of the configuration.
    pub(crate) id: String,
}

pub(crate) struct Registry {
    /// The host's name.
    pub(crate) host: String,
    pub(crate) process: Process,
    files: PathBuf,
    base: Arc<Base>,
    front: Arc<Front>,
}

/// What stands between the clients and the registry.
struct Front {
    backend: String,
    visits: Mutex<Vec<Visit>>,
    gate: Mutex<Gate>,
    opened: Condvar,
}

/// Requests whose path contains the text must wait.
#[derive(Default)]
struct Gate {
    closed_for: Option<String>,
    waiting: Vec<String>,
}

impl Registry {
    /// Starts a registry that clients find at `https://HOST`.
    pub(crate) fn start(world: &World, host: &str, access: Access) -> Self {
        let files = world.files.join(format!("registry-{}", fastrand::u64(..)));
        fs::create_dir_all(&files).unwrap();
        let backend = format!("127.0.0.1:{}", free_port());
        let mut config = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": files.join("storage")}},
            "http": {"addr": backend},
        });
        let front = Arc::new(Front::new(backend));
        if let Some(auth) = auth(world, host, access, &files, &front) {
            config["auth"] = auth;
        }
        fs::write(files.join("config.yml"), config.to_string()).unwrap();
        let mut command = Command::new(world.parts.program("docker-registry"));
        command.env_clear().arg("serve").arg(files.join("config.yml"));
        let process = Process::start("docker-registry", command, &world.directory);
        let handler = Arc::clone(&front);
        world.hosts.serve(host, move |request| handler.answer(request));
        let base = Arc::clone(&world.base);
        let mut registry = Self { host: host.to_owned(), process, files, base, front };
        registry.wait_until_ready();
        registry
    }

    /// Waits until it answers, after a restart too.
    pub(crate) fn wait_until_ready(&mut self) {
        let backend = self.front.backend.clone();
        self.process.wait_until("the registry answers", || {
            TcpStream::connect(&backend).map(drop).map_err(|error| error.to_string())
        });
    }

    /// Adds a small image, `NAME:TAG`.
    pub(crate) fn push(&self, name: &str) -> Pushed {
        self.push_sized(name, 0)
    }

    /// Adds an image with a second layer of so many random bytes.
    pub(crate) fn push_sized(&self, name: &str, random_bytes: usize) -> Pushed {
        let image = self.base.image(&format!("{}/{name}", self.host), random_bytes, &self.files);
        self.push_image(name, &image)
    }

    /// Adds an image that was made elsewhere.
    pub(crate) fn push_image(&self, name: &str, image: &Image) -> Pushed {
        let (repository, tag) = name.split_once(':').unwrap();
        let storage = self.files.join("storage/docker/registry/v2");
        for blob in image.blobs.iter().chain([&image.manifest]) {
            let directory = storage.join("blobs/sha256").join(&blob.hex()[..2]).join(blob.hex());
            write(&directory.join("data"), &blob.bytes);
        }
        let repository = storage.join("repositories").join(repository);
        for blob in &image.blobs {
            link(&repository.join("_layers/sha256").join(blob.hex()), blob);
        }
        let manifests = repository.join("_manifests");
        let (manifest, tag) = (&image.manifest, manifests.join("tags").join(tag));
        link(&manifests.join("revisions/sha256").join(manifest.hex()), manifest);
        link(&tag.join("index/sha256").join(manifest.hex()), manifest);
        link(&tag.join("current"), manifest);
        Pushed {
            reference: format!("{}/{name}", self.host),
            digest: image.manifest.digest.clone(),
            id: image.id.clone(),
        }
    }

    /// All requests since the start, in the order of their answers, to the token server too.
    pub(crate) fn visits(&self) -> Vec<Visit> {
        self.front.visits.lock().unwrap().clone()
    }

    /// The distinct logins that were tried, in order, with the status that each got first.
    pub(crate) fn logins(&self) -> Vec<(Option<String>, u16)> {
        let mut logins: Vec<(Option<String>, u16)> = Vec::new();
        for visit in self.visits() {
            let user = visit.login.map(|(user, _)| user);
            if logins.iter().all(|(known, _)| *known != user) {
                logins.push((user, visit.status));
            }
        }
        logins
    }

    /// From now on, requests whose path contains this wait; `/blobs/` stops a pull after its manifest.
    pub(crate) fn hold(&self, text: &str) {
        self.front.gate.lock().unwrap().closed_for = Some(text.to_owned());
    }

    /// Waits until a request is held back.
    pub(crate) fn wait_until_held(&self) {
        wait_for("a request to be held back", Duration::from_secs(30), || {
            if self.held().is_empty() { Err(format!("{:?}", self.visits())) } else { Ok(()) }
        });
    }

    /// The paths of the requests that are held back now.
    pub(crate) fn held(&self) -> Vec<String> {
        self.front.gate.lock().unwrap().waiting.clone()
    }

    /// Lets all requests go on.
    pub(crate) fn release(&self) {
        self.front.gate.lock().unwrap().closed_for = None;
        self.front.opened.notify_all();
    }
}

impl Front {
    fn new(backend: String) -> Self {
        Self { backend, visits: Mutex::default(), gate: Mutex::default(), opened: Condvar::new() }
    }

    fn answer(&self, request: &Request) -> Response {
        self.wait_at_gate(request);
        // A registry that is down is, for clients of its front, one that is unavailable.
        let (status, response) =
            self.pass_on(request).unwrap_or_else(|_| (503, Response::status(503)));
        self.log(request, status);
        response
    }

    fn log(&self, request: &Request, status: u16) {
        let login = request.header("authorization").and_then(basic);
        let (method, path) = (request.method.clone(), request.path().to_owned());
        self.visits.lock().unwrap().push(Visit { method, path, login, status });
    }

    fn wait_at_gate(&self, request: &Request) {
        let closed = |gate: &Gate| {
            gate.closed_for.as_ref().is_some_and(|text| request.target.contains(text.as_str()))
        };
        let mut gate = self.gate.lock().unwrap();
        while closed(&gate) {
            gate.waiting.push(request.target.clone());
            gate = self.opened.wait(gate).unwrap();
            let place = gate.waiting.iter().position(|target| *target == request.target);
            gate.waiting.remove(place.unwrap());
        }
    }

    fn pass_on(&self, request: &Request) -> io::Result<(u16, Response)> {
        let mut head = format!("{} {} HTTP/1.0\r\n", request.method, request.target);
        for (name, value) in &request.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        let mut backend = TcpStream::connect(&self.backend)?;
        backend.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        backend.read_to_end(&mut answer)?;
        response(&answer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// An answer with the same headers, among them the length of a body that an answer to HEAD does not have.
fn response(answer: &[u8]) -> Option<(u16, Response)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[end + 4..];
    let mut response = Response::text(body).with_status(status).without_length();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if !name.eq_ignore_ascii_case("connection") {
            response = response.header(name, value);
        }
    }
    Some((status, response))
}

/// The user name and password of a header.
pub(crate) fn basic(header: &str) -> Option<(String, String)> {
    let decoded = BASE64_STANDARD.decode(header.strip_prefix("Basic ")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// The registry's setting, and the server that it needs.
fn auth(
    world: &World,
    host: &str,
    access: Access,
    files: &Path,
    front: &Arc<Front>,
) -> Option<Value> {
    match access {
        Access::Everybody => None,
        Access::Passwords(users) => {
            let line =
                |(user, password): &(String, String)| format!("{user}:{}\n", bcrypt(password));
            let path = files.join("users");
            fs::write(&path, users.iter().map(line).collect::<String>()).unwrap();
            Some(json!({"htpasswd": {"realm": host, "path": path}}))
        }
        Access::Tokens(accepts) => {
            let issuer = TokenIssuer::new(files);
            let realm = format!("auth.{host}");
            let auth = issuer.auth(&format!("https://{realm}/token"));
            let front = Arc::clone(front);
            world.hosts.serve(&realm, move |request| {
                let (status, response) = token(request, &issuer, &accepts);
                front.log(request, status);
                response
            });
            Some(auth)
        }
    }
}

/// The answer of a token server that knows docker's way to ask, and not OAuth's, which clients try first.
fn token(
    request: &Request,
    issuer: &TokenIssuer,
    accepts: &(dyn Fn(&Login) -> bool + Send + Sync),
) -> (u16, Response) {
    if request.method != "GET" {
        return (405, Response::status(405));
    }
    let repository = scope(request).0;
    let login = request.header("authorization").and_then(basic);
    let login = login.map(|(username, password)| Login { username, password, repository });
    if login.is_some_and(|login| accepts(&login)) {
        return (200, issuer.answer(request, 300));
    }
    (401, Response::json(r#"{"details":"access denied"}"#).with_status(401))
}

/// Perl knows the one way of hashing that the registry takes.
fn bcrypt(password: &str) -> String {
    let program = r"print crypt($ARGV[0], '$2b$05$' . 'abcdefghijklmnopqrstuu')";
    String::from_utf8(run("perl", &["-e", program, password]).stdout).unwrap()
}

fn link(directory: &Path, blob: &Blob) {
    write(&directory.join("link"), blob.digest.as_bytes());
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
