//! From a request to its answer: who asks, may they, and what is it.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::PathRejection},
    http::{
        HeaderMap, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use keyfob_control::objects::Kind;
use serde_json::{Value, json};
use tracing::debug;

use super::{
    Api,
    authorize::{attributes_of, refusal},
    body, discovery,
    request::{RequestInfo, ResourcePath},
    resources::{CORE, Resource, Review},
    status::Refusal,
    store::Snapshot,
    users::User,
    watch::Selection,
    writes::namespace,
};

/// The one handler.
pub(super) async fn handle(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    Parts { method, uri, headers, .. }: Parts,
    body: Bytes,
) -> Response {
    let path = path.map_or_else(|_| "/".to_owned(), |Path(path)| format!("/{path}"));
    let snapshot = api.store.snapshot();
    let mut user = String::new();
    let answer = RequestInfo::read(&method, &uri, path.clone()).and_then(|info| {
        let asking = api.user(&headers, &snapshot)?;
        user.clone_from(&asking.name);
        let call = Call { api: &api, user: asking, info, snapshot, headers: &headers, body: &body };
        call.answer()
    });
    let answer = answer.unwrap_or_else(Refusal::into_response);
    debug!(user, %method, path, status = answer.status().as_u16(), "answered");
    answer
}

/// A request whose user is known.
struct Call<'a> {
    api: &'a Arc<Api>,
    user: User,
    info: RequestInfo,
    snapshot: Snapshot,
    headers: &'a HeaderMap,
    body: &'a [u8],
}

impl Call<'_> {
    fn answer(&self) -> Result<Response, Refusal> {
        let wanted = attributes_of(&self.user, &self.info);
        let opinion = self.api.authorize(&self.snapshot.objects, &wanted, &self.info.fields()?);
        if !opinion.allowed {
            // Who has no name is asked for it.
            let nobody = self.user == User::anonymous();
            let refusal = || refusal(&wanted, &opinion.reason);
            return Err(if nobody { Refusal::unauthorized() } else { refusal() });
        }
        match &self.info.resource {
            None => self.document(),
            Some(path) if path.version != "v1" => Err(Refusal::no_such_path()),
            Some(path) => self.resource(path),
        }
    }

    /// A path that is no resource.
    fn document(&self) -> Result<Response, Refusal> {
        if !["get", "head"].contains(&self.info.verb) {
            return Err(Refusal::method_not_allowed());
        }
        let cached = [(CACHE_CONTROL, "public, max-age=3600")];
        match self.info.path.trim_end_matches('/') {
            "/healthz" | "/livez" | "/readyz" => Ok("ok".into_response()),
            "/.well-known/openid-configuration" => {
                Ok((cached, Json(self.api.openid_configuration())).into_response())
            }
            "/openid/v1/jwks" => {
                let kind = [(CONTENT_TYPE, "application/jwk-set+json")];
                Ok((cached, kind, self.api.signer.key_set().to_string()).into_response())
            }
            path => {
                let document = discovery::document(path, &self.api.host.to_string());
                document.map(json_answer).ok_or_else(Refusal::no_such_path)
            }
        }
    }

    fn resource(&self, path: &ResourcePath) -> Result<Response, Refusal> {
        let is_token =
            path.group == CORE && path.resource == "serviceaccounts" && path.subresource == "token";
        if is_token {
            self.only_create()?;
            let body = body::json(self.headers, self.body)?;
            let token = self.api.create_token(&self.user, path, body, &self.snapshot);
            return token.map(created);
        }
        if !path.subresource.is_empty() {
            return Err(Refusal::no_such_path());
        }
        // What is created is named by its body: whoever may create one name could else create any.
        if self.info.verb == "create" && !path.name.is_empty() {
            return Err(Refusal::method_not_allowed());
        }
        if let Some(review) = Review::find(&path.group, &path.resource) {
            is_there(review.namespaced, path)?;
            self.only_create()?;
            let body = body::json(self.headers, self.body)?;
            let reviewed = self.api.review((review, path), &self.user, body, &self.snapshot);
            return reviewed.map(created);
        }
        let resource = Resource::find(&path.group, &path.resource);
        let resource = resource.ok_or_else(Refusal::no_such_path)?;
        // A namespace lies in itself.
        let itself = resource.kind == Kind::Namespace && path.namespace == path.name;
        is_there(resource.namespaced || itself, path)?;
        self.stored(resource, path)
    }

    fn only_create(&self) -> Result<(), Refusal> {
        self.changes_nothing_by_halves()?;
        if self.info.verb == "create" { Ok(()) } else { Err(Refusal::method_not_allowed()) }
    }

    /// What is to be tried only is not done.
    fn changes_nothing_by_halves(&self) -> Result<(), Refusal> {
        let trial = !self.info.query("dryRun").is_empty();
        if trial { Err(Refusal::bad_request("dryRun is not served here")) } else { Ok(()) }
    }

    /// Something that is kept.
    fn stored(
        &self,
        resource: &'static Resource,
        path: &ResourcePath,
    ) -> Result<Response, Refusal> {
        self.changes_nothing_by_halves()?;
        if resource.namespaced
            && path.namespace.is_empty()
            && !["list", "watch"].contains(&self.info.verb)
        {
            return Err(Refusal::method_not_allowed());
        }
        let read = || body::json(self.headers, self.body);
        match self.info.verb {
            "get" => self.get(resource, path).map(json_answer),
            "list" => self.list(resource, path).map(json_answer),
            "watch" => self.api.watch(Selection::read(resource, path, &self.info)?, &self.info),
            "create" => self.api.create(resource, path, read()?).map(created),
            "update" => self.api.replace(resource, path, read()?).map(json_answer),
            "patch" => {
                let changes = body::patch(self.headers, self.body)?;
                self.api.patch(resource, path, &changes).map(json_answer)
            }
            "delete" => {
                let options = if self.body.is_empty() { Value::Null } else { read()? };
                self.api.delete(resource, path, &options).map(json_answer)
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn get(&self, resource: &Resource, path: &ResourcePath) -> Result<Value, Refusal> {
        let object =
            self.snapshot.objects.get(resource.kind, namespace(resource, path), &path.name);
        object.cloned().ok_or_else(|| Refusal::not_found(resource, &path.name))
    }

    fn list(&self, resource: &'static Resource, path: &ResourcePath) -> Result<Value, Refusal> {
        let selection = Selection::read(resource, path, &self.info)?;
        Ok(json!({
            "kind": format!("{}List", resource.name),
            "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": self.snapshot.revision.to_string()},
            "items": selection.all(&self.snapshot),
        }))
    }
}

/// What lies in no namespace is not found in one: a role there would open it.
fn is_there(namespaced: bool, path: &ResourcePath) -> Result<(), Refusal> {
    let there = namespaced || path.namespace.is_empty();
    if there { Ok(()) } else { Err(Refusal::no_such_path()) }
}

fn json_answer(object: Value) -> Response {
    Json(object).into_response()
}

fn created(object: Value) -> Response {
    (StatusCode::CREATED, Json(object)).into_response()
}
