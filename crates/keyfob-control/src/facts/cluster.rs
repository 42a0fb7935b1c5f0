//! What a live cluster says.
//!
//! Objects are read one by one as the rule asks for them, and the authorizer is asked by a `SubjectAccessReview`: so the
//! needed rights are few (`deploy/base/rbac.yaml`), and what is decided on is never an old copy. Upstream decides on what its
//! informers hold.

use std::{error::Error as StdError, fmt, time::Duration};

use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::Node,
};
use keyfob_api::SecretSet;
use kube::{
    Client, Error, Resource,
    api::GetParams,
    client::{AuthError, Body},
    core::{Request, Status},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    facts::{FactSource, Learning},
    objects::read,
    rbac::Attributes,
    rule::{Facts, Found, Opinion, Question},
};

const NOT_OF_KUBERNETES: &str = "the API server's answer is none of Kubernetes";

/// Objects are a fraction of this.
const LONGEST_ANSWER: usize = 8 << 20;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Facts of a live cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// What the server was shown.
    secrets: SecretSet,
}

impl Cluster {
    /// Asks with this client.
    pub fn new(client: Client) -> Self {
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
    pub async fn answers(&self) -> Result<(), String> {
        let request = http::Request::get("/version").body(Vec::new());
        self.ask::<Value>(request.map_err(|error| error.to_string())?).await.map(drop)
    }

    /// Who issues the API server's tokens, as its `OpenID` discovery says.
    pub async fn issuer(&self) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Discovery {
            issuer: String,
        }
        let request = http::Request::get("/.well-known/openid-configuration").body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        let discovery: Discovery = self.ask(request).await?;
        Ok(self.secrets.redact(&discovery.issuer))
    }

    /// Whom the API server takes this client for: the user and its groups.
    pub async fn user(&self) -> Result<(String, Vec<String>), String> {
        let review = serde_json::to_vec(&SelfSubjectReview::default());
        let request = http::Request::post(SelfSubjectReview::url_path(&(), None))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.map_err(|error| error.to_string())?);
        let request = request.map_err(|error| error.to_string())?;
        let answer: SelfSubjectReview = self.ask(request).await?;
        let user = answer.status.and_then(|status| status.user_info).unwrap_or_default();
        match user.username.filter(|name| !name.is_empty()) {
            Some(name) => {
                let groups = user.groups.unwrap_or_default();
                let groups = groups.iter().map(|group| self.secrets.redact(group)).collect();
                Ok((self.secrets.redact(&name), groups))
            }
            None => Err("the answer to a SelfSubjectReview names nobody".to_owned()),
        }
    }

    /// Whether there is a node of this name.
    pub async fn has_node(&self, name: &str) -> Result<bool, String> {
        Ok(matches!(self.get::<Node>(None, name).await?, Found::Yes(_)))
    }

    /// What the cluster's authorizers say, all of them together.
    pub async fn authorize(&self, asked: Attributes) -> Result<Opinion, String> {
        let review = serde_json::to_vec(&review(asked)).map_err(|error| error.to_string())?;
        let request = http::Request::post(SubjectAccessReview::url_path(&(), None))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review);
        let request = request.map_err(|error| error.to_string())?;
        let answer: SubjectAccessReview = self.ask(request).await?;
        let status = answer.status.ok_or("the answer to a SubjectAccessReview has no status")?;
        let reason = self.secrets.redact(&status.reason.unwrap_or_default());
        let error = status.evaluation_error.map(|error| self.secrets.redact(&error));
        // An authorizer that denies ends the matter, whatever another one says.
        let allowed = status.allowed && !status.denied.unwrap_or_default();
        Ok(Opinion { allowed, reason, error })
    }

    async fn answer(&self, question: Question, facts: &mut Facts) -> Result<(), String> {
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

    async fn get<K>(&self, namespace: Option<&str>, name: &str) -> Result<Found<K>, String>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        // A node chooses the name of the pod, and whoever reaches the webhook's port the namespace, too: they must not
        // choose another path with it.
        if !namespace.into_iter().chain([name]).all(is_name) {
            return Ok(Found::No);
        }
        let request = Request::new(K::url_path(&(), namespace)).get(name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        let object: Value = match self.exchange(request).await? {
            (http::StatusCode::NOT_FOUND, _) => return Ok(Found::No),
            answer => self.read(answer)?,
        };
        let object = read(&object).map_err(|_| NOT_OF_KUBERNETES)?;
        Ok(Found::Yes(Box::new(object)))
    }

    async fn ask<T: DeserializeOwned>(&self, request: http::Request<Vec<u8>>) -> Result<T, String> {
        let answer = self.exchange(request).await?;
        self.read(answer)
    }

    /// Answers are read here and not by `kube`, which logs refusals and what it cannot decode: a token may stand there.
    fn read<T: DeserializeOwned>(
        &self,
        (status, body): (http::StatusCode, Vec<u8>),
    ) -> Result<T, String> {
        if !status.is_success() {
            return Err(self.secrets.redact(&refusal(status, &body)));
        }
        serde_json::from_slice(&body).map_err(|_| NOT_OF_KUBERNETES.to_owned())
    }

    async fn exchange(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<(http::StatusCode, Vec<u8>), String> {
        let exchange = async {
            let response = self.client.send(request.map(Body::from)).await;
            let response = response.map_err(|error| self.secrets.redact(&plain(&error)))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
            let body = body.map_err(|_| "the API server's answer broke off, or is too long")?;
            Ok((status, body.to_bytes().to_vec()))
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        answer.unwrap_or_else(|_| {
            Err(format!("the API server did not answer within {}s", PATIENCE.as_secs()))
        })
    }
}

impl FactSource for Cluster {
    fn learn<'a>(&'a self, question: Question, facts: &'a mut Facts) -> Learning<'a> {
        Box::pin(async move {
            if let Err(why) = self.answer(question.clone(), facts).await {
                facts.give_up(question, &why);
            }
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

/// Whether an object can have this name: a DNS subdomain, roughly.
fn is_name(name: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(fits)
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
fn refusal(code: http::StatusCode, body: &[u8]) -> String {
    const READ: usize = 16_000;
    let status: Option<Status> = serde_json::from_slice(body).ok();
    let message = match status {
        Some(status) => status.message,
        None => String::from_utf8_lossy(body).trim().to_owned(),
    };
    if message.is_empty() {
        return format!("the API server answered {code}");
    }
    message.chars().take(READ).collect()
}

/// What went wrong with a request to an API server, in plain words and without a secret.
pub fn plain(error: &Error) -> String {
    match error {
        Error::Api(status) if status.message.is_empty() => {
            format!("the API server answered {} {}", status.code, status.reason)
                .trim_end()
                .to_owned()
        }
        Error::Api(status) => status.message.clone(),
        Error::Auth(error) => no_credentials(error),
        Error::Service(error) => match causes(&**error).find_map(|cause| cause.downcast_ref()) {
            Some(error) => no_credentials(error),
            None => format!("the API server cannot be reached: {}", chain(&**error)),
        },
        // A parser may quote what it read.
        Error::SerdeError(_) => NOT_OF_KUBERNETES.to_owned(),
        other => chain(other),
    }
}

/// Some of these errors quote what a credential plugin printed, which may be a token.
fn no_credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => {
            format!("the credential plugin of the kubeconfig cannot be started: {error}")
        }
        AuthError::AuthExecRun { out, .. } => {
            format!("the credential plugin of the kubeconfig failed: {}", out.status)
        }
        AuthError::ReadTokenFile(error, file) => {
            format!("the token file {} cannot be read: {error}", file.display())
        }
        _ => "the user of the kubeconfig has no usable credentials".to_owned(),
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn chain(error: &(dyn StdError + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::ExitStatusExt as _,
        process::{ExitStatus, Output},
    };

    use super::*;

    #[test]
    fn what_a_credential_plugin_printed_is_not_shown() {
        let failed = || {
            let status = ExitStatus::from_raw(256);
            let out = Output { status, stdout: b"hunter2".into(), stderr: b"hunter2".into() };
            AuthError::AuthExecRun { cmd: "TOKEN=hunter2 plugin".to_owned(), out: Box::new(out) }
        };
        for error in [Error::Auth(failed()), Error::Service(Box::new(failed()))] {
            let shown = plain(&error);
            assert_eq!(shown, "the credential plugin of the kubeconfig failed: exit status: 1");
        }
        let parsed = Error::Auth(AuthError::AuthExec("hunter2".to_owned()));
        assert_eq!(plain(&parsed), "the user of the kubeconfig has no usable credentials");
    }

    #[test]
    fn only_what_can_be_a_name_is_asked_for() {
        for name in ["app", "app-0", "com.example.csi", &"a".repeat(253)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "a?x", "A", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
