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
use keyfob_host::{
    Fetching, IdentityError, KubernetesApi, ServiceAccount, ServiceAccounts, Token, TokenRequest,
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
    /// Whether a role would allow it.
    role_helps: bool,
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
    pub(crate) fn node(&self) -> String {
        let named = self.node.as_ref().map(|node| format!("node {}", shown(node)));
        named.unwrap_or_else(|| "the pod's node".to_owned())
    }

    /// How this request differs from a kubelet's.
    pub(crate) fn warning(&self) -> String {
        let (sentence, requester) = (self.sentence(), &self.requester);
        match &self.standing {
            Standing::Refused(refusal) => {
                let remedy = if refusal.role_helps { self.grant() } else { String::new() };
                format!("{sentence}{remedy}; --as-me requests them as {requester} all the same")
            }
            _ => format!("the token was requested as {requester}, not as a node; {sentence}"),
        }
    }

    /// The command that allows it.
    fn grant(&self) -> String {
        let [audience, account] = [&self.audience, &self.account].map(|text| quoted(text));
        format!(
            "; to allow it: keyfob audience rbac --audience {audience} --service-account {account} | kubectl apply -f -"
        )
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
            Standing::Refused(_) => {
                format!("{node} may not {what}, of service account {}", shown(&self.account))
            }
            Standing::Unchecked(why) => {
                format!("whether {node} may {what} was not checked: {why}")
            }
        }
    }
}

impl ServiceAccounts for NodeChecked {
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> Fetching<'a, ServiceAccount> {
        self.accounts.get(namespace, name)
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> Fetching<'a, Token> {
        Box::pin(async move {
            let finding = self.check(request).await;
            let standing = finding.standing.clone();
            self.findings.add(finding);
            match standing {
                Standing::Refused(refusal) => Err(IdentityError::Forbidden(refusal.words)),
                _ => self.accounts.token(request).await,
            }
        })
    }
}

impl NodeChecked {
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
            Err(why) => finding.requester.unconfirmed = Some(why),
        }
        let Requester { user, groups, .. } = &finding.requester;
        if node_of(user, groups).is_some() {
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
        finding.node = self.rules.node.clone().or(node);
        finding.standing = match (bound, &finding.node) {
            (Some((bound, _)), Some(node)) => {
                let mut asked = Asked::by_node(node);
                asked.namespace.clone_from(&request.namespace);
                asked.service_account.clone_from(&request.service_account);
                asked.audiences.clone_from(&request.audiences);
                asked.bound = Some(bound);
                self.judge(&asked, &mut facts).await
            }
            (_, node) => self.judge_any_pod(request, node.as_deref()).await,
        };
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
            return Standing::Refused(Refusal { words, role_helps: false });
        }
        let verdict = judge_into(facts, asked, &self.rules.policy, &self.cluster).await;
        match may_ask {
            _ if !verdict.allowed() && facts.unanswered.is_empty() => {
                let role_helps = matches!(verdict.clause, Clause::NotAuthorized { .. });
                Standing::Refused(Refusal { words: verdict.message(), role_helps })
            }
            _ if !verdict.allowed() => Standing::Unchecked(facts.unanswered.join("; ")),
            Err(why) => Standing::Unchecked(why),
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
                let words = format!(
                    "serviceaccounts {} is forbidden: a node is not authorized to request tokens for audience {} by any role, and \
                     no pod is known whose volumes name it (--pod)",
                    Quoted(&request.service_account),
                    Quoted(&audience)
                );
                Standing::Refused(Refusal { words, role_helps: true })
            }
            Err(why) => Standing::Unchecked(why),
        }
    }
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
