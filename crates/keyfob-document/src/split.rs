//! A text of several documents.

use super::looks_like_json;

/// The documents of a text: one of JSON, any number of YAML, where `---` at the start of a line begins one, wherever it
/// stands. Those that are empty are left out.
///
/// ```
/// use keyfob_document::documents;
///
/// assert_eq!(documents(b"a: 1\n---\n---\nb: 2\n"), [&b"a: 1\n"[..], b"---\n", b"---\nb: 2\n"]);
/// assert_eq!(documents(b"{\"a\": 1}\n"), [b"{\"a\": 1}\n"]);
/// ```
pub fn documents(text: &[u8]) -> Vec<&[u8]> {
    if looks_like_json(text) {
        return vec![text];
    }
    let (mut documents, mut start, mut end) = (Vec::new(), 0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if begins(line) {
            documents.extend(text.get(start..end));
            start = end;
        }
        end += line.len();
    }
    documents.extend(text.get(start..));
    documents.retain(|document| !document.trim_ascii().is_empty());
    documents
}

fn begins(line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"---");
    rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}
