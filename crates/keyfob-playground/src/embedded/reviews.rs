//! Questions to the server: whose token is this, who am I, who may do what.
//!
//! Upstream: `pkg/registry/authentication` and `pkg/registry/authorization`.

use keyfob_control::rbac::Attributes;
use serde_json::{Value, json};

use super::{
    Api, access_review,
    request::ResourcePath,
    resources::{Review, api_version},
    selector::Fields,
    status::Refusal,
    store::Snapshot,
    users::User,
};

impl Api {
    /// The review with its `status`.
    pub(super) fn review(
        &self,
        (review, path): (&Review, &ResourcePath),
        user: &User,
        mut body: Value,
        snapshot: &Snapshot,
    ) -> Result<Value, Refusal> {
        let Some(object) = body.as_object_mut() else {
            return Err(Refusal::bad_request(format!("not a {}", review.name)));
        };
        object.insert("kind".to_owned(), json!(review.name));
        object.insert("apiVersion".to_owned(), json!(api_version(review.group)));
        object.entry("metadata").or_insert_with(|| json!({}));
        let spec = object.get("spec").cloned().unwrap_or_default();
        let status = match review.name {
            "TokenReview" => self.token_review(&spec)?,
            "SelfSubjectReview" => json!({"userInfo": user}),
            "SelfSubjectRulesReview" => rules_unknown(),
            _ => self.access(&access_review::read(review, user, path, spec)?, snapshot),
        };
        object.insert("status".to_owned(), status);
        Ok(body)
    }

    fn token_review(&self, spec: &Value) -> Result<Value, Refusal> {
        let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            let message = "token is required for TokenReview in authentication";
            return Err(Refusal::bad_request(message));
        }
        let audiences = spec.get("audiences").and_then(Value::as_array);
        let mut audiences: Vec<String> = audiences.map_or_else(Vec::new, |audiences| {
            audiences.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        });
        if audiences.is_empty() {
            audiences.push(self.issuer.clone());
        }
        Ok(match self.authenticate(token, &audiences) {
            Ok(found) => {
                json!({"authenticated": true, "user": found.user, "audiences": found.audiences})
            }
            Err(error) => json!({"authenticated": false, "user": {}, "error": error}),
        })
    }

    fn access(&self, attributes: &Attributes, snapshot: &Snapshot) -> Value {
        let opinion = self.authorize(&snapshot.objects, attributes, &Fields::default());
        let mut status = json!({"allowed": opinion.allowed});
        if let Some(status) = status.as_object_mut() {
            let told = [
                ("reason", opinion.reason),
                ("evaluationError", opinion.error.unwrap_or_default()),
            ];
            for (field, text) in told.into_iter().filter(|(_, text)| !text.is_empty()) {
                status.insert(field.to_owned(), json!(text));
            }
        }
        status
    }
}

/// Rules are looked up one question at a time: a list of them would not say it all.
fn rules_unknown() -> Value {
    json!({
        "resourceRules": [],
        "nonResourceRules": [],
        "incomplete": true,
        "evaluationError": "this server does not list rules; ask about one with a SelfSubjectAccessReview",
    })
}
