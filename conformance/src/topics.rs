//! Every kind of question there is.

mod allowlist;
mod answer;
mod config;
mod duration;
mod exec;
mod exec_answer;
mod exec_info;
mod image;
mod keyring;
mod lookups;
mod matching;
mod providers;
mod records;
mod request;
mod stand_ins;
mod syntax;
mod texts;
mod tokens;
mod trim;
mod words;

use crate::AnyTopic;

/// All topics, in the order in which they are examined.
pub const TOPICS: &[AnyTopic] = &[
    AnyTopic::of::<matching::Matching>(),
    AnyTopic::of::<providers::Providers>(),
    AnyTopic::of::<image::Image>(),
    AnyTopic::of::<duration::Duration>(),
    AnyTopic::of::<config::Config>(),
    AnyTopic::of::<keyring::Keyring>(),
    AnyTopic::of::<request::Request>(),
    AnyTopic::of::<answer::Answer>(),
    AnyTopic::of::<lookups::Lookups>(),
    AnyTopic::of::<tokens::Tokens>(),
    AnyTopic::of::<trim::Trim>(),
    AnyTopic::of::<allowlist::Allowlist>(),
    AnyTopic::of::<records::Records>(),
    AnyTopic::of::<exec_info::ExecInfo>(),
    AnyTopic::of::<exec_answer::ExecAnswer>(),
    AnyTopic::of::<exec::Exec>(),
];
