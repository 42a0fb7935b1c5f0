//! What the templates of the page ask about a [`Status`].
//!
//! The page is bounded: lists and texts are cut, and the page says how much more there is. Templates escape whatever is not a template.

use std::{borrow::Cow, fmt::Write as _, sync::Arc, time::SystemTime};

use super::{
    history::ReloadRecord,
    hour::Minute,
    model::{
        CachedStatus, ProviderState, ProviderStatus, PullRecordStatus, PullRecordsStatus, Status,
    },
    problems::{Problem, ProblemKind},
    time::Moment,
};

use crate::audit::{AuditCaller, AuditEvent, Outcome};
use keyfob_agent_config::StatusDetail;

const PROVIDERS: usize = 20;
const PATTERNS: usize = 6;
const PROBLEMS: usize = 5;
const DECISIONS: usize = 20;
const CACHED: usize = 20;
const RELOADS: usize = 10;
const RECORDS: usize = 20;
const RECORD_ERRORS: usize = 5;
/// Characters of a name, and of a text.
const NAME: usize = 100;
const TEXT: usize = 240;
/// The height of a chart, in units of its view box.
const HEIGHT: u64 = 96;
/// The height of the smallest bar: something is never drawn as nothing.
const LEAST: u64 = 3;
/// What separates the two parts of a bar.
const GAP: u64 = 2;

/// A status as it is shown to somebody.
pub(super) struct View {
    pub(super) status: Arc<Status>,
    pub(super) detail: StatusDetail,
    /// The time that relative times refer to. Without it, times are absolute: a text that changes only if something happened.
    pub(super) now: Option<SystemTime>,
}

/// One chart: a bar for each minute.
pub(super) struct Chart {
    pub(super) class: &'static str,
    pub(super) title: &'static str,
    pub(super) sum: u64,
    /// What the parts of its bars are, if they have parts.
    pub(super) parts: Vec<Part>,
    pub(super) most: u64,
    /// Its bars by their classes, each class as one path: 180 elements would be a tenth of the page.
    pub(super) paths: Vec<(&'static str, String)>,
}

/// An entry of a legend.
pub(super) struct Part {
    pub(super) class: &'static str,
    pub(super) text: String,
}

impl Chart {
    /// What it shows, for those who do not see it.
    pub(super) fn caption(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|part| &*part.text).collect();
        match parts.as_slice() {
            [] => self.sum.to_string(),
            parts => format!("{}: {}", self.sum, parts.join(", ")),
        }
    }
}

#[expect(clippy::unused_self, reason = "templates call the methods of their view")]
impl View {
    /// The title of the window: whoever has many of them open sees which one needs a look.
    pub(super) fn title(&self) -> String {
        let node = &self.status.node;
        match self.status.problems.len() {
            0 => format!("{node}: Keyfob agent"),
            1 => format!("(1 problem) {node}: Keyfob agent"),
            many => format!("({many} problems) {node}: Keyfob agent"),
        }
    }

    pub(super) fn contents(&self) -> [(&'static str, &'static str); 6] {
        [
            ("providers", "Providers"),
            ("hour", "The last hour"),
            ("decisions", "Decisions"),
            ("cached", "Cached answers"),
            ("configuration", "Configuration"),
            ("records", "Pull records"),
        ]
    }

    /// Whether names of images and of callers may be shown.
    pub(super) fn shows_names(&self) -> bool {
        self.detail == StatusDetail::Full
    }

    pub(super) fn text(&self, moment: &Moment) -> String {
        match self.now {
            Some(now) => moment.relative(now),
            None => moment.iso(),
        }
    }

    /// Hours and minutes, in UTC.
    pub(super) fn clock(&self, moment: &Moment) -> String {
        moment.iso().get(11..16).unwrap_or_default().to_owned()
    }

    /// With seconds, as logs have it.
    pub(super) fn exact_clock(&self, moment: &Moment) -> String {
        moment.iso().get(11..19).unwrap_or_default().to_owned()
    }

    pub(super) fn event_clock<'a>(&self, event: &'a AuditEvent) -> &'a str {
        event.time.get(11..19).unwrap_or_default()
    }

    pub(super) fn short<'a>(&self, name: &'a str) -> Cow<'a, str> {
        cut(name, NAME)
    }

    pub(super) fn long<'a>(&self, text: &'a str) -> Cow<'a, str> {
        cut(text, TEXT)
    }

    /// A text in parts, between which a line may be broken: after `/`, `:`, `@` and `.`, but not in a number. Browsers know no such places,
    /// and would break long names anywhere.
    pub(super) fn parts<'a>(&self, text: &'a str) -> Vec<&'a str> {
        parts(text)
    }

    /// `good` or `bad`.
    pub(super) fn mood(&self) -> &'static str {
        if self.status.problems.is_empty() { "good" } else { "bad" }
    }

    /// The whole state in a sentence. Screen readers say it when it changes.
    pub(super) fn verdict(&self) -> String {
        match (self.status.problems.as_slice(), self.status.providers.as_slice()) {
            ([], []) => "Nothing is wrong, but no provider is configured.".to_owned(),
            ([], providers) => {
                let asked = providers.iter().filter(|each| each.state == ProviderState::Working);
                match (asked.count(), providers.len()) {
                    (0, _) => "Nothing is wrong. No provider was asked yet.".to_owned(),
                    (asked, all) if asked < all => {
                        format!("All is well. {asked} of {all} providers were asked and work.")
                    }
                    (1, _) => "All is well. The provider works.".to_owned(),
                    (all, _) => format!("All is well. All {all} providers work."),
                }
            }
            (problems, providers) => problem_sentence(problems, providers),
        }
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let problems = self.status.problems.iter().take(PROBLEMS).cloned();
        problems.map(|problem| self.without_names(problem)).collect()
    }

    /// A rejected configuration may be quoted in the reason, and an image is in the command.
    fn without_names(&self, mut problem: Problem) -> Problem {
        if self.shows_names() {
            return problem;
        }
        match problem.kind {
            ProblemKind::ProviderFailing => {
                problem.command = Some("sudo keyfob agent status".to_owned());
            }
            ProblemKind::ConfigurationRejected => {
                problem.reason = Some("only root is told: see the command".to_owned());
            }
            ProblemKind::RestartNeeded
            | ProblemKind::AuditEventsLost
            | ProblemKind::PortUnavailable => {}
        }
        problem
    }

    pub(super) fn hidden_problems(&self) -> usize {
        self.status.problems.len().saturating_sub(PROBLEMS)
    }

    /// Those that fail first, otherwise in the order of the configuration.
    pub(super) fn providers(&self) -> Vec<&ProviderStatus> {
        let mut providers: Vec<_> = self.status.providers.iter().collect();
        providers.sort_by_key(|provider| provider.state != ProviderState::Failing);
        providers.truncate(PROVIDERS);
        providers
    }

    pub(super) fn hidden_providers(&self) -> usize {
        self.status.providers.len().saturating_sub(PROVIDERS)
    }

    pub(super) fn state(&self, provider: &ProviderStatus) -> String {
        match (provider.state, provider.failures_in_a_row) {
            (ProviderState::Working, _) => "Working".to_owned(),
            (ProviderState::NotAsked, _) => "Not asked yet".to_owned(),
            (ProviderState::Failing, 1) => "Failing".to_owned(),
            (ProviderState::Failing, many) => format!("Failing, {many} times in a row"),
        }
    }

    pub(super) fn state_class(&self, provider: &ProviderStatus) -> &'static str {
        match provider.state {
            ProviderState::Working => "working",
            ProviderState::NotAsked => "idle",
            ProviderState::Failing => "failing",
        }
    }

    pub(super) fn patterns<'a>(&self, provider: &'a ProviderStatus) -> &'a [String] {
        let patterns = provider.match_images.as_slice();
        patterns.get(..PATTERNS).unwrap_or(patterns)
    }

    pub(super) fn more_patterns(&self, provider: &ProviderStatus) -> usize {
        provider.match_images.len().saturating_sub(PATTERNS)
    }

    pub(super) fn charts(&self) -> [Chart; 3] {
        let minutes = &self.status.minutes;
        let responses = chart("answers", "Responses", minutes, |minute| {
            (minute.counts.responses, minute.counts.refused)
        });
        let refused: u64 = minutes.iter().map(|minute| minute.counts.refused).sum();
        let answered = responses.sum.saturating_sub(refused);
        let parts = vec![
            Part { class: "answers", text: format!("{answered} answered") },
            Part { class: "refused", text: format!("{refused} refused") },
        ];
        [
            Chart { parts, ..responses },
            chart("runs", "Plugin runs", minutes, |minute| (minute.counts.plugin_runs, 0)),
            chart("failures", "Failures of plugins", minutes, |minute| {
                (minute.counts.plugin_failures, 0)
            }),
        ]
    }

    /// The minutes in which something happened, the latest first.
    pub(super) fn busy_minutes(&self) -> Vec<&Minute> {
        let busy = |minute: &&Minute| minute.counts != <_>::default();
        self.status.minutes.iter().rev().filter(busy).collect()
    }

    pub(super) fn decisions(&self) -> &[AuditEvent] {
        let decisions = self.status.decisions.as_slice();
        decisions.get(..DECISIONS).unwrap_or(decisions)
    }

    pub(super) fn outcome(&self, event: &AuditEvent) -> &'static str {
        match event.outcome {
            Outcome::Allowed => "allowed",
            Outcome::Denied => "denied",
            Outcome::BadRequest => "bad request",
            Outcome::Abandoned => "abandoned",
            Outcome::Empty => "no credentials",
            Outcome::Failed => "failed",
            Outcome::RateLimited => "too often",
        }
    }

    pub(super) fn outcome_class(&self, event: &AuditEvent) -> &'static str {
        match event.outcome {
            Outcome::Allowed => "good",
            Outcome::Empty | Outcome::Abandoned => "",
            Outcome::Denied | Outcome::BadRequest | Outcome::Failed | Outcome::RateLimited => "bad",
        }
    }

    /// The image; the path of a request that names none, such as a reload that was refused.
    pub(super) fn subject<'a>(&self, event: &'a AuditEvent) -> Cow<'a, str> {
        cut(if event.image.is_empty() { event.request } else { &event.image }, NAME)
    }

    pub(super) fn caller(&self, event: &AuditEvent) -> String {
        let Some(caller) = &event.caller else {
            return match event.peer_uid {
                Some(uid) => format!("user {uid}, who could not be identified"),
                None => "could not be identified".to_owned(),
            };
        };
        cut(&caller_text(caller), NAME).into_owned()
    }

    pub(super) fn rule<'a>(&self, event: &'a AuditEvent) -> Cow<'a, str> {
        cut(event.rule.as_deref().unwrap_or("–"), NAME)
    }

    /// Nothing if credentials were given out: the cell is left out on small screens.
    pub(super) fn reason<'a>(&self, event: &'a AuditEvent) -> Cow<'a, str> {
        cut(event.reason.as_deref().unwrap_or_default(), TEXT)
    }

    pub(super) fn cached(&self) -> &[CachedStatus] {
        let cached = self.status.cached.as_slice();
        cached.get(..CACHED).unwrap_or(cached)
    }

    pub(super) fn reloads(&self) -> &[ReloadRecord] {
        let reloads = self.status.reloads.history.as_slice();
        reloads.get(..RELOADS).unwrap_or(reloads)
    }

    pub(super) fn reload_text(&self, reload: &ReloadRecord) -> String {
        match &reload.error {
            Some(_) if !self.shows_names() => "only root is told why".to_owned(),
            Some(error) => cut(error, TEXT).into_owned(),
            None => {
                let named = |what: &str, names: &[String]| match names {
                    [] => None,
                    names => Some(format!("{what}: {}", names.join(", "))),
                };
                let changes =
                    [named("new or changed", &reload.started), named("removed", &reload.removed)];
                let changes: Vec<_> = changes.into_iter().flatten().collect();
                match changes.as_slice() {
                    [] => "no provider".to_owned(),
                    changes => cut(&changes.join("; "), TEXT).into_owned(),
                }
            }
        }
    }

    pub(super) fn records<'a>(&self, records: &'a PullRecordsStatus) -> &'a [PullRecordStatus] {
        let records = records.records.as_slice();
        records.get(..RECORDS).unwrap_or(records)
    }

    pub(super) fn record_errors<'a>(&self, records: &'a PullRecordsStatus) -> &'a [String] {
        let errors = records.errors.as_slice();
        errors.get(..RECORD_ERRORS).unwrap_or(errors)
    }

    /// As much of an id as container runtimes show.
    pub(super) fn short_id(&self, record: &PullRecordStatus) -> String {
        record.image_id.chars().take("sha256:".len() + 12).collect()
    }
}

/// What is wrong, without the details.
fn problem_sentence(problems: &[Problem], providers: &[ProviderStatus]) -> String {
    let has = |kind| problems.iter().any(|problem| problem.kind == kind);
    let failing: Vec<_> =
        providers.iter().filter(|each| each.state == ProviderState::Failing).collect();
    let providers = match (failing.as_slice(), providers.len()) {
        ([], _) => None,
        ([one], 1) => Some(format!("the provider {} is failing", cut(&one.name, NAME))),
        ([one], all) => Some(format!("1 of {all} providers is failing: {}", cut(&one.name, NAME))),
        (many, all) => Some(format!("{} of {all} providers are failing", many.len())),
    };
    let other = |kind, text: &str| has(kind).then(|| text.to_owned());
    let facts = [
        providers,
        other(ProblemKind::ConfigurationRejected, "a new configuration was rejected"),
        other(ProblemKind::RestartNeeded, "a restart is needed"),
        other(ProblemKind::AuditEventsLost, "audit events were lost"),
        other(ProblemKind::PortUnavailable, "metrics cannot be served on the port"),
    ];
    let sentence = facts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let mut letters = sentence.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn caller_text(caller: &AuditCaller) -> String {
    if let Some(pod) = &caller.pod {
        return format!(
            "pod {}/{} of service account {}",
            pod.namespace, pod.name, pod.service_account
        );
    }
    if caller.container.is_some() {
        return format!("user {} in a container that is no pod", caller.uid);
    }
    let program = &caller.executable;
    let user = if caller.uid == 0 { "root".to_owned() } else { format!("user {}", caller.uid) };
    match &caller.unit {
        Some(unit) => format!("{user}, {program} in {unit}"),
        None => format!("{user}, {program}"),
    }
}

/// A chart of how much there was in each minute, and how much of that was refused.
fn chart(
    class: &'static str,
    title: &'static str,
    minutes: &[Minute],
    counts: impl Fn(&Minute) -> (u64, u64),
) -> Chart {
    let all = minutes.iter().map(|minute| counts(minute).0);
    let (sum, most) = (all.clone().sum(), all.max().unwrap_or_default());
    let (mut rest, mut refused) = (String::new(), String::new());
    for (index, minute) in minutes.iter().enumerate() {
        let stacked = stack(counts(minute), most);
        for (path, (bottom, height)) in [&mut refused, &mut rest].into_iter().zip(stacked) {
            if height > 0 {
                let (x, y) = (index * 10 + 1, 99 - bottom);
                // Writing to a String does not fail.
                write!(path, "M{x} {y}v-{height}h7v{height}z").unwrap_or_default();
            }
        }
    }
    let mut paths = vec![(class, rest), ("refused", refused)];
    paths.retain(|(_, path)| !path.is_empty());
    Chart { class, title, sum, parts: Vec::new(), most, paths }
}

/// Where the two parts of a bar begin above the axis, and how high they are: what was refused, and above it the rest.
fn stack((all, refused): (u64, u64), most: u64) -> [(u64, u64); 2] {
    let height = |count: u64| match count {
        0 => 0,
        count => (count * HEIGHT / most.max(1)).max(LEAST),
    };
    if refused == 0 || refused >= all {
        return [(0, height(refused)), (0, height(all - refused.min(all)))];
    }
    let below = height(refused).min(HEIGHT - GAP - LEAST);
    let bottom = below + GAP;
    [(0, below), (bottom, height(all).saturating_sub(bottom).max(LEAST))]
}

fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(['/', ':', '@', '.']) {
        let (before, after) = text.split_at(at + 1);
        if may_break(before, after) {
            parts.extend(text.get(start..=at));
            start = at + 1;
        }
    }
    parts.extend(text.get(start..).filter(|part| !part.is_empty()));
    parts
}

/// Whether a line may be broken here. `before` ends with one of the characters after which it may.
fn may_break(before: &str, after: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let word = after.split(' ').next().unwrap_or_default();
    let next = after.as_bytes().first();
    let is_in_a_number = is_digit(before.as_bytes().iter().nth_back(1)) && is_digit(next);
    match before.as_bytes().last() {
        // The extension of a file stays with its name.
        Some(b'.') => !is_in_a_number && word.contains(['/', ':', '@', '.']),
        _ => !is_in_a_number && !word.is_empty() && !word.starts_with('/'),
    }
}

/// The text, cut in the middle if it is too long.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().nth(most).is_none() {
        return text.into();
    }
    let half = most / 2;
    let end: String = text.chars().rev().take(half).collect::<Vec<_>>().into_iter().rev().collect();
    let start: String = text.chars().take(half).collect();
    format!("{start} … {end}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_broken_between_its_parts_and_not_in_a_number() {
        for (name, expected) in [
            ("", &[][..]),
            ("app", &["app"]),
            (
                "ci.internal.example/team/app:v1.2",
                &["ci.", "internal.", "example/", "team/", "app:", "v1.2"],
            ),
            ("r.example:5000/ä/ö@sha256:3f", &["r.", "example:", "5000/", "ä/", "ö@", "sha256:3f"]),
            (
                "/etc/keyfob/agent.yaml:1:42: no. It",
                &["/", "etc/", "keyfob/", "agent.", "yaml:", "1:42: no. It"],
            ),
            ("https://r.example/", &["https://", "r.", "example/"]),
            ("/etc/agent.yaml", &["/", "etc/", "agent.yaml"]),
        ] {
            assert_eq!(parts(name), expected, "{name}");
            assert_eq!(parts(name).concat(), name);
        }
    }

    #[test]
    fn both_parts_of_a_bar_are_seen_and_never_higher_than_the_chart() {
        assert_eq!(stack((0, 0), 0), [(0, 0), (0, 0)]);
        assert_eq!(stack((10, 0), 10), [(0, 0), (0, 96)]);
        assert_eq!(stack((10, 10), 10), [(0, 96), (0, 0)]);
        assert_eq!(stack((10, 5), 10), [(0, 48), (50, 46)]);
        assert_eq!(stack((2, 1), 1000), [(0, 3), (5, 3)]);
        assert_eq!(stack((1000, 1), 1000), [(0, 3), (5, 91)]);
        assert_eq!(stack((1000, 999), 1000), [(0, 91), (93, 3)]);
    }

    #[test]
    fn a_long_text_is_cut_in_the_middle() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("äöüabcßé", 4), "äö … ßé");
    }
}
