//! What the templates of the page ask about a [`Status`].
//!
//! The page is bounded: lists and texts are cut, and the page says how much more there is. Templates escape whatever is not a template.

use std::{borrow::Cow, fmt::Write as _, sync::Arc, time::SystemTime};

use super::{
    history::ReloadRecord,
    hour::{Counts, Minute},
    model::{
        CachedStatus, ProviderState, ProviderStatus, PullRecordStatus, PullRecordsStatus, Status,
    },
    problems::{Problem, ProblemKind},
    time::Moment,
};

use crate::audit::{AuditCaller, AuditEvent, Outcome};
use keyfob_agent_config::StatusDetail;

/// How many rows a list has at most: the first of these with which the page is small enough.
pub(super) const ROWS: [usize; 5] = [20, 15, 10, 5, 2];
/// Characters of a name, and of a text.
const NAME: usize = 100;
const TEXT: usize = 240;
/// The height of a chart, in units of its view box.
const HEIGHT: u64 = 96;
/// The height of the smallest bar: something is never drawn as nothing.
const LEAST: u64 = 3;
/// What separates the parts of a bar.
const GAP: u64 = 2;

/// A status as it is shown to somebody.
#[derive(Clone)]
pub(super) struct View {
    pub(super) status: Arc<Status>,
    pub(super) detail: StatusDetail,
    /// The time that relative times refer to. Without it, times are absolute: a text that changes only if something happened.
    pub(super) now: Option<SystemTime>,
    /// One of [`ROWS`].
    pub(super) rows: usize,
}

/// One chart: a bar for each minute.
pub(super) struct Chart {
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

/// What a part of each bar counts.
struct Kind {
    class: &'static str,
    label: &'static str,
    count: fn(&Counts) -> u64,
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

    /// How many there are of what has rows of its own or takes many lines.
    fn few(&self) -> usize {
        (self.rows / 4).max(1)
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

    /// A hash in parts of equal length, between which a line may be broken.
    pub(super) fn hash_parts<'a>(&self, hash: &'a str) -> Vec<&'a str> {
        let digits = hash.find(':').map_or(0, |colon| colon + 1);
        let quarter = ((hash.len() - digits) / 4).max(1);
        let (mut parts, mut start) = (Vec::new(), 0);
        for end in [digits + quarter, digits + 2 * quarter, digits + 3 * quarter, hash.len()] {
            parts.extend(hash.get(start..end));
            start = end;
        }
        parts
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
        let problems = self.status.problems.iter().take(self.few()).cloned();
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
        self.status.problems.len().saturating_sub(self.few())
    }

    /// Those that fail first, otherwise in the order of the configuration.
    pub(super) fn providers(&self) -> Vec<&ProviderStatus> {
        let mut providers: Vec<_> = self.status.providers.iter().collect();
        providers.sort_by_key(|provider| provider.state != ProviderState::Failing);
        providers.truncate(self.rows);
        providers
    }

    pub(super) fn hidden_providers(&self) -> usize {
        self.status.providers.len().saturating_sub(self.rows)
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
        first(&provider.match_images, self.few())
    }

    pub(super) fn more_patterns(&self, provider: &ProviderStatus) -> usize {
        provider.match_images.len().saturating_sub(self.few())
    }

    /// What to do about the last error, unless the page has said so above: the problems begin with the providers that fail.
    pub(super) fn fix<'a>(&self, provider: &'a ProviderStatus) -> Option<&'a str> {
        let mut failing =
            self.status.providers.iter().filter(|each| each.state == ProviderState::Failing);
        let is_above = failing.position(|each| each.name == provider.name);
        let error = provider.last_error.as_ref()?;
        is_above.is_none_or(|at| at >= self.few()).then_some(&error.explanation.help)
    }

    pub(super) fn charts(&self) -> [Chart; 3] {
        let minutes = &self.status.minutes;
        let kind = |class, label, count| Kind { class, label, count };
        [
            chart(
                "Responses",
                minutes,
                &[
                    kind("answers", "answered", Counts::answered),
                    kind("refused", "refused", |counts| counts.refused),
                    kind("failed", "failed", |counts| counts.failed),
                ],
            ),
            chart("Plugin runs", minutes, &[kind("runs", "", |counts| counts.plugin_runs)]),
            chart(
                "Failures of plugins",
                minutes,
                &[kind("failures", "", |counts| counts.plugin_failures)],
            ),
        ]
    }

    /// The minutes in which something happened, the latest first.
    pub(super) fn busy_minutes(&self) -> Vec<&Minute> {
        let busy = |minute: &&Minute| minute.counts != <_>::default();
        self.status.minutes.iter().rev().filter(busy).collect()
    }

    pub(super) fn decisions(&self) -> &[AuditEvent] {
        first(&self.status.decisions, self.rows)
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
        first(&self.status.cached, self.rows)
    }

    pub(super) fn reloads(&self) -> &[ReloadRecord] {
        first(&self.status.reloads.history, self.rows / 2)
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
        first(&records.records, self.rows)
    }

    pub(super) fn record_errors<'a>(&self, records: &'a PullRecordsStatus) -> &'a [String] {
        first(&records.errors, self.few())
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

fn first<T>(all: &[T], most: usize) -> &[T] {
    all.get(..most).unwrap_or(all)
}

/// A chart of how much there was of each kind in each minute.
fn chart(title: &'static str, minutes: &[Minute], kinds: &[Kind]) -> Chart {
    // The first kind is on top: what is wrong stands on the axis.
    let counts = |minute: &Minute| -> Vec<u64> {
        kinds.iter().rev().map(|kind| (kind.count)(&minute.counts)).collect()
    };
    let bars: Vec<_> = minutes.iter().map(counts).collect();
    let most = bars.iter().map(|bar| bar.iter().sum()).max().unwrap_or_default();
    let mut paths: Vec<_> = kinds.iter().rev().map(|kind| (kind.class, String::new())).collect();
    for (index, bar) in bars.iter().enumerate() {
        for ((_, path), (bottom, height)) in paths.iter_mut().zip(stack(bar, most)) {
            if height > 0 {
                let (x, y) = (index * 10 + 1, 99 - bottom);
                // Writing to a String does not fail.
                write!(path, "M{x} {y}v-{height}h7v{height}z").unwrap_or_default();
            }
        }
    }
    paths.retain(|(_, path)| !path.is_empty());
    let sum_of = |kind: &Kind| minutes.iter().map(|minute| (kind.count)(&minute.counts)).sum();
    let sums: Vec<u64> = kinds.iter().map(sum_of).collect();
    let part = |(kind, sum): (&Kind, &u64)| Part {
        class: kind.class,
        text: format!("{sum} {}", kind.label),
    };
    let parts = if kinds.len() > 1 { kinds.iter().zip(&sums).map(part).collect() } else { vec![] };
    Chart { title, sum: sums.iter().sum(), parts, most, paths }
}

/// Where the parts of a bar begin above the axis, and how high they are. Whatever there is can be seen, and no bar is higher than the chart.
fn stack(parts: &[u64], most: u64) -> Vec<(u64, u64)> {
    let all: u64 = parts.iter().sum();
    let mut visible_left = parts.iter().map(|part| u64::from(*part > 0)).sum::<u64>();
    let gaps = visible_left.saturating_sub(1) * GAP;
    let room = (all * HEIGHT / most.max(1)).saturating_sub(gaps).max(visible_left * LEAST);
    let (mut bottom, mut rest) = (0, room);
    let place = |part: &u64| {
        if *part == 0 {
            return (0, 0);
        }
        visible_left -= 1;
        let height = match visible_left {
            0 => rest,
            others => (part * room / all).clamp(LEAST, rest - others * LEAST),
        };
        rest -= height;
        let at = bottom;
        bottom += height + GAP;
        (at, height)
    };
    parts.iter().map(place).collect()
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
    fn all_parts_of_a_bar_are_seen_and_never_higher_than_the_chart() {
        for (parts, most, expected) in [
            ([0, 0, 0], 0, [(0, 0), (0, 0), (0, 0)]),
            ([0, 0, 10], 10, [(0, 0), (0, 0), (0, 96)]),
            ([0, 10, 0], 10, [(0, 0), (0, 96), (0, 0)]),
            ([5, 0, 5], 10, [(0, 47), (0, 0), (49, 47)]),
            ([1, 0, 1], 1000, [(0, 3), (0, 0), (5, 3)]),
            ([1, 0, 999], 1000, [(0, 3), (0, 0), (5, 91)]),
            ([999, 0, 1], 1000, [(0, 91), (0, 0), (93, 3)]),
            ([1, 998, 1], 1000, [(0, 3), (5, 86), (93, 3)]),
        ] {
            assert_eq!(stack(&parts, most), expected, "{parts:?} of {most}");
        }
    }

    #[test]
    fn a_chart_counts_failures_apart_from_answers() {
        let counts = Counts { responses: 7, refused: 2, failed: 1, ..Counts::default() };
        let minutes = [Minute { start: Moment(SystemTime::UNIX_EPOCH), counts }];
        let kind = |class, label, count| Kind { class, label, count };
        let kinds = [
            kind("answers", "answered", Counts::answered as fn(&Counts) -> u64),
            kind("failed", "failed", |counts| counts.failed),
        ];
        let chart = chart("Responses", &minutes, &kinds);
        assert_eq!(chart.caption(), "5: 4 answered, 1 failed");
        let classes: Vec<_> = chart.paths.iter().map(|(class, _)| *class).collect();
        assert_eq!(classes, ["failed", "answers"]);
    }

    #[test]
    fn a_long_text_is_cut_in_the_middle() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("äöüabcßé", 4), "äö … ßé");
    }
}
