//! What the environment says of keeping answers.

use std::time::Duration;

use keyfob_api::GoDuration;
use keyfob_exec::Environment;
use keyfob_plugin::{Answer, CacheKeyType, Failure};

const KEY_TYPE: &str = "KUBE_SIDECAR_CACHE_TYPE";
const DURATION: &str = "KUBE_SIDECAR_CACHE_DURATION";

/// For what an answer is kept, and for how long if not by its own life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caching {
    key_type: CacheKeyType,
    duration: Option<Duration>,
}

impl Caching {
    pub(super) fn of(environment: &dyn Environment) -> Result<Self, Failure> {
        let said = |name| environment.var(name).map(|value| value.to_string_lossy().into_owned());
        Ok(Self {
            key_type: key_type(said(KEY_TYPE).as_deref().unwrap_or_default())?,
            duration: duration(said(DURATION).as_deref().unwrap_or_default())?,
        })
    }

    pub(super) fn apply(self, answer: Answer) -> Answer {
        let answer = answer.cached_by(self.key_type);
        match self.duration {
            Some(duration) => answer.cached_for(duration),
            None => answer,
        }
    }
}

fn key_type(word: &str) -> Result<CacheKeyType, Failure> {
    match word {
        "" | "image" => Ok(CacheKeyType::Image),
        "registry" => Ok(CacheKeyType::Registry),
        "global" => Ok(CacheKeyType::Global),
        _ => Err(Failure::new(format!("{KEY_TYPE} must be image, registry or global"))),
    }
}

fn duration(text: &str) -> Result<Option<Duration>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let duration = GoDuration::parse(text).ok().and_then(GoDuration::to_std);
    let wrong = || Failure::new(format!("{DURATION} must be a duration such as 30m or 1h30m"));
    duration.map(Some).ok_or_else(wrong)
}
