//! Requests tokens as the user of the kubeconfig, but only where the pod's node would get them too.
//!
//! A kubelet requests tokens as its node, and a node may request less than an administrator: only for pods that run on it,
//! and only for audiences that a volume of the pod or a role names. What an administrator is given would be a false success.
//! So unless the user is a node itself, which the API server judges, the rule is applied here first, and a refusal has the
//! words that the node would read.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use keyfob_api::Quoted;
use keyfob_control::{
    facts::{Cluster, FactSource as _, judge_into},
    rbac::Attributes,
    rule::{Access, Asked, BoundObject, Clause, Facts, Found, Policy, Question, node_of},
};
use keyfob_exec::BoxFuture;
use keyfob_host::{
    IdentityError, KubernetesApi, ServiceAccount, ServiceAccounts, ServiceAccountsError, Token,
    TokenRequest,
};

use crate::{api_args::ClaimedUser, explain::command::quoted, match_images::shown};

/// How long the whole check may take if nobody says so.
const PATIENCE: Duration = Duration::from_secs(10);

/// Service accounts of an API server. Tokens are requested only where the pod's node could.
#[derive(Debug)]
pub(super) struct NodeChecked {
    pub(super) accounts: KubernetesApi,
    pub(super) cluster: Cluster,
    /// Who the user claims to be, if the API server does not say who it is.
    pub(super) user: ClaimedUser,
    pub(super) rules: Rules,
    pub(super) timeout: Option<Duration>,
    pub(super) findings: Arc<Findings>,
}

/// What decides whether a node may request a token.
#[derive(Debug)]
pub(super) struct Rules {
    /// The node that requests it; without a name, the pod's.
    pub(super) node: Option<String>,
    pub(super) policy: Policy,
    /// Whether tokens are requested even where the node would be refused.
    pub(super) as_me: bool,
}

/// Who requested tokens, and what is known of the node that a kubelet would request them as.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<Vec<Finding>>);

/// One request for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) requester: Requester,
    /// `NAMESPACE/NAME` of the service account.
    pub(crate) account: String,
    pub(crate) audience: String,
    /// The pod's node, if it is known.
    pub(crate) node: Option<String>,
    pub(crate) standing: Standing,
}

/// Who requested a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    /// Why the API server does not say who it is; the user then is who the kubeconfig's credential claims to be.
    pub(crate) unconfirmed: Option<String>,
}

/// Whether the node may request a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A node requested it: the API server's own answer counts.
    IsNode,
    /// It may, for this reason.
    Allowed(String),
    /// It may not.
    Refused(Refusal),
    /// This could not be found out.
    Unchecked(String),
}

/// Why a node may not request a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What it would read.
    words: String,
    /// What else there is to know.
    why: Option<String>,
    remedy: Remedy,
}

/// What helps against a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Remedy {
    /// A role that allows the audience.
    Role,
    /// Something else, in a sentence.
    Other(String),
    Nothing,
}

/// Where a role that is missing is to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// To the cluster, with this command.
    Cluster { kubectl: String },
    /// To the files of the embedded API server.
    Objects,
}

impl Findings {
    /// Everything that was found out, each once.
    pub(crate) fn all(&self) -> Vec<Finding> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, finding: Finding) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&finding) {
            all.push(finding);
        }
    }
}

impl Finding {
    /// The node, as far as it is known.
    fn node(&self) -> String {
        match (&self.node, &self.standing) {
            (Some(node), _) => format!("node {}", shown(node)),
            (None, Standing::Allowed(_)) => "any node".to_owned(),
            (None, _) => "the pod's node".to_owned(),
        }
    }

    /// Who may not.
    fn refused(&self) -> String {
        match &self.node {
            Some(node) => format!("node {} may not", shown(node)),
            None => "no node may".to_owned(),
        }
    }

    /// How this request differs from a kubelet's, and what to do about it: a line each.
    pub(crate) fn warnings(&self, missing: &Missing) -> Vec<String> {
        let (sentence, requester) = (self.sentence(), &self.requester);
        match &self.standing {
            Standing::IsNode => Vec::new(),
            Standing::Refused(_) => [sentence].into_iter().chain(self.remedies(missing)).collect(),
            _ => vec![format!("the token was requested as {requester}, not as a node; {sentence}")],
        }
    }

    /// What to do about a refusal, a line each. A node is refused by the API server.
    pub(crate) fn remedies(&self, missing: &Missing) -> Vec<String> {
        let refusal = match &self.standing {
            Standing::Refused(refusal) => refusal,
            Standing::IsNode => return vec![self.grant(missing)],
            _ => return Vec::new(),
        };
        let remedy = match &refusal.remedy {
            Remedy::Role => Some(self.grant(missing)),
            Remedy::Other(remedy) => Some(remedy.clone()),
            Remedy::Nothing => None,
        };
        let as_me = format!("--as-me requests the token as {}", self.requester);
        remedy.into_iter().chain([as_me]).collect()
    }

    /// The command that allows it. A node may not run it: it may change no roles.
    fn grant(&self, missing: &Missing) -> String {
        let [audience, account] = [&self.audience, &self.account].map(|text| quoted(text));
        let role =
            format!("keyfob audience rbac --audience {audience} --service-account {account}");
        match missing {
            Missing::Objects => {
                format!("to allow it, add --objects role.yaml after: {role} > role.yaml")
            }
            Missing::Cluster { .. } if self.standing == Standing::IsNode => {
                format!("to allow it, as an administrator: {role} | kubectl apply -f -")
            }
            Missing::Cluster { kubectl } => format!("to allow it: {role} | {kubectl} apply -f -"),
        }
    }

    /// Why there is no token, if the node may not have it.
    pub(crate) fn cause(&self, words: &str) -> Option<String> {
        let what = format!("request tokens for audience {}", Quoted(&self.audience));
        match &self.standing {
            Standing::Refused(Refusal { remedy: Remedy::Nothing, .. }) => None,
            Standing::Refused(Refusal { why: Some(why), .. }) => {
                Some(format!("{} {what}: {why}", self.refused()))
            }
            Standing::Refused(_) => Some(format!("{} {what}", self.refused())),
            Standing::IsNode if is_of_the_audience(words) => {
                Some(format!("{} {what}", self.refused()))
            }
            _ => None,
        }
    }

    /// Whether the node may, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let (node, what) =
            (self.node(), format!("request tokens for audience {}", shown(&self.audience)));
        match &self.standing {
            Standing::IsNode => format!(
                "requested by a node, so the API server decides: {node} may {what} if it says so"
            ),
            Standing::Allowed(why) => format!("{node} may {what}: {why}"),
            Standing::Refused(Refusal { why, .. }) => {
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let account = shown(&self.account);
                format!("{} {what}, of service account {account}{why}", self.refused())
            }
            Standing::Unchecked(why) => {
                format!("whether {node} may {what} was not checked: {why}")
            }
        }
    }
}

/// In the words of `NodeRestriction`, today's and those before.
pub(crate) fn is_of_the_audience(words: &str) -> bool {
    words.contains("is not authorized to request tokens for")
        || words.contains("not found in pod spec volume")
}

impl Refusal {
    /// What is wrong with the node that was named.
    fn of_node(words: String, remedy: String) -> Standing {
        let why = Some(words.clone());
        Standing::Refused(Self { words, why, remedy: Remedy::Other(remedy) })
    }
}

impl ServiceAccounts for NodeChecked {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        self.accounts.get(namespace, name)
    }

    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        Box::pin(async move {
            let finding = self.check(request).await;
            let standing = finding.standing.clone();
            self.findings.add(finding);
            match standing {
                Standing::Refused(refusal) => {
                    Err(IdentityError::Forbidden(ServiceAccountsError::new(refusal.words)))
                }
                _ => self.accounts.token(request).await,
            }
        })
    }
}

impl NodeChecked {
    /// Who asks, by the API server's word, or else by its own credential.
    pub(super) async fn user(&self) -> (String, Vec<String>) {
        let patience = self.timeout.unwrap_or(PATIENCE);
        match tokio::time::timeout(patience, self.cluster.user()).await {
            Ok(Ok(user)) => user,
            _ => (self.user.name.clone(), self.user.groups.clone()),
        }
    }

    async fn check(&self, request: &TokenRequest) -> Finding {
        let patience = self.timeout.unwrap_or(PATIENCE);
        let mut finding = Finding {
            requester: Requester {
                user: self.user.name.clone(),
                groups: self.user.groups.clone(),
                unconfirmed: None,
            },
            account: format!("{}/{}", request.namespace, request.service_account),
            audience: request.audiences.join(", "),
            node: self.rules.node.clone(),
            standing: Standing::Unchecked(format!(
                "the API server did not answer within {} s",
                patience.as_secs_f32()
            )),
        };
        // Whatever was found out until then is kept.
        tokio::time::timeout(patience, self.find_out(request, &mut finding))
            .await
            .unwrap_or_default();
        finding
    }

    async fn find_out(&self, request: &TokenRequest, finding: &mut Finding) {
        match self.cluster.user().await {
            Ok((user, groups)) => {
                finding.requester = Requester { user, groups, unconfirmed: None };
            }
            Err(why) => finding.requester.unconfirmed = Some(why.to_string()),
        }
        let Requester { user, groups, .. } = &finding.requester;
        if let Some(node) = node_of(user, groups) {
            finding.node = Some(node.to_owned());
            finding.standing = Standing::IsNode;
            return;
        }
        if self.rules.as_me {
            finding.standing = Standing::Unchecked("--as-me asks for no check".to_owned());
            return;
        }
        let mut facts = Facts::default();
        let bound = match self.bound(request, &mut facts).await {
            Ok(bound) => bound,
            Err(standing) => {
                finding.standing = standing;
                return;
            }
        };
        let node = bound.as_ref().and_then(|(_, node)| node.clone());
        if let Some(standing) = self.wrong_node(request, node.as_deref()).await {
            finding.standing = standing;
            return;
        }
        finding.node = self.rules.node.clone().or_else(|| node.clone());
        finding.standing = match (bound, &node) {
            (Some((bound, _)), Some(node)) => {
                let mut asked = Asked::by_node(node);
                asked.namespace.clone_from(&request.namespace);
                asked.service_account.clone_from(&request.service_account);
                asked.audiences.clone_from(&request.audiences);
                asked.bound = Some(bound);
                self.judge(&asked, &mut facts).await
            }
            _ => self.judge_any_pod(request, finding.node.as_deref()).await,
        };
    }

    /// What is wrong with the node that was named, if the pod is on another or there is none of that name.
    async fn wrong_node(&self, request: &TokenRequest, its: Option<&str>) -> Option<Standing> {
        let named = self.rules.node.as_deref().filter(|named| Some(*named) != its)?;
        if matches!(self.cluster.has_node(named).await, Ok(false)) {
            let remedy = match its {
                Some(its) => format!("leave out --node, or write --node {}", quoted(its)),
                None => "leave out --node, or correct it".to_owned(),
            };
            return Some(Refusal::of_node(format!("there is no node {}", shown(named)), remedy));
        }
        let (its, pod) = (its?, pod(request)?);
        Some(Refusal::of_node(
            format!("{pod} runs on {}, not on {}", shown(its), shown(named)),
            format!("leave out --node, or write --node {}", quoted(its)),
        ))
    }

    /// The pod that the token is bound to, and its node; nothing if it is bound to none.
    async fn bound(
        &self,
        request: &TokenRequest,
        facts: &mut Facts,
    ) -> Result<Option<(BoundObject, Option<String>)>, Standing> {
        let Some(reference) = &request.pod else { return Ok(None) };
        let key = (request.namespace.clone(), reference.name.clone());
        self.cluster.learn(Question::Pod(key.0.clone(), key.1.clone()), facts).await;
        match facts.pods.get(&key) {
            Some(Found::Yes(pod)) => {
                let its_uid = pod.metadata.uid.clone().unwrap_or_default();
                let uid = Some(reference.uid.clone()).filter(|uid| !uid.is_empty());
                let bound = BoundObject::pod(&reference.name, uid.unwrap_or(its_uid));
                Ok(Some((bound, node_name(pod))))
            }
            Some(Found::Unknown(why)) => Err(Standing::Unchecked(why.clone())),
            // The request for the token will say so.
            _ => Err(Standing::Unchecked("there is no such pod".to_owned())),
        }
    }

    /// What the node's own request would meet: first the authorizers, then the rule about audiences.
    async fn judge(&self, asked: &Asked, facts: &mut Facts) -> Standing {
        let may_ask = self.cluster.authorize(Attributes::from(asked)).await;
        if let Ok(opinion) = &may_ask
            && !opinion.allowed
        {
            let words = format!(
                "serviceaccounts {} is forbidden: User {} cannot create resource \"serviceaccounts/token\" in API group \"\" \
                 in the namespace {}: {}",
                Quoted(&asked.service_account),
                Quoted(&asked.user),
                Quoted(&asked.namespace),
                opinion.error.as_deref().unwrap_or(&opinion.reason)
            );
            return Standing::Refused(Refusal { words, why: None, remedy: Remedy::Nothing });
        }
        let verdict = judge_into(facts, asked, &self.rules.policy, &self.cluster).await;
        match may_ask {
            _ if !verdict.allowed() && facts.unanswered.is_empty() => {
                let remedy = match verdict.clause {
                    Clause::NotAuthorized { .. } => Remedy::Role,
                    _ => Remedy::Nothing,
                };
                Standing::Refused(Refusal { words: verdict.message(), why: None, remedy })
            }
            _ if !verdict.allowed() => Standing::Unchecked(facts.unanswered.join("; ")),
            Err(why) => Standing::Unchecked(why.to_string()),
            Ok(_) => Standing::Allowed(verdict.clause.to_string()),
        }
    }

    /// Without a pod on a node only a role can allow the audience: there is no volume that could.
    async fn judge_any_pod(&self, request: &TokenRequest, node: Option<&str>) -> Standing {
        let asked = Asked::by_node(node.unwrap_or_default());
        let audience = request.audiences.first().cloned().unwrap_or_default();
        if self.rules.policy.allowed_kubelet_audiences.contains(&audience) {
            return Standing::Allowed("the list of allowed kubelet audiences has it".to_owned());
        }
        let access = Access {
            user: asked.user,
            groups: asked.groups,
            namespace: request.namespace.clone(),
            service_account: request.service_account.clone(),
            audience: audience.clone(),
        };
        match self.cluster.authorize(access.into()).await {
            Ok(opinion) if opinion.allowed => Standing::Allowed("a role allows it".to_owned()),
            Ok(_) => {
                let why = match pod(request) {
                    Some(pod) => format!("{pod} is on no node yet, so only a role can allow it"),
                    None => "no role allows it, and no pod was named (--pod) whose volumes could"
                        .to_owned(),
                };
                let words = format!(
                    "serviceaccounts {} is forbidden: a node is not authorized to request tokens for audience {} by any role; {why}",
                    Quoted(&request.service_account),
                    Quoted(&audience)
                );
                Standing::Refused(Refusal { words, why: Some(why), remedy: Remedy::Role })
            }
            Err(why) => Standing::Unchecked(why.to_string()),
        }
    }
}

/// The pod that the token is bound to, in a sentence.
fn pod(request: &TokenRequest) -> Option<String> {
    let pod = request.pod.as_ref()?;
    Some(format!("pod {}", shown(&format!("{}/{}", request.namespace, pod.name))))
}

fn node_name(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unconfirmed {
            None => f.write_str(&self.user),
            Some(why) => {
                write!(f, "{} (not confirmed by the API server: {why})", self.user)
            }
        }
    }
}
