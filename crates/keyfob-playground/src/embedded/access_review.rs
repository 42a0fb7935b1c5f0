//! What an access review asks.
//!
//! Upstream: `pkg/apis/authorization/validation`.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use keyfob_control::rbac::Attributes;
use serde_json::{Value, json};

use super::{
    authorize::attributes,
    request::ResourcePath,
    resources::Review,
    status::{Cause, Refusal},
    users::User,
};

const ONE_OF: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

/// Reads the `spec` of one of the three kinds.
pub(super) fn read(
    review: &Review,
    asking: &User,
    path: &ResourcePath,
    spec: Value,
) -> Result<Attributes, Refusal> {
    let spec: SubjectAccessReviewSpec = serde_json::from_value(spec)
        .map_err(|error| Refusal::bad_request(format!("not a {}: {error}", review.name)))?;
    let causes = faults(review, path, &spec);
    if !causes.is_empty() {
        return Err(Refusal::invalid(review.group, review.name, "", causes));
    }
    let user = if is_about_oneself(review) { asking.clone() } else { subject(&spec) };
    let mut asked = attributes(&user, "");
    if let Some(about) = spec.non_resource_attributes {
        asked.verb = about.verb.unwrap_or_default();
        asked.path = Some(about.path.unwrap_or_default());
    }
    if let Some(about) = spec.resource_attributes {
        set(&mut asked, about);
    }
    Ok(asked)
}

fn is_about_oneself(review: &Review) -> bool {
    review.name == "SelfSubjectAccessReview"
}

fn subject(spec: &SubjectAccessReviewSpec) -> User {
    User {
        name: spec.user.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        ..User::default()
    }
}

fn set(asked: &mut Attributes, about: ResourceAttributes) {
    asked.verb = about.verb.unwrap_or_default();
    asked.api_group = about.group.unwrap_or_default();
    asked.resource = about.resource.unwrap_or_default();
    asked.subresource = about.subresource.unwrap_or_default();
    asked.name = about.name.unwrap_or_default();
    asked.namespace = about.namespace.unwrap_or_default();
}

fn faults(review: &Review, path: &ResourcePath, spec: &SubjectAccessReviewSpec) -> Vec<Cause> {
    let mut causes = Vec::new();
    if spec.resource_attributes.is_some() == spec.non_resource_attributes.is_some() {
        let about = json!(spec.non_resource_attributes);
        causes.push(Cause::invalid("spec", &about, ONE_OF));
    }
    let nobody = spec.user.as_deref().unwrap_or_default().is_empty()
        && spec.groups.as_deref().unwrap_or_default().is_empty();
    if nobody && !is_about_oneself(review) {
        let detail = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), detail));
    }
    if review.namespaced {
        causes.extend(local_faults(path, spec));
    }
    causes
}

/// A local review stays in its namespace.
fn local_faults(path: &ResourcePath, spec: &SubjectAccessReviewSpec) -> Option<Cause> {
    if let Some(about) = &spec.resource_attributes {
        let namespace = about.namespace.as_deref().unwrap_or_default();
        return (namespace != path.namespace).then(|| {
            let field = "spec.resourceAttributes.namespace";
            Cause::invalid(field, &json!(namespace), "must match metadata.namespace")
        });
    }
    spec.non_resource_attributes.as_ref().map(|about| {
        let detail = "disallowed on this kind of request";
        Cause::invalid("spec.nonResourceAttributes", &json!(about), detail)
    })
}
