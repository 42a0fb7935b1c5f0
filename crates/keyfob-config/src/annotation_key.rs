//! Which keys annotations can have.
//!
//! Upstream: `IsQualifiedName` of `k8s.io/apimachinery` 0.36, on the key in lower case.

/// What is wrong with a key, in upstream's words.
pub(super) fn problems(key: &str) -> Vec<String> {
    let key: String = key.chars().map(lower).collect();
    let parts: Vec<&str> = key.split('/').collect();
    let (mut problems, name) = match parts.as_slice() {
        [name] => (Vec::new(), *name),
        [prefix, name] => (prefix_problems(prefix), *name),
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Go maps each character to one, so that the dotted capital I becomes a plain i.
fn lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        c => c.to_lowercase().next().unwrap_or(c),
    }
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut problems = Vec::new();
    if prefix.len() > 253 {
        problems.push("prefix part must be no more than 253 bytes".to_owned());
    }
    if !prefix.split('.').all(is_label) {
        problems.push(format!("prefix part {SUBDOMAIN_RULE}"));
    }
    problems
}

fn is_name(name: &str) -> bool {
    has_alphanumeric_ends(name)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_label(label: &str) -> bool {
    let in_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    has_alphanumeric_ends(label) && label.bytes().all(in_label)
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let ends = [text.as_bytes().first(), text.as_bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_an_optional_prefix_and_a_name() {
        for good in ["a", "A_b.c-1", "example.com/Key", "EXAMPLE.com/key", "\u{212a}elvin"] {
            assert_eq!(problems(good), [""; 0], "{good}");
        }
        let cases = [
            ("", "name part must be non-empty"),
            ("/a", "prefix part must be non-empty"),
            ("a/b/c", "a valid label key must consist of "),
            ("-a", "name part must consist of "),
            ("a..b/c", "prefix part a lowercase RFC 1123 subdomain "),
            ("a_b/c", "prefix part a lowercase RFC 1123 subdomain "),
        ];
        for (bad, begin) in cases {
            assert!(problems(bad)[0].starts_with(begin), "{bad}: {:?}", problems(bad));
        }
        assert_eq!(problems(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        let long = format!("{}/a", "a".repeat(254));
        assert_eq!(problems(&long), ["prefix part must be no more than 253 bytes"]);
    }
}
