//! `cargo bench -p keyfob-agent`: what a warm answer costs over the socket, beside a bare round trip of the same bytes; how many a
//! second 64 callers get; how long they wait while somebody scrapes the metrics; and how much memory 10,000 cached answers take.
//!
//! Times are medians of rounds in which the rows take turns, so that whatever else the machine does hits all of them alike. Callers and
//! agent share the machine. Nothing here fails because of a figure: targets stand beside them.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

use std::{
    env,
    fs::{self, Permissions},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use keyfob_agent::{AgentBuilder, InheritedSockets, Sockets};
use keyfob_agent_config::AgentConfig;
use keyfob_testkit::{FakeRunner, raise_file_limit};
use tempfile::TempDir;
use tokio::{
    runtime::{self, Runtime},
    sync::watch,
};

const ROUNDS: usize = 40;
const REQUESTS: usize = 250;
const CALLERS: u32 = 64;
const ENTRIES: usize = 10_000;
const SCRAPE_ROUNDS: usize = 5;
const SCRAPE_REQUESTS: usize = 500;
/// As long as one of ECR.
const PASSWORD: usize = 2_500;
/// Has the program measure its own memory; the length of the passwords follows.
const MEMORY: &str = "memory";

fn main() {
    raise_file_limit();
    let arguments: Vec<_> = env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == MEMORY) {
        return print_memory(arguments[at + 1].parse().expect("a length"));
    }
    println!("| what | median | p90 | ratio | target |");
    println!("|---|---:|---:|---:|---|");
    latency();
    throughput();
    scrapes();
    for (length, target) in [(100, "≤ 40 MB"), (PASSWORD, "")] {
        let figure = memory(length);
        let what = format!("resident, {ENTRIES} answers, passwords of {length} bytes");
        println!("| {what} | {figure} MB | | | {target} |");
    }
}

/// An agent that serves on threads of its own, for as long as this lives.
struct BenchAgent {
    folder: TempDir,
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    http: SocketAddr,
}

impl BenchAgent {
    fn start(password: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = write_files(folder.path());
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let guard = runtime.enter();
        let sockets = Sockets::open(&config, InheritedSockets::default()).expect("sockets");
        let http = sockets.http_address().expect("a port");
        let runner = FakeRunner::printing(answer(password));
        let agent = AgentBuilder::new(folder.path().join("agent.yaml"), config)
            .host(|host| host.runner(runner))
            .build();
        let agent = Arc::new(agent.expect("an agent"));
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(async move { agent.serve(sockets, stopped).await });
        drop(guard);
        Self { folder, runtime: Some(runtime), stop, http }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }
}

impl Drop for BenchAgent {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

fn write_files(folder: &Path) -> AgentConfig {
    let shown = folder.display();
    fs::create_dir(folder.join("plugins")).expect("a folder");
    let plugin = folder.join("plugins/one");
    fs::write(&plugin, "").expect("a file");
    fs::set_permissions(&plugin, Permissions::from_mode(0o755)).expect("an executable");
    let providers = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: one\n  \
                     matchImages: [registry.example]\n  defaultCacheDuration: 1h\n  \
                     apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
    fs::write(folder.join("providers.yaml"), providers).expect("a file");
    let uid = rustix::process::getuid().as_raw();
    let text = format!(
        "apiVersion: keyfob.dev/v1alpha1\nkind: AgentConfiguration\nproviderConfig: {shown}/providers.yaml\n\
         pluginDirectory: {shown}/plugins\nlisteners: {{agent: {{path: {shown}/agent.sock}}, http: {{address: \"127.0.0.1:0\"}}}}\n\
         audit: {{to: file, path: {shown}/audit.log}}\nlimits: {{requestsPerSecond: 1000000}}\n\
         rules:\n- {{name: own, callers: {{uids: [{uid}]}}, action: Allow}}\n"
    );
    fs::write(folder.join("agent.yaml"), text).expect("a file");
    AgentConfig::read(&folder.join("agent.yaml")).expect("a valid file")
}

/// What the plugin prints, whatever image it is asked for.
fn answer(password: usize) -> String {
    let password = "x".repeat(password);
    format!(
        r#"{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"12h","auth":{{"registry.example":{{"username":"AWS","password":"{password}"}}}}}}"#
    )
}

fn request(image: &str) -> Vec<u8> {
    let body = format!(r#"{{"image": "{image}"}}"#);
    let length = body.len();
    format!("POST /v1/credentials HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Sends a request and reads the whole response; returns its length.
fn exchange(stream: &mut UnixStream, request: &[u8], buffer: &mut [u8]) -> usize {
    stream.write_all(request).expect("a server that reads");
    let mut read = 0;
    loop {
        let more = stream.read(&mut buffer[read..]).expect("a response");
        assert!(more > 0, "the response broke off");
        read += more;
        if let Some(total) = length(&buffer[..read]) {
            assert!(buffer.starts_with(b"HTTP/1.1 200"), "refused");
            if read >= total {
                return read;
            }
        }
    }
}

/// The length of a response whose head is complete.
fn length(response: &[u8]) -> Option<usize> {
    let head = response.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&response[..head]).ok()?.to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some(head + length.trim().parse::<usize>().ok()?)
}

/// A server that answers every request with the same bytes, on one thread for each connection in turn.
fn bare_server(path: &Path, response: Vec<u8>) {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                if stream.write_all(&response).is_err() {
                    break;
                }
            }
        }
    });
}

/// A way of asking, and how long it took.
struct Subject<'a> {
    what: &'static str,
    target: &'static str,
    ask: Box<dyn FnMut() + 'a>,
    times: Vec<f64>,
}

fn latency() {
    let agent = BenchAgent::start(PASSWORD);
    let request = request("registry.example/team/app");
    let mut buffer = vec![0; 64 << 10];
    let mut kept = UnixStream::connect(agent.socket()).expect("an agent");
    let read = exchange(&mut kept, &request, &mut buffer);
    let bare_path = agent.folder.path().join("bare.sock");
    bare_server(&bare_path, buffer[..read].to_vec());
    let new_path = agent.folder.path().join("new.sock");
    bare_server(&new_path, buffer[..read].to_vec());
    let mut bare = UnixStream::connect(&bare_path).expect("a server");
    let socket = agent.socket();
    let anew = |path: PathBuf| {
        let request = request.clone();
        let mut buffer = vec![0; 64 << 10];
        move || {
            let mut stream = UnixStream::connect(&path).expect("a server");
            exchange(&mut stream, &request, &mut buffer);
        }
    };
    let mut buffers = [vec![0; 64 << 10], vec![0; 64 << 10]];
    let [first, second] = &mut buffers;
    let mut subjects = [
        subject("bare round trip, kept connection", "", || {
            exchange(&mut bare, &request, first);
        }),
        subject("warm answer, kept connection", "≤ 100 µs", || {
            exchange(&mut kept, &request, second);
        }),
        subject("bare round trip, new connection", "", anew(new_path)),
        subject("warm answer, new connection", "≤ 100 µs", anew(socket)),
    ];
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            for _ in 0..REQUESTS {
                let began = Instant::now();
                (subject.ask)();
                subject.times.push(began.elapsed().as_secs_f64());
            }
        }
    }
    print_latency(subjects);
}

/// The rows in pairs: the bare round trip, and the same with the agent.
fn print_latency<const N: usize>(subjects: [Subject<'_>; N]) {
    let mut base = 0.0;
    for (number, Subject { what, target, mut times, .. }) in subjects.into_iter().enumerate() {
        times.sort_unstable_by(f64::total_cmp);
        let (median, p90) = (times[times.len() / 2], times[times.len() * 9 / 10]);
        if number % 2 == 0 {
            base = median;
        }
        let [median_us, p90] = [median, p90].map(|time| time * 1e6);
        let ratio = median / base;
        println!("| {what} | {median_us:.0} µs | {p90:.0} µs | {ratio:.2} | {target} |");
    }
}

fn subject<'a>(what: &'static str, target: &'static str, ask: impl FnMut() + 'a) -> Subject<'a> {
    Subject { what, target, ask: Box::new(ask), times: Vec::new() }
}

fn throughput() {
    let agent = BenchAgent::start(PASSWORD);
    let request = request("registry.example/team/app");
    let socket = agent.socket();
    for (what, requests, is_kept) in [
        ("64 callers, kept connections", 1000, true),
        ("64 callers, a new connection each time", 300, false),
    ] {
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..CALLERS {
                scope.spawn(|| call(&socket, &request, requests, is_kept));
            }
        });
        let per_second = f64::from(CALLERS * requests) / began.elapsed().as_secs_f64();
        println!("| {what} | {per_second:.0}/s | | | ≥ 10000/s |");
    }
}

fn call(socket: &Path, request: &[u8], requests: u32, is_kept: bool) {
    let mut buffer = vec![0; 16 << 10];
    let connect = || UnixStream::connect(socket).expect("an agent");
    let mut stream = connect();
    for _ in 0..requests {
        if !is_kept {
            stream = connect();
        }
        exchange(&mut stream, request, &mut buffer);
    }
}

/// How often somebody scrapes meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Scrapes {
    No,
    Every(Duration),
}

/// What 64 callers with kept connections wait, without scrapes and with them. The cache is large, because a scrape looks through it.
fn scrapes() {
    let agent = BenchAgent::start(100);
    let mut stream = UnixStream::connect(agent.socket()).expect("an agent");
    let mut buffer = vec![0; 16 << 10];
    for number in 0..ENTRIES {
        let image = format!("registry.example/team/application-{number:05}");
        exchange(&mut stream, &request(&image), &mut buffer);
    }
    let mut rows = [
        ("no scrape", Scrapes::No, Vec::new()),
        ("a scrape every second", Scrapes::Every(Duration::from_secs(1)), Vec::new()),
        ("a scrape every 10 ms", Scrapes::Every(Duration::from_millis(10)), Vec::new()),
    ];
    let mut durations = Vec::new();
    for _ in 0..SCRAPE_ROUNDS {
        for (_, scrapes, times) in &mut rows {
            let (of_callers, of_scrapes) = crowd(&agent, *scrapes);
            times.extend(of_callers);
            durations.extend(of_scrapes);
        }
    }
    let mut base = 0.0;
    for (what, scrapes, mut times) in rows {
        times.sort_unstable_by(f64::total_cmp);
        let (median, p99) = (times[times.len() / 2] * 1e3, times[times.len() * 99 / 100] * 1e3);
        if scrapes == Scrapes::No {
            base = p99;
        }
        let ratio = p99 / base;
        println!(
            "| 64 callers, kept connections, {what} | {median:.2} ms | p99 {p99:.2} ms | {ratio:.2} | |"
        );
    }
    durations.sort_unstable_by(f64::total_cmp);
    let [median, p90] =
        [2, 10].map(|part| durations[durations.len() - durations.len() / part - 1] * 1e3);
    println!("| a scrape meanwhile, {ENTRIES} answers | {median:.2} ms | {p90:.2} ms | | |");
}

/// How long each request of the callers took, and each scrape.
fn crowd(agent: &BenchAgent, scrapes: Scrapes) -> (Vec<f64>, Vec<f64>) {
    let (socket, request) = (agent.socket(), request("registry.example/team/application-00001"));
    let is_over = AtomicBool::new(false);
    let (report, reports) = mpsc::channel();
    let mut of_scrapes = Vec::new();
    thread::scope(|scope| {
        let prometheus = scope.spawn(|| {
            let mut times = Vec::new();
            while let (Scrapes::Every(pause), false) = (scrapes, is_over.load(Ordering::Relaxed)) {
                times.push(scrape(agent.http));
                thread::sleep(pause);
            }
            times
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (report, socket, request) = (report.clone(), &socket, &request);
                scope.spawn(move || report.send(timed(socket, request)).expect("a receiver"))
            })
            .collect();
        for caller in callers {
            caller.join().expect("a caller");
        }
        is_over.store(true, Ordering::Relaxed);
        of_scrapes = prometheus.join().expect("a scraper");
    });
    drop(report);
    (reports.into_iter().flatten().collect(), of_scrapes)
}

fn timed(socket: &Path, request: &[u8]) -> Vec<f64> {
    let mut buffer = vec![0; 16 << 10];
    let mut stream = UnixStream::connect(socket).expect("an agent");
    let mut time = || {
        let began = Instant::now();
        exchange(&mut stream, request, &mut buffer);
        began.elapsed().as_secs_f64()
    };
    (0..SCRAPE_REQUESTS).map(|_| time()).collect()
}

fn scrape(address: SocketAddr) -> f64 {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).expect("an agent");
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a server that reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    began.elapsed().as_secs_f64()
}

/// Megabytes that another process holds with so many answers cached.
fn memory(password: usize) -> String {
    let program = env::current_exe().expect("a path");
    let measured = Command::new(program).args([MEMORY, &password.to_string()]).output();
    let measured = measured.expect("it runs");
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    String::from_utf8_lossy(&measured.stdout).trim().to_owned()
}

fn print_memory(password: usize) {
    let agent = BenchAgent::start(password);
    let mut stream = UnixStream::connect(agent.socket()).expect("an agent");
    let mut buffer = vec![0; 16 << 10];
    for number in 0..ENTRIES {
        let image = format!("registry.example/team/application-{number:05}");
        exchange(&mut stream, &request(&image), &mut buffer);
    }
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("{:.1}", kilobytes * 1024.0 / 1e6);
}
