//! `get`, `explain` and `agent` with a running agent, and without one.

use std::{
    fs::{self, Permissions},
    io::{BufRead as _, BufReader, Read as _},
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, net::UnixListener},
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    },
};
use serde_json::{Value, json};

use crate::{
    node::{Said, keyfob, program},
    running_agent::{
        IMAGE, OTHER, PASSWORD, RunningAgent, agent_file, is_root, node, own_rule, own_uid,
    },
};

fn help() -> String {
    format!(
        "add a rule to the agent's file; root sees why: sudo keyfob agent explain --as uid:{} s.example/team/app",
        own_uid()
    )
}

fn denial() -> String {
    format!("no rule allows s.example/team/app to user id {}", own_uid())
}

/// A command that finds this agent by itself.
fn ask_automatically(socket: &str, args: &[&str]) -> Said {
    program().args(args).env("KEYFOB_AGENT_SOCKET", socket).output().unwrap().into()
}

#[test]
fn commands_share_the_cache_of_the_agent_and_say_so() {
    let agent = RunningAgent::start();
    let socket = agent.socket();

    let said = agent.ask("get", &[IMAGE]);
    assert_eq!(
        (said.code, said.stdout.as_str(), said.stderr),
        (
            0,
            "ORDER  PROVIDER  KEY                 USERNAME  PASSWORD\n\
             1      plugin    r.example/team/app  ada       ***\n",
            format!("keyfob: credentials from the agent at {socket}, rule own\n")
        )
    );
    let said = agent.ask("get", &[IMAGE, "-o", "json"]);
    let login = json!({"provider": "plugin", "key": "r.example/team/app", "username": "ada", "password": "***"});
    let want = json!({
        "image": IMAGE, "credentials": [login], "errors": [], "agent": {"socket": socket, "rule": "own"},
    });
    assert_eq!((said.code, said.json(), said.stderr.as_str()), (0, want, ""));
    assert_eq!(agent.runs(), 1);
}

#[test]
fn passwords_are_shown_when_asked_for() {
    let agent = RunningAgent::start();
    let said = keyfob(&["get", IMAGE, "--agent", &agent.socket(), "--show-secrets", "-o", "json"]);
    assert_eq!(said.json()["credentials"][0]["password"], PASSWORD);
}

#[test]
fn a_denied_caller_is_told_why_and_what_to_do() {
    let agent = RunningAgent::start();
    let socket = agent.socket();

    let said = agent.ask("get", &[OTHER]);
    let told = format!("keyfob: {} (asked the agent at {socket})\nhelp: {}\n", denial(), help());
    assert_eq!((said.code, said.stdout.as_str(), said.stderr), (1, "", told));

    let said = agent.ask("get", &[OTHER, "-o", "json"]);
    let refused = json!({"socket": socket, "error": denial(), "help": help()});
    let want = json!({"image": OTHER, "credentials": [], "errors": [], "agent": refused});
    assert_eq!((said.code, said.json(), said.stderr.as_str()), (1, want, ""));
    assert_eq!(agent.runs(), 0);
}

#[test]
fn an_image_of_no_provider_has_no_credentials() {
    let agent = RunningAgent::start();
    let said = agent.ask("get", &["nginx"]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.starts_with("keyfob: no provider matches docker.io/library/nginx "));
}

#[test]
fn an_agent_that_does_not_run_is_the_first_thing_said() {
    let node = node();
    let socket = node.path("agent.sock").to_str().unwrap().to_owned();
    for command in ["get", "pull"] {
        let dest = node.path("images");
        let dest = if command == "pull" { vec![dest.to_str().unwrap()] } else { Vec::new() };
        let said = keyfob(&[&[command, "--agent", &socket, IMAGE], &dest[..]].concat());
        let mut lines = said.stderr.lines();
        let first = lines.next().unwrap();
        assert!(first.starts_with(&format!("keyfob: the agent is not running: {socket}: ")));
        assert!(lines.next().unwrap().starts_with("help: start it with `systemctl start "));
        assert_eq!((said.code, said.stdout.as_str(), lines.next()), (2, "", None));
    }
    let said = keyfob(&["explain", "--agent", &socket, IMAGE]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    let first = format!("no credentials: the agent is not running: {socket}: ");
    assert!(said.stdout.starts_with(&first), "{}", said.stdout);
}

#[test]
fn an_agent_is_asked_by_itself_only_if_no_flag_names_another_source() {
    let agent = RunningAgent::start();
    let socket = agent.socket();

    let said = ask_automatically(&socket, &["get", IMAGE]);
    assert_eq!(said.code, 0);
    assert!(said.stderr.starts_with("keyfob: credentials from the agent at "), "{}", said.stderr);

    let (config, plugins) = (agent.node.config(), agent.node.path("plugins"));
    let local = ["--config", &config, "--bin-dir", plugins.to_str().unwrap()];
    let said = ask_automatically(&socket, &[&["get", IMAGE], &local[..]].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(agent.runs(), 2, "one of the agent, one of the command");

    let said = ask_automatically(&socket, &["get", IMAGE, "--agent", "off"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with("keyfob: nowhere to look for credentials: "));

    let said = agent.ask("get", &[&[IMAGE], &local[..]].concat());
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with("keyfob: --agent PATH asks the agent alone: "));
}

#[test]
fn a_socket_that_a_dead_agent_left_is_no_reason_to_find_nothing_silently() {
    let node = node();
    let path = node.path("agent.sock");
    drop(UnixListener::bind(&path).unwrap());
    let said = ask_automatically(path.to_str().unwrap(), &["get", IMAGE]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with("keyfob: the agent is not running: "), "{}", said.stderr);
}

#[test]
fn an_agent_that_cannot_be_reached_is_not_said_to_be_down() {
    let node = node();
    let path = node.path("agent.sock");
    let socket = path.to_str().unwrap();
    let (_listener, _queued) = full_listener(&path);
    let said = keyfob(&["get", "--agent", socket, IMAGE]);
    let expected = format!(
        "keyfob: the agent is busy, and its queue of connections is full: {socket}\n\
         help: its log may tell why: journalctl -u keyfob-agent\n"
    );
    assert_eq!((said.code, said.stderr), (2, expected));
    // Another agent does not wait for it either.
    let file = agent_file(&node, &own_rule("r.example"));
    let said = keyfob(&["serve", "--config", &file]);
    let expected = format!("keyfob: another agent listens on {socket}\nhelp: stop it, or ");
    assert!(said.code == 2 && said.stderr.starts_with(&expected), "{}", said.stderr);

    if !is_root() {
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        let said = keyfob(&["get", "--agent", socket, IMAGE]);
        let expected = format!("keyfob: no access to the agent: {socket}: Permission denied");
        assert!(said.stderr.starts_with(&expected), "{}", said.stderr);
        assert!(said.stderr.contains("\nhelp: its configuration sets the mode of the socket: "));
    }
    let said = keyfob(&["get", "--agent", &format!("{socket}/agent.sock"), IMAGE]);
    let expected = format!("keyfob: cannot connect to the agent: {socket}/agent.sock: ");
    assert!(said.stderr.starts_with(&expected), "{}", said.stderr);
}

/// A listener that accepts nothing, with the connections that fill its queue.
fn full_listener(path: &Path) -> (OwnedFd, Vec<OwnedFd>) {
    let address = SocketAddrUnix::new(path).unwrap();
    let socket = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    };
    let listener = socket();
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let mut queued = Vec::new();
    loop {
        let client = socket();
        match connect(&client, &address) {
            Ok(()) => queued.push(client),
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                return (listener, queued);
            }
        }
    }
}

#[test]
fn explain_tells_which_rule_decided() {
    let agent = RunningAgent::start();
    let (socket, uid) = (agent.socket(), own_uid());

    let said = agent.ask("explain", &[IMAGE]);
    let want = format!(
        "1 credential: ada from plugin\n\n  \
         agent        {socket}, rule own\n  \
         image        {IMAGE}\n  \
         repository   r.example/team/app\n\n\
         the agent's rules\n  \
         allowed: r.example/team/app for user id {uid}\n  \
         provider plugin: rule \"own\" says Allow\n\n\
         credentials, in the order in which they are tried\n  \
         1. user ada from plugin for r.example/team/app\n"
    );
    assert_eq!((said.code, said.stdout), (0, want));

    let said = agent.ask("explain", &[OTHER]);
    let want = format!(
        "no credentials: {}\n\n  \
         agent        {socket}\n    \
         do         {}\n  \
         image        {OTHER}\n  \
         repository   s.example/team/app\n\n\
         the agent's rules\n  \
         denied: s.example/team/app for user id {uid}\n  \
         provider plugin: no rule applies, so it is denied\n    \
         rule \"own\" does not apply: none of its patterns matches the image\n\n\
         credentials, in the order in which they are tried\n  \
         none that this command can find out\n",
        denial(),
        help()
    );
    assert_eq!((said.code, said.stdout), (1, want));

    let said = agent.ask("explain", &[OTHER, "-o", "json"]);
    let (json, refused) =
        (said.json(), json!({"socket": socket, "error": denial(), "help": help()}));
    assert_eq!((&json["agent"], json.get("anonymous")), (&refused, None));
    assert_eq!(json["rules"]["providers"][0]["decision"], "Deny");
}

#[test]
fn agent_explain_tells_about_the_caller_and_root_about_others() {
    let agent = RunningAgent::start();
    let socket = agent.socket();
    let explain =
        |args: &[&str]| keyfob(&[&["agent", "explain", "--socket", &socket], args].concat());

    let said = explain(&[IMAGE]);
    let uid = own_uid();
    let want =
        format!("allowed: {IMAGE} for user id {uid}\nprovider plugin: rule \"own\" says Allow\n");
    assert_eq!((said.code, said.stdout), (0, want));

    let said = explain(&["--as", "uid:4242", IMAGE]);
    let want = format!(
        "denied: {IMAGE} for uid:4242\nprovider plugin: no rule applies, so it is denied\n  \
         rule \"own\" does not apply: user id 4242 is not listed\n"
    );
    if is_root() {
        assert_eq!((said.code, said.stdout), (1, want));
    } else {
        let want =
            "keyfob: only root may ask about other callers\nhelp: use sudo, or leave out --as\n";
        assert_eq!((said.code, said.stderr.as_str()), (2, want));
    }
}

#[test]
fn the_status_is_followed_and_printed_when_it_changes() {
    let agent = RunningAgent::start();
    let admin = agent.admin_socket();
    let mut command = program();
    command.args(["agent", "status", "--watch", "-o", "json", "--socket", &admin]);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    if !is_root() {
        assert_eq!(watching.wait().unwrap().code(), Some(2));
        return;
    }
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["decisions"], json!([]));

    agent.ask("get", &[IMAGE]);

    let mut status = next();
    while status["decisions"] == json!([]) {
        status = next();
    }
    assert_eq!(status["decisions"][0]["image"], "r.example/team/app");
    drop(agent);
    // It may have been killed in the middle of an answer.
    let is_down = |error: &Value| {
        error.as_str().is_some_and(|error| error.starts_with("the agent is not running: "))
    };
    while !is_down(&next()["error"]) {}
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the terminal of the program under test")]
fn in_a_terminal_each_new_status_clears_the_screen() {
    if !is_root() {
        println!("NOT RUN: only root may follow the status");
        return;
    }
    let agent = RunningAgent::start();
    let watch = format!(
        "exec {} agent status --watch --socket {}",
        env!("CARGO_BIN_EXE_keyfob"),
        agent.admin_socket()
    );
    // It has a terminal for the command.
    let mut watching = Command::new("script")
        .args(["--quiet", "--flush", "--command", &watch, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut terminal = watching.stdout.take().unwrap();
    let mut screens_with = |text: &str| {
        let mut written = String::new();
        while !written.contains(text) {
            let mut bytes = [0; 4096];
            let count = terminal.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "no {text:?}: {written}");
            written += &String::from_utf8_lossy(bytes.get(..count).unwrap());
        }
        written
    };
    let first =
        screens_with("last hour  0 responses, 0 refused, 0 failed; 0 plugin runs, 0 failed");
    agent.ask("get", &[IMAGE]);
    let second = screens_with("1 response, 0 refused, 0 failed; 1 plugin run, 0 failed");
    watching.kill().unwrap();
    watching.wait().unwrap();

    let clear = "\u{1b}[H\u{1b}[2J\u{1b}[3J";
    for screen in [first, second] {
        assert!(screen.contains(&format!("{clear}keyfob agent ")), "{screen}");
    }
}

#[test]
fn the_status_is_for_root() {
    let agent = RunningAgent::start();
    agent.ask("get", &[IMAGE]);
    let admin = agent.admin_socket();

    let said = keyfob(&["agent", "status", "--socket", &admin, "-o", "json"]);

    if !is_root() {
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        return;
    }
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let status = said.json();
    assert_eq!(status["rules"], json!(["own"]));
    let provider = &status["providers"][0];
    assert_eq!((&provider["name"], &provider["cachedAnswers"]), (&json!("plugin"), &json!(1)));

    let table = keyfob(&["agent", "status", "--socket", &admin]);
    for part in [
        "\nprovider plugin: working\n  patterns   *.example\n  last run   ",
        "\n  cache      1 cached answer, the first expires in ",
        "\ncached answers\n  KEY        PROVIDER  FOR        EXPIRES\n  r.example  plugin    everybody  in ",
        "  allowed  r.example/team/app  user 0, ",
    ] {
        assert!(table.stdout.contains(part), "{part}: {}", table.stdout);
    }
    let forgotten = keyfob(&["agent", "forget", "--socket", &admin]);
    assert_eq!((forgotten.code, forgotten.stdout.as_str()), (0, "forgot 1 cached answer\n"));
    let reloaded = keyfob(&["agent", "reload", "--socket", &admin]);
    assert_eq!(reloaded.code, 0, "{}", reloaded.stderr);
    assert!(reloaded.stdout.starts_with("the new configuration is in use\n"));
}
