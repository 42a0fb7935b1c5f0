//! What does a duration mean, and how is it printed?

use keyfob_api::GoDuration;
use proptest::{
    collection::vec,
    prelude::{Strategy, any},
    prop_oneof,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::words::{one_of, soup};
use crate::Topic;

pub(crate) struct Duration;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    duration: String,
}

impl Topic for Duration {
    const NAME: &'static str = "duration";
    const QUESTIONS: u32 = 50_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        prop_oneof![6 => written(), 2 => printed(), 1 => soup()]
            .prop_map(|duration| Question { duration })
            .boxed()
    }

    fn ours(question: &Question) -> Value {
        match GoDuration::parse(&question.duration) {
            Err(error) => json!({"error": error.to_string()}),
            Ok(duration) => json!({"nanos": duration.as_nanos(), "text": duration.to_string()}),
        }
    }
}

fn written() -> impl Strategy<Value = String> {
    const NUMBERS: &str = "0 1 5 10 24 59 60 90 999 1000 1.5 .5 5. . 0.000000001 0.0000000001 2562047 2562048 \
        9223372036854775807 \
        9223372036854775808 153722867 0.100000000000000000000 0.9223372036854775807 1e3 ١ 00 0x1 -1";
    const UNITS: &str = "h h m m s s ms us µs μs ns d w H  hs  . é ns.";
    let part =
        (one_of(NUMBERS), one_of(UNITS)).prop_map(|(number, unit)| format!("{number}{unit}"));
    (one_of("     - + -- +-"), vec(part, 0..4))
        .prop_map(|(sign, parts)| sign.to_owned() + &parts.concat())
}

fn printed() -> impl Strategy<Value = String> {
    let nanos = prop_oneof![any::<i64>(), -5_000_i64..5_000, -9_000_000_000_i64..9_000_000_000];
    nanos.prop_map(|nanos| GoDuration::from_nanos(nanos).to_string())
}
