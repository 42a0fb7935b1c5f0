//! Rows that tell a story.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::Timestamp;
use keyfob_client::ExecConfig;
use keyfob_exec::Clock as _;
use serde_json::{Value, json};

use super::{
    layer::Server,
    theatre::{Theatre, answer, config},
};
use crate::{Check, client_connections, fact, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("client/scenarios_unit.json", "cases", scenario)];

fn scenario(_file: &Value, row: &Value) -> Result<(), String> {
    match text(row, "name") {
        "TestRoundTripper" => round_trips(row),
        "TestAuthorizationHeaderPresentCancelsExecAction" => own_header(row),
        "TestInstallHintRateLimit" => install_hint(row),
        "TestExecTLSCache" => {
            shared()?;
            client_connections::shared()
        }
        "TestTLSCredentials" => client_connections::credentials(),
        "connrotation.TestCloseAll" => client_connections::close_all(),
        _ => Err("no such story".to_owned()),
    }
}

fn round_trips(row: &Value) -> Result<(), String> {
    let theatre = Theatre::new();
    let config = theatre.plug();
    let authenticator = theatre.authenticator(&config, None);
    let wants = Arc::new(Mutex::new(String::new()));
    let server = Server::wanting(&wants);
    for step in row["steps"].as_array().unwrap() {
        if let Some(advance) = step["advance_clock"].as_str() {
            let hours: u64 = advance.trim_end_matches('h').parse().unwrap();
            theatre.clock.advance(Duration::from_hours(hours));
        }
        if let Some(token) = step["plugin_returns"]["token"].as_str() {
            let mut status = json!({ "token": token });
            if step["plugin_returns"].get("expirationTimestamp").is_some() {
                let end = theatre.clock.now() + Duration::from_hours(1);
                status["expirationTimestamp"] = Timestamp::from(end).to_string().into();
            }
            theatre.prints(answer(&status));
        }
        if let Some(token) = step["server_wants"].as_str() {
            token.clone_into(&mut wants.lock().unwrap());
        }
        fact("status", &server.get(&authenticator)?, &step["request_status"])?;
    }
    Ok(())
}

/// A request that brings its own `Authorization` runs nothing. That nothing is wired at all is for the transports.
fn own_header(row: &Value) -> Result<(), String> {
    let theatre = Theatre::new();
    let config = theatre.plug();
    let authenticator = theatre.authenticator(&config, None);
    let server = Server::new(|_| 200);
    for case in row["subcases"].as_array().unwrap() {
        let own =
            match (case["static"]["bearerToken"].as_str(), case["static"]["username"].as_str()) {
                (Some(token), _) => format!("Bearer {token}"),
                (_, Some(_)) => "Basic bWFyc2htYWxsb3c6emVsZGE=".to_owned(),
                _ => continue,
            };
        let status = block_on(server.ask(&authenticator, Some(&own)));
        fact("status", &status.map_err(|error| error.to_string())?, &200)?;
        fact("seen", &server.seen.lock().unwrap().last().cloned(), &Some(own))?;
    }
    fact("runs", &theatre.runs(), &0)
}

/// The rows' thresholds and intervals are for tests; ours are those of production, so everything is done in proportion.
fn install_hint(row: &Value) -> Result<(), String> {
    let production = &row["production_values"];
    let threshold = production["threshold"].as_u64().unwrap();
    for case in row["subcases"].as_array().unwrap() {
        let number = |field: &str| case[field].as_u64().unwrap();
        let times = threshold / number("threshold");
        let small = |field: &str| u32::try_from(number(field)).unwrap();
        let step = Duration::from_hours(1) * small("advance_per_call_s") / small("interval_s");
        let theatre = Theatre::new();
        let given = &row["config"];
        let config = ExecConfig {
            command: text(given, "command").into(),
            api_version: text(given, "apiVersion").into(),
            interactive_mode: text(given, "interactiveMode").into(),
            install_hint: text(given, "installHint").into(),
            ..config(std::path::Path::new(""))
        };
        let authenticator = theatre.authenticator(&config, None);
        let mut shown = 0;
        for _ in 0..number("calls") {
            for _ in 0..times {
                let error = block_on(authenticator.credential()).unwrap_err().to_string();
                shown += u64::from(error.contains(text(given, "installHint")));
            }
            theatre.clock.advance(step);
        }
        fact("hints", &shown, &(number("want_hint_count") * times))?;
    }
    Ok(())
}

/// Equal configurations have one authenticator, and so one identity for all handshakes.
fn shared() -> Result<(), String> {
    let theatre = Theatre::new();
    let config = theatre.plug();
    theatre.prints(answer(&json!({ "token": "t" })));
    let authenticators = theatre.authenticators();
    let another =
        ExecConfig { args: vec!["make this exec auth different".into()], ..config.clone() };
    for (config, runs) in [(config.clone(), 1), (config, 1), (another, 2)] {
        block_on(authenticators.get(&config, None).unwrap().credential()).unwrap();
        same(&theatre.runs(), &runs)?;
    }
    Ok(())
}
