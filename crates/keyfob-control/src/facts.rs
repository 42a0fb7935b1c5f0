//! Where the rule learns what it must know.

#[cfg(feature = "kube")]
mod cluster;
mod manifests;

#[cfg(feature = "kube")]
pub use self::cluster::{Cluster, ClusterError};
pub use self::manifests::{Manifests, judge_objects};
use keyfob_exec::BoxFuture;

use crate::rule::{Asked, Facts, Policy, Question, Step, Verdict, decide};

/// What the rule is told if its source is silent.
const SILENT: &str = "the question was not answered";

/// Answers the rule's questions: from a live cluster, or from objects in memory.
pub trait FactSource: Send + Sync {
    /// Puts the answer to a question into the facts; that it could not be learnt is an answer too.
    fn learn<'a>(&'a self, question: Question, facts: &'a mut Facts) -> BoxFuture<'a, ()>;
}

/// Asks the source for what the rule must know, until the rule has decided. A source that does not answer a question is
/// taken to not know.
pub async fn judge(asked: &Asked, policy: &Policy, source: &dyn FactSource) -> Verdict {
    judge_into(&mut Facts::default(), asked, policy, source).await
}

/// The same, beginning with what is known already; what was learnt is known then too.
pub async fn judge_into(
    facts: &mut Facts,
    asked: &Asked,
    policy: &Policy,
    source: &dyn FactSource,
) -> Verdict {
    loop {
        let question = match decide(asked, policy, facts) {
            Step::Decided(verdict) => return verdict,
            Step::Needs(question) => question,
        };
        source.learn(question.clone(), facts).await;
        if !facts.answer(&question) {
            facts.give_up(question, SILENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::BoundObject;

    /// A source that never answers.
    struct Silent;

    impl FactSource for Silent {
        fn learn<'a>(&'a self, _question: Question, _facts: &'a mut Facts) -> BoxFuture<'a, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[tokio::test]
    async fn a_silent_source_does_not_keep_the_rule_waiting() {
        let mut asked = Asked::by_node("n");
        asked.bound = Some(BoundObject::pod("p", "1"));
        let verdict = judge(&asked, &Policy::default(), &Silent).await;
        assert_eq!((verdict.allowed(), verdict.name()), (false, "pod-unknown"));
        assert!(verdict.message().ends_with(SILENT), "{}", verdict.message());
    }
}
