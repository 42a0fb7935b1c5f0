//! The pattern that almost matched, and what to write in its place.

use keyfob_api::{LabelPattern, MatchPattern, MatchTarget, Mismatch};
use keyfob_config::ValidProvider;

/// A pattern that does not match, though others do so less.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nearest<'a> {
    pub(crate) provider: &'a str,
    pub(crate) pattern: String,
    pub(crate) reason: String,
    /// A pattern that matches; nothing if none names this registry.
    pub(crate) instead: Option<String>,
}

/// The nearest of all patterns; nothing if there are none.
pub(crate) fn nearest<'a>(
    providers: &'a [ValidProvider],
    target: &MatchTarget,
    registry: &str,
) -> Option<Nearest<'a>> {
    let patterns = providers.iter().flat_map(|provider| {
        provider.match_images().iter().map(move |pattern| (provider.name(), pattern))
    });
    let candidates = patterns.filter_map(|(provider, pattern)| {
        let mismatch = pattern.check(target).err()?;
        let (distance, instead) = repaired(pattern, &mismatch, target, registry);
        let (pattern, reason) = (pattern.to_string(), mismatch.to_string());
        Some((distance, Nearest { provider, pattern, reason, instead }))
    });
    candidates.min_by_key(|(distance, _)| *distance).map(|(_, nearest)| nearest)
}

/// How far off a pattern is, and what to write: as much of it as can stay.
fn repaired(
    pattern: &MatchPattern,
    mismatch: &Mismatch,
    target: &MatchTarget,
    registry: &str,
) -> (usize, Option<String>) {
    let meant = match mismatch {
        Mismatch::Never(never) => never.instead().and_then(|text| MatchPattern::parse(text).ok()),
        _ => None,
    };
    let pattern = meant.as_ref().unwrap_or(pattern);
    let name = name(pattern);
    let ported = |port: Option<&str>| match port {
        Some(port) => format!("{name}:{port}"),
        None => name.clone(),
    };
    let path = String::from_utf8_lossy(pattern.path()).into_owned();
    let candidates = [
        pattern.to_string(),
        ported(target.port()) + &path,
        ported(pattern.port()),
        ported(target.port()),
        registry.to_owned(),
    ];
    let matches =
        |text: &str| MatchPattern::parse(text).is_ok_and(|pattern| pattern.matches(target));
    let found = candidates.iter().position(|text| matches(text));
    match found.and_then(|place| candidates.get(place).map(|text| (place, text))) {
        Some((place, text)) if place + 1 < candidates.len() => (place, Some(text.clone())),
        whole => {
            let instead = whole.map(|(_, registry)| registry.clone());
            (candidates.len() + differing_labels(pattern, target), instead)
        }
    }
}

fn name(pattern: &MatchPattern) -> String {
    let labels: Vec<String> = pattern.labels().iter().map(label_text).collect();
    labels.join(".")
}

fn label_text(label: &LabelPattern) -> String {
    match label {
        LabelPattern::Glob(text) | LabelPattern::Literal(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        _ => "*".to_owned(),
    }
}

/// How many labels are not the same, counted from the right, where registries are most alike.
fn differing_labels(pattern: &MatchPattern, target: &MatchTarget) -> usize {
    let theirs: Vec<&[u8]> = target.labels().collect();
    let same = pattern.labels().iter().rev().zip(theirs.iter().rev()).filter(|(ours, theirs)| {
        let text = label_text(ours);
        text.as_bytes() == **theirs
    });
    pattern.labels().len().max(theirs.len()) - same.count()
}

#[cfg(test)]
mod tests {
    use keyfob_api::FeatureGates;
    use keyfob_config::{Config, ProviderConfig};

    use super::*;

    fn proposal(patterns: &[&str], image: &str) -> (String, Option<String>) {
        let match_images = patterns.iter().map(|text| (*text).to_owned()).collect();
        let provider = ProviderConfig {
            name: "p".into(),
            match_images,
            default_cache_duration: Some("1m".parse().unwrap()),
            api_version: "credentialprovider.kubelet.k8s.io/v1".into(),
            ..ProviderConfig::default()
        };
        let registry = image.split('/').next().unwrap();
        let config = Config::new([provider]).validate(FeatureGates::default()).unwrap();
        let target = MatchTarget::parse(image).unwrap();
        let found = nearest(config.providers(), &target, registry).unwrap();
        (found.pattern, found.instead)
    }

    #[test]
    fn as_much_of_the_pattern_as_can_stays() {
        let cases = [
            (&["x.io", "r.io/*"][..], "r.io/app", ("r.io/*", "r.io/")),
            (&["https://r.io", "x.io"], "r.io/app", ("https://r.io", "r.io")),
            (&["*.io", "a.b.c"], "r.io:5000/app", ("*.io", "*.io:5000")),
            (&["r.io/team", "x.io"], "r.io/app", ("r.io/team", "r.io")),
            (&["r.io:443/team"], "r.io/app", ("r.io:443/team", "r.io")),
            (&["a.b", "*.r.io"], "eu.west.r.io/app", ("*.r.io", "eu.west.r.io")),
        ];
        for (patterns, image, (pattern, instead)) in cases {
            assert_eq!(proposal(patterns, image), (pattern.to_owned(), Some(instead.to_owned())));
        }
    }

    #[test]
    fn what_does_not_match_is_not_proposed() {
        assert_eq!(proposal(&["[::1]"], "[::1]/app"), ("[::1]".to_owned(), None));
    }

    #[test]
    fn without_patterns_there_is_none() {
        let target = MatchTarget::parse("r.io/app").unwrap();
        assert_eq!(nearest(&[], &target, "r.io"), None);
    }
}
