//! What would allow a node the audience that it may not ask for.

use keyfob_api::Quoted;
use keyfob_control::{
    grant::Grant,
    rule::{Clause, Through, Verdict as Judgement},
};
use serde::Serialize;

/// One way, of which any will do.
#[derive(Debug, Serialize)]
pub(super) struct Remedy {
    pub(super) what: String,
    /// To apply, or to put into the pod.
    pub(super) yaml: Option<String>,
}

/// The ways for a refusal; none for what should not be allowed.
pub(super) fn remedies(judgement: &Judgement) -> Vec<Remedy> {
    match &judgement.clause {
        Clause::NotAuthorized { .. } | Clause::AuthorizerError { .. } => {
            let ways = role(judgement).into_iter().chain([volume(judgement)]);
            ways.chain(drivers(judgement)).collect()
        }
        // Upstream does not ask the authorizer then, so no role helps.
        Clause::VolumeError { .. } => vec![
            plain("volumes that can all be followed; until then no role helps"),
            volume(judgement),
        ],
        Clause::DifferentNode { node: Some(node) } => {
            vec![plain(&format!("asking as the pod's own node: --node {node}"))]
        }
        Clause::DifferentNode { node: None } => {
            vec![plain("a pod that is on the node; this one is on none yet")]
        }
        _ => Vec::new(),
    }
}

fn plain(what: &str) -> Remedy {
    Remedy { what: what.to_owned(), yaml: None }
}

/// Nothing, if a role would allow more than was asked for.
fn role(judgement: &Judgement) -> Option<Remedy> {
    let asked = &judgement.asked;
    let grant = Grant {
        node: None,
        namespace: Some(asked.namespace.clone()),
        service_account: Some(asked.service_account.clone()),
        audience: asked.audience().to_owned(),
    };
    let what =
        "a role, for `kubectl apply -f -`; \"keyfob audience rbac\" prints wider and narrower ones";
    Some(Remedy { what: what.to_owned(), yaml: Some(grant.yaml().ok()?) })
}

fn volume(judgement: &Judgement) -> Remedy {
    let audience = serde_json::json!(judgement.asked.audience());
    let yaml = format!(
        "volumes:\n- name: token\n  projected:\n    sources:\n    - serviceAccountToken:\n        \
         audience: {audience}\n        path: token\n"
    );
    Remedy { what: "a projected volume in the pod".to_owned(), yaml: Some(yaml) }
}

fn drivers(judgement: &Judgement) -> impl Iterator<Item = Remedy> {
    let audience = Quoted(judgement.asked.audience()).to_string();
    judgement.seen.iter().filter_map(move |seen| {
        let Through::Driver(path) = &seen.through else { return None };
        let driver = Quoted(path.driver.as_ref()?);
        Some(plain(&format!(
            "{audience} among the spec.tokenRequests of the CSIDriver {driver}, if its vendor means it to have such tokens"
        )))
    })
}
