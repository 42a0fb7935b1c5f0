//! Every kind of question there is.

mod answer;
mod duration;
mod image;
mod keyring;
mod matching;
mod providers;
mod request;
mod texts;
mod words;

use crate::AnyTopic;

/// All topics, in the order in which they are examined.
pub const TOPICS: &[AnyTopic] = &[
    AnyTopic::of::<matching::Matching>(),
    AnyTopic::of::<providers::Providers>(),
    AnyTopic::of::<image::Image>(),
    AnyTopic::of::<duration::Duration>(),
    AnyTopic::of::<keyring::Keyring>(),
    AnyTopic::of::<request::Request>(),
    AnyTopic::of::<answer::Answer>(),
];
