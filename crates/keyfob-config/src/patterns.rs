//! What can be said about a provider's patterns before there is any image.

use std::collections::HashSet;

use keyfob_api::{LabelPattern, MatchPattern};

use super::{Config, ProviderConfig, lint::Warning};

/// Warns of patterns that match nothing, or nothing that another one does not match.
///
/// The patterns are parsed here, because a configuration that is not valid is looked at too. What cannot be parsed is left to
/// `validate`.
pub(super) fn lint(
    config: &Config,
    index: usize,
    provider: &ProviderConfig,
    warnings: &mut Vec<Warning>,
) {
    let patterns: Vec<_> =
        provider.match_images.iter().map(|text| MatchPattern::parse(text).ok()).collect();
    let mut seen = HashSet::new();
    for (number, text) in provider.match_images.iter().enumerate() {
        let path = format!("matchImages[{number}]");
        let place = config.place(index, provider, &path);
        let warn = |message: String, help: String| Warning {
            place: place.clone(),
            ..Warning::new(&provider.name, &path, message, help)
        };
        let Some(Some(pattern)) = patterns.get(number) else { continue };
        if text.is_empty() {
            let message = "an empty pattern matches no image".to_owned();
            warnings.push(warn(message, "leave it out".to_owned()));
        } else if !seen.insert(text) {
            let message = format!("the pattern {text:?} is there twice");
            warnings.push(warn(message, "leave one out".to_owned()));
        } else if is_for_one_label(pattern) {
            let message = format!(
                "the pattern {text:?} is only for registries of one label, such as localhost: \"*\" stands for one label"
            );
            let help = "write a \"*\" for each label that varies, as in \"*.example.com\"; there is no pattern for all registries";
            warnings.push(warn(message, help.to_owned()));
        } else if let Some(never) = pattern.never_matches() {
            let message = format!("the pattern {text:?} never matches: {never}");
            let help = never.instead().map_or_else(
                || "correct it or leave it out".to_owned(),
                |instead| format!("write {instead:?}"),
            );
            warnings.push(warn(message, help));
        } else if let Some(wider) = wider(&patterns, number, pattern) {
            let message = format!(
                "every image that {text:?} matches is matched by {:?} too",
                wider.to_string()
            );
            warnings.push(warn(message, "leave it out, if that is what is meant".to_owned()));
        }
    }
}

/// Whether somebody may have meant any registry.
fn is_for_one_label(pattern: &MatchPattern) -> bool {
    match pattern.labels() {
        [LabelPattern::Any] => pattern.port().is_none(),
        [LabelPattern::Glob(text)] => pattern.port().is_none() && text.contains(&b'*'),
        _ => false,
    }
}

/// Another pattern that matches all that this one matches.
fn wider<'a>(
    patterns: &'a [Option<MatchPattern>],
    number: usize,
    pattern: &MatchPattern,
) -> Option<&'a MatchPattern> {
    // Each is compared with each: this is for patterns that people write.
    const MOST: usize = 1_000;
    let others = patterns.iter().take(MOST).enumerate().filter(|(other, _)| *other != number);
    let mut covering = others.filter_map(|(other, wider)| {
        let wider = wider.as_ref().filter(|wider| wider.covers(pattern))?;
        // Of two that match the same, only the later one is too many.
        (other < number || !pattern.covers(wider)).then_some(wider)
    });
    covering.next()
}
