//! The rule and the real admission plugin, asked the same.
//!
//! All objects are made first. Those that are made last tell when the server has seen the rest: it learns of each kind in
//! order. So every question is asked once, and its answer is final.

mod cases;
mod constructed;
mod dice;
mod volumes;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use keyfob_api::FeatureGates;
use keyfob_control::{
    facts::{Cluster as Live, judge, judge_objects},
    node_authorizer,
    objects::{Kind, Objects},
    rbac::{self, Attributes},
    rule::{Asked, Clause, Policy, Verdict},
};
use serde_json::{Value, json};

use self::{
    cases::{Case, last, world},
    constructed::constructed,
    dice::Dice,
};
use crate::{
    api::{ADMIN, Api, Refusal, uid},
    cluster::Cluster,
};

/// The node has no pod of the account: that ends a request before the rule is asked.
const NODE_AUTHORIZER: &str = "node-authorizer";

#[tokio::test]
async fn the_rule_and_the_real_plugin_agree() {
    let Some(program) = Cluster::wanted() else { return };
    let cluster = Cluster::start(&program, &[]).await;
    all_agree(&cluster.api, 400).await;
}

/// Fails unless the server, the rule over manifests and the rule over the live cluster say the same to everything: first to
/// cases that are built so that each thing that can decide does, then to as many random ones.
pub(crate) async fn all_agree(api: &Api, times: usize) {
    let mut dice = Dice::new();
    let mut made = make(api, world(&mut dice)).await;
    let constructed = constructed();
    let random: Vec<_> = (0..times).map(|number| Case::random(&mut dice, number)).collect();
    for case in constructed.iter().map(|(_, case)| case).chain(&random) {
        made.extend(make(api, case.objects.clone()).await);
    }
    settle(api, &mut made).await;
    let sides = Sides::new(api, &made);

    let mut counts = BTreeMap::new();
    for (decider, case) in &constructed {
        assert_eq!(sides.compare(case).await, *decider, "{case}");
        counts.insert((*decider).to_owned(), 0);
    }
    for case in &random {
        let decider = sides.compare(case).await;
        let Some(count) = counts.get_mut(&decider) else {
            unreachable!("no case is constructed for {decider}, which decided {case}");
        };
        *count += 1;
    }
    println!("{times} random cases by what decided: {counts:#?}");
}

/// What the server made of objects.
async fn make(api: &Api, objects: Vec<Value>) -> Vec<Value> {
    let mut made = Vec::new();
    for object in objects {
        made.push(api.create(&object).await);
    }
    made
}

/// Waits until the server has seen everything.
async fn settle(api: &Api, made: &mut Vec<Value>) {
    let (objects, questions) = last();
    made.extend(make(api, objects).await);
    let sides = Sides::new(api, made);
    let started = Instant::now();
    for case in questions {
        while let Err(refusal) = sides.theirs(&case).await {
            assert!(started.elapsed() < Duration::from_mins(1), "{refusal:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The server, and the rule over what it holds: read as manifests, and read from it live.
struct Sides<'a> {
    api: &'a Api,
    objects: Objects,
    live: Live,
}

impl<'a> Sides<'a> {
    fn new(api: &'a Api, made: &[Value]) -> Self {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": made});
        let objects = Objects::read_text(list.to_string(), "the cluster").unwrap();
        Self { api, objects, live: Live::new(api.client(ADMIN)) }
    }

    /// Fails unless all say the same. Says what decided.
    async fn compare(&self, case: &Case) -> String {
        let theirs = self.theirs(case).await;
        let asked = case.asked(self.pod_uid(case));
        if let Some(refusal) = self.unrelated(&asked) {
            let theirs = theirs.unwrap_err();
            // What RBAC says of roles that are missing follows, in any order.
            assert_eq!(theirs.message.lines().next(), Some(refusal.as_str()), "{case}");
            return NODE_AUTHORIZER.to_owned();
        }
        let read = judge_objects(&asked, &Policy::default(), &self.objects);
        assert_eq!(self.answer(&read), theirs, "{case}");
        let live = judge(&asked, &Policy::default(), &self.live).await;
        assert_eq!(self.answer(&live), theirs, "live: {case}");
        assert_eq!(live.name(), read.name());
        decider(&read)
    }

    async fn theirs(&self, case: &Case) -> Result<(), Refusal> {
        let request = case.request(self.pod_uid(case));
        self.api.token(case.node, &case.namespace, &case.name, &request).await.map(drop)
    }

    fn pod_uid(&self, case: &Case) -> &str {
        uid(self.objects.get(Kind::Pod, &case.namespace, &case.name).unwrap())
    }

    /// What the rule has the server say.
    fn answer(&self, verdict: &Verdict) -> Result<(), Refusal> {
        let of_audiences = matches!(
            verdict.clause,
            Clause::NotAuthorized { .. } | Clause::TooManyAudiences | Clause::VolumeError { .. }
        );
        let prefix = if of_audiences { &self.api.prefix } else { "" };
        let message = format!("{prefix}{}", verdict.message());
        verdict.allowed().then_some(()).ok_or(Refusal { code: verdict.code(), message })
    }

    /// What is said to a node that has no pod of the account, unless a role lets it ask for any token.
    fn unrelated(&self, asked: &Asked) -> Option<String> {
        let attributes = Attributes::from(asked);
        let opinion =
            node_authorizer::authorize(&self.objects, FeatureGates::default(), &attributes);
        let by_role = rbac::authorize(&self.objects, &attributes);
        (!opinion.allowed && !by_role.allowed).then(|| {
            format!(
                "serviceaccounts {:?} is forbidden: User {:?} cannot create resource \"serviceaccounts/token\" in API group \
                 \"\" in the namespace {:?}: node: {}",
                asked.service_account, asked.user, asked.namespace, opinion.reason
            )
        })
    }
}

/// The clause, and which way the volume led to the driver.
fn decider(verdict: &Verdict) -> String {
    let mut name = verdict.name().to_owned();
    if let Clause::CsiDriver { path, .. } = &verdict.clause {
        name += if path.claim.is_some() { ", by a claim" } else { "" };
        name += if path.in_tree.is_some() { ", in-tree" } else { "" };
    }
    name
}
