//! Upstream's texts quote the file; here they do so only if there can be no secret in it.
//!
//! Differs: `[redacted]` stands where upstream's text would show a file, or a value of one, that has anything but what
//! every configuration shows openly: names, patterns, durations and versions. Whoever passes the wrong file, such as a
//! cloud's own credentials, finds none of it in an error.

use keyfob_api::REDACTED;
use keyfob_api::document::{Document, Value, YamlError, YamlProblem};

/// Fields whose values are no secrets, in lower case.
const OPEN: [&str; 14] = [
    "apiversion",
    "kind",
    "providers",
    "name",
    "matchimages",
    "imagematchers",
    "defaultcacheduration",
    "tokenattributes",
    "serviceaccounttokenaudience",
    "cachetype",
    "requireserviceaccount",
    "requiredserviceaccountannotationkeys",
    "optionalserviceaccountannotationkeys",
    "serviceaccountannotationkeys",
];

/// The text of a document, to be quoted: all of it or nothing.
pub(super) fn body(text: &[u8], document: &Document) -> String {
    match std::str::from_utf8(text) {
        Ok(plain) if is_open(document) && hides_nothing(plain) => plain.to_owned(),
        _ => REDACTED.to_owned(),
    }
}

/// What Go says about a text that is no YAML. There is no tree to look into, so a value is quoted only if nothing in the
/// text looks like a place for secrets.
pub(super) fn yaml(text: &[u8], error: &YamlError) -> String {
    const PLACES: [&str; 8] = ["arg", "auth", "data", "env", "key", "pass", "secret", "value"];
    let said = error.go_message(text);
    let (before, behind) = match error.problem {
        YamlProblem::TagMismatch => ("`", "` as a "),
        YamlProblem::InvalidKey => ("invalid map key: ", ""),
        YamlProblem::UnsupportedKey => (", value: ", ""),
        YamlProblem::UnknownAnchor | YamlProblem::SelfReference => ("anchor '", "' "),
        _ => return said,
    };
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    if !PLACES.iter().any(|place| text.contains(place)) {
        return said;
    }
    let Some((start, quoted)) = said.split_once(before) else { return said };
    let end = if behind.is_empty() { None } else { quoted.rfind(behind) };
    let end = end.and_then(|end| quoted.get(end..)).unwrap_or_default();
    format!("{start}{before}{REDACTED}{end}")
}

/// Whether every field is one that may be shown. Without recursion, since a file may nest as deep as it likes.
fn is_open(document: &Document) -> bool {
    let mut rest = vec![&document.root];
    while let Some(node) = rest.pop() {
        match &node.value {
            Value::Map(fields) => {
                for field in fields {
                    if !OPEN.contains(&field.name.expose().to_ascii_lowercase().as_str()) {
                        return false;
                    }
                    rest.push(&field.node);
                }
            }
            Value::List(items) => rest.extend(items),
            // A pattern may be a URL with a user and a password in it.
            Value::String(text) if text.expose().contains('@') => return false,
            _ => {}
        }
    }
    document.duplicates.is_empty()
}

/// Whether the tree shows all there is: no further documents, and nothing in a comment that looks like a setting.
fn hides_nothing(text: &str) -> bool {
    let ends = |line: &str| line.starts_with("---") || line.starts_with("...");
    let sets =
        |line: &str| line.split_once('#').is_some_and(|(_, behind)| behind.contains([':', '=']));
    !text.lines().skip(1).any(ends) && !text.lines().any(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        body(text.as_bytes(), &Document::read(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_text_without_secrets_is_quoted_to_the_letter() {
        for text in [
            "",
            "# nothing\n",
            "---\nKIND: b\r\n# c\n",
            "providers:\n- name: p\n  matchImages: ['*.io', \"r.io\"]\n  tokenAttributes: {cacheType: Token}\n",
            "{\"apiVersion\": \"v1\"}",
        ] {
            assert_eq!(quoted(text), text);
        }
    }

    #[test]
    fn whatever_else_a_file_has_it_is_not_quoted_at_all() {
        for text in [
            "providers:\n- name: p\n  env: [{name: A, value: hunter2}]\n",
            "providers: [{args: --token=hunter2}]",
            "providers: [{args: [[--token=hunter2]]}]",
            "environment: [MY_TOKEN=hunter2]",
            "{\"aadClientSecret\": \"hunter2\"}",
            "{\"auths\": {\"r.io\": {\"auth\": \"hunter2\"}}}",
            "value: {hunter2}",
            "value: #hunter2",
            "name: a # - --token=hunter2\n",
            "name: a # password: hunter2\n",
            "name: hunter2\nname: x\n",
            "name: a\n---\npassword: hunter2\n",
            "name: a\n...\nhunter2",
            "providers: [{matchImages: ['https://me:hunter2@r.io']}]",
        ] {
            assert_eq!(quoted(text), REDACTED, "{text}");
        }
        let document = Document::read(b"name: a").unwrap();
        assert_eq!(body(b"name: \xff", &document), REDACTED);
    }

    #[test]
    fn a_text_that_is_no_yaml_quotes_nothing_beside_secrets() {
        let said = |text: &str| {
            let Err(error) = Document::read_yaml(text.as_bytes()) else { return String::new() };
            yaml(text.as_bytes(), &error)
        };
        let cases = [
            ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
            ("value: !!int x", "yaml: cannot decode !!str `[redacted]` as a !!int"),
            ("args: [--p, !!int x]", "yaml: cannot decode !!str `[redacted]` as a !!int"),
            (
                "env:\n- ~: x",
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: [redacted]",
            ),
            ("value: {{x}}", "yaml: invalid map key: [redacted]"),
            ("args: [--password, *x]", "yaml: unknown anchor '[redacted]' referenced"),
            ("value: a: b", "yaml: mapping values are not allowed in this context"),
        ];
        for (text, want) in cases {
            assert_eq!(said(text), want, "{text}");
        }
    }
}
