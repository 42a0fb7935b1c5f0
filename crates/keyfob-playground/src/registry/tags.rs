//! `GET /v2/NAME/tags/list`.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, Uri, header::LINK};
use serde_json::json;

use super::{
    Server,
    answer::{json_response, pairs},
    name::Repository,
    refusal::{Code, Refusal},
};

impl Server {
    /// The tags in order, `n` of them after `last`, and where the next ones are.
    pub(super) fn list_tags(
        &self,
        name: &Repository,
        uri: &Uri,
    ) -> Result<Response<Body>, Refusal> {
        let tags = self.storage.tags(name);
        let tags = tags.ok_or_else(|| Refusal::new(Code::NameUnknown, "no such repository"))?;
        let query = pairs(uri.query().unwrap_or_default());
        let said = |name: &str| {
            query.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
        };
        let after = said("last").unwrap_or_default();
        let mut page: Vec<String> = tags.into_iter().filter(|tag| tag.as_str() > after).collect();
        let Some(count) = said("n") else {
            return Ok(json_response(&json!({"name": name.as_str(), "tags": page})));
        };
        let count: usize = count.parse().map_err(|_| {
            let wrong = Refusal::new(Code::Unsupported, "n is not a number");
            wrong.status(StatusCode::BAD_REQUEST)
        })?;
        let has_more = page.len() > count;
        page.truncate(count);
        let mut response = json_response(&json!({"name": name.as_str(), "tags": page}));
        if let Some(last) = page.last().filter(|_| has_more) {
            let next = format!(r#"</v2/{name}/tags/list?n={count}&last={last}>; rel="next""#);
            let next = HeaderValue::from_str(&next);
            response.headers_mut().extend(next.ok().map(|next| (LINK, next)));
        }
        Ok(response)
    }
}
