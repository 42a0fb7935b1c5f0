//! Every kind of question there is.

mod duration;
mod image;
mod matching;
mod providers;
mod words;

use crate::AnyTopic;

/// All topics, in the order in which they are examined.
pub const TOPICS: &[AnyTopic] = &[
    AnyTopic::of::<matching::Matching>(),
    AnyTopic::of::<providers::Providers>(),
    AnyTopic::of::<image::Image>(),
    AnyTopic::of::<duration::Duration>(),
];
