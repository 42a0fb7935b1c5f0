//! `keyfob audience check`.

use std::{io, path::PathBuf};

use clap::Args;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use keyfob_api::{Chain, FeatureGates};
use keyfob_control::{
    facts::{Cluster, FactSource, Manifests, judge_into},
    node_authorizer,
    objects::{Kind, Objects, ObjectsError, Reader},
    rbac::Attributes,
    rule::{Asked, BoundObject, Facts, Found, Opinion, Policy, Question, Verdict as Judgement},
};
use serde_json::json;
use thiserror::Error;

use crate::{
    Outcome, Verdict,
    api_args::{ApiArgs, ApiError},
    audience::report::Report,
    cli::Output,
    lookup::unless_stopped,
    match_images::shown,
    namespaced::Namespaced,
    signals::Workers,
};

#[derive(Debug, Args)]
#[command(
    after_help = "JSON: {\"allowed\",\"node\",\"namespace\",\"pod\",\"serviceAccount\",\"audience\",\"clause\",\"reason\",\"message\",\
                  \"volumes\":[{\"volume\",\"through\",\"audiences\",\"error\"}],\"nodeAuthorizer\",\"remedies\":[{\"what\",\"yaml\"}]}, \
                  where message is what the API server says, and nodeAuthorizer why the node may not even ask, or null.\n\
                  Exit codes: 0 it may, 1 it may not, 2 wrong input, 3 that could not be learnt, 4 the answer could not \
                  be written, 130 it was stopped by a signal."
)]
pub(super) struct CheckArgs {
    /// The pod that the token is for.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pod: Namespaced,
    /// The audience. Empty is the API server's own, if the token is asked for without naming one, as for a pod's mounted token.
    #[arg(long)]
    audience: String,
    /// The node that asks. Without it: the pod's.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The service account. Without it: the pod's.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// Look into manifests instead of a cluster: a file or directory of YAML or JSON, as `kubectl get -o yaml` prints. May be
    /// repeated. A pod that is on no node yet is taken to be on the one that asks.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    objects: Vec<PathBuf>,
    /// KEP-4412's list of audiences that every node may ask for, if the API server or the webhook has one.
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',')]
    allowed_kubelet_audiences: Vec<String>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    api: ApiArgs,
}

pub(super) fn run(args: &CheckArgs) -> Outcome {
    let check = unless_stopped(args.check());
    match Workers::new().and_then(|runtime| runtime.block_on(check)) {
        Ok(Ok(Ok(report))) => report.outcome(args.output),
        Ok(Ok(Err(error))) => error.into(),
        Ok(Err(stopped)) => stopped.into(),
        Err(error) => CheckError::from(error).into(),
    }
}

/// Where facts come from.
enum World {
    Cluster(Cluster, String),
    Files(Objects),
}

impl CheckArgs {
    async fn check(&self) -> Result<Report, CheckError> {
        let mut world = self.world()?;
        let pod = world.pod(&self.pod).await?;
        let node = self.node_of(&world, &pod)?;
        if let World::Files(objects) = &mut world {
            schedule(objects, &self.pod, &pod, &node);
        }
        let asked = self.asked(&pod, &node);
        let judgement = world.judge(&asked, &self.policy()).await?;
        Ok(Report { judgement, node, node_authorizer: world.may_ask(&asked).await })
    }

    fn world(&self) -> Result<World, CheckError> {
        if self.objects.is_empty() {
            let api = self.api.open()?;
            return Ok(World::Cluster(Cluster::new(api.client).redacting(api.secrets), api.server));
        }
        let mut reader = Reader::default().ignore_unknown();
        self.objects.iter().try_for_each(|path| reader.path(path))?;
        Ok(World::Files(reader.finish().0))
    }

    fn node_of(&self, world: &World, pod: &Pod) -> Result<String, CheckError> {
        let its_node = spec(pod).and_then(|spec| spec.node_name.clone());
        let node = self.node.clone().or(its_node).filter(|node| !node.is_empty());
        node.ok_or_else(|| match world {
            World::Cluster(..) => CheckError::Pending(self.pod.to_string()),
            World::Files(_) => CheckError::NoNode(self.pod.to_string()),
        })
    }

    fn asked(&self, pod: &Pod, node: &str) -> Asked {
        let mut asked = Asked::by_node(node);
        let account = spec(pod).and_then(|spec| spec.service_account_name.clone());
        let account = self.service_account.clone().or(account).filter(|name| !name.is_empty());
        asked.namespace.clone_from(&self.pod.namespace);
        asked.service_account = account.unwrap_or_else(|| "default".to_owned());
        asked.audiences = vec![self.audience.clone()];
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        asked.bound = Some(BoundObject::pod(self.pod.name.clone(), uid));
        asked
    }

    fn policy(&self) -> Policy {
        let allowed_kubelet_audiences = self.allowed_kubelet_audiences.clone();
        Policy { allowed_kubelet_audiences, ..Policy::default() }
    }
}

impl World {
    async fn pod(&self, pod: &Namespaced) -> Result<Pod, CheckError> {
        let key = (pod.namespace.clone(), pod.name.clone());
        let question = Question::Pod(key.0.clone(), key.1.clone());
        let mut facts = Facts::default();
        self.learn(question, &mut facts).await;
        match facts.pods.remove(&key) {
            Some(Found::Yes(pod)) => Ok(*pod),
            Some(Found::Unknown(why)) => Err(self.silent(why)),
            _ => Err(CheckError::NoPod { pod: pod.to_string(), place: self.to_string() }),
        }
    }

    async fn learn(&self, question: Question, facts: &mut Facts) {
        match self {
            Self::Cluster(cluster, _) => cluster.learn(question, facts).await,
            Self::Files(objects) => Manifests(objects).learn(question, facts).await,
        }
    }

    async fn judge(&self, asked: &Asked, policy: &Policy) -> Result<Judgement, CheckError> {
        let mut facts = Facts::default();
        let judgement = match self {
            Self::Cluster(cluster, _) => judge_into(&mut facts, asked, policy, cluster).await,
            Self::Files(objects) => {
                judge_into(&mut facts, asked, policy, &Manifests(objects)).await
            }
        };
        if !judgement.allowed() && !facts.unanswered.is_empty() {
            return Err(self.silent(facts.unanswered.join("; ")));
        }
        Ok(judgement)
    }

    /// Before the rule is asked, the node must be allowed to ask for tokens of the account at all. An API server that does
    /// not say is no reason to say nothing.
    async fn may_ask(&self, asked: &Asked) -> Option<Opinion> {
        let attributes = Attributes::from(asked);
        match self {
            Self::Cluster(cluster, _) => cluster.authorize(attributes).await.ok(),
            Self::Files(objects) => {
                Some(node_authorizer::authorize(objects, FeatureGates::default(), &attributes))
            }
        }
    }

    fn silent(&self, why: String) -> CheckError {
        CheckError::Unanswered(self.to_string(), why)
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster(_, server) => write!(f, "the cluster at {server}"),
            Self::Files(_) => f.write_str("the manifests"),
        }
    }
}

fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

/// A manifest is not on a node yet: it is asked what would be if it were on this one.
fn schedule(objects: &mut Objects, name: &Namespaced, pod: &Pod, node: &str) {
    let on_none =
        spec(pod).is_none_or(|spec| spec.node_name.as_deref().unwrap_or_default().is_empty());
    let found = objects.get(Kind::Pod, &name.namespace, &name.name).cloned();
    if let (true, Some(mut value)) = (on_none, found) {
        if let Some(spec) = value.get_mut("spec").and_then(|spec| spec.as_object_mut()) {
            spec.insert("nodeName".to_owned(), json!(node));
        }
        objects.put(Kind::Pod, &name.namespace, &name.name, value);
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
enum CheckError {
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("{}", Chain(.0))]
    Objects(#[from] ObjectsError),
    #[error("there is no pod {} in {place}", shown(pod))]
    NoPod { pod: String, place: String },
    #[error("the pod {} is on no node yet: wait until it is, or name the node with --node", shown(.0))]
    Pending(String),
    #[error("the pod {} is on no node: name the one that would ask with --node", shown(.0))]
    NoNode(String),
    #[error("it could not be learnt from {0}: {1}")]
    Unanswered(String, String),
    #[error("cannot wait for answers: {0}")]
    System(#[from] io::Error),
}

impl From<CheckError> for Outcome {
    fn from(error: CheckError) -> Self {
        let verdict = match error {
            CheckError::Unanswered(..) | CheckError::System(_) => Verdict::Nothing,
            _ => Verdict::WrongInput,
        };
        Self { stderr: format!("keyfob: {error}\n"), verdict, ..Self::default() }
    }
}
