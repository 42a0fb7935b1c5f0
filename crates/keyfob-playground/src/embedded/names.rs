//! Names of objects.
//!
//! Upstream: `apimachinery/pkg/api/validation`, `apiserver/pkg/storage/names`.

use serde_json::{Value, json};

use super::{
    metadata::{self, random},
    resources::{RBAC, Resource},
    status::{Cause, Refusal},
};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What generated names end with: no vowels, so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Names an object that asks for a name by `generateName`.
pub(super) fn give(object: &mut Value) -> Result<(), Refusal> {
    let prefix = metadata::get(object, "generateName").to_owned();
    if metadata::get(object, "name").is_empty() && !prefix.is_empty() {
        let letter = |byte: u8| LETTERS.get(usize::from(byte) % LETTERS.len()).copied();
        let suffix = random::<5>()?.into_iter().filter_map(letter).map(char::from);
        metadata::set(object, "name", &prefix.chars().chain(suffix).collect::<String>());
    }
    Ok(())
}

/// Refuses a name that could not stand in a path.
pub(super) fn check_name(resource: &Resource, name: &str) -> Result<(), Refusal> {
    let invalid = |detail: &str| Cause::invalid("metadata.name", &json!(name), detail);
    let cause = if name.is_empty() {
        Cause::required("metadata.name", "name or generateName is required")
    } else if resource.group == RBAC {
        match name {
            "." | ".." => invalid(&format!("may not be '{name}'")),
            _ if name.contains('/') => invalid("may not contain '/'"),
            _ if name.contains('%') => invalid("may not contain '%'"),
            _ => return Ok(()),
        }
    } else if name.len() > 253 {
        invalid("must be no more than 253 characters")
    } else if !name.split('.').all(is_label) {
        invalid(SUBDOMAIN)
    } else {
        return Ok(());
    };
    Err(Refusal::invalid(resource.group, resource.name, name, vec![cause]))
}

fn is_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.into_iter().all(|end| end.is_some_and(alphanumeric))
        && text.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        let (pods, roles) =
            (Resource::find("", "pods").unwrap(), Resource::find(RBAC, "roles").unwrap());
        for name in ["a", "a-b.c1", &"a".repeat(253)] {
            assert!(check_name(pods, name).is_ok(), "{name}");
        }
        for name in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", &"a".repeat(254)] {
            assert!(check_name(pods, name).is_err(), "{name}");
        }
        assert!(check_name(roles, "system:Node_1").is_ok());
        for name in ["", ".", "..", "a/b", "50%"] {
            assert!(check_name(roles, name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_generated_name_begins_as_asked() {
        let mut object = json!({"metadata": {"generateName": "web-"}});
        give(&mut object).unwrap();
        let name = metadata::get(&object, "name");
        assert_eq!((name.len(), name.get(..4)), (9, Some("web-")));
    }
}
