//! Roles and bindings against a plain reading of them, on clusters made up at random.
//!
//! The model says whether some binding gives the user some rule that covers the request, and no more.

use keyfob_control::{
    objects::{Kind, Objects},
    rbac::{Attributes, authorize},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
struct Rule {
    verbs: Vec<&'static str>,
    groups: Vec<&'static str>,
    resources: Vec<&'static str>,
    names: Vec<&'static str>,
    paths: Vec<&'static str>,
}

#[derive(Clone, Debug)]
struct Bound {
    /// Empty for a `ClusterRoleBinding`.
    namespace: &'static str,
    subjects: Vec<(&'static str, &'static str, &'static str)>,
    /// The role that it names is there, and is a `Role` of the same namespace rather than a `ClusterRole`.
    there: bool,
    local: bool,
    rules: Vec<Rule>,
}

impl Bound {
    /// There is no role in no namespace.
    fn found(&self) -> bool {
        self.there && !(self.local && self.namespace.is_empty())
    }
}

fn some(of: &[&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> + use<> {
    vec(select(of.to_vec()), 0..=most)
}

fn rule() -> impl Strategy<Value = Rule> {
    (
        some(&["get", "list", "*"], 2),
        some(&["", "apps", "*"], 2),
        some(&["pods", "pods/log", "*/log", "*", "nodes", ""], 2),
        some(&["a", "b"], 1),
        some(&["/x", "/x/*", "*", "/y**"], 1),
    )
        .prop_map(|(verbs, groups, resources, names, paths)| Rule {
            verbs,
            groups,
            resources,
            names,
            paths,
        })
}

fn bound() -> impl Strategy<Value = Bound> {
    let subject = (
        select(vec!["User", "Group", "ServiceAccount", "Robot"]),
        select(vec!["ann", "devs", "bot"]),
        select(vec!["", "n1", "n2"]),
    );
    let namespace = select(vec!["", "n1", "n2"]);
    (namespace, vec(subject, 0..3), prop::bool::weighted(0.9), any::<bool>(), vec(rule(), 0..3))
        .prop_map(|(namespace, subjects, there, local, rules)| Bound {
            namespace,
            subjects,
            there,
            local,
            rules,
        })
}

fn asked() -> impl Strategy<Value = Attributes> {
    (
        select(vec!["ann", "bob", "system:serviceaccount:n1:bot"]),
        some(&["devs", "ops"], 1),
        select(vec!["get", "list", "put"]),
        select(vec!["", "apps"]),
        select(vec![("pods", ""), ("pods", "log"), ("nodes", "log"), ("", "")]),
        select(vec!["a", "b", ""]),
        select(vec!["", "n1", "n2"]),
        prop::option::weighted(0.2, select(vec!["/x", "/x/y", "/y", "/z"])),
    )
        .prop_map(|(user, groups, verb, group, resource, name, namespace, path)| Attributes {
            user: user.to_owned(),
            groups: groups.into_iter().map(str::to_owned).collect(),
            verb: verb.to_owned(),
            api_group: group.to_owned(),
            resource: resource.0.to_owned(),
            subresource: resource.1.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            path: path.map(str::to_owned),
        })
}

fn objects<'a>(bindings: impl Iterator<Item = &'a Bound>) -> Objects {
    let mut objects = Objects::default();
    for (index, bound) in bindings.enumerate() {
        let name = format!("b{index}");
        let role = if bound.local { Kind::Role } else { Kind::ClusterRole };
        let rules: Vec<Value> = bound.rules.iter().map(manifest).collect();
        if bound.found() {
            let namespace = if bound.local { bound.namespace } else { "" };
            objects.put(role, namespace, &name, json!({ "rules": rules }));
        }
        let subject = |(kind, name, namespace): &(&str, &str, &str)| json!({"kind": kind, "name": name, "namespace": namespace});
        let subjects: Vec<Value> = bound.subjects.iter().map(subject).collect();
        let binding =
            if bound.namespace.is_empty() { Kind::ClusterRoleBinding } else { Kind::RoleBinding };
        let role_ref = json!({"kind": role.name(), "name": name});
        let value = json!({"roleRef": role_ref, "subjects": subjects});
        objects.put(binding, bound.namespace, &name, value);
    }
    objects
}

fn manifest(rule: &Rule) -> Value {
    json!({
        "verbs": rule.verbs,
        "apiGroups": rule.groups,
        "resources": rule.resources,
        "resourceNames": rule.names,
        "nonResourceURLs": rule.paths,
    })
}

/// Whether one binding allows it.
fn model(bound: &Bound, asked: &Attributes) -> bool {
    let in_place = bound.namespace.is_empty() || bound.namespace == asked.namespace;
    let is = |(kind, name, namespace): &(&str, &str, &str)| match *kind {
        "User" => asked.user == *name,
        "Group" => asked.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let home = if namespace.is_empty() { bound.namespace } else { namespace };
            !home.is_empty() && asked.user == format!("system:serviceaccount:{home}:{name}")
        }
        _ => false,
    };
    in_place
        && bound.found()
        && bound.subjects.iter().any(is)
        && bound.rules.iter().any(|rule| covers(rule, asked))
}

fn covers(rule: &Rule, asked: &Attributes) -> bool {
    let either = |list: &[&str], wanted: &str| list.contains(&"*") || list.contains(&wanted);
    if !either(&rule.verbs, &asked.verb) {
        return false;
    }
    if let Some(path) = &asked.path {
        return rule.paths.iter().any(|each| match *each {
            "*" => true,
            "/x/*" => path.starts_with("/x/"),
            "/y**" => path.starts_with("/y"),
            exact => exact == path,
        });
    }
    let whole = match asked.subresource.as_str() {
        "" => asked.resource.clone(),
        sub => format!("{}/{sub}", asked.resource),
    };
    either(&rule.groups, &asked.api_group)
        && (either(&rule.resources, &whole)
            || (asked.subresource == "log" && rule.resources.contains(&"*/log")))
        && (rule.names.is_empty() || rule.names.contains(&asked.name.as_str()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_allowed_is_what_some_binding_gives(bindings in vec(bound(), 0..5), asked in asked()) {
        let opinion = authorize(&objects(bindings.iter()), &asked);
        let expected = bindings.iter().any(|bound| model(bound, &asked));
        prop_assert_eq!(opinion.allowed, expected, "{}", opinion.reason);
        prop_assert_eq!(opinion.error, None);
        prop_assert!(!expected || opinion.reason.starts_with("RBAC: allowed by "));
        let turned = authorize(&objects(bindings.iter().rev()), &asked);
        prop_assert_eq!(turned.allowed, expected, "the order of bindings matters");
    }
}
