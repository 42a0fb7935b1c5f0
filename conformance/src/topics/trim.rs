//! By which name do records know an image?

use keyfob_api::ImageRef;
use proptest::strategy::{BoxedStrategy, Strategy as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::image;
use crate::Topic;

pub(crate) struct Trim;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    image: String,
}

impl Topic for Trim {
    const NAME: &'static str = "trim";
    const QUESTIONS: u32 = 50_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        image::names().prop_map(|image| Question { image }).boxed()
    }

    fn ours(question: &Question) -> Value {
        match keyfob_images::recorded_name(&question.image) {
            Ok(name) => json!({ "name": name }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let is_no_image =
            || ImageRef::parse(&question.image).is_err() && ours.get("error").is_some();
        image::error_says_more(ours, upstream)
            .or_else(|| is_no_image().then_some("records-names-of-no-image"))
    }
}
