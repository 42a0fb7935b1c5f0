//! Rows that write down what upstream did, and its state machine.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::Timestamp;
use keyfob_client::{Authenticator, Behaviour};
use keyfob_exec::Clock as _;
use serde_json::{Value, json};

use super::{
    layer::Server,
    theatre::{Pair, Theatre, answer},
};
use crate::{Check, client_connections, fact, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/derived_edge_cases.json", "state_machine", state_machine),
    ("client/go_verified_extra.json", "observations", observation),
];

fn observation(file: &Value, row: &Value) -> Result<(), String> {
    let case = text(row, "case");
    let observed = &row["observed"];
    if let Some(stamp) = case.strip_prefix("expiry.zero ") {
        return zero_expiry(stamp, observed);
    }
    if let Some(kind) = case.strip_prefix("token ").and_then(|rest| rest.strip_suffix(" request")) {
        return token_request(kind, observed);
    }
    if let Some(change) = case.strip_prefix("sm.conn ") {
        rotation(change, observed)?;
        return client_connections::connections(file, change, observed);
    }
    match case {
        "exec_info.plain" => exec_info(observed),
        "expiry.already_expired direct" => already_expired(observed),
        "failing plugin 5 goroutines" => shared_failure(observed),
        "grandchild holds stdout 2s" => held_pipe(),
        "single flight 50 goroutines" => single_flight(observed),
        "sm.401 forever" => always_refused(observed),
        "sm.401_refresh_fails" => refresh_fails(),
        "sm.403" => forbidden(observed),
        "sm.concurrent_401" => concurrent_refusals(observed),
        "sm.expiry_before_parse first fetch" => expiry_before_parse(observed),
        "sm.own Authorization header" => {
            own_header(observed)?;
            client_connections::own_header(file, observed)
        }
        "sm.refresh_fails_after_expiry" => fails_after_expiry(observed),
        "sm.clock_skew new cert each run" | "sm.clock_skew same cert each run" => {
            clock_skew()?;
            client_connections::clock_skew(file, case.contains("new cert"))
        }
        "sm.inflight killed on rotation" => client_connections::in_flight(file),
        _ => Err("no such script".to_owned()),
    }
}

fn state_machine(_file: &Value, row: &Value) -> Result<(), String> {
    match text(row, "case") {
        "refresh fails after expiry" => fails_after_expiry(&row["observed"]),
        "401 then refresh fails" => refresh_fails(),
        "plugin returns same cert PEM again" => rotated("same cert PEM again", false),
        case if case.starts_with("token-only then token+cert") => {
            rotated("token -> token and cert", true)?;
            rotated("cert -> token only", true)?;
            rotated("same leaf, longer chain", true)
        }
        _ => clock_skew(),
    }
}

/// A plugin that prints this, and its authenticator.
fn printing(status: &Value) -> (Theatre, Authenticator) {
    let theatre = Theatre::new();
    let config = theatre.plug();
    theatre.prints(answer(status));
    let authenticator = theatre.authenticator(&config, None);
    (theatre, authenticator)
}

fn exec_info(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "t" }));
    theatre
        .script("plug", "printf %s \"$KUBERNETES_EXEC_INFO\" > \"$0.info\"\nexec cat \"$0.out\"");
    block_on(authenticator.credential()).map_err(|error| error.to_string())?;
    let info = std::fs::read_to_string(theatre.folder.path().join("plug.info")).unwrap();
    same(&Some(info.as_str()), &observed.as_str())
}

fn zero_expiry(stamp: &str, observed: &Value) -> Result<(), String> {
    let stamp: Value = serde_json::from_str(stamp).unwrap();
    let (theatre, authenticator) = printing(&json!({ "token": "t", "expirationTimestamp": stamp }));
    for _ in 0..3 {
        block_on(authenticator.credential()).map_err(|error| error.to_string())?;
    }
    let none = authenticator.status().credential.is_some_and(|found| found.expiration().is_none());
    let ours = format!("runs={} nil nil nil isZero={none}", theatre.runs());
    same(&Some(ours.as_str()), &observed.as_str())
}

fn already_expired(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) =
        printing(&json!({ "token": "old", "expirationTimestamp": "2006-01-02T15:04:05Z" }));
    let mut runs = Vec::new();
    for _ in 0..2 {
        let found = block_on(authenticator.credential()).map_err(|error| error.to_string())?;
        same(found.token().unwrap().expose().as_str(), "old")?;
        runs.push(theatre.runs());
    }
    let ours = format!("token=old err=nil runs after 1={} after 2={}", runs[0], runs[1]);
    same(&Some(ours.as_str()), &observed.as_str())
}

/// So many callers at once, and what each got.
fn ask_all(authenticator: &Authenticator, count: usize) -> Vec<Result<u64, String>> {
    block_on(async {
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..count {
            let authenticator = authenticator.clone();
            asking.spawn(async move {
                let asked = authenticator.credential().await;
                asked.map(|found| found.generation()).map_err(|error| error.to_string())
            });
        }
        asking.join_all().await
    })
}

/// Differs: upstream runs a plugin that fails once for each caller that waits.
fn shared_failure(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({}));
    let answers = ask_all(&authenticator, 5);
    fact("errors", &answers.iter().filter(|each| each.is_err()).count(), &5)?;
    fact("upstream", &observed.as_str().unwrap().starts_with("runs=5"), &true)?;
    fact("runs", &theatre.runs(), &1)
}

/// Differs: upstream waits for whoever holds the pipe.
fn held_pipe() -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "t" }));
    theatre.script("plug", "cat \"$0.out\"\nsleep 100 &");
    block_on(authenticator.credential()).map(|_| ()).map_err(|error| error.to_string())
}

fn single_flight(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "t" }));
    let answers = ask_all(&authenticator, 50);
    fact("answers", &answers, &vec![Ok(1); 50])?;
    let ours = format!("runs={}", theatre.runs());
    fact("runs", &observed.as_str().unwrap().split(' ').next(), &Some(ours.as_str()))
}

fn always_refused(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "t" }));
    let server = Server::new(|_| 401);
    for _ in 0..5 {
        same(&server.get(&authenticator)?, &401)?;
    }
    let ours = format!("{} requests, runs={}", server.seen.lock().unwrap().len(), theatre.runs());
    same(&Some(ours.as_str()), &observed.as_str())
}

fn forbidden(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "t" }));
    let server = Server::new(|_| 403);
    for _ in 0..3 {
        same(&server.get(&authenticator)?, &403)?;
    }
    let ours = format!("{} requests, runs={}", server.seen.lock().unwrap().len(), theatre.runs());
    same(&Some(ours.as_str()), &observed.as_str())
}

/// The 401 is handed on, the old credential stays, and is used.
fn refresh_fails() -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "one" }));
    let wants = Arc::new(Mutex::new("another".to_owned()));
    let server = Server::wanting(&wants);
    block_on(authenticator.credential()).map_err(|error| error.to_string())?;
    theatre.prints("exit 7");
    fact("first", &(server.get(&authenticator)?, theatre.runs()), &(401, 2))?;
    "one".clone_into(&mut wants.lock().unwrap());
    fact("second", &(server.get(&authenticator)?, theatre.runs()), &(200, 2))
}

fn concurrent_refusals(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "one" }));
    block_on(authenticator.credential()).map_err(|error| error.to_string())?;
    let before = theatre.runs();
    theatre.prints(answer(&json!({ "token": "two" })));
    let codes = Server::new(|_| 401).get_all(&authenticator, 20);
    fact("codes", &codes, &vec![401; 20])?;
    let token = authenticator.ready().unwrap().token().unwrap().expose().clone();
    let ours = format!("before={before} after={} codes=map[401:20] cached={token}", theatre.runs());
    same(&Some(ours.as_str()), &observed.as_str())
}

/// The error is the same. Differs: the expiry that came with the bad pair is not kept, which shows when there is an older
/// credential.
fn expiry_before_parse(observed: &Value) -> Result<(), String> {
    let bad = json!({
        "token": "one", "clientCertificateData": "c", "clientKeyData": "k",
        "expirationTimestamp": "2000-01-01T00:00:00Z",
    });
    let (theatre, authenticator) = printing(&bad);
    let error = block_on(authenticator.credential()).unwrap_err().to_string();
    theatre.prints(answer(&json!({ "token": "two" })));
    let token = block_on(authenticator.credential()).map_err(|error| error.to_string())?;
    let token = token.token().unwrap().expose().clone();
    let ours = format!("{error} | &{{{token} <nil>}} nil runs={}", theatre.runs());
    same(&Some(ours.as_str()), &observed.as_str())?;
    theatre.prints(answer(&bad));
    block_on(authenticator.refused(2 - 1)).unwrap_err();
    fact("the old credential", &authenticator.ready().is_some(), &true)
}

fn own_header(observed: &Value) -> Result<(), String> {
    let (theatre, authenticator) = printing(&json!({ "token": "t" }));
    let server = Server::new(|_| 200);
    let status = block_on(server.ask(&authenticator, Some("Basic zzz")));
    fact("status", &status.map_err(|error| error.to_string())?, &200)?;
    let seen = format!("auth=\"{}\"", server.seen.lock().unwrap()[0]);
    fact("seen", &observed.as_str().unwrap().contains(&seen), &true)?;
    // Upstream's run was the handshake's.
    fact("runs", &theatre.runs(), &0)
}

fn fails_after_expiry(observed: &Value) -> Result<(), String> {
    let theatre = Theatre::new();
    let config = theatre.plug();
    let end = theatre.clock.now() + Duration::from_mins(1);
    let good = json!({ "token": "one", "expirationTimestamp": Timestamp::from(end).to_string() });
    theatre.prints(answer(&good));
    let authenticator = theatre.authenticator(&config, None);
    let server = Server::new(|_| 200);
    for (number, line) in observed.as_array().unwrap().iter().enumerate() {
        match number {
            2 => {
                theatre.clock.advance(Duration::from_mins(2));
                theatre.prints("exit 3");
            }
            4 => theatre.prints(answer(&json!({ "token": "bad" }))),
            _ => {}
        }
        let ours = match server.get(&authenticator) {
            Ok(status) => status.to_string(),
            Err(error) => format!("ERR Get \"<URL>\": {error}"),
        };
        let (runs, seen) = (theatre.runs(), server.seen.lock().unwrap().clone());
        let cached = authenticator.status().credential.unwrap();
        let cached = cached.token().unwrap().expose().as_str();
        let last = seen.last().map_or("", String::as_str);
        let ours = format!(
            "{ours} runs={runs} cached={cached} requests={} last=auth=\"{last}\" cn=- n=0",
            seen.len()
        );
        same(&Some(ours.as_str()), &Some(theatre.here(line.as_str().unwrap()).as_str()))?;
    }
    Ok(())
}

/// Differs: a fresh credential is used for a while whatever its expiry says, so the plugin is not run for each request.
fn clock_skew() -> Result<(), String> {
    let mut theatre = Theatre::new();
    theatre.behaviour = Behaviour::default();
    let config = theatre.plug();
    let mut status = Pair::new("alice").status();
    status["expirationTimestamp"] = "2000-01-01T00:00:00Z".into();
    theatre.prints(answer(&status));
    let authenticator = theatre.authenticator(&config, None);
    let server = Server::new(|_| 200);
    for _ in 0..4 {
        fact("status", &server.get(&authenticator)?, &200)?;
    }
    fact("runs", &theatre.runs(), &1)
}

/// A token of some kind, in a request.
fn token_request(kind: &str, observed: &Value) -> Result<(), String> {
    let token = match kind {
        "tab" => "a\tb",
        "trailing newline" => "a\n",
        "leading newline" => "\na",
        "carriage return" => "a\rb",
        "NUL" => "a\0b",
        "DEL" => "a\u{7f}b",
        "unicode" => "é日",
        _ if kind.contains("newline") => "a\nb",
        _ if kind.contains("space") => "a b",
        _ => return Err("no such script".to_owned()),
    };
    let (_theatre, authenticator) = printing(&json!({ "token": token }));
    let server = Server::new(|_| 200);
    let ours = match server.get(&authenticator) {
        Ok(status) => {
            let seen = server.seen.lock().unwrap()[0].clone();
            let seen = seen.replace('\t', "\\t");
            format!("{status}[auth=\"{seen}\" cn=- n=0]")
        }
        Err(error) => format!("ERR Get \"<URL>\": {error}"),
    };
    same(&Some(ours.as_str()), &observed.as_str())
}

/// Upstream opened a new connection for the third request if, and only if, the certificate had changed.
fn rotation(change: &str, observed: &Value) -> Result<(), String> {
    let connections = |line: &Value| {
        let line = line.as_str().unwrap();
        line.split(' ').find_map(|word| word.strip_prefix("conns=")).unwrap().to_owned()
    };
    rotated(change, connections(&observed[0]) != connections(&observed[2]))
}

fn rotated(change: &str, wanted: bool) -> Result<(), String> {
    let (alice, bob) = (Pair::new("alice"), Pair::new("bob"));
    let token = json!({ "token": "1" });
    let mut both = alice.status();
    both["token"] = "1".into();
    let mut rewritten = alice.status();
    rewritten["clientCertificateData"] = format!("text\n{}\n", alice.certificate).into();
    let mut longer = alice.status();
    longer["clientCertificateData"] = format!("{}{}", alice.certificate, bob.certificate).into();
    let (before, after) = match change {
        "cert -> empty status" => (alice.status(), json!({})),
        "cert -> token only" => (alice.status(), token),
        "different cert" => (alice.status(), bob.status()),
        "same cert PEM again" => (alice.status(), alice.status()),
        "same leaf, longer chain" => (alice.status(), longer),
        "token -> other token" => (token, json!({ "token": "2" })),
        _ if change.starts_with("same cert, other PEM") => (alice.status(), rewritten),
        _ if change.starts_with("same cert") => (alice.status(), both),
        _ if change.starts_with("token") && change.contains("cert") => (token, both),
        _ if change.starts_with("cert") && change.contains("token") => (alice.status(), both),
        _ => return Err("no such script".to_owned()),
    };
    let (theatre, authenticator) = printing(&before);
    let first = block_on(authenticator.credential()).map_err(|error| error.to_string())?;
    theatre.prints(answer(&after));
    drop(block_on(authenticator.refused(1)));
    fact("runs", &theatre.runs(), &2)?;
    let second = authenticator.ready().ok_or("no credential")?;
    let same = match (first.identity(), second.identity()) {
        (Some(first), Some(second)) => Arc::ptr_eq(first, second),
        (None, None) => true,
        _ => false,
    };
    fact("rotated", &!same, &wanted)
}
