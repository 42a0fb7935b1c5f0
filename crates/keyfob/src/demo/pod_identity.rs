//! A pod needs no password: its token says who it is, and the registry knows whom to ask whether that is true.

use keyfob_api::Claims;
use keyfob_host::Identity;
use keyfob_images::PullPolicy;

use super::{
    cluster::{AUDIENCE, WEB},
    node::{Node, Seen},
    stage::{APP, Stage},
    story::{Story, Told, checked},
};

pub(super) async fn play(stage: &Stage, node: &Node, story: &mut Story) {
    story.act(
        "A pod pulls by its own identity",
        "No password lies anywhere: the pod's service account opens the registry, for minutes.",
    );
    match node.ensure(stage, (APP, PullPolicy::IfNotPresent), Some(WEB)).await {
        Err(error) => story.step("pod web pulls its team's image", Err(error)),
        Ok(seen) => {
            story.step(
                "the API server gives the node a token that is bound to pod web",
                token(&seen),
            );
            story.step("a plugin trades it at the registry for a login", exchange(&seen));
            story.step("with that login pod web gets its team's image", image(&seen));
        }
    }
}

fn token(seen: &Seen) -> Told {
    let identity = identity(seen).ok_or("no plugin was asked as the pod")?;
    let claims = Claims::of(&identity.token).ok_or("the token cannot be read")?;
    let pod = claims.kubernetes.pod.unwrap_or_default().name;
    let (subject, audiences) = (claims.subject.unwrap_or_default(), claims.audiences.join(", "));
    let is_right = subject == format!("system:serviceaccount:{}:{}", WEB.namespace, WEB.name)
        && (pod.as_str(), audiences.as_str()) == (WEB.name, AUDIENCE);
    checked(is_right, format!("for {subject}, pod {pod}, audience {audiences}"))
}

fn identity(seen: &Seen) -> Option<&Identity> {
    let mut reports = seen.answers.iter().flat_map(|place| &place.answer.reports);
    reports.find_map(|report| report.identity.as_deref())
}

/// The registry's own journal tells. It gives no login for a token that `issuer` does not believe.
fn exchange(seen: &Seen) -> Told {
    let mut requests = seen.requests.iter();
    let traded = requests.find(|request| request.path == "/exchange");
    let traded = traded.ok_or("nobody asked the registry for a login")?;
    let (status, who) = (traded.status.unwrap_or_default(), traded.who.as_deref());
    let told = format!(
        "POST /exchange: {status}. The signature fits the cluster's public key; the login is {}'s",
        who.unwrap_or("nobody")
    );
    checked(status == 200 && who == Some(&WEB.account()), told)
}

fn image(seen: &Seen) -> Told {
    let (pulled, login) = seen.pulled()?;
    let account = login.service_account().map(ToString::to_string).unwrap_or_default();
    let (from, source) = (&pulled.attempt.from, login.source());
    let told = format!("{from} with {source}, for pods of {account} alone\n{}", seen.figures());
    checked(account == WEB.account() && seen.processes == 1, told)
}
