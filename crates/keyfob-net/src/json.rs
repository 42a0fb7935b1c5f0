//! What servers answer, as JSON.

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use thiserror::Error;

/// What is wrong with an answer is said by line and column, never by quoting it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the answer is not the JSON that was expected: {wrong} (line {line}, column {column})")]
pub struct NotTheJson {
    wrong: &'static str,
    line: usize,
    column: usize,
}

/// Reads an answer.
pub fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, NotTheJson> {
    serde_json::from_slice(body).map_err(|error| {
        let wrong = match error.classify() {
            Category::Data => "a field is missing or of the wrong type",
            _ => "a syntax error",
        };
        NotTheJson { wrong, line: error.line(), column: error.column() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_never_quoted() {
        let wrong = |body: &str| json::<Vec<u8>>(body.as_bytes()).unwrap_err().to_string();
        let said = "the answer is not the JSON that was expected: ";

        assert_eq!(
            wrong("[\n\"hunter2\"]"),
            format!("{said}a field is missing or of the wrong type (line 2, column 9)")
        );
        assert_eq!(wrong("hunter2"), format!("{said}a syntax error (line 1, column 1)"));
    }
}
