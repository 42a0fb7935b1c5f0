//! How long a plugin takes, compared with the kubelet's patience.

use std::time::Duration;

use super::{Provider, plan::Probe};
use crate::{
    case::Case,
    observe::{End, span},
    plugin::{KUBELETS_MINUTE, SLOW},
    process::slowest,
    protocol::Protocol as _,
    report::Verdict,
};

pub(super) fn time(case: &Case<'_, Provider>) -> Vec<Verdict> {
    if let Some(run) = case.run(Provider::FIRST)
        && let End::Hung(after) = run.end
    {
        let excerpt = case.secrets.stderr_excerpt(run);
        return vec![Verdict::fail(
            format!("it was still running after {} and was killed{excerpt}", span(after)),
            "have a deadline of its own, below the kubelet's minute, and say what took so long",
        )];
    }
    let counted = case.runs.iter().filter(|run| run.probe != Probe::FirstKep);
    slowest(counted).map(|(time, took)| quick(time, took)).into_iter().collect()
}

fn quick(slowest: Duration, took: String) -> Verdict {
    let advice = "a kubelet kills it after a minute, and the pod waits: cache, give up earlier, ask fewer servers";
    if slowest >= KUBELETS_MINUTE {
        Verdict::fail(took, advice)
    } else if slowest > SLOW {
        Verdict::warn(took, advice)
    } else {
        Verdict::pass(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Grade;

    #[test]
    fn time_is_graded_by_the_kubelets_patience() {
        let grade = |seconds| quick(Duration::from_secs(seconds), String::new()).grade;

        assert_eq!(
            [10, 11, 59, 60].map(grade),
            [Grade::Pass, Grade::Warn, Grade::Warn, Grade::Fail]
        );
    }
}
