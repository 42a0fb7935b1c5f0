//! The JSON schema of an agent's file, for editors.

use serde_json::{Map, Value, json};

use super::fields::{AGENT, FieldSpec, Sort};

/// The JSON schema (draft 2020-12) of an agent's file.
pub fn agent_config_schema() -> Value {
    let mut schema = object(AGENT);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        fields.insert("title".to_owned(), json!("The configuration of the Keyfob node agent"));
    }
    schema
}

fn object(fields: &[FieldSpec]) -> Value {
    let required = fields.iter().filter(|field| field.required);
    let required: Vec<&str> = required.map(|field| field.name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if let (Value::Object(schema), false) = (&mut schema, required.is_empty()) {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn property(field: &FieldSpec) -> Value {
    let mut schema = match &field.sort {
        Sort::Text => json!({"type": "string", "minLength": 1}),
        Sort::Path => json!({"type": "string", "pattern": "^/"}),
        Sort::Mode => json!({"type": "string", "pattern": "^0?[0-7]{3}$"}),
        Sort::Choice(choices) => json!({"enum": choices}),
        Sort::Bool => json!({"type": "boolean"}),
        Sort::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Sort::Duration => json!({"type": "string", "pattern": "^([0-9.]+(ns|us|µs|ms|s|m|h))+$"}),
        Sort::Texts => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
        Sort::Ids => {
            json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}})
        }
        Sort::Object(fields) => object(fields),
        Sort::Objects(fields) => json!({"type": "array", "items": object(fields)}),
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), json!(field.about));
    }
    schema
}
