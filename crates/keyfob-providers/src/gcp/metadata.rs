//! The metadata service of a Compute Engine instance.

use keyfob_exec::Environment;
use keyfob_plugin::{Call, Doing as _, Failure};

use super::token::{Issued, Token};
use crate::{
    http::{Http, Reply},
    world::variable,
};

/// The dot at the end keeps resolvers from trying the search list first.
const HOST: &str = "metadata.google.internal.";
const USER_AGENT: &str = "GKE auth-provider-gcp image pull";

#[derive(Debug)]
pub(super) struct Metadata {
    http: Http,
    base: String,
}

impl Metadata {
    pub(super) fn new(http: Http, environment: &dyn Environment) -> Self {
        let host = variable(environment, "GCE_METADATA_HOST");
        let host = host.as_deref().unwrap_or(HOST);
        Self { http, base: format!("http://{host}/computeMetadata/v1/") }
    }

    /// The node's own token. The account's e-mail address is not asked for: nobody needs it.
    pub(super) async fn token(&self, call: &Call) -> Result<Token, Failure> {
        let issued = self.get("instance/service-accounts/default/token", call).await?;
        issued.json::<Issued>()?.token(call)
    }

    pub(super) async fn get(&self, path: &str, call: &Call) -> Result<Reply, Failure> {
        call.step("asking the metadata service");
        let reply = self
            .http
            .get(format!("{}{path}", self.base))
            .header("metadata-flavor", "Google")
            .header("user-agent", USER_AGENT)
            .send(call)
            .await
            .and_then(Reply::success);
        reply.doing("asking the metadata service")
    }
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::MapEnvironment;

    use super::*;
    use crate::http::HttpArgs;

    #[test]
    fn the_service_has_a_name_that_no_search_list_changes() {
        let base = |vars: &[(&str, &str)]| {
            let environment: MapEnvironment = vars.iter().copied().collect();
            Metadata::new(Http::new(&HttpArgs::default(), &environment), &environment).base
        };
        let usual = "http://metadata.google.internal./computeMetadata/v1/";
        assert_eq!(base(&[]), usual);
        assert_eq!(base(&[("GCE_METADATA_HOST", "")]), usual);
        let other = base(&[("GCE_METADATA_HOST", "169.254.169.254:80")]);
        assert_eq!(other, "http://169.254.169.254:80/computeMetadata/v1/");
    }
}
