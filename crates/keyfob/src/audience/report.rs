//! How the answer of `keyfob audience check` is printed.

use std::fmt::Write as _;

use keyfob_api::Quoted;
use keyfob_control::rule::{Opinion, Seen, Verdict as Judgement};
use serde::Serialize;

use crate::{
    Outcome, Verdict,
    audience::remedy::{Remedy, remedies},
    cli::Output,
    match_images::shown,
};

/// Everything that was found out.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) judgement: Judgement,
    pub(super) node: String,
    /// Whether the node may ask at all, if that could be learnt.
    pub(super) node_authorizer: Option<Opinion>,
}

impl Report {
    pub(super) fn outcome(&self, output: Output) -> Outcome {
        let answer = Answer::new(self);
        let stdout = match output {
            Output::Table => answer.text(),
            Output::Json => crate::page::json(&answer),
        };
        let verdict = if answer.allowed { Verdict::Yes } else { Verdict::No };
        Outcome { stdout, verdict, ..Outcome::default() }
    }

    /// Why the node may not even ask.
    fn refusal(&self) -> Option<String> {
        let opinion = self.node_authorizer.as_ref().filter(|opinion| !opinion.allowed)?;
        let why = [opinion.reason.as_str(), opinion.error.as_deref().unwrap_or_default()];
        let why = why.into_iter().find(|why| !why.is_empty());
        Some(why.unwrap_or("no pod on this node uses the service account").to_owned())
    }
}

/// The documented answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    allowed: bool,
    node: &'a str,
    namespace: &'a str,
    pod: &'a str,
    service_account: &'a str,
    audience: &'a str,
    clause: &'static str,
    reason: String,
    message: String,
    volumes: Vec<Offer<'a>>,
    node_authorizer: Option<String>,
    remedies: Vec<Remedy>,
    #[serde(skip)]
    judgement: &'a Judgement,
}

#[derive(Serialize)]
struct Offer<'a> {
    volume: &'a str,
    through: String,
    audiences: &'a [String],
    error: Option<&'a str>,
}

impl<'a> Answer<'a> {
    fn new(report: &'a Report) -> Self {
        let (judgement, asked) = (&report.judgement, &report.judgement.asked);
        let node_authorizer = report.refusal();
        Self {
            allowed: judgement.allowed() && node_authorizer.is_none(),
            node: &report.node,
            namespace: &asked.namespace,
            pod: asked.bound.as_ref().map_or("", |bound| &bound.name),
            service_account: &asked.service_account,
            audience: asked.audience(),
            clause: judgement.name(),
            reason: judgement.clause.to_string(),
            message: judgement.message(),
            volumes: judgement.seen.iter().map(offer).collect(),
            node_authorizer,
            remedies: remedies(judgement),
            judgement,
        }
    }

    fn text(&self) -> String {
        let mut text = self.headline();
        let decides = if self.judgement.allowed() { "allows it" } else { "refuses it" };
        let mut line = |line: &str| text.extend([line, "\n"]);
        if let Some(why) = &self.node_authorizer {
            line(&format!("The node may not even ask for tokens of this account: {why}"));
        }
        line(&format!("The rule {decides}, by {}: {}", self.clause, self.reason));
        match self.judgement.seen.as_slice() {
            [] => {}
            seen => {
                line("What the volumes of the pod offer, as far as it was looked:");
                for seen in seen {
                    line(&format!("  {seen}"));
                }
            }
        }
        self.remedies.iter().for_each(|remedy| text.push_str(&described(remedy)));
        text
    }

    fn headline(&self) -> String {
        let (word, may) = if self.allowed { ("allowed", "may") } else { ("refused", "may not") };
        let [node, namespace, account, pod] =
            [self.node, self.namespace, self.service_account, self.pod].map(shown);
        let audience = match self.audience {
            "" => "the API server".to_owned(),
            audience => Quoted(audience).to_string(),
        };
        format!(
            "{word}: node {node} {may} have a token of service account {namespace}/{account} for {audience}, \
             bound to pod {namespace}/{pod}\n"
        )
    }
}

fn offer(seen: &Seen) -> Offer<'_> {
    Offer {
        volume: &seen.volume,
        through: seen.through.to_string(),
        audiences: seen.offered.as_deref().unwrap_or_default(),
        error: seen.offered.as_ref().err().map(String::as_str),
    }
}

fn described(remedy: &Remedy) -> String {
    let mut text = format!("\nThis would allow it: {}\n", remedy.what);
    if let Some(yaml) = &remedy.yaml {
        // A String takes everything.
        write!(text, "\n{yaml}").unwrap_or_default();
    }
    text
}
