//! JSON as Go writes it: compact, HTML-safe, map keys sorted by the caller.
//!
//! Upstream: `encoding/json` of Go 1.26 with HTML escaping on, as the Kubernetes codecs use it.

use std::fmt;

use crate::{Secret, buffer::WipingBuffer};

/// Writes one JSON text as Go would, value after value: compact and HTML-safe.
///
/// Commas are put where they belong; that keys and values alternate is the caller's care. What was written may be
/// secret: it is hidden in `Debug` and wiped when dropped.
///
/// ```
/// use keyfob_document::JsonWriter;
///
/// let mut json = JsonWriter::default();
/// json.open('{').field("a").string("<").field_unless_empty("b", "").close('}');
/// assert_eq!(json.into_text().expose(), r#"{"a":"\u003c"}"#);
/// ```
#[derive(Default)]
pub struct JsonWriter {
    out: WipingBuffer,
    /// Whether the next value or key follows another one.
    follows: bool,
}

impl JsonWriter {
    /// `{"kind":…,"apiVersion":…` as every Kubernetes object starts.
    pub fn object_of_kind(kind: &str, api_version: &str) -> Self {
        let mut json = Self::default();
        json.open('{');
        json.field("kind").string(kind);
        json.field("apiVersion").string(api_version);
        json
    }

    /// Opens an object or a list.
    pub fn open(&mut self, bracket: char) -> &mut Self {
        self.separate();
        self.out.push(bracket);
        self.follows = false;
        self
    }

    /// Closes it.
    pub fn close(&mut self, bracket: char) -> &mut Self {
        self.out.push(bracket);
        self.follows = true;
        self
    }

    /// The name of a field; its value must follow.
    pub fn field(&mut self, name: &str) -> &mut Self {
        self.string(name);
        self.out.push(':');
        self.follows = false;
        self
    }

    /// A field that is left out when empty.
    pub fn field_unless_empty(&mut self, name: &str, value: &str) -> &mut Self {
        if !value.is_empty() {
            self.field(name).string(value);
        }
        self
    }

    /// A field that is left out when false.
    pub fn field_if_true(&mut self, name: &str, value: bool) -> &mut Self {
        if value {
            self.field(name).raw("true");
        }
        self
    }

    /// A string.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.separate();
        self.out.push('"');
        let mut written = 0;
        for (at, c) in value.char_indices() {
            let Some(escape) = escape_of(c) else {
                continue;
            };
            self.push_between(value, written, at);
            self.out.push_str(&escape);
            written = at + c.len_utf8();
        }
        self.push_between(value, written, value.len());
        self.out.push('"');
        self
    }

    /// A literal, a number, or JSON that is already as it should be.
    pub fn raw(&mut self, json: &str) -> &mut Self {
        self.separate();
        self.out.push_str(json);
        self
    }

    /// The whole text.
    pub fn into_text(self) -> Secret<String> {
        self.out.into_text()
    }

    fn finish(self) -> Secret<Vec<u8>> {
        self.out.into_bytes()
    }

    /// The text as a line: what Go's encoders write to a stream.
    pub fn finish_line(mut self) -> Secret<Vec<u8>> {
        self.out.push('\n');
        self.finish()
    }

    fn separate(&mut self) {
        if self.follows {
            self.out.push(',');
        }
        self.follows = true;
    }

    fn push_between(&mut self, text: &str, from: usize, to: usize) {
        self.out.push_str(text.get(from..to).unwrap_or_default());
    }
}

impl fmt::Debug for JsonWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonWriter(..)")
    }
}

fn escape_of(c: char) -> Option<String> {
    let short = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\0'..='\x1f' => return Some(format!("\\u{:04x}", u32::from(c))),
        _ => return html_escape(c).map(str::to_owned),
    };
    Some(short.to_owned())
}

/// What Go escapes so that JSON may stand inside HTML and `JavaScript`.
fn html_escape(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("\\u003c"),
        '>' => Some("\\u003e"),
        '&' => Some("\\u0026"),
        '\u{2028}' => Some("\\u2028"),
        '\u{2029}' => Some("\\u2029"),
        _ => None,
    }
}

/// Valid JSON without white space between its tokens, HTML-safe, everything else (escapes, numbers, order) as it was.
pub(crate) fn compact(json: &str) -> Secret<String> {
    let mut out = WipingBuffer::default();
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if !in_string && matches!(c, ' ' | '\t' | '\r' | '\n') {
            continue;
        }
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && c == '\\' && !escaped;
        match html_escape(c) {
            Some(escape) => out.push_str(escape),
            None => out.push(c),
        }
    }
    out.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &str) -> String {
        let mut json = JsonWriter::default();
        json.string(value);
        json.into_text().expose().clone()
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        assert_eq!(
            string("<a>&\u{2028}\u{2029}\"\\\u{8}\u{c}\n\r\t\u{1}\u{7f}é\u{1f600}"),
            "\"\\u003ca\\u003e\\u0026\\u2028\\u2029\\\"\\\\\\b\\f\\n\\r\\t\\u0001\u{7f}é\u{1f600}\""
        );
    }

    #[test]
    fn commas_stand_between_values_only() {
        let mut json = JsonWriter::default();
        json.open('{').field("a").open('[').raw("1").raw("2").open('{').close('}').close(']');
        json.field("b").string("x").close('}');
        assert_eq!(json.finish_line().expose(), b"{\"a\":[1,2,{}],\"b\":\"x\"}\n");
    }

    #[test]
    fn compacting_keeps_what_is_inside_strings() {
        assert_eq!(
            compact("{ \"k\" : \"a \\\" <\\u0041\\\\\" ,\n\t\"n\": 1.0e2 }").expose(),
            r#"{"k":"a \" \u003c\u0041\\","n":1.0e2}"#
        );
    }
}
