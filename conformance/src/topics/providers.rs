//! Which providers are asked about an image? The host finds them through an index, upstream tries pattern after pattern.

use std::path::Path;

use keyfob_api::{FeatureGates, MatchPattern, ProviderVersion};
use keyfob_config::{Config, ProviderConfig};
use keyfob_host::{Host, HostOptions, MissingPlugins, ProviderReport, Pull};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::Index,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::{
    matching::{filled_in, plain},
    words::{url, with_slips},
};
use crate::Topic;

pub(crate) struct Providers;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    /// The patterns of each.
    providers: Vec<Vec<String>>,
    repository: String,
}

impl Topic for Providers {
    const NAME: &'static str = "providers";
    const QUESTIONS: u32 = 20_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        let pattern = prop_oneof![3 => plain(), 1 => url()];
        // A configuration with any other pattern is refused.
        let usable = pattern.prop_map(|pattern| match MatchPattern::parse(&pattern) {
            Ok(_) => pattern,
            Err(_) => "registry.io".to_owned(),
        });
        let providers = vec(vec(usable, 1..12), 1..5);
        let question =
            (providers, any::<Index>(), plain()).prop_flat_map(|(providers, which, other)| {
                let all: Vec<&String> = providers.iter().flatten().collect();
                let near = with_slips(filled_in((*which.get(&all)).clone()).boxed());
                (Just(providers.clone()), prop_oneof![4 => near, 1 => Just(other)])
            });
        question.prop_map(|(providers, repository)| Question { providers, repository }).boxed()
    }

    fn ours(question: &Question) -> Value {
        let providers = question.providers.iter().enumerate();
        let providers = providers.map(|(n, patterns)| provider(&n.to_string(), patterns.clone()));
        let mut options = HostOptions::default();
        options.missing_plugins = MissingPlugins::FailWhenAsked;
        let config = Config::new(providers).validate(FeatureGates::default());
        let config = config.expect("the patterns are good ones");
        let host = Host::builder(config, Path::new("/")).options(options);
        let host = host.build().expect("plugins may be missing");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let answer = runtime.block_on(host.credentials(&Pull::of_repository(&question.repository)));
        let was_asked = |n: usize| {
            let name = n.to_string();
            answer.reports.iter().any(|ProviderReport { provider, .. }| **provider == *name)
        };
        json!({"asked": (0..question.providers.len()).map(was_asked).collect::<Vec<_>>()})
    }

    fn sort(upstream: &Value) -> &'static str {
        let asked = upstream.get("asked").and_then(Value::as_array).into_iter().flatten();
        match asked.filter(|asked| **asked == Value::Bool(true)).count() {
            0 => "ask none",
            1 => "ask one",
            _ => "ask several",
        }
    }
}

/// A provider for these patterns, of today's version.
pub(super) fn provider(name: &str, match_images: Vec<String>) -> ProviderConfig {
    ProviderConfig {
        name: name.to_owned(),
        match_images,
        default_cache_duration: "1m".parse().ok(),
        api_version: ProviderVersion::V1.api_version().to_owned(),
        ..ProviderConfig::default()
    }
}
