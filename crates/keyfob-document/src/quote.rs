//! YAML's quotes.

use std::fmt::Write as _;

/// A text in YAML's double quotes; what may not stand there is escaped.
///
/// ```
/// assert_eq!(keyfob_document::yaml_quoted("a \"b\"\n"), r#""a \"b\"\n""#);
/// ```
pub fn yaml_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~'
            | '\u{a1}'..='\u{d7ff}'
            | '\u{e000}'..='\u{fefe}'
            | '\u{ff00}'..='\u{fffd}'
                if !matches!(c, '\u{2028}' | '\u{2029}') =>
            {
                out.push(c);
            }
            '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(c)).unwrap_or_default(),
            '\0'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(c)).unwrap_or_default(),
            _ => write!(out, "\\U{:08x}", u32::from(c)).unwrap_or_default(),
        }
    }
    out + "\""
}
