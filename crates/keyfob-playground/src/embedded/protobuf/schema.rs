//! The numbers of the fields.

/// A message: the number of each field, its name in JSON, and what it holds.
pub(crate) type Message = [(u8, &'static str, Shape)];

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Texts,
    Bool,
    Integer,
    Map,
    One(&'static Message),
    Many(&'static Message),
    /// The server fills it in, whatever stands there.
    Ignored,
}

use Shape::{Bool, Ignored, Integer, Many, Map, One, Text, Texts};

/// The message of a kind.
pub(super) fn of(kind: &str) -> Option<&'static Message> {
    Some(match kind {
        "ClusterRole" | "Role" => ROLE,
        "ClusterRoleBinding" | "RoleBinding" => BINDING,
        "LocalSubjectAccessReview" | "SubjectAccessReview" => ACCESS_REVIEW,
        "Namespace" => NAMESPACE,
        "SelfSubjectAccessReview" => SELF_ACCESS_REVIEW,
        "SelfSubjectReview" => SELF_REVIEW,
        "SelfSubjectRulesReview" => RULES_REVIEW,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "TokenRequest" => TOKEN_REQUEST,
        "TokenReview" => TOKEN_REVIEW,
        _ => return None,
    })
}

const METADATA: &Message = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Ignored),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Ignored),
    (8, "creationTimestamp", Ignored),
    (11, "labels", Map),
    (12, "annotations", Map),
    (17, "managedFields", Ignored),
];

const NAMESPACE: &Message = &[
    (1, "metadata", One(METADATA)),
    (2, "spec", One(&[(1, "finalizers", Texts)])),
    (3, "status", Ignored),
];

const SERVICE_ACCOUNT: &Message = &[
    (1, "metadata", One(METADATA)),
    (3, "imagePullSecrets", Many(&[(1, "name", Text)])),
    (4, "automountServiceAccountToken", Bool),
];

const ROLE: &Message = &[
    (1, "metadata", One(METADATA)),
    (
        2,
        "rules",
        Many(&[
            (1, "verbs", Texts),
            (2, "apiGroups", Texts),
            (3, "resources", Texts),
            (4, "resourceNames", Texts),
            (5, "nonResourceURLs", Texts),
        ]),
    ),
];

const BINDING: &Message = &[
    (1, "metadata", One(METADATA)),
    (
        2,
        "subjects",
        Many(&[
            (1, "kind", Text),
            (2, "apiGroup", Text),
            (3, "name", Text),
            (4, "namespace", Text),
        ]),
    ),
    (3, "roleRef", One(&[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)])),
];

const TOKEN_REQUEST: &Message = &[
    (1, "metadata", One(METADATA)),
    (
        2,
        "spec",
        One(&[
            (1, "audiences", Texts),
            (3, "boundObjectRef", One(BOUND)),
            (4, "expirationSeconds", Integer),
        ]),
    ),
    (3, "status", Ignored),
];

const BOUND: &Message =
    &[(1, "kind", Text), (2, "apiVersion", Text), (3, "name", Text), (4, "uid", Text)];

const TOKEN_REVIEW: &Message = &[
    (1, "metadata", One(METADATA)),
    (2, "spec", One(&[(1, "token", Text), (2, "audiences", Texts)])),
    (3, "status", Ignored),
];

const SELF_REVIEW: &Message = &[(1, "metadata", One(METADATA)), (2, "status", Ignored)];

const RULES_REVIEW: &Message = &[
    (1, "metadata", One(METADATA)),
    (2, "spec", One(&[(1, "namespace", Text)])),
    (3, "status", Ignored),
];

const SELF_ACCESS_REVIEW: &Message = &[
    (1, "metadata", One(METADATA)),
    (
        2,
        "spec",
        One(&[(1, "resourceAttributes", One(RESOURCE)), (2, "nonResourceAttributes", One(PATH))]),
    ),
    (3, "status", Ignored),
];

const ACCESS_REVIEW: &Message = &[
    (1, "metadata", One(METADATA)),
    (
        2,
        "spec",
        One(&[
            (1, "resourceAttributes", One(RESOURCE)),
            (2, "nonResourceAttributes", One(PATH)),
            (3, "user", Text),
            (4, "groups", Texts),
            (6, "uid", Text),
        ]),
    ),
    (3, "status", Ignored),
];

const RESOURCE: &Message = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];

const PATH: &Message = &[(1, "path", Text), (2, "verb", Text)];
