//! What a live cluster says.
//!
//! Objects are read one by one as the rule asks for them, and the authorizer is asked by a `SubjectAccessReview`: so the
//! needed rights are few (`deploy/base/rbac.yaml`), and what is decided on is never an old copy. Upstream decides on what its
//! informers hold.

use std::{error::Error, fmt, time::Duration};

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::Node,
};
use keyfob_api::SecretSet;
use keyfob_exec::BoxFuture;
use keyfob_net::api_server::{ApiClient, ApiError, ApiResponse, is_name, plain, status_message};
use kube::{Client, Resource, api::GetParams, core::Request};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    facts::FactSource,
    objects::read,
    rbac::Attributes,
    rule::{Facts, Found, Opinion, Question},
};

/// Objects are a fraction of this.
const LONGEST_ANSWER: usize = 8 << 20;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a live cluster did not answer. In messages the secrets that the API server was shown are hidden.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The request cannot be written, for example because a name cannot be part of a path.
    #[error(transparent)]
    BadRequest(Box<dyn Error + Send + Sync>),
    /// The API server, or a credential for it, cannot be had.
    #[error("{message}")]
    Unreachable {
        /// Why not.
        message: String,
        /// What that was made of. No source, because the error of `kube` within may quote secrets.
        error: ApiError,
    },
    /// The API server took too long.
    #[error("the API server did not answer within {}s", .0.as_secs())]
    Timeout(Duration),
    /// The answer ended early, or is longer than any that is expected.
    #[error("the API server's answer broke off, or is too long")]
    Incomplete,
    /// The API server refused.
    #[error("{message}")]
    Refused {
        /// The status of its answer.
        code: http::StatusCode,
        /// Its own words.
        message: String,
    },
    /// The answer is not the object that was asked for.
    #[error("the API server's answer is none of Kubernetes")]
    Undecodable,
    /// The answer lacks what it was asked for.
    #[error("the answer to a {kind} {lacks}")]
    Empty {
        /// The kind of the review.
        kind: &'static str,
        /// What is missing, as the end of a sentence.
        lacks: &'static str,
    },
}

impl ClusterError {
    fn bad_request(error: impl Error + Send + Sync + 'static) -> Self {
        Self::BadRequest(Box::new(error))
    }
}

/// Facts of a live cluster.
#[derive(Clone)]
pub struct Cluster {
    client: ApiClient,
    /// What the server was shown.
    secrets: SecretSet,
}

impl Cluster {
    /// Asks with this client.
    pub fn new(client: Client) -> Self {
        let client = ApiClient::new(client, LONGEST_ANSWER, PATIENCE);
        Self { client, secrets: SecretSet::default() }
    }

    /// Hides these where the server repeats them: what the client shows to the server belongs here
    /// (`keyfob_client::Clients::secrets`).
    #[must_use]
    pub fn redacting(mut self, secrets: SecretSet) -> Self {
        self.secrets = secrets;
        self
    }

    /// Whether the API server answers at all; if not, why.
    pub async fn answers(&self) -> Result<(), ClusterError> {
        let request = http::Request::get("/version").body(Vec::new());
        self.ask::<Value>(request.map_err(ClusterError::bad_request)?).await.map(drop)
    }

    /// Who issues the API server's tokens, as its `OpenID` discovery says.
    pub async fn issuer(&self) -> Result<String, ClusterError> {
        #[derive(Deserialize)]
        struct Discovery {
            issuer: String,
        }
        let request = http::Request::get("/.well-known/openid-configuration").body(Vec::new());
        let request = request.map_err(ClusterError::bad_request)?;
        let discovery: Discovery = self.ask(request).await?;
        Ok(self.secrets.redact(&discovery.issuer))
    }

    /// Whom the API server takes this client for: the user and its groups.
    pub async fn user(&self) -> Result<(String, Vec<String>), ClusterError> {
        let review = serde_json::to_vec(&SelfSubjectReview::default());
        let request = http::Request::post(SelfSubjectReview::url_path(&(), None))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.map_err(ClusterError::bad_request)?);
        let request = request.map_err(ClusterError::bad_request)?;
        let answer: SelfSubjectReview = self.ask(request).await?;
        let user = answer.status.and_then(|status| status.user_info).unwrap_or_default();
        match user.username.filter(|name| !name.is_empty()) {
            Some(name) => {
                let groups = user.groups.unwrap_or_default();
                let groups = groups.iter().map(|group| self.secrets.redact(group)).collect();
                Ok((self.secrets.redact(&name), groups))
            }
            None => Err(ClusterError::Empty { kind: "SelfSubjectReview", lacks: "names nobody" }),
        }
    }

    /// Whether there is a node of this name.
    pub async fn has_node(&self, name: &str) -> Result<bool, ClusterError> {
        Ok(matches!(self.get::<Node>(None, name).await?, Found::Yes(_)))
    }

    /// What the cluster's authorizers say, all of them together.
    pub async fn authorize(&self, asked: Attributes) -> Result<Opinion, ClusterError> {
        let review = serde_json::to_vec(&review(asked)).map_err(ClusterError::bad_request)?;
        let request = http::Request::post(SubjectAccessReview::url_path(&(), None))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review);
        let request = request.map_err(ClusterError::bad_request)?;
        let answer: SubjectAccessReview = self.ask(request).await?;
        let lacks = ClusterError::Empty { kind: "SubjectAccessReview", lacks: "has no status" };
        let status = answer.status.ok_or(lacks)?;
        let reason = self.secrets.redact(&status.reason.unwrap_or_default());
        let error = status.evaluation_error.map(|error| self.secrets.redact(&error));
        // An authorizer that denies ends the matter, whatever another one says.
        let allowed = status.allowed && !status.denied.unwrap_or_default();
        Ok(Opinion { allowed, reason, error })
    }

    async fn answer(&self, question: Question, facts: &mut Facts) -> Result<(), ClusterError> {
        match question {
            Question::Pod(namespace, name) => {
                let pod = self.get(Some(&namespace), &name).await?;
                facts.pods.insert((namespace, name), pod);
            }
            Question::Claim(namespace, name) => {
                let claim = self.get(Some(&namespace), &name).await?;
                facts.claims.insert((namespace, name), claim);
            }
            Question::Volume(name) => {
                let volume = self.get(None, &name).await?;
                facts.volumes.insert(name, volume);
            }
            Question::Driver(name) => {
                let driver = self.get(None, &name).await?;
                facts.drivers.insert(name, driver);
            }
            Question::Authorizer(access) => {
                let audience = access.audience.clone();
                facts.authorizer.insert(audience, self.authorize(access.into()).await?);
            }
        }
        Ok(())
    }

    async fn get<K>(&self, namespace: Option<&str>, name: &str) -> Result<Found<K>, ClusterError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        // A node chooses the name of the pod, and whoever reaches the webhook's port the namespace, too: they must not
        // choose another path with it.
        if !namespace.into_iter().chain([name]).all(is_name) {
            return Ok(Found::No);
        }
        let request = Request::new(K::url_path(&(), namespace)).get(name, &GetParams::default());
        let request = request.map_err(ClusterError::bad_request)?;
        let response = self.exchange(request).await?;
        if response.status() == http::StatusCode::NOT_FOUND {
            return Ok(Found::No);
        }
        let object: Value = self.read(&response)?;
        let object = read(&object).map_err(|_| ClusterError::Undecodable)?;
        Ok(Found::Yes(Box::new(object)))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<T, ClusterError> {
        let response = self.exchange(request).await?;
        self.read(&response)
    }

    fn read<T: DeserializeOwned>(&self, response: &ApiResponse) -> Result<T, ClusterError> {
        if !response.status().is_success() {
            let message = self.secrets.redact(&refusal(response));
            return Err(ClusterError::Refused { code: response.status(), message });
        }
        response.json().map_err(|_| ClusterError::Undecodable)
    }

    async fn exchange(&self, request: http::Request<Vec<u8>>) -> Result<ApiResponse, ClusterError> {
        let response = self.client.exchange(request).await;
        response.map_err(|error| match error {
            ApiError::NotAnswered(why) => ClusterError::Unreachable {
                message: self.secrets.redact(&plain(&why)),
                error: ApiError::NotAnswered(why),
            },
            ApiError::Timeout(after) => ClusterError::Timeout(after),
            _ => ClusterError::Incomplete,
        })
    }
}

impl FactSource for Cluster {
    fn learn<'a>(&'a self, question: Question, facts: &'a mut Facts) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(why) = self.answer(question.clone(), facts).await {
                facts.give_up(question, &why.to_string());
            }
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

fn review(asked: Attributes) -> SubjectAccessReview {
    let resource = ResourceAttributes {
        verb: Some(asked.verb),
        group: Some(asked.api_group),
        version: Some("v1".to_owned()),
        resource: Some(asked.resource),
        subresource: Some(asked.subresource),
        name: Some(asked.name),
        namespace: Some(asked.namespace),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(asked.user),
        groups: Some(asked.groups),
        resource_attributes: Some(resource),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// Why the server refuses, in its own words if it has some.
fn refusal(response: &ApiResponse) -> String {
    const READ: usize = 16_000;
    let (status, body) = (response.status(), response.body());
    let message = status_message(body);
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    if message.is_empty() {
        return format!("the API server answered {status}");
    }
    message.chars().take(READ).collect()
}
