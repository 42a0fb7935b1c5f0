//! Whether two refusals of a kubeconfig mean the same. Ours quote no values, so the texts cannot be equal.

use crate::{fact, same};

/// Compares what does not depend on the text's values: the file, the reason, the field, the kind of its value.
pub(crate) fn same_refusal(ours: &str, upstream: &str) -> Result<(), String> {
    let ((our_file, ours), (file, upstream)) = (split(ours), split(upstream));
    fact("file", our_file, file)?;
    let held = match upstream {
        _ if upstream.starts_with("yaml: ") => {
            let reason = upstream.rsplit(": ").next().unwrap_or_default();
            ours.starts_with("invalid YAML at ") && ours.ends_with(our_words(reason))
        }
        _ if upstream.starts_with("json: unsupported value") => ours.contains("unsupported value"),
        _ if upstream.starts_with("json: cannot unmarshal ") => return same_value(ours, upstream),
        _ if upstream.starts_with("illegal base64 data") => ours.contains("invalid base64"),
        _ if upstream.starts_with("no kind ") => {
            // What does not look like a name of Kubernetes' is not shown.
            let is_shown = |(ours, name)| ours == name || ours == "something else";
            let mut names = quoted(ours).zip(quoted(upstream)).take(2);
            ours.starts_with("no kind ") && names.all(is_shown)
        }
        _ if upstream.starts_with("error converting ") => {
            let name = upstream.split(": ").nth(1).unwrap_or_default();
            ours.starts_with(name.trim_end_matches("list"))
        }
        _ if upstream.starts_with("unexpected GroupVersion string: ")
            || upstream.starts_with("Object 'apiVersion' is missing in ") =>
        {
            ours.starts_with("no kind \"Config\" is registered for version ")
        }
        // It cannot be asked what it is.
        _ if upstream.starts_with("couldn't get version/kind; ") => ours.contains(": expected "),
        _ => ours == upstream,
    };
    if held { Ok(()) } else { same(ours, upstream) }
}

/// What we say where libyaml says this of a text that breaks YAML's grammar. Other reasons have the same words.
fn our_words(reason: &str) -> &str {
    const WORDS: [(&str, &str); 8] = [
        ("could not find expected ':'", "the name of a field has no `:` behind it"),
        (
            "did not find expected alphabetic or numeric character",
            "expected a name of letters and digits after `*` or `&`",
        ),
        ("did not find expected node content", "expected a value"),
        ("found character that cannot start any token", "no value can begin with this character"),
        ("found incompatible YAML document", "a version of YAML other than 1.1"),
        ("found invalid Unicode character escape code", "an escape stands for no character"),
        (
            "found unknown escape character",
            "a backslash is followed by a character that has no meaning there",
        ),
        ("mapping values are not allowed in this context", "a `:` is not allowed here"),
    ];
    WORDS.iter().find(|(theirs, _)| *theirs == reason).map_or(reason, |(_, ours)| ours)
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

fn split(text: &str) -> (&str, &str) {
    let behind = text.strip_prefix("error loading config file \"");
    behind.and_then(|text| text.split_once("\": ")).unwrap_or(("", text))
}

/// `users[0].user.exec.args[0]: expected a string, found a number (…)` and
/// `json: cannot unmarshal number into Go struct field ExecConfig.users.user.exec.args of type string`.
pub(crate) fn same_value(ours: &str, upstream: &str) -> Result<(), String> {
    let words: Vec<&str> = upstream.split(' ').collect();
    let (kind, field) = (words[3], words[words.len() - 4]);
    let found = match kind {
        "bool" => "a boolean",
        "number" => "a number",
        "array" => "a list",
        "object" => "an object",
        _ => "a string",
    };
    fact("found", &ours.contains(&format!(", found {found} (")), &true)?;
    let path = ours.split(": ").next().unwrap_or_default();
    let path: String = path.split(['[', ']']).step_by(2).collect();
    // Go puts the name of the struct first.
    fact("field", path.as_str(), field.split_once('.').map_or(field, |(_, field)| field))
}
