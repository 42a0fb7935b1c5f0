//! Questions made up, put to both sides.

use std::{collections::BTreeMap, fmt, io, time::Duration};

use keyfob_exec::{Clock as _, SystemClock};
use proptest::{
    strategy::{Strategy as _, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use crate::{Judge, Topic};

/// So many unexplained differences of one topic are shown; the rest is counted.
const SHOWN: usize = 10;

/// What an examination of a topic found.
#[derive(Debug)]
pub struct Report {
    topic: &'static str,
    questions: u32,
    took: Duration,
    sorts: BTreeMap<&'static str, u32>,
    explained: BTreeMap<&'static str, u32>,
    unexplained: u32,
    /// The first few unexplained differences, each as small as it could be made.
    pub shown: Vec<Unexplained>,
}

/// A question that the two sides answer differently, and nobody knows why.
#[derive(Debug)]
pub struct Unexplained {
    /// The question, as the oracle is asked.
    pub question: Value,
    /// Keyfob's answer.
    pub ours: Value,
    /// The oracle's answer.
    pub upstream: Value,
}

impl Report {
    /// The rows of `DIFFERENCES.md` that explained something.
    pub fn explained(&self) -> impl Iterator<Item = &'static str> {
        self.explained.keys().copied()
    }

    /// Whether every difference is explained.
    pub fn is_clean(&self) -> bool {
        self.unexplained == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, questions, took, sorts, explained, unexplained, shown } = self;
        write!(f, "{topic}: {questions} questions in {:.1} s;", took.as_secs_f64())?;
        for (sort, count) in sorts {
            write!(f, " {count} {sort},")?;
        }
        let known: u32 = explained.values().sum();
        let same = questions - known - unexplained;
        write!(f, " {same} the same, {known} explained, {unexplained} UNEXPLAINED")?;
        for (row, count) in explained {
            write!(f, "\n    {count} by {row}")?;
        }
        for Unexplained { question, ours, upstream } in shown {
            write!(f, "\n  {question}\n    ours     {ours}\n    upstream {upstream}")?;
        }
        Ok(())
    }
}

pub(crate) fn examine<T: Topic>(
    oracle: &mut impl Judge,
    seed: u64,
    times: f64,
) -> io::Result<Report> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let questions = (f64::from(T::QUESTIONS) * times).ceil() as u32;
    let strategy = T::questions();
    let mut random = TestRunner::new_with_rng(Config::default(), random_numbers(seed));
    let mut report = Report {
        topic: T::NAME,
        questions,
        took: Duration::ZERO,
        sorts: BTreeMap::new(),
        explained: BTreeMap::new(),
        unexplained: 0,
        shown: Vec::new(),
    };
    let started = SystemClock.now();
    for _ in 0..questions {
        let mut tree = strategy.new_tree(&mut random).expect("the strategy rejects nothing");
        let (upstream, finding) = put::<T>(oracle, &tree.current())?;
        *report.sorts.entry(T::sort(&upstream)).or_default() += 1;
        match finding {
            Finding::Same => {}
            Finding::Explained(row) => *report.explained.entry(row).or_default() += 1,
            Finding::Unexplained => {
                report.unexplained += 1;
                if report.shown.len() < SHOWN {
                    report.shown.push(smallest::<T>(oracle, &mut tree)?);
                }
            }
        }
    }
    report.took = SystemClock.now().duration_since(started).unwrap_or_default();
    Ok(report)
}

/// What came of a question.
enum Finding {
    Same,
    Explained(&'static str),
    Unexplained,
}

/// Upstream's answer, and how ours compares.
fn put<T: Topic>(oracle: &mut impl Judge, question: &T::Question) -> io::Result<(Value, Finding)> {
    let (ours, upstream) = (T::ours(question), oracle.ask_about(T::NAME, question)?);
    let finding = if upstream.get("panic").is_some() {
        // Upstream gave no answer, or the oracle could not ask it.
        Finding::Unexplained
    } else if ours == upstream {
        Finding::Same
    } else {
        T::difference(question, &ours, &upstream).map_or(Finding::Unexplained, Finding::Explained)
    };
    Ok((upstream, finding))
}

/// Makes the question simpler as long as the difference stays.
fn smallest<T: Topic>(
    oracle: &mut impl Judge,
    tree: &mut impl ValueTree<Value = T::Question>,
) -> io::Result<Unexplained> {
    const LONG_ENOUGH: Duration = Duration::from_secs(10);
    let started = SystemClock.now();
    let mut found = tree.current();
    let mut simpler = tree.simplify();
    while simpler && SystemClock.now() < started + LONG_ENOUGH {
        let question = tree.current();
        simpler = if matches!(put::<T>(oracle, &question)?.1, Finding::Unexplained) {
            found = question;
            tree.simplify()
        } else {
            tree.complicate()
        };
    }
    let (ours, upstream) = (T::ours(&found), oracle.ask_about(T::NAME, &found)?);
    Ok(Unexplained { question: json!({ T::NAME: found }), ours, upstream })
}

fn random_numbers(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().zip(seed.to_le_bytes()) {
        *place = byte;
    }
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::any, strategy::BoxedStrategy};

    use super::*;

    /// Says how much a number is doubled, and is wrong beyond a thousand, beyond ten thousand on purpose.
    struct Doubling;

    impl Topic for Doubling {
        const NAME: &'static str = "double";
        const QUESTIONS: u32 = 500;
        type Question = u16;

        fn questions() -> BoxedStrategy<u16> {
            any::<u16>().boxed()
        }

        fn ours(question: &u16) -> Value {
            json!(u32::from(*question.min(&1_000)) * 2)
        }

        fn difference(question: &u16, _: &Value, _: &Value) -> Option<&'static str> {
            (*question > 10_000).then_some("large")
        }
    }

    struct Upstream;

    impl Judge for Upstream {
        fn ask(&mut self, question: &Value) -> io::Result<Value> {
            Ok(json!(question["double"].as_u64().unwrap() * 2))
        }
    }

    #[test]
    fn a_difference_that_nobody_explains_is_shown_at_its_smallest() {
        let report = examine::<Doubling>(&mut Upstream, 1, 1.0).unwrap();
        assert!(!report.is_clean());
        assert_eq!(report.explained().collect::<Vec<_>>(), ["large"]);
        assert_eq!(report.shown.len(), SHOWN);
        let smallest = report.shown.iter().find(|shown| shown.question["double"] == 1_001).unwrap();
        assert_eq!((&smallest.ours, &smallest.upstream), (&json!(2_000), &json!(2_002)));
    }

    /// Agrees with a judge that panics.
    struct Yes;

    impl Topic for Yes {
        const NAME: &'static str = "yes";
        const QUESTIONS: u32 = 1;
        type Question = u16;

        fn questions() -> BoxedStrategy<u16> {
            any::<u16>().boxed()
        }

        fn ours(_: &u16) -> Value {
            json!({"panic": "no such field"})
        }
    }

    struct Panicking;

    impl Judge for Panicking {
        fn ask(&mut self, _: &Value) -> io::Result<Value> {
            Ok(json!({"panic": "no such field"}))
        }
    }

    #[test]
    fn nobody_agrees_with_a_judge_that_panics() {
        assert!(!examine::<Yes>(&mut Panicking, 1, 1.0).unwrap().is_clean());
    }

    #[test]
    fn a_seed_repeats_a_run() {
        let [one, again, other] =
            [1, 1, 2].map(|seed| examine::<Doubling>(&mut Upstream, seed, 0.1).unwrap().explained);
        assert_eq!(one, again);
        assert_ne!(one, other);
    }
}
