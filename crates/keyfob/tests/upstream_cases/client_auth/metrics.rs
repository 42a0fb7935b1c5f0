//! Rows about what is counted.

use std::time::Duration;

use keyfob_client::{Authenticators, ExecConfig};
use keyfob_exec::Clock as _;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use super::theatre::{Theatre, answer, config, series};
use crate::{Check, fact, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("client/metrics.json", "prometheus", prometheus)];

/// Each metric with the story that its file tells of it.
fn prometheus(file: &Value, row: &Value) -> Result<(), String> {
    match text(row, "name") {
        "rest_client_exec_plugin_call_total" => calls(&file["calls"], row),
        "rest_client_exec_plugin_ttl_seconds" => {
            time_to_live(&file["certificate_expiration_tracker"])
        }
        "rest_client_exec_plugin_certificate_rotation_age" => rotation_age(row),
        // Under one label, and exported: upstream's cannot be.
        _ => {
            let theatre = Theatre::new();
            let authenticators = theatre.authenticators();
            ask(&authenticators, &config(std::path::Path::new("/no/such")));
            let shown = series(&authenticators, text(row, "name"));
            fact("series", &shown, &vec!["status=\"allowed\"} 1".to_owned()])
        }
    }
}

fn ask(authenticators: &Authenticators, config: &ExecConfig) {
    drop(block_on(authenticators.get(config, None).unwrap().credential()));
}

fn calls(calls: &Value, row: &Value) -> Result<(), String> {
    let theatre = Theatre::new();
    let authenticators = theatre.authenticators();
    let counted = || -> u64 {
        let value = |line: String| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        series(&authenticators, text(row, "name")).into_iter().map(value).sum()
    };
    let has = |wanted: &Value| {
        let labels = format!(
            "code=\"{}\",call_status=\"{}\"}}",
            wanted["code"],
            text(wanted, "call_status")
        );
        let shown = series(&authenticators, text(row, "name"));
        fact(&labels, &shown.iter().any(|line| line.starts_with(&labels)), &true)
    };
    let mut wanted = calls["want"].as_array().unwrap().iter();
    for (number, code) in calls["exit_codes_in_order"].as_array().unwrap().iter().enumerate() {
        let script = theatre.script(
            &format!("plugin-{number}"),
            &format!(
                "echo '{}'\nexit {code}",
                answer(&json!({ "token": "t", "expirationTimestamp": "2000-01-01T00:00:00Z" }))
            ),
        );
        for _ in 0..calls["per_authenticator_runs"].as_u64().unwrap() {
            let before = counted();
            ask(&authenticators, &config(&script));
            fact("calls", &counted(), &(before + 1))?;
            has(wanted.next().unwrap())?;
        }
    }
    for row in calls["not_found"].as_array().unwrap() {
        let before = counted();
        ask(&authenticators, &config(std::path::Path::new(text(row, "command"))));
        fact("calls", &counted(), &(before + 1))?;
        has(&row["want"])?;
    }
    Ok(())
}

/// The tracker's steps with real certificates, or with a token in the place of none.
fn time_to_live(tracker: &Value) -> Result<(), String> {
    let theatre = Theatre::new();
    let plug = theatre.plug();
    let authenticators = theatre.authenticators();
    let seconds = |text: &str| -> u64 { text[1..text.len() - 1].parse::<u64>().unwrap() * 60 };
    let held: Vec<_> = [1, 2]
        .map(|number| ExecConfig { args: vec![format!("{number}")], ..plug.clone() })
        .iter()
        .map(|config| authenticators.get(config, None).unwrap())
        .collect();
    for step in tracker["steps"].as_array().unwrap() {
        theatre.prints(match step["expiry"].as_str() {
            Some(end) => pair_ending(&theatre, seconds(end)),
            None => answer(&json!({ "token": "t" })),
        });
        let authenticator = &held[usize::try_from(step["auth"].as_u64().unwrap()).unwrap() - 1];
        let generation = authenticator.status().credential.map_or(0, |found| found.generation());
        block_on(async {
            if generation == 0 {
                authenticator.credential().await.unwrap();
            } else {
                authenticator.refused(generation).await.unwrap();
            }
        });
        let shown = series(&authenticators, "rest_client_exec_plugin_ttl_seconds ");
        let wanted =
            step["want"].as_str().map_or("inf".to_owned(), |end| format!("{}.0", seconds(end)));
        fact(text(step, "desc"), &shown, &vec![wanted])?;
    }
    Ok(())
}

fn pair_ending(theatre: &Theatre, seconds: u64) -> String {
    let since = theatre.clock.now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.not_after = date_time_ymd(1970, 1, 1) + since + Duration::from_secs(seconds);
    let certificate = params.self_signed(&key).unwrap().pem();
    answer(&json!({ "clientCertificateData": certificate, "clientKeyData": key.serialize_pem() }))
}

fn rotation_age(row: &Value) -> Result<(), String> {
    let shown = series(&Theatre::new().authenticators(), &format!("{}_bucket", text(row, "name")));
    let bound = |line: &String| line.split('"').nth(1).unwrap().to_owned();
    let ours: Vec<String> = shown.iter().map(bound).collect();
    let number = |bound: &Value| format!("{}.0", bound.as_u64().unwrap());
    let mut wanted: Vec<String> = row["buckets"].as_array().unwrap().iter().map(number).collect();
    wanted.push("+Inf".to_owned());
    fact("buckets", &ours, &wanted)
}
