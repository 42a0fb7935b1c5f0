//! `POST …/serviceaccounts/NAME/token`.
//!
//! Upstream: `pkg/registry/core/serviceaccount/storage/token.go`. Tokens can be bound to pods and nodes; of Secrets and
//! webhooks nothing is kept here.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use keyfob_api::Quoted;
use keyfob_control::{
    facts::judge_objects,
    objects::Kind,
    rule::{Asked, BoundObject},
};
use serde_json::{Value, json};

use super::{
    Api,
    claims::{Claims, Holder, Reference},
    defaults::not_found,
    metadata::{self, timestamp},
    request::ResourcePath,
    resources::AUTHENTICATION,
    status::{Cause, Refusal},
    store::Snapshot,
    users::User,
};

const KIND: &str = "TokenRequest";
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// A request for a token of one account.
#[derive(Debug)]
struct Request<'a> {
    path: &'a ResourcePath,
    snapshot: &'a Snapshot,
    body: TokenRequest,
}

impl Api {
    /// Checks in upstream's order, and signs.
    pub(super) fn create_token(
        &self,
        user: &User,
        path: &ResourcePath,
        mut body: Value,
        snapshot: &Snapshot,
    ) -> Result<Value, Refusal> {
        if let Some(body) = body.as_object_mut() {
            body.remove("status");
        }
        let body = serde_json::from_value(body).map_err(|error| {
            Refusal::bad_request(format!(
                "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: {error}"
            ))
        })?;
        let request = Request { path, snapshot, body };
        self.apply_rule(user, &request)?;
        request.check_names()?;
        let account = request.account()?;
        let spec = self.complete(request.body.spec.clone().unwrap_or_default());
        check(&spec)?;
        let bound = spec.bound_object_ref.as_ref();
        let (pod, node) = bound.map_or(Ok((None, None)), |bound| request.bound(bound))?;
        let holder = Holder {
            namespace: path.namespace.clone(),
            serviceaccount: Reference::to(account),
            pod,
            node,
        };
        self.sign(holder, &spec)
    }

    /// The rule for nodes; others are only asked what RBAC says.
    fn apply_rule(&self, user: &User, request: &Request<'_>) -> Result<(), Refusal> {
        let spec = request.body.spec.clone().unwrap_or_default();
        let asked = Asked {
            user: user.name.clone(),
            groups: user.groups.clone(),
            namespace: request.path.namespace.clone(),
            service_account: request.path.name.clone(),
            audiences: spec.audiences.unwrap_or_default(),
            bound: spec.bound_object_ref.map(BoundObject::from),
        };
        let verdict = judge_objects(&asked, &self.policy, &request.snapshot.objects);
        if user.as_node().is_some() {
            tracing::info!(user = user.name, %verdict, "a node asks for a token");
        }
        if verdict.allowed() { Ok(()) } else { Err(Refusal::by_rule(&verdict)) }
    }

    /// What is left out of a request.
    fn complete(&self, mut spec: TokenRequestSpec) -> TokenRequestSpec {
        if spec.audiences.as_ref().is_none_or(Vec::is_empty) {
            spec.audiences = Some(vec![self.issuer.clone()]);
        }
        spec.expiration_seconds.get_or_insert(DEFAULT_SECONDS);
        spec
    }

    fn sign(&self, holder: Holder, spec: &TokenRequestSpec) -> Result<Value, Refusal> {
        let now = self.now();
        let exp = now.saturating_add(spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS));
        let Holder { namespace, serviceaccount: Reference { name, uid }, .. } = &holder;
        let metadata = json!({
            "name": name, "namespace": namespace, "uid": uid,
            "creationTimestamp": timestamp(now),
        });
        let claims = Claims {
            aud: spec.audiences.clone().unwrap_or_default(),
            exp,
            iat: now,
            iss: self.issuer.clone(),
            jti: metadata::uid()?,
            nbf: now,
            sub: format!("system:serviceaccount:{namespace}:{name}"),
            kubernetes: holder,
        };
        let token = self.signer.sign(&json!(claims));
        let token = token.ok_or_else(|| Refusal::internal("failed to generate token"))?;
        Ok(json!({
            "kind": KIND,
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": metadata,
            "spec": spec,
            "status": {"token": token.expose(), "expirationTimestamp": timestamp(exp)},
        }))
    }
}

impl Request<'_> {
    fn check_names(&self) -> Result<(), Refusal> {
        let metadata = &self.body.metadata;
        let given = [
            ("name", metadata.name.as_deref(), &self.path.name),
            ("namespace", metadata.namespace.as_deref(), &self.path.namespace),
        ];
        for (what, given, asked) in given {
            if let Some(given) = given.filter(|given| !given.is_empty() && given != asked) {
                let detail = format!("must match the service account {what} if specified");
                let cause = Cause::invalid(&format!("metadata.{what}"), &json!(given), &detail);
                return Err(Refusal::invalid(AUTHENTICATION, KIND, &self.path.name, vec![cause]));
            }
        }
        Ok(())
    }

    /// The account, and the one that was meant.
    fn account(&self) -> Result<&Value, Refusal> {
        let ResourcePath { namespace, name, .. } = self.path;
        let account = self.snapshot.objects.get(Kind::ServiceAccount, namespace, name);
        let account = account.ok_or_else(|| not_found(Kind::ServiceAccount, name))?;
        let uid = metadata::get(account, "uid");
        match self.body.metadata.uid.as_deref() {
            Some(meant) if !meant.is_empty() && meant != uid => {
                let why = format!(
                    "the UID in the token request ({meant}) does not match the UID of the service account ({uid})"
                );
                Err(Refusal::conflict(AUTHENTICATION, KIND, name, &why))
            }
            _ => Ok(account),
        }
    }

    /// The pod and the node that the token names.
    fn bound(
        &self,
        bound: &BoundObjectReference,
    ) -> Result<(Option<Reference>, Option<Reference>), Refusal> {
        let BoundObject { api_version, kind, name, uid } = BoundObject::from(bound.clone());
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let references = match (group, kind.as_str()) {
            ("", "Pod") => self.pod(&name)?,
            ("", "Node") => (None, Some(Reference::to(self.node(&name)?))),
            _ => {
                let what = format!("{group}/{version}, Kind={kind}");
                let message = format!("cannot bind token to object of type {what}");
                return Err(Refusal::bad_request(message));
            }
        };
        let found = references.0.as_ref().or(references.1.as_ref());
        if !uid.is_empty() && found.is_some_and(|found| found.uid != uid) {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Refusal::conflict(group, &kind, &name, &why));
        }
        Ok(references)
    }

    /// A pod of the account, and its node, if it has one.
    fn pod(&self, name: &str) -> Result<(Option<Reference>, Option<Reference>), Refusal> {
        let pod = self.snapshot.objects.get(Kind::Pod, &self.path.namespace, name);
        let pod = pod.ok_or_else(|| not_found(Kind::Pod, name))?;
        let spec = |field: &str| pod.pointer(&format!("/spec/{field}")).and_then(Value::as_str);
        if spec("serviceAccountName") != Some(&self.path.name) {
            return Err(Refusal::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                Quoted(&self.path.name)
            )));
        }
        let node = spec("nodeName").filter(|node| !node.is_empty()).map(|name| {
            let nameless = || Reference { name: name.to_owned(), uid: String::new() };
            self.node(name).map_or_else(|_| nameless(), Reference::to)
        });
        Ok((Some(Reference::to(pod)), node))
    }

    fn node(&self, name: &str) -> Result<&Value, Refusal> {
        self.snapshot.objects.get(Kind::Node, "", name).ok_or_else(|| not_found(Kind::Node, name))
    }
}

fn check(spec: &TokenRequestSpec) -> Result<(), Refusal> {
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let detail = if seconds < SHORTEST {
        "may not specify a duration less than 10 minutes"
    } else if seconds > LONGEST {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let cause = Cause::invalid("spec.expirationSeconds", &json!(seconds), detail);
    Err(Refusal::invalid(AUTHENTICATION, KIND, "", vec![cause]))
}
