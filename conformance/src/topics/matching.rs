//! Does a pattern match an image?

use keyfob_api::{MatchPattern, MatchTarget, Mismatch};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::select,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::words::{HOSTS, PATHS, differ_in_newer_characters, one_of, url, with_slips};
use crate::Topic;

pub(crate) struct Matching;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    pattern: String,
    image: String,
}

impl Topic for Matching {
    const NAME: &'static str = "match";
    const QUESTIONS: u32 = 300_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        let pattern = prop_oneof![2 => url(), 3 => plain()];
        let related = pattern.prop_flat_map(|pattern| {
            let image = with_slips(filled_in(pattern.clone()).boxed());
            (Just(pattern), image)
        });
        prop_oneof![1 => (url(), url()), 6 => related, 1 => (plain(), plain()), 1 => near()]
            .prop_map(|(pattern, image)| Question { pattern, image })
            .boxed()
    }

    fn ours(question: &Question) -> Value {
        let pattern = MatchPattern::parse(&question.pattern);
        let verdict =
            pattern.and_then(|pattern| Ok((pattern, MatchTarget::parse(&question.image)?)));
        match verdict.map(|(pattern, target)| (pattern.check(&target), pattern.matches(&target))) {
            Err(error) => json!({"error": error.to_string()}),
            Ok((Err(Mismatch::BadGlob { .. }), false)) => {
                json!({"error": "syntax error in pattern"})
            }
            Ok((check, matches)) => {
                assert_eq!(check.is_ok(), matches, "{question:?}");
                json!({"match": matches})
            }
        }
    }

    fn difference(_: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let (ours, upstream) = (ours.get("error")?.as_str()?, upstream.get("error")?.as_str()?);
        differ_in_newer_characters(ours, upstream).then_some("newer-unicode")
    }

    fn sort(upstream: &Value) -> &'static str {
        match upstream.get("match").and_then(Value::as_bool) {
            Some(true) => "match",
            Some(false) => "do not match",
            None => "are refused",
        }
    }
}

/// A pattern with something in the place of its stars.
pub(super) fn filled_in(pattern: String) -> impl Strategy<Value = String> {
    let ending = select(vec!["", "", "", "/a", "x", "/"]);
    let fillings = vec(one_of(" a abc A 1 - é %FF eu-west-1"), 0..6);
    (fillings, ending, any::<bool>()).prop_map(move |(fillings, ending, keep_tail)| {
        let mut fillings = fillings.into_iter();
        let in_host = pattern.find('/').unwrap_or(pattern.len());
        let mut image = String::new();
        for (at, letter) in pattern.char_indices() {
            match letter {
                '*' if at < in_host => image.push_str(fillings.next().unwrap_or_default()),
                '?' | '#' if !keep_tail => break,
                letter => image.push(letter),
            }
        }
        image + ending
    })
}

/// A pattern, or an image, as people write them.
pub(super) fn plain() -> impl Strategy<Value = String> {
    (one_of(HOSTS), one_of(PATHS)).prop_map(|(host, path)| format!("{host}{path}"))
}

/// A pattern and an image that have nearly everything in common: a port, a label or a piece of the path may differ.
fn near() -> impl Strategy<Value = (String, String)> {
    let name = || one_of("registry.io a.registry.io *.registry.io localhost * 10.0.0.1 *.*.io");
    let place = || (one_of("   a. *. x.y."), one_of("   : :80 :5000"), one_of("   / /a /a/b /ab"));
    (name(), place(), place()).prop_map(|(name, pattern, image)| {
        let [pattern, image] =
            [pattern, image].map(|(before, port, path)| format!("{before}{name}{port}{path}"));
        (pattern, image.replace('*', "a"))
    })
}
