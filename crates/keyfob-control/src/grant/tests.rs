use proptest::prelude::*;

use super::*;
use crate::{
    objects::Objects,
    rbac,
    rule::{Access, Opinion},
};

fn grant(audience: &str) -> Grant {
    Grant { audience: audience.into(), ..Grant::default() }
}

/// What a grant says to a node that asks.
fn opinion(grant: &Grant, access: Access) -> Opinion {
    let objects = Objects::read_text(grant.yaml().unwrap(), "grant").unwrap();
    rbac::authorize(&objects, &access.into())
}

fn access(node: &str, namespace: &str, account: &str, audience: &str) -> Access {
    Access {
        user: format!("system:node:{node}"),
        groups: vec!["system:nodes".into(), "system:authenticated".into()],
        namespace: namespace.into(),
        service_account: account.into(),
        audience: audience.into(),
    }
}

#[test]
fn a_grant_for_everybody_is_cluster_wide() {
    let yaml = grant("https://reg.test").yaml().unwrap();
    let name = grant("https://reg.test").name();
    assert!(name.starts_with("node-audience-https-reg-test-"), "{name}");
    let expected = format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}
rules:
- apiGroups: [\"\"]
  resources: [\"https://reg.test\"]
  verbs: [request-serviceaccounts-token-audience]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {name}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {name}
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: Group
  name: \"system:nodes\"
"
    );
    assert_eq!(yaml, expected);
}

#[test]
fn a_grant_for_one_account_is_of_its_namespace() {
    let narrow = Grant {
        node: Some("n".into()),
        namespace: Some("ns".into()),
        service_account: Some("sa".into()),
        audience: "a".into(),
    };
    let yaml = narrow.yaml().unwrap();
    for line in [
        "kind: Role",
        "kind: RoleBinding",
        "  namespace: \"ns\"",
        "  resourceNames: [\"sa\"]",
        "  name: \"system:node:n\"",
    ] {
        assert!(yaml.lines().any(|each| each == line), "{line} in {yaml}");
    }
}

#[test]
fn names_are_short_and_never_shared() {
    let long = "x".repeat(500);
    let audiences = ["", "a", "A", "a/", "-", "ü", "a b", long.as_str(), &format!("{long}y")];
    let names: Vec<String> = audiences.iter().map(|audience| grant(audience).name()).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(name.len() <= 63 && !name.contains("--"), "{name}");
        assert!(
            name.chars().all(|c| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit()),
            "{name}"
        );
        assert_eq!(names.iter().position(|each| each == name), Some(index), "{name}");
    }
    let of_node = Grant { node: Some("n".into()), ..grant("a") };
    assert_ne!(of_node.name(), grant("a").name());
}

#[test]
fn every_audience_cannot_be_granted_by_its_name() {
    assert_eq!(grant("*").yaml(), Err(GrantError::Everything));
}

/// Texts that are hard to quote, and some that are alike.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ab]{1,2}",
        r#"[:/"'\\#\[\]{}&*!|>%@`,?~ -]{0,6}"#.prop_filter("means all", |text| text != "*"),
        "(yes|null|1e3|0x1f|<<|---|\\*/a|a/\\*)",
        any::<String>().prop_filter("means all", |text| text != "*"),
        proptest::collection::vec(
            proptest::sample::select(vec![
                '\u{85}', '\u{2028}', '\u{feff}', '\u{7f}', '😀', '\n', '\0'
            ]),
            0..4
        )
        .prop_map(String::from_iter),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[ab]{1,2}"
}

proptest! {
    #[test]
    fn a_grant_read_back_allows_what_it_says_and_nothing_else(
        audience in text(),
        node in proptest::option::of(name()),
        namespace in proptest::option::of(name()),
        service_account in proptest::option::of(name()),
        asked in (name(), name(), name(), text()),
        same in any::<[bool; 4]>(),
    ) {
        let grant = Grant { node, namespace, service_account, audience };
        let pick = |same: bool, granted: Option<&String>, other: String| match granted {
            Some(granted) if same => granted.clone(),
            _ => other,
        };
        let node = pick(same[0], grant.node.as_ref(), asked.0);
        let namespace = pick(same[1], grant.namespace.as_ref(), asked.1);
        let account = pick(same[2], grant.service_account.as_ref(), asked.2);
        let audience = pick(same[3], Some(&grant.audience), asked.3);
        let fits = |granted: &Option<String>, asked: &String| granted.as_ref().is_none_or(|each| each == asked);
        let expected = fits(&grant.node, &node)
            && fits(&grant.namespace, &namespace)
            && fits(&grant.service_account, &account)
            && grant.audience == audience;
        let access = access(&node, &namespace, &account, &audience);
        prop_assert_eq!(opinion(&grant, access.clone()).allowed, expected);

        let mut get: rbac::Attributes = access.clone().into();
        get.verb = "get".into();
        let objects = Objects::read_text(grant.yaml().unwrap(), "grant").unwrap();
        prop_assert!(!rbac::authorize(&objects, &get).allowed);
        let person = Access { user: "somebody".into(), groups: vec!["system:authenticated".into()], ..access };
        prop_assert!(!opinion(&grant, person).allowed);
    }
}
