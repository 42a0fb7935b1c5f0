//! Who may do what: everybody what the default roles of a cluster give, nodes what concerns them, and the rest is for RBAC.
//!
//! Upstream: the authorization modes `Node,RBAC`, and `system:discovery`, `system:basic-user` and
//! `system:public-info-viewer` of the bootstrap policy. The keys that tokens are verified with are for everybody here, so
//! that a verifier needs no token.

use keyfob_control::{
    node_authorizer,
    objects::Objects,
    rbac::{self, Attributes},
    rule::Opinion,
};

use super::{
    Api, node_reads,
    request::RequestInfo,
    resources::{AUTHENTICATION, AUTHORIZATION},
    selector::Fields,
    status::Refusal,
    users::{AUTHENTICATED, User},
};

/// What a user wants.
pub(super) fn attributes(user: &User, verb: &str) -> Attributes {
    Attributes {
        user: user.name.clone(),
        groups: user.groups.clone(),
        verb: verb.to_owned(),
        ..Attributes::default()
    }
}

/// What a user wants with a request.
pub(super) fn attributes_of(user: &User, info: &RequestInfo) -> Attributes {
    let wanted = attributes(user, info.verb);
    let Some(resource) = info.resource.clone() else {
        return Attributes { path: Some(info.path.clone()), ..wanted };
    };
    Attributes {
        api_group: resource.group,
        resource: resource.resource,
        subresource: resource.subresource,
        name: resource.name,
        namespace: resource.namespace,
        ..wanted
    }
}

impl Api {
    /// Whether it is allowed; of lists, only for the fields that are asked for.
    pub(super) fn authorize(
        &self,
        objects: &Objects,
        wanted: &Attributes,
        fields: &Fields,
    ) -> Opinion {
        if is_for_everybody(wanted) {
            return Opinion::allow("");
        }
        let mut reasons = Vec::new();
        for (authorizer, opinion) in [
            ("node", node_authorizer::authorize(objects, self.policy.gates, wanted)),
            ("node", node_reads::authorize(objects, wanted, fields)),
            ("rbac", rbac::authorize(objects, wanted)),
        ] {
            if opinion.allowed {
                return opinion;
            }
            if !opinion.reason.is_empty() {
                reasons.push(format!("{authorizer}: {}", opinion.reason));
            }
        }
        Opinion::deny(reasons.join("\n"))
    }
}

fn is_for_everybody(wanted: &Attributes) -> bool {
    let authenticated = wanted.groups.iter().any(|group| group == AUTHENTICATED);
    match (&wanted.path, wanted.verb.as_str()) {
        (Some(path), "get" | "head") => is_public(path) || authenticated && is_discovery(path),
        (None, "create") if authenticated => {
            let resource = (wanted.api_group.as_str(), wanted.resource.as_str());
            [
                (AUTHENTICATION, "selfsubjectreviews"),
                (AUTHORIZATION, "selfsubjectaccessreviews"),
                (AUTHORIZATION, "selfsubjectrulesreviews"),
            ]
            .contains(&resource)
        }
        _ => false,
    }
}

fn is_public(path: &str) -> bool {
    let public = [
        "/healthz",
        "/livez",
        "/readyz",
        "/version",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ];
    public.contains(&path.trim_end_matches('/'))
}

fn is_discovery(path: &str) -> bool {
    ["/api", "/apis", "/openapi"].iter().any(|root| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// That it is not allowed.
///
/// Upstream: `forbiddenMessage` in `apiserver/pkg/endpoints/handlers/responsewriters`.
pub(super) fn refusal(wanted: &Attributes, reason: &str) -> Refusal {
    let mut why = told(wanted);
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Refusal::forbidden(&wanted.api_group, &wanted.resource, &wanted.name, &why)
}

fn told(wanted: &Attributes) -> String {
    // It is not to be taken for HTML.
    let shown = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        keyfob_api::Quoted(text).to_string()
    };
    let (user, verb) = (shown(&wanted.user), &wanted.verb);
    if let Some(path) = &wanted.path {
        return format!("User {user} cannot {verb} path {}", shown(path));
    }
    let resource = match wanted.subresource.as_str() {
        "" => shown(&wanted.resource),
        subresource => shown(&format!("{}/{subresource}", wanted.resource)),
    };
    let scope = match wanted.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", shown(namespace)),
    };
    let group = shown(&wanted.api_group);
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}
