use super::*;

const CLUSTER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, pods/log], verbs: [get]}
- {apiGroups: [apps], resources: ["*/scale"], verbs: ["*"]}
- {nonResourceURLs: [/healthz, /metrics/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dangling}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gone}
subjects: [{kind: User, name: ann}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: Group, name: readers}, {kind: User, name: ann}, {kind: ServiceAccount, name: bot, namespace: ns}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: editor, namespace: ns}
rules: [{apiGroups: ["*"], resources: ["*"], resourceNames: [mine], verbs: [update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editors, namespace: ns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: editor}
subjects: [{kind: ServiceAccount, name: bot}, {kind: User, name: ann}]
"#;

fn asked(user: &str, verb: &str, resource: &str) -> Attributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        user: user.into(),
        verb: verb.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: "ns".into(),
        name: "mine".into(),
        ..Attributes::default()
    }
}

fn opinion(asked: &Attributes) -> Opinion {
    authorize(&Objects::read_text(CLUSTER, "cluster").unwrap(), asked)
}

#[test]
fn a_rule_allows_in_upstreams_words() {
    let allowed = |words: &str| Opinion::allow(format!("RBAC: allowed by {words}"));
    let cluster = r#"ClusterRoleBinding "readers" of ClusterRole "reader" to "#;
    assert_eq!(opinion(&asked("ann", "get", "pods")), allowed(&format!(r#"{cluster}User "ann""#)));
    let group = Attributes { groups: vec!["readers".into()], ..asked("bob", "get", "pods/log") };
    assert_eq!(opinion(&group), allowed(&format!(r#"{cluster}Group "readers""#)));
    let bot = "system:serviceaccount:ns:bot";
    assert_eq!(
        opinion(&asked(bot, "get", "pods")),
        allowed(&format!(r#"{cluster}ServiceAccount "bot/ns""#))
    );
    let role = r#"RoleBinding "editors/ns" of Role "editor" to ServiceAccount "bot/ns""#;
    assert_eq!(opinion(&asked(bot, "update", "anything/at-all")), allowed(role));
}

#[test]
fn what_no_rule_says_is_refused() {
    let refused = |asked: &Attributes| !opinion(asked).allowed;
    assert!(refused(&asked("ann", "list", "pods")));
    assert!(refused(&asked("ann", "get", "pods/exec")));
    assert!(refused(&asked("bob", "get", "pods")));
    assert!(refused(&asked("system:serviceaccount:other:bot", "update", "pods")));
    let update = asked("ann", "update", "pods");
    assert!(opinion(&update).allowed);
    assert!(refused(&Attributes { name: "yours".into(), ..update.clone() }));
    assert!(refused(&Attributes { namespace: "other".into(), ..update.clone() }));
    assert!(
        refused(&Attributes { namespace: String::new(), ..update }),
        "a role is of its namespace"
    );
    assert!(refused(&Attributes { api_group: "apps".into(), ..asked("ann", "get", "pods") }));
}

#[test]
fn a_star_stands_for_every_resource_with_the_subresource() {
    let scale =
        |resource: &str| Attributes { api_group: "apps".into(), ..asked("ann", "patch", resource) };
    assert!(opinion(&scale("deployments/scale")).allowed);
    assert!(!opinion(&scale("deployments/status")).allowed);
    assert!(!opinion(&scale("deployments")).allowed);
}

#[test]
fn paths_are_matched_by_rules_for_paths_only() {
    let path = |path: &str| Attributes { path: Some(path.into()), ..asked("ann", "get", "pods") };
    for allowed in ["/healthz", "/metrics/", "/metrics/a/b"] {
        assert!(opinion(&path(allowed)).allowed, "{allowed}");
    }
    for refused in ["/healthz/", "/metrics", "/"] {
        assert!(!opinion(&path(refused)).allowed, "{refused}");
    }
}

#[test]
fn a_missing_role_stops_no_other_and_is_named_in_a_refusal() {
    assert!(opinion(&asked("ann", "get", "pods")).allowed);
    let refused = opinion(&asked("ann", "list", "pods"));
    let reason = r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    assert_eq!(refused, Opinion::deny(reason), "as upstream, it is no error");
}

#[test]
fn masters_may_do_everything() {
    let master =
        Attributes { groups: vec![MASTERS_GROUP.into()], ..asked("eve", "delete", "nodes") };
    assert_eq!(authorize(&Objects::default(), &master), Opinion::allow(""));
}
