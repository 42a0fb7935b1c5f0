//! Headless chromium, driven by Debian's chromedriver over `WebDriver`. It reaches nothing but loopback: every name leads nowhere.

use std::{
    fmt::Debug,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// How long the page may take to show something.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a picture smaller. Chromium can, so no crate is needed.
const SMALLER_PNG: &str = include_str!("smaller_png.js");

/// How a screen is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) theme: &'static str,
}

pub(crate) const NARROW: u32 = 375;
pub(crate) const WIDE: u32 = 1440;
pub(crate) const SCREENS: [Screen; 4] = [
    Screen { width: NARROW, theme: "light" },
    Screen { width: NARROW, theme: "dark" },
    Screen { width: WIDE, theme: "light" },
    Screen { width: WIDE, theme: "dark" },
];

/// A browser with one window. It ends with this value.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// What it logged so far: its console, and its network traffic.
    console: Vec<Value>,
    network: Vec<Value>,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromedriver: `.ci/run browser` installs it");
        let mut stdout = BufReader::new(driver.stdout.take().unwrap()).lines();
        let mut printed = Vec::new();
        let line = loop {
            match stdout.next() {
                Some(Ok(line)) if line.contains("started successfully on port") => break line,
                Some(Ok(line)) => printed.push(line),
                end => panic!("chromedriver ended: {end:?}, {:?}: {printed:#?}", driver.wait()),
            }
        };
        let digits = |c: char| !c.is_ascii_digit();
        let port = line.trim_end_matches(digits).rsplit(digits).next().unwrap().parse().unwrap();
        let mut browser =
            Self { driver, port, session: String::new(), console: Vec::new(), network: Vec::new() };
        let session = browser.send("POST", "/session", &capabilities());
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.command("url", &json!({"url": url}));
    }

    pub(crate) fn show_on(&mut self, screen: Screen) {
        let metrics =
            json!({"width": screen.width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": screen.theme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    pub(crate) fn disable_scripts(&mut self) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    }

    /// What an expression of JavaScript gives.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        self.run(&format!("return {expression}"))
    }

    pub(crate) fn run(&mut self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    pub(crate) fn run_until_called_back(&mut self, script: &str) -> Value {
        self.command("execute/async", &json!({"script": script, "args": []}))
    }

    /// The text that is to be seen, of all elements that a selector finds.
    pub(crate) fn texts(&mut self, selector: &str) -> Vec<String> {
        let all = format!(
            "[...document.querySelectorAll({})].map((each) => each.innerText.replace(/\\s+/g, ' ').trim())",
            json!(selector)
        );
        serde_json::from_value(self.evaluate(&all)).unwrap()
    }

    /// Waits until an expression gives this.
    #[track_caller]
    pub(crate) fn wait_for<T>(&mut self, expression: &str, expected: T)
    where
        T: Into<Value> + Debug,
    {
        let (expected, begun) = (expected.into(), Instant::now());
        loop {
            let found = self.evaluate(expression);
            if found == expected {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{expression}: {found}, and not {expected}");
            sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key in the focused element.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => "\u{e004}",
            "Enter" => "\u{e007}",
            "Space" => " ",
            other => unreachable!("{other}"),
        };
        let keys =
            [json!({"type": "keyDown", "value": code}), json!({"type": "keyUp", "value": code})];
        let actions = json!([{"type": "key", "id": "keyboard", "actions": keys}]);
        self.command("actions", &json!({"actions": actions}));
    }

    /// The whole page as PNG, with 256 colours.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let size = self.devtools("Page.getLayoutMetrics", &json!({}))["cssContentSize"].clone();
        let clip =
            json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let options = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.devtools("Page.captureScreenshot", &options)["data"].clone();
        let smaller =
            self.run_until_called_back(&format!("const picture = {picture}; {SMALLER_PNG}"));
        BASE64_STANDARD.decode(smaller.as_str().unwrap()).unwrap()
    }

    /// The messages of the console.
    pub(crate) fn console(&mut self) -> Vec<String> {
        self.read_logs();
        self.console.iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// The addresses of all requests that pages of this browser made, redirected ones too.
    pub(crate) fn requested(&mut self) -> Vec<String> {
        self.events("Network.requestWillBeSent")
            .iter()
            .map(|event| event["request"]["url"].as_str().unwrap().to_owned())
            .filter(|url| url.contains("://") && !url.starts_with("chrome://"))
            .collect()
    }

    /// Everything that the browser sent and got, as text: heads, bodies and events of streams. Names are whole, without the places where
    /// their lines may be broken.
    pub(crate) fn traffic(&mut self) -> String {
        self.read_logs();
        let entries = self.network.iter().map(ToString::to_string);
        let mut traffic = entries.collect::<Vec<_>>().join("\n");
        for event in self.events("Network.loadingFinished") {
            let asked = json!({"requestId": event["requestId"]});
            if let Some(body) = self.try_devtools("Network.getResponseBody", &asked) {
                traffic += body["body"].as_str().unwrap_or_default();
            }
        }
        // In JSON that is a part of JSON, a tag may begin with an escape.
        for tag in ["wbr", "bdi", "/bdi"] {
            traffic =
                traffic.replace(&format!("<{tag}>"), "").replace(&format!("\\u003C{tag}>"), "");
        }
        traffic
    }

    fn events(&mut self, method: &str) -> Vec<Value> {
        self.read_logs();
        let of_method = self.network.iter().filter(|entry| entry["method"] == method);
        of_method.map(|entry| entry["params"].clone()).collect()
    }

    fn read_logs(&mut self) {
        let console = self.command("se/log", &json!({"type": "browser"}));
        self.console.extend(console.as_array().unwrap().clone());
        let network = self.command("se/log", &json!({"type": "performance"}));
        for entry in network.as_array().unwrap() {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            self.network.push(message["message"].clone());
        }
    }

    fn devtools(&mut self, method: &str, parameters: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({"cmd": method, "params": parameters}))
    }

    fn try_devtools(&mut self, method: &str, parameters: &Value) -> Option<Value> {
        let path = format!("/session/{}/goog/cdp/execute", self.session);
        let answer = self.exchange("POST", &path, &json!({"cmd": method, "params": parameters}));
        answer["value"]["error"].is_null().then(|| answer["value"].clone())
    }

    fn command(&mut self, command: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{command}", self.session);
        self.send("POST", &path, body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.exchange(method, path, body);
        let value = &answer["value"];
        assert!(value["error"].is_null(), "{method} {path}: {}", value["message"]);
        value.clone()
    }

    /// A request to chromedriver.
    fn exchange(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let (_, answer) = read_response(stream);
        serde_json::from_slice(&answer).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.exchange("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        self.driver.kill().unwrap_or_default();
        drop(self.driver.wait());
    }
}

fn capabilities() -> Value {
    let arguments = [
        "--headless=new",
        // Chromium's sandbox does not start for root, and everything that is opened is ours.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        "--hide-scrollbars",
    ];
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }}})
}

/// Reads a response whose length is known, or that ends with its connection.
pub(crate) fn read_response(stream: TcpStream) -> (String, Vec<u8>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length.trim().parse().unwrap(), 0);
            stream.read_exact(&mut body).unwrap();
        }
        None => drop(stream.read_to_end(&mut body).unwrap()),
    }
    (head, body)
}
