//! What is told.

use serde::Serialize;

/// What came of all checks, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// At least one for each check.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many findings have this grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.findings.iter().filter(|finding| finding.grade == grade).count()
    }
}

/// What came of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The check's name, as [`checks`](super::checks) or [`client_checks`](super::client_checks) lists it.
    pub check: &'static str,
    /// How it went.
    pub grade: Grade,
    /// The image it is about, if several were asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What was seen.
    pub reason: String,
    /// What to do about it; empty if nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "whoever counts grades must count them all")]
pub enum Grade {
    /// As it must be.
    Pass,
    /// Whoever runs it lives with it, but somebody may regret it.
    Warn,
    /// The contract is broken.
    Fail,
    /// Nobody knows: there was nothing to look at.
    NotChecked,
}

/// What a check says, before it is known which check it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) grade: Grade,
    pub(crate) image: Option<String>,
    pub(crate) reason: String,
    pub(crate) advice: String,
}

impl Verdict {
    pub(crate) fn pass(reason: impl Into<String>) -> Self {
        Self::new(Grade::Pass, reason, "")
    }

    pub(crate) fn warn(reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Grade::Warn, reason, advice)
    }

    pub(crate) fn fail(reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Grade::Fail, reason, advice)
    }

    pub(crate) fn not_checked(reason: impl Into<String>) -> Self {
        Self::new(Grade::NotChecked, reason, "")
    }

    fn new(grade: Grade, reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { grade, image: None, reason: reason.into(), advice: advice.into() }
    }

    pub(crate) fn found_by(self, check: &'static str) -> Finding {
        let Self { grade, image, reason, advice } = self;
        Finding { check, grade, image, reason, advice }
    }
}
