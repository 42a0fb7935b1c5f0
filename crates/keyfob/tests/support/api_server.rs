//! What goes with an API server that a test plays on loopback.

use keyfob_testkit::Response;
use serde_json::json;

/// In the kubeconfig, and to be seen nowhere.
pub(crate) const API_TOKEN: &str = "hunter2-api-token";

/// The kubeconfig that leads to a server.
pub(crate) fn kubeconfig(server: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "ada"}}],
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "ada", "user": {"token": API_TOKEN}}],
    })
    .to_string()
}

/// A `Status`, as an API server writes it.
pub(crate) fn refusal(code: u16, message: &str) -> Response {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "Invalid",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
    });
    Response::json(status.to_string()).with_status(code)
}
