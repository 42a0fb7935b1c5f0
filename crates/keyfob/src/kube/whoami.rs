//! `keyfob kube whoami`: who a kubeconfig's user is, by its credential and by its server.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use http::Request;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use keyfob_api::SecretSet;
use keyfob_exec::{Clock as _, SystemClock};
use keyfob_net::api_server::{ApiClient, ApiError};
use kube::Client;
use serde::Serialize;
use serde_json::json;

use super::{
    chosen::{Chosen, Cluster},
    cluster_args::ClusterArgs,
    described::Described,
    failure::{KubeFailure, said},
    get::refusal,
    on_cluster,
};
use crate::{
    Outcome, Verdict, cli::Output, explain::command::without_user, match_images::shown, page::Page,
};

/// A user is a few lines.
const LONGEST_ANSWER: usize = 1 << 20;

/// No server thinks longer about who somebody is.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(
    after_help = "No secret is printed. What a token claims is not verified here; the server does that: see --ask.\n\
                  JSON: {\"context\",\"cluster\",\"server\",\"user\",\"credential\":{\"source\",\"command\",\"generation\",\
                  \"token\":{\"kind\",\"claims\":{\"subject\",\"issuer\",\"audiences\",\"issued\",\"expires\",\"expiresIn\"}},\
                  \"certificate\":{\"commonName\",\"organizations\",\"notBefore\",\"notAfter\",\"expiresIn\"},\"username\",\
                  \"expirationTimestamp\",\"expiresIn\"},\"impersonates\",\"serverSays\":{\"username\",\"uid\",\"groups\",\"extra\"}}; \
                  what there is not is null.\n\
                  Exit codes: 0 the user has a credential, 1 it has none, the plugin failed, or the server did not answer, \
                  2 a flag, the kubeconfig or the kuberc is wrong, 4 the answer could not be written, 130 it was stopped by a signal."
)]
pub(super) struct WhoamiArgs {
    /// Ask the API server too, with a `SelfSubjectReview`, whom it takes the user for.
    #[arg(long)]
    ask: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// All there is to say.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    context: String,
    cluster: String,
    server: String,
    user: String,
    credential: Option<Described>,
    /// As whom requests act, if not as the user.
    impersonates: Option<String>,
    /// Whom the server takes it for; `null` if it was not asked.
    server_says: Option<Subject>,
}

/// Somebody, as the server knows them.
#[derive(Debug, Serialize)]
struct Subject {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

pub(super) fn run(args: &WhoamiArgs) -> Outcome {
    on_cluster(&args.cluster, async |cluster| args.tell(cluster).await)
        .unwrap_or_else(Outcome::from)
}

impl WhoamiArgs {
    async fn tell(&self, cluster: &Cluster) -> Result<Outcome, KubeFailure> {
        let mut report = Report::of(&cluster.chosen);
        let mut complaints = Vec::new();
        match cluster.held().await {
            Ok(held) => report.credential = Some(Described::new(&held, SystemClock.now())),
            // The server has a name for nobody too.
            Err(KubeFailure::Nobody(why)) if self.ask => complaints.push(why),
            Err(failure) => return Err(failure),
        }
        if self.ask {
            let (client, _) = cluster.connect()?;
            let secrets = cluster.secrets();
            match ask(client).await {
                Ok(subject) => report.server_says = Some(subject.redacted(secrets)),
                Err(why) => {
                    let why = secrets.redact(&why);
                    complaints.push(format!("the server does not say who it is: {why}"));
                }
            }
        }
        let stdout = match self.output {
            Output::Table => report.page(),
            Output::Json => crate::page::json(&report),
        };
        let verdict = if complaints.is_empty() { Verdict::Yes } else { Verdict::No };
        let stderr = complaints.iter().map(|why| ["keyfob: ", why, "\n"].concat()).collect();
        Ok(Outcome { stdout, stderr, verdict })
    }
}

async fn ask(client: Client) -> Result<Subject, String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("Content-Type", "application/json")
        .body(review.to_string().into_bytes())
        .map_err(|error| error.to_string())?;
    let client = ApiClient::new(client, LONGEST_ANSWER, PATIENCE);
    let response = client.exchange(request).await.map_err(|error| match error {
        ApiError::NotAnswered(error) => said(&error),
        error => error.to_string(),
    })?;
    if !response.status().is_success() {
        return Err(refusal(response.status(), response.body()));
    }
    let review: Result<SelfSubjectReview, _> = response.json();
    let review = review.map_err(|_| "its answer is none of Kubernetes".to_owned())?;
    let user = review.status.and_then(|status| status.user_info);
    user.map(Subject::from).ok_or_else(|| "its answer names nobody".to_owned())
}

impl Subject {
    /// A server may call somebody by the token that they showed.
    fn redacted(self, secrets: &SecretSet) -> Self {
        let hide = |text: String| secrets.redact(&text);
        let hide_all = |texts: Vec<String>| texts.into_iter().map(hide).collect();
        let extra = self.extra.into_iter().map(|(name, values)| (hide(name), hide_all(values)));
        Self {
            username: hide(self.username),
            uid: hide(self.uid),
            groups: hide_all(self.groups),
            extra: extra.collect(),
        }
    }
}

impl From<UserInfo> for Subject {
    fn from(user: UserInfo) -> Self {
        Self {
            username: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}

impl Report {
    fn of(chosen: &Chosen) -> Self {
        let (selection, impersonate) = (&chosen.selection, &chosen.config.impersonate);
        Self {
            context: selection.context_name.clone(),
            cluster: selection.cluster_name.clone(),
            server: without_user(&chosen.config.server),
            user: selection.user_name.clone(),
            credential: None,
            impersonates: Some(impersonate.user.clone()).filter(|user| !user.is_empty()),
            server_says: None,
        }
    }

    fn page(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("user {} of context {}", shown(&self.user), shown(&self.context)));
        page.fact("cluster", &format!("{} at {}", shown(&self.cluster), shown(&self.server)));
        if let Some(credential) = &self.credential {
            credential.print(&mut page);
        }
        if let Some(user) = &self.impersonates {
            page.fact("acts as", &shown(user));
        }
        if let Some(subject) = &self.server_says {
            page.heading(&format!("the server takes it for {}", shown(&subject.username)));
            if !subject.uid.is_empty() {
                page.fact("uid", &shown(&subject.uid));
            }
            page.facts("groups", subject.groups.iter().map(|group| shown(group)));
            let extra = subject.extra.iter();
            page.facts(
                "extra",
                extra.map(|(name, values)| {
                    let values: Vec<_> = values.iter().map(|value| shown(value)).collect();
                    format!("{}: {}", shown(name), values.join(", "))
                }),
            );
        }
        page.text()
    }
}
