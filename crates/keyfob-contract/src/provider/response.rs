//! The response itself, part by part, as a kubelet reads it.

use std::time::Duration;

use keyfob_api::{GoDuration, ImageRef, ResponseError};

use super::{Provider, docker::is_docker_helper, plan::Probe};
use crate::{
    case::Case,
    observe::{Heard, Observed},
    report::Verdict,
    response::{self, ONE_OBJECT, fault_of_part, not_json, unreadable_output},
};

/// A part of a response, in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Json,
    Version,
    Kind,
    Fields,
    Duration,
    CacheKeyType,
}

impl Part {
    pub(super) fn at_fault(error: &ResponseError) -> Self {
        match error {
            ResponseError::Json(_) => Self::Json,
            ResponseError::Version { .. } => Self::Version,
            ResponseError::Kind(_) => Self::Kind,
            ResponseError::Field(field) if field.path == "apiVersion" => Self::Version,
            ResponseError::Field(field) if field.path == "kind" => Self::Kind,
            ResponseError::Field(field) if field.path == "cacheDuration" => Self::Duration,
            ResponseError::Field(field) if field.path == "cacheKeyType" => Self::CacheKeyType,
            ResponseError::CacheKeyType(_) => Self::CacheKeyType,
            _ => Self::Fields,
        }
    }
}

impl Case<'_, Provider> {
    /// Judges the run of each image; none if the plugin could not be run.
    pub(super) fn for_each_image(
        &self,
        judge: impl Fn(&ImageRef, &Observed<Provider>) -> Verdict,
    ) -> Vec<Verdict> {
        let many = self.protocol.images.len() > 1;
        let images = self.protocol.images.iter().enumerate();
        let judged = images.filter_map(|(number, image)| {
            let verdict = judge(image, self.run(Probe::Image(number))?);
            let image = many.then(|| image.repository().to_owned());
            Some(Verdict { image, ..verdict })
        });
        judged.collect()
    }
}

pub(super) fn answer(case: &Case<'_, Provider>) -> Vec<Verdict> {
    case.for_each_image(|_, run| match run.heard() {
        Heard::Answer(response) if response.auth.is_empty() => {
            case.no_response("it answered that it has no login for the image".to_owned())
        }
        Heard::Failed(_) if is_docker_helper(case.plugin, run) => {
            Verdict::not_checked("it is no credential provider")
        }
        _ => response::is_there(case, run),
    })
}

pub(super) fn json(case: &Case<'_, Provider>) -> Vec<Verdict> {
    case.for_each_image(|_, run| {
        if let Some(verdict) = unreadable_output(run) {
            return verdict;
        }
        let stdout = run.stdout.expose();
        if let Heard::Unreadable(ResponseError::Json(error)) = run.heard() {
            return Verdict::fail(not_json(stdout, &error), ONE_OBJECT);
        }
        if !stdout.ends_with(b"\n") {
            return Verdict::warn(
                "there is no line break at the end of the answer",
                "end it with one, as the plugins of the clouds do: line by line readers wait for it",
            );
        }
        Verdict::pass(format!("one JSON value of {} bytes", stdout.len()))
    })
}

pub(super) fn api_version(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "answer in the apiVersion of the request";
    case.for_each_image(|_, run| part(run, Part::Version, "v1, as asked", advice))
}

pub(super) fn kind(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "write \"kind\": \"CredentialProviderResponse\"";
    case.for_each_image(|_, run| part(run, Part::Kind, "CredentialProviderResponse", advice))
}

pub(super) fn fields(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "at the top there are kind, apiVersion, cacheKeyType, cacheDuration and auth; each entry of auth has username \
                  and password, which are texts; a kubelet since 1.32 takes nothing else";
    case.for_each_image(|_, run| {
        part(run, Part::Fields, "all are known and in their place", advice)
    })
}

pub(super) fn cache_key_type(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "cacheKeyType is required: Image, Registry or Global";
    case.for_each_image(|_, run| {
        let word =
            run.response().map(|response| response.cache_key_type.as_str()).unwrap_or_default();
        part(run, Part::CacheKeyType, word, advice)
    })
}

pub(super) fn cache_duration(case: &Case<'_, Provider>) -> Vec<Verdict> {
    let advice = "write a Go duration, such as \"10m\" or \"1h30m\"";
    case.for_each_image(|_, run| match run.response() {
        Some(response) => sensible(response.cache_duration),
        None => part(run, Part::Duration, "it can be read", advice),
    })
}

/// Judges one part: it is at fault, hidden by a fault, or as it should be.
fn part(run: &Observed<Provider>, part: Part, passed: &str, advice: &str) -> Verdict {
    fault_of_part(run, part, advice).unwrap_or_else(|| Verdict::pass(passed))
}

fn sensible(duration: Option<GoDuration>) -> Verdict {
    const DAY: Duration = Duration::from_hours(24);
    match duration.map(GoDuration::to_std).zip(duration) {
        None => Verdict::pass("none, so the defaultCacheDuration of the configuration counts"),
        Some((None, negative)) => Verdict::fail(
            format!("cacheDuration is negative: {negative}"),
            "a credential that has ended is a failure, not an answer; 0s forbids caching",
        ),
        Some((Some(Duration::ZERO), _)) => {
            Verdict::pass("zero, so the answer is not cached and every pull asks again")
        }
        Some((Some(long), written)) if long > DAY => Verdict::warn(
            format!("the answer may be cached for {written}"),
            "keep it below the life of the credential: nobody can take it back from a node's cache",
        ),
        Some((Some(_), written)) => Verdict::pass(written.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Grade;

    #[test]
    fn durations_are_graded_by_their_sense() {
        let grade = |text: &str| sensible(Some(GoDuration::parse(text).unwrap())).grade;

        assert_eq!(sensible(None).grade, Grade::Pass);
        let rows =
            [("0s", Grade::Pass), ("24h", Grade::Pass), ("25h", Grade::Warn), ("-1s", Grade::Fail)];
        for (text, want) in rows {
            assert_eq!(grade(text), want, "{text}");
        }
    }
}
