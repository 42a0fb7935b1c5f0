//! What a server says is wrong.

use serde::Deserialize;

/// How OAuth, Google and others say what is wrong.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Complaint {
    error: serde_json::Value,
    error_description: String,
    message: String,
}

/// What the body of a failure says, if it says it as OAuth and others do. It may be long, and it may quote a secret.
pub fn complaint(body: &[u8]) -> String {
    let Ok(complaint) = serde_json::from_slice::<Complaint>(body) else { return String::new() };
    let error = match &complaint.error {
        serde_json::Value::String(code) => code.as_str(),
        object => object.get("message").and_then(|text| text.as_str()).unwrap_or_default(),
    };
    let said = [error, &complaint.error_description, &complaint.message];
    let said: Vec<_> = said.into_iter().filter(|said| !said.is_empty()).collect();
    said.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_found_where_servers_write_it() {
        let rows = [
            (r#"{"error":"denied","error_description":"no such user"}"#, "denied: no such user"),
            (r#"{"error":{"code":403,"message":"not yours"}}"#, "not yours"),
            (r#"{"message":"Forbidden"}"#, "Forbidden"),
            (r#"{"error":7}"#, ""),
            ("<html>", ""),
        ];
        for (body, expected) in rows {
            assert_eq!(complaint(body.as_bytes()), expected, "{body}");
        }
    }
}
