//! One kind of question.

use std::{fmt::Debug, io};

use proptest::strategy::BoxedStrategy;
use serde::{Deserialize as _, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{Oracle, Report, examine};

/// A kind of question that both sides can answer.
pub trait Topic {
    /// The field that a question of this kind has.
    const NAME: &'static str;
    /// How many questions are made up for a run.
    const QUESTIONS: u32;
    /// What is asked; its JSON is what the oracle reads.
    type Question: Clone + Debug + DeserializeOwned + Serialize;

    /// Makes questions up, odd ones above all.
    fn questions() -> BoxedStrategy<Self::Question>;

    /// Keyfob's answer.
    fn ours(question: &Self::Question) -> Value;

    /// The row of `DIFFERENCES.md` by which two answers that are not the same are both right.
    fn difference(
        question: &Self::Question,
        ours: &Value,
        upstream: &Value,
    ) -> Option<&'static str> {
        let _ = (question, ours, upstream);
        None
    }

    /// What upstream's answer is an example of: a report counts them, and shows what a run really tried.
    fn sort(upstream: &Value) -> &'static str {
        if upstream.get("error").is_some() { "refused" } else { "answered" }
    }
}

/// Any topic, its questions as JSON.
#[derive(Debug, Clone, Copy)]
pub struct AnyTopic {
    /// [`Topic::NAME`].
    pub name: &'static str,
    /// [`Topic::ours`], given what stands in the question's one field.
    pub ours: fn(&Value) -> Value,
    /// [`Topic::difference`], given what stands in the question's one field.
    pub difference: fn(&Value, &Value, &Value) -> Option<&'static str>,
    /// Examines the topic with [`Topic::QUESTIONS`] questions times a factor.
    pub examine: fn(&mut Oracle, u64, f64) -> io::Result<Report>,
}

impl AnyTopic {
    pub(crate) const fn of<T: Topic>() -> Self {
        Self {
            name: T::NAME,
            ours: |question| T::ours(&read::<T>(question)),
            difference: |question, ours, upstream| {
                T::difference(&read::<T>(question), ours, upstream)
            },
            examine: examine::examine::<T>,
        }
    }
}

fn read<T: Topic>(question: &Value) -> T::Question {
    T::Question::deserialize(question)
        .unwrap_or_else(|error| panic!("{error}: no question of topic {}: {question}", T::NAME))
}
