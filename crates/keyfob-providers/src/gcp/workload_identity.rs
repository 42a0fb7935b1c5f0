//! The identity of a pod: its token, traded at Google's token service, and again for that of a service account if the
//! command line wants it so.

use keyfob_plugin::{Doing as _, Failure, ImageRequest};
use serde_json::json;

use super::{
    Args, SCOPE,
    impersonation::{Email, Impersonation},
    token::{Issued, Token},
};
use crate::http::{Http, Reply};

/// The annotation by which a service account asks for it.
pub(super) const OPT_IN: &str = "iam.gke.io/enable-wi-image-pull";
pub(super) const ACCOUNT: &str = "iam.gke.io/gcp-service-account";

#[derive(Debug)]
pub(super) struct WorkloadIdentity {
    http: Http,
    sts_url: String,
    audience: String,
    impersonation: Impersonation,
    account: Option<Email>,
    account_from_annotation: bool,
}

/// Whether the pod's service account asks for it.
pub(super) fn is_wanted_by(request: &ImageRequest) -> bool {
    request.annotation(OPT_IN) == Some("true")
}

impl WorkloadIdentity {
    /// As the command line wants it, if it does.
    pub(super) fn of(args: &Args, http: Http) -> Result<Option<Self>, Failure> {
        let (cluster, project) = (&args.identity_provider, &args.project_id);
        if cluster.is_empty() {
            return Ok(None);
        }
        if project.is_empty() {
            return Err(Failure::new(
                "project-id required: --identity-provider needs --project-id",
            ));
        }
        Ok(Some(Self {
            sts_url: args.sts_url.clone(),
            audience: format!("identitynamespace:{project}.svc.id.goog:{cluster}"),
            impersonation: Impersonation::new(http.clone(), &args.iam_credentials_url),
            account: args.impersonate.clone(),
            account_from_annotation: args.impersonate_from_annotation,
            http,
        }))
    }

    pub(super) async fn token(&self, request: &ImageRequest) -> Result<Token, Failure> {
        let account = self.account(request)?;
        let federated = self.federated(request).await?;
        match account {
            Some(account) => self.impersonation.token(&federated, &account, request.call()).await,
            None => Ok(federated),
        }
    }

    async fn federated(&self, request: &ImageRequest) -> Result<Token, Failure> {
        let token = request.service_account_token().filter(|token| !token.expose().is_empty());
        let token = token.ok_or_else(|| {
            Failure::new(format!(
                "the service account has {OPT_IN}, but the request has no token of it: set tokenAttributes for this \
                 plugin in the kubelet's CredentialProviderConfig"
            ))
        })?;
        let call = request.call();
        call.step("asking Google's token service");
        let body = json!({
            "audience": self.audience,
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "scope": SCOPE,
            "subject_token": token.expose(),
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        });
        let reply = self.http.post(&*self.sts_url).json(&body).send(call).await;
        let reply = reply.and_then(Reply::success).doing("trading the pod's token")?;
        let federated = reply.json::<Issued>()?.token(call)?;
        call.hide(&federated.secret);
        Ok(federated)
    }

    /// Whoever edits a service account chooses its annotations, so they choose an account only where that was allowed.
    fn account(&self, request: &ImageRequest) -> Result<Option<Email>, Failure> {
        let annotation = request.annotation(ACCOUNT).filter(|_| self.account_from_annotation);
        match annotation {
            Some(email) => Ok(Some(email.parse().doing(format_args!("annotation {ACCOUNT}"))?)),
            None => Ok(self.account.clone()),
        }
    }
}
