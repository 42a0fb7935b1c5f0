//! The environment a plugin is started with.

use std::{collections::HashSet, ffi::OsString};

use keyfob_exec::overlay;
use serde_json::Value;

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("kubelet/exec_wire.json", "Test_ExecPluginEnvVars", overlaid)];

fn overlaid(_: &Value, row: &Value) -> Result<(), String> {
    let host = strings(&row["system_env"]).into_iter().map(|entry| {
        let (name, value) = entry.split_once('=').unwrap();
        (name.into(), value.into())
    });
    let configured =
        row["config_env"].as_array().unwrap().iter().map(|entry| {
            (OsString::from(text(entry, "Name")), OsString::from(text(entry, "Value")))
        });

    let ours: Vec<String> =
        overlay(host, configured).into_iter().map(|entry| entry.into_string().unwrap()).collect();

    fact("environment", &ours, &last_of_each_name(&strings(&row["expected_env"])))
}

/// Upstream's list still holds every duplicate; its spawn keeps the last of a name.
fn last_of_each_name(entries: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let last = |entry: &&String| seen.insert(entry.split('=').next().map(str::to_owned));
    let mut kept: Vec<String> = entries.iter().rev().filter(last).cloned().collect();
    kept.reverse();
    kept
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().cloned().unwrap_or_default();
    list.iter().map(|entry| entry.as_str().unwrap().to_owned()).collect()
}
