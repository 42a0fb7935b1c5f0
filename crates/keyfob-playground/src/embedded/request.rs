//! What a request is for, by its method and path.
//!
//! Upstream: `RequestInfoFactory` in `apiserver/pkg/endpoints/request`.

use std::collections::HashMap;

use axum::{
    extract::Query,
    http::{Method, Uri},
};

use super::{selector::Fields, status::Refusal};

/// A request, as authorizers see it.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestInfo {
    /// `get`, `list`, `create` …
    pub(super) verb: &'static str,
    /// The path, decoded.
    pub(super) path: String,
    /// What of the API it is for; nothing for a path such as `/version`.
    pub(super) resource: Option<ResourcePath>,
    pub(super) query: HashMap<String, String>,
}

/// `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: String,
    pub(super) resource: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl RequestInfo {
    pub(super) fn read(method: &Method, uri: &Uri, path: String) -> Result<Self, Refusal> {
        let query = Query::<HashMap<String, String>>::try_from_uri(uri);
        let Query(query) = query.map_err(|error| Refusal::bad_request(error.to_string()))?;
        let mut info = Self { verb: plain_verb(method)?, path, resource: None, query };
        if let Some(mut resource) = ResourcePath::read(&info.path) {
            info.verb = info.resource_verb(resource.name.is_empty());
            if resource.name.is_empty() && ["list", "watch"].contains(&info.verb) {
                // Whoever asks for one object by its name is asked about that one.
                info.fields()?.name().unwrap_or_default().clone_into(&mut resource.name);
            }
            info.resource = Some(resource);
        }
        Ok(info)
    }

    /// A parameter of the query; empty where there is none.
    pub(super) fn query(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        matches!(self.query(name), "true" | "1")
    }

    /// The `fieldSelector`.
    pub(super) fn fields(&self) -> Result<Fields, Refusal> {
        Fields::read(self.query("fieldSelector"))
    }

    fn resource_verb(&self, of_all: bool) -> &'static str {
        match (self.verb, of_all) {
            // What is allowed for one name must not open the others: an object is never watched by its path.
            ("get" | "head", true) if self.is_set("watch") => "watch",
            ("get" | "head", true) => "list",
            ("head", false) => "get",
            ("delete", true) => "deletecollection",
            ("post", _) => "create",
            ("put", _) => "update",
            (verb, _) => verb,
        }
    }
}

fn plain_verb(method: &Method) -> Result<&'static str, Refusal> {
    Ok(match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return Err(Refusal::method_not_allowed()),
    })
}

impl ResourcePath {
    fn read(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?.to_owned();
        let parts: Vec<&str> = parts.collect();
        let (namespace, parts) = match parts.as_slice() {
            ["namespaces", namespace, resource, ..] if *resource != "status" => {
                (*namespace, parts.get(2..)?)
            }
            // A namespace lies in itself.
            ["namespaces", namespace, ..] => (*namespace, parts.as_slice()),
            all => ("", all),
        };
        let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
        let path = Self {
            group: group.to_owned(),
            version,
            namespace: namespace.to_owned(),
            resource: part(0),
            name: part(1),
            // What is too deep is nothing that is served.
            subresource: parts.get(2..).unwrap_or_default().join("/"),
        };
        (!path.resource.is_empty()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &Method, uri: &'static str) -> RequestInfo {
        let uri = Uri::from_static(uri);
        RequestInfo::read(method, &uri, uri.path().to_owned()).unwrap()
    }

    fn told(method: &Method, uri: &'static str) -> String {
        let info = info(method, uri);
        let ResourcePath { group, namespace, resource, name, subresource, .. } =
            info.resource.unwrap_or_default();
        [info.verb, &group, &namespace, &resource, &name, &subresource].join("|")
    }

    #[test]
    fn a_request_is_what_upstream_takes_it_for() {
        let get = |uri| told(&Method::GET, uri);
        assert_eq!(get("/api/v1/pods"), "list|||pods||");
        assert_eq!(get("/api/v1/namespaces/a/pods/b"), "get||a|pods|b|");
        assert_eq!(get("/api/v1/namespaces"), "list|||namespaces||");
        assert_eq!(get("/api/v1/namespaces/a"), "get||a|namespaces|a|");
        assert_eq!(get("/api/v1/namespaces/a/status"), "get||a|namespaces|a|status");
        assert_eq!(get("/api/v1/pods?watch=true"), "watch|||pods||");
        assert_eq!(get("/api/v1/nodes/n?watch=true"), "get|||nodes|n|");
        assert_eq!(get("/api/v1/nodes?fieldSelector=metadata.name%3Dn"), "list|||nodes|n|");
        assert_eq!(
            get("/apis/storage.k8s.io/v1/csidrivers/d"),
            "get|storage.k8s.io||csidrivers|d|"
        );
        assert_eq!(get("/version"), "get|||||");
        assert_eq!(get("/api/v1"), "get|||||");
        let post = told(&Method::POST, "/api/v1/namespaces/a/serviceaccounts/b/token");
        assert_eq!(post, "create||a|serviceaccounts|b|token");
        let named = told(&Method::POST, "/api/v1/nodes?fieldSelector=metadata.name%3Dn");
        assert_eq!(named, "create|||nodes||");
        assert_eq!(told(&Method::DELETE, "/api/v1/nodes"), "deletecollection|||nodes||");
        assert_eq!(told(&Method::PATCH, "/api/v1/nodes/n"), "patch|||nodes|n|");
    }
}
