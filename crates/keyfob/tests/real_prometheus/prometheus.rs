//! A real Prometheus on loopback, and questions to it.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long alerts may take to fire and to be resolved: a plugin that has failed is not run again at once.
const PATIENCE: Duration = Duration::from_mins(3);

/// It runs as long as the value lives.
pub(crate) struct Prometheus {
    server: Child,
    address: String,
    folder: TempDir,
}

impl Prometheus {
    /// Scrapes these targets twice a second, with the rest of the configuration as in `deploy/prometheus`.
    pub(crate) fn start(targets: &[String], alerts: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("alerts.yaml"), alerts).unwrap();
        let example = fs::read_to_string(super::deployed("prometheus.yaml")).unwrap();
        let config = example
            .replace("scrape_interval: 30s", "scrape_interval: 500ms\n  scrape_timeout: 500ms")
            .replace("[\"127.0.0.1:9977\"]", &json!(targets).to_string());
        assert!(config.contains("500ms") && config.contains(&targets[0]), "{config}");
        let config = format!("global: {{evaluation_interval: 500ms}}\n{config}");
        fs::write(path("prometheus.yaml"), config).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let server = Command::new("prometheus")
            .arg(format!("--config.file={}", path("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdout(Stdio::null())
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        let prometheus = Self { server, address, folder };
        prometheus.wait_until("Prometheus is ready", || prometheus.get("/-/ready").is_some());
        prometheus
    }

    /// How many targets were scraped without an error.
    pub(crate) fn healthy_targets(&self) -> usize {
        let targets = self.api("/api/v1/targets");
        let targets = targets["activeTargets"].as_array().unwrap();
        targets
            .iter()
            .filter(|target| target["health"] == "up" && target["lastError"] == "")
            .count()
    }

    /// The value of an expression that has one.
    pub(crate) fn value(&self, expression: &str) -> Option<f64> {
        let result = self.api(&query(expression));
        result["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Whether this is an expression at all.
    pub(crate) fn understands(&self, expression: &str) -> bool {
        self.get(&query(expression)).is_some()
    }

    /// The alerts that fire: their names and the addresses of the agents.
    pub(crate) fn firing(&self) -> BTreeSet<(String, String)> {
        let alerts = self.api("/api/v1/alerts");
        let firing = alerts["alerts"].as_array().unwrap().iter();
        let label = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap().to_owned();
        firing
            .filter(|alert| alert["state"] == "firing")
            .map(|alert| (label(alert, "alertname"), label(alert, "instance")))
            .collect()
    }

    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            if start.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
                panic!("not in time: {what}; {:?}\n{log}", self.firing());
            }
            thread::sleep(Duration::from_millis(200));
        }
        println!("{what}: after {:.1} s", start.elapsed().as_secs_f64());
    }

    fn api(&self, path: &str) -> Value {
        let body = self.get(path).unwrap_or_else(|| panic!("no answer to {path}"));
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{body}");
        answer["data"].clone()
    }

    /// The body of an answer; nothing if there is none or it is an error.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        // In this version the answer has neither chunks nor a connection that stays open.
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n", self.address).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }
}

/// The path at which an expression is evaluated.
fn query(expression: &str) -> String {
    let bytes = expression.bytes().map(|byte| format!("%{byte:02x}"));
    format!("/api/v1/query?query={}", bytes.collect::<Vec<_>>().concat())
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.server.kill().unwrap_or_default();
        drop(self.server.wait());
    }
}
