//! Names in rules that no provider has. A rule with a misspelt name does nothing, and one that denies does so silently.

use std::sync::Arc;

use keyfob_api::document::{Document, Field, Node, Value};
use keyfob_config::nearest_name;

use super::AgentConfigProblem;

/// The names under `rules[].providers` that are none of these, in the order of the file. A text that cannot be read has none.
pub(super) fn unknown_providers(
    file: &Arc<str>,
    text: &[u8],
    known: &[&str],
) -> Vec<AgentConfigProblem> {
    let Ok(document) = Document::read(text) else { return Vec::new() };
    let mut unknown = Vec::new();
    for (rule, fields) in list(field(&document.root, "rules")).iter().enumerate() {
        for (place, node) in list(field(fields, "providers")).iter().enumerate() {
            let Value::String(name) = &node.value else { continue };
            let name = name.expose();
            if known.contains(&&**name) {
                continue;
            }
            let help = match nearest_name(name, known.iter().copied()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("the providers are: {}", known.join(", ")),
            };
            unknown.push(AgentConfigProblem {
                file: file.clone(),
                at: Some(node.at),
                path: format!("rules[{rule}].providers[{place}]"),
                message: format!("there is no provider {name:?}"),
                help: Some(help),
            });
        }
    }
    unknown
}

fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Value::Map(fields) = &node.value else { return None };
    let is_meant = |field: &&Field| field.name.expose() == name;
    fields.iter().find(is_meant).map(|field| &field.node)
}

fn list(node: Option<&Node>) -> &[Node] {
    match node.map(|node| &node.value) {
        Some(Value::List(nodes)) => nodes,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_provider_is_found_with_its_place() {
        let text = "rules:\n- name: a\n  providers: [gcr, erc]\n- name: b\n- name: c\n  providers:\n  - quay\n";
        let unknown = unknown_providers(&"agent.yaml".into(), text.as_bytes(), &["ecr", "gcr"]);
        let shown = |problem: &AgentConfigProblem| {
            (problem.to_string(), problem.help.clone().unwrap_or_default())
        };
        let want = [
            (
                "agent.yaml:3:20: rules[0].providers[1]: there is no provider \"erc\"",
                "did you mean \"ecr\"?",
            ),
            (
                "agent.yaml:7:5: rules[2].providers[0]: there is no provider \"quay\"",
                "the providers are: ecr, gcr",
            ),
        ];
        let want = want.map(|(problem, help)| (problem.to_owned(), help.to_owned()));
        assert_eq!(unknown.iter().map(shown).collect::<Vec<_>>(), want);
        assert_eq!(unknown_providers(&"agent.yaml".into(), b"rules: {", &[]), []);
    }
}
