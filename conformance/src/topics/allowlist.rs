//! Which images need no verification, by a list?

use keyfob_api::ImageRef;
use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    image,
    words::{one_of, with_slips},
};
use crate::Topic;

pub(crate) struct Allowlist;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    patterns: Vec<String>,
    images: Vec<String>,
}

const NAMES: &str = "nginx nginx a.io a.io a.io/x a.io/x a.io/x/y a.io:80 a.io:80/x docker.io/library/nginx docker.io/library [::1] a";

impl Topic for Allowlist {
    const NAME: &'static str = "allowlist";
    const QUESTIONS: u32 = 30_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        let one_pattern = vec(odd_pattern(), 1..=1);
        let patterns = prop_oneof![3 => vec(pattern(), 0..=4), 1 => one_pattern];
        (patterns, vec(image(), 1..=4))
            .prop_map(|(patterns, images)| Question { patterns, images })
            .boxed()
    }

    fn ours(question: &Question) -> Value {
        match keyfob_images::Allowlist::parse(&question.patterns) {
            Err(error) => json!({ "error": error.to_string() }),
            Ok(list) => {
                let allowed = question.images.iter().map(|image| list.has(image));
                json!({ "allowed": allowed.collect::<Vec<_>>() })
            }
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let is_no_name = || {
            let error = ours["error"].as_str().unwrap_or_default();
            let mut patterns = question.patterns.iter();
            error.starts_with("failed to parse as an image name: ")
                && patterns.any(|pattern| ImageRef::parse(pattern).is_err())
        };
        image::error_says_more(ours, upstream)
            .or_else(|| is_no_name().then_some("records-names-of-no-image"))
    }
}

/// Mostly one that is taken.
fn pattern() -> impl Strategy<Value = String> {
    let plain = (one_of(NAMES), one_of("  /*")).prop_map(|(name, end)| format!("{name}{end}"));
    prop_oneof![20 => plain, 1 => odd_pattern()]
}

fn odd_pattern() -> impl Strategy<Value = String> {
    const ENDS: &str =
        "   /* /* /** * / :1 :1/* @sha256:e3 \u{a0} \t \n/* \u{2003} \u{200b} \u{85} \u{feff}";
    let begins = prop_oneof![5 => Just(""), 1 => one_of("\u{a0} * / \n \u{3000} *.")];
    let name = prop_oneof![2 => one_of(NAMES).prop_map(str::to_owned), 1 => image::names()];
    let whole =
        (begins, name, one_of(ENDS)).prop_map(|(begin, name, end)| format!("{begin}{name}{end}"));
    with_slips(whole.boxed())
}

fn image() -> impl Strategy<Value = String> {
    let name = (one_of(NAMES), one_of("   / /x /X x"), one_of("   :1 : @sha256:e3"));
    let near = name.prop_map(|(name, more, end)| format!("{name}{more}{end}"));
    prop_oneof![4 => near.boxed(), 1 => image::names().boxed()]
}
