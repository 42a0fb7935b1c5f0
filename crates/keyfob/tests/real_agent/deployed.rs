//! The example file and the page that documents it. Needs no real parts.

use std::{fs, path::Path};

use serde_json::Value;

use crate::docker_registry::run;

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).to_str().unwrap().to_owned()
}

#[test]
fn the_example_files_are_valid() {
    for file in ["systemd/agent.yaml", "agent/agent.yaml", "agent/providers.yaml"] {
        let file = repository(&format!("deploy/{file}"));
        let validated = run(env!("CARGO_BIN_EXE_keyfob"), &["validate", &file]);
        assert!(validated.status.success(), "{}", String::from_utf8_lossy(&validated.stderr));
    }
}

#[test]
fn the_page_describes_every_field_of_the_file() {
    let page = fs::read_to_string(repository("docs/agent.md")).unwrap();
    let schema = run(env!("CARGO_BIN_EXE_keyfob"), &["agent", "schema"]).stdout;
    let mut fields = Vec::new();
    collect(&serde_json::from_slice(&schema).unwrap(), &mut fields);
    let is_missing = |field: &&String| {
        !page.contains(&format!("`{field}`")) && !page.contains(&format!(".{field}`"))
    };
    let missing: Vec<_> = fields.iter().filter(is_missing).collect();
    assert!(fields.len() > 30 && missing.is_empty(), "{missing:?} of {fields:?}");
}

/// The names of all fields of a JSON schema that have no fields themselves.
fn collect(schema: &Value, fields: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, field) in properties {
            let inner = if field["items"].is_object() { &field["items"] } else { field };
            if inner["properties"].is_null() {
                fields.push(name.clone());
            }
            collect(inner, fields);
        }
    }
}
