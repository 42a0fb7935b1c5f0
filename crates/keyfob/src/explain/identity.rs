//! As whom a provider was asked, or why as nobody; and what to do then.

use std::time::SystemTime;

use keyfob_api::{ClaimedObject, Claims, Timestamp};
use keyfob_config::ValidProvider;
use keyfob_control::{
    grant::{Grant, GrantError},
    rule::{Clause, VERB},
};
use keyfob_host::{
    CallError, GlobalAnswers, Identity, IdentityError, IdentityStep, PodIdentity, Skipped,
};
use keyfob_keyring::ServiceAccountCoordinates;

use super::{
    command, gather,
    report::{self, Problem},
};
use crate::identity_args::{Finding, Place, Puller, Standing, is_of_the_audience};

/// Whoever pulls, as it was typed.
pub(super) fn puller(puller: &Puller) -> report::Puller {
    let pod = &puller.pod;
    report::Puller {
        service_account: format!("{}/{}", pod.namespace, pod.service_account),
        pod: pod.pod.as_ref().map(|pod| pod.name.clone()),
        source: match &puller.place {
            Place::Cluster(server) => server.clone(),
            Place::Directory(path) => path.display().to_string(),
            Place::Embedded => "embedded".to_owned(),
        },
    }
}

/// Who requested tokens, and whether the pod's node may.
pub(super) fn requests(puller: &Puller) -> Vec<report::TokenRequest> {
    let from_a_file = |finding| report::TokenRequest {
        audience: String::new(),
        user: None,
        groups: Vec::new(),
        node: None,
        node_may: None,
        finding,
        is_node: false,
    };
    let unchecked = puller.unchecked().map(from_a_file);
    unchecked.into_iter().chain(puller.findings().iter().map(request)).collect()
}

fn request(finding: &Finding) -> report::TokenRequest {
    report::TokenRequest {
        audience: finding.audience.clone(),
        user: Some(finding.requester.to_string()),
        groups: finding.requester.groups.clone(),
        node: finding.node.clone(),
        node_may: match finding.standing {
            Standing::Allowed(_) => Some(true),
            Standing::Refused(_) => Some(false),
            Standing::IsNode | Standing::Unchecked(_) => None,
        },
        finding: finding.sentence(),
        is_node: finding.standing == Standing::IsNode,
    }
}

/// An identity, without its token.
pub(super) fn told(identity: &Identity, now: SystemTime) -> report::Identity {
    report::Identity {
        annotations: identity.annotations.clone(),
        claims: Claims::of(&identity.token).map(claims),
        expires: Some(Timestamp::from(identity.expires).to_string()),
        lifetime: Some(gather::lifetime(identity.expires, now)),
        ..account(&identity.account, &identity.audience)
    }
}

fn account(account: &ServiceAccountCoordinates, audience: &str) -> report::Identity {
    report::Identity {
        service_account: account.to_string(),
        uid: Some(account.uid.clone()).filter(|uid| !uid.is_empty()),
        audience: audience.to_owned(),
        ..report::Identity::default()
    }
}

fn claims(claims: Claims) -> report::Claims {
    let object = |object: Option<ClaimedObject>| {
        object.map(|ClaimedObject { name, uid, .. }| report::Object { name, uid })
    };
    report::Claims {
        issuer: claims.issuer,
        subject: claims.subject,
        audiences: claims.audiences,
        pod: object(claims.kubernetes.pod),
        node: object(claims.kubernetes.node),
    }
}

/// Whether a provider that uses service accounts may answer for every image, and who says so.
pub(super) fn global_answers(
    provider: &ValidProvider,
    wished: GlobalAnswers,
) -> Option<report::GlobalAnswers> {
    provider.token_attributes()?;
    let allowed = !wished.refused_from(provider);
    let reason = match (wished, allowed) {
        (GlobalAnswers::Allow, _) => "by --global-answers allow",
        (GlobalAnswers::Refuse, _) => "by --global-answers refuse",
        (_, true) => "as by a kubelet",
        (_, false) => "as KEP-4412 has it, in whose dialect the provider is written",
    };
    Some(report::GlobalAnswers { allowed, reason })
}

/// The identity that could not be had, and what to do about it; nothing if the failure is of another kind.
pub(super) fn refused(
    error: &CallError,
    puller: Option<&Puller>,
) -> Option<(report::Identity, String)> {
    let CallError::Identity { step, account: who, audience, source, .. } = error else {
        return None;
    };
    let mut identity = account(who, audience);
    let place = puller.map(|puller| &puller.place);
    let remedy = match source {
        IdentityError::Forbidden(words) if is_of_the_audience(&words.to_string()) => {
            let granted = grant(who, audience);
            let remedy = granted.as_ref().map(|_| of_audience(audience, place));
            let remedy = remedy.unwrap_or_else(ToString::to_string);
            identity.grant = granted.ok();
            remedy
        }
        IdentityError::Forbidden(words) => of_refusal(&words.to_string(), *step, who),
        IdentityError::NotFound(_) => of_absence(*step, who, audience, place),
        IdentityError::Replaced(_) => REPLACED.to_owned(),
        _ if matches!(place, Some(Place::Directory(_))) => {
            "correct --token-dir, or mend the file that is named".to_owned()
        }
        _ => UNREACHED.to_owned(),
    };
    Some((identity, remedy))
}

const REPLACED: &str = "try again: the account or the pod was deleted and made anew; correct --pod-uid, if it was given";
const UNREACHED: &str = "see that the API server runs and can be reached: kubectl get --raw /readyz asks it too, with the \
                         same kubeconfig";

fn of_audience(audience: &str, place: Option<&Place>) -> String {
    let audience = command::quoted(audience);
    let or = match place {
        Some(Place::Embedded) => {
            format!(
                "add it to --objects, or the audience to --allowed-kubelet-audiences {audience}"
            )
        }
        _ => "kubectl apply -f FILE".to_owned(),
    };
    format!(
        "allow it to the nodes: no role grants the verb {VERB} on the resource {audience}; the one below does: {or}"
    )
}

/// For every node: pods move.
fn grant(account: &ServiceAccountCoordinates, audience: &str) -> Result<report::Grant, GrantError> {
    let grant = Grant {
        node: None,
        namespace: Some(account.namespace.clone()),
        service_account: Some(account.name.clone()),
        audience: audience.to_owned(),
    };
    let clause = Clause::NotAuthorized { reason: String::new() };
    let yaml = grant.yaml()?;
    Ok(report::Grant { clause: clause.name().to_owned(), verb: VERB.to_owned(), yaml })
}

/// What the words of a refusal ask for.
const REFUSALS: [(&str, &str); 9] = [
    (", not on ", "leave out --node: the pod's own node requests its tokens"),
    ("there is no node ", "correct --node, or leave it out; there are: kubectl get nodes"),
    (
        "does not know who asks",
        "log in to the cluster anew: kubectl auth whoami, with the same kubeconfig, says who asks",
    ),
    (
        "not bound to a pod",
        "name the pod with --pod: a node gets only tokens that are bound to a pod",
    ),
    ("does not match the UID in record", REPLACED),
    ("different node", "ask as the pod's own node: a node gets tokens only for its own pods"),
    (
        "no relationship found between node",
        "ask as the pod's own node, and for the pod's own account: a node gets nothing else",
    ),
    (
        "error validating audience",
        "mend the pod's volumes, or their claims and drivers; until then no role helps, since nobody asks for it",
    ),
    (
        "different serviceaccount",
        "correct --service-account or --pod: the pod runs as another account",
    ),
];

fn of_refusal(words: &str, step: IdentityStep, account: &ServiceAccountCoordinates) -> String {
    if let Some((_, remedy)) = REFUSALS.iter().find(|(sign, _)| words.contains(sign)) {
        return (*remedy).to_owned();
    }
    if !words.to_ascii_lowercase().contains("forbidden") {
        return "correct what it refuses".to_owned();
    }
    let [namespace, name] = [&account.namespace, &account.name].map(|text| command::quoted(text));
    let (verb, resource, can) = match step {
        _ if words.starts_with("pods ") => {
            ("get", "pods (or give --pod-uid)", "get pods".to_owned())
        }
        IdentityStep::Token => (
            "create",
            "serviceaccounts/token",
            format!("create serviceaccounts/{name} --subresource token"),
        ),
        _ => ("get", "serviceaccounts", format!("get serviceaccounts/{name}")),
    };
    format!(
        "give whoever asks the verb {verb} on {resource} in namespace {namespace}; to see it: kubectl auth can-i {can} \
         --namespace {namespace}"
    )
}

fn of_absence(
    step: IdentityStep,
    account: &ServiceAccountCoordinates,
    audience: &str,
    place: Option<&Place>,
) -> String {
    let ServiceAccountCoordinates { namespace, name, .. } = account;
    // One for each account and audience, so that none replaces another.
    let file = format!("{name}-{audience}").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let [namespace, name, audience] = [namespace, name, audience].map(command::quoted);
    match (place, step) {
        (Some(Place::Directory(path)), _) => {
            let file = command::quoted(&path.join(file).to_string_lossy());
            format!(
                "put one there: kubectl create token {name} --namespace {namespace} --audience {audience} > {file}"
            )
        }
        (Some(Place::Embedded), _) => "add it to --objects, or correct the name".to_owned(),
        (_, IdentityStep::Token) => {
            format!("correct --pod; there are: kubectl get pods --namespace {namespace}")
        }
        _ => format!(
            "correct --service-account, or create it: kubectl create serviceaccount {name} --namespace {namespace}"
        ),
    }
}

/// About a provider that was passed over.
pub(super) fn of_skipped(skipped: &Skipped, puller: Option<&Puller>) -> Problem {
    match (skipped, puller) {
        (Skipped::MissingAnnotation { key }, Some(Puller { pod, place, .. })) => Problem::new(
            format!(
                "required annotation {key} not found on service account {}/{}",
                pod.namespace, pod.service_account
            ),
            of_missing_annotation(key, pod, place),
        ),
        (Skipped::NoServiceAccount, _) => Problem::new(
            skipped.to_string(),
            "say whose pull it is, with --service-account NAMESPACE/NAME: a kubelet asks it with the pod's",
        ),
        _ => Problem::new(skipped.to_string(), "see the provider's configuration"),
    }
}

fn of_missing_annotation(key: &str, pod: &PodIdentity, place: &Place) -> String {
    let [namespace, name, key_value] =
        [&pod.namespace, &pod.service_account, &format!("{key}=VALUE")]
            .map(|text| command::quoted(text));
    match place {
        Place::Cluster(_) => {
            format!("kubectl annotate serviceaccount {name} --namespace {namespace} {key_value}")
        }
        Place::Embedded => "add it to the account in --objects".to_owned(),
        Place::Directory(path) => {
            let file = path.join(format!("{}.yaml", pod.service_account));
            let file = command::quoted(&file.to_string_lossy());
            format!(
                "if the account has it, put that there: kubectl get serviceaccount {name} --namespace {namespace} -o yaml \
                 > {file}"
            )
        }
    }
}
