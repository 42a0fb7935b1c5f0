//! What is told, and whether every step did what it should.

use keyfob_api::ImageRef;
use keyfob_host::{Config, Credential, Host};

use super::{Expected, answer, plugin::TOKEN, told};
use crate::{
    Outcome, Verdict,
    explain::nearest::{Nearest, nearest},
};

#[derive(Debug, Default)]
pub(super) struct Story {
    text: String,
    steps: usize,
    wrong: usize,
}

impl Story {
    pub(super) fn heading(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "== " } else { "\n== " };
        self.text += &[gap, title, "\n"].concat();
    }

    pub(super) fn step(&mut self, what: &str, as_expected: bool, told: &str) {
        self.steps += 1;
        let mark = if as_expected { "ok   " } else { "WRONG" };
        self.text += &[mark, "  ", what, "\n       ", told, "\n"].concat();
        self.wrong += usize::from(!as_expected);
    }

    /// One provider is to give one credential.
    pub(super) async fn asked(&mut self, host: &Host, image: &str, expected: Expected) {
        match answer(host, image).await {
            Err(error) => self.step(image, false, &error),
            Ok(answer) => {
                let as_expected = matches!(answer.reports.as_slice(), [report]
                    if expected.is(&report.provider, &report.outcome))
                    && answer.credentials.len() == 1;
                let outcomes = answer.reports.iter().map(|report| told(&report.outcome));
                let lines: Vec<String> =
                    answer.credentials.iter().map(user).chain(outcomes).collect();
                self.step(image, as_expected, &lines.join(": "));
            }
        }
    }

    /// Nobody is to be asked, for a reason that can be told.
    pub(super) async fn unmatched(&mut self, host: &Host, config: &Config, image: &str) {
        let asked_nobody = answer(host, image).await.is_ok_and(|answer| answer.reports.is_empty());
        let near = ImageRef::parse(image)
            .ok()
            .and_then(|image| nearest(&config.providers, &image.target().ok()?, image.registry()));
        let told = near.as_ref().map(|near| {
            let Nearest { pattern, reason, instead, .. } = near;
            let instead = instead.as_deref().unwrap_or("no pattern");
            format!("the nearest pattern is {pattern}: {reason}\n       {instead} would match")
        });
        self.step(image, asked_nobody && near.is_some(), &told.unwrap_or_default());
    }

    /// One provider is to fail, without showing its secret, and another to answer all the same.
    pub(super) async fn harmed_beside(&mut self, host: &Host, image: &str, fails: &str) {
        match answer(host, image).await {
            Err(error) => self.step(image, false, &error),
            Ok(answer) => {
                let failed: Vec<&str> = answer.errors().map(|(name, _)| name).collect();
                let reports = answer.reports.iter();
                let lines: Vec<String> = reports
                    .map(|report| format!("{}: {}", report.provider, told(&report.outcome)))
                    .chain(answer.credentials.iter().map(user))
                    .collect();
                let told = lines.join("\n       ");
                let as_expected =
                    failed == [fails] && answer.credentials.len() == 1 && !told.contains(TOKEN);
                self.step(image, as_expected, &told);
            }
        }
    }

    pub(super) fn end(self) -> Outcome {
        let (steps, wrong) = (self.steps, self.wrong);
        let summary = format!("\n{steps} steps, {wrong} went wrong. Next: keyfob explain --help\n");
        let verdict = if wrong == 0 { Verdict::Yes } else { Verdict::No };
        Outcome { stdout: self.text + &summary, verdict, ..Outcome::default() }
    }
}

fn user(credential: &Credential) -> String {
    let (name, key, source) = (credential.username(), credential.key(), credential.source());
    format!("user {name} for {key} from {source}")
}
