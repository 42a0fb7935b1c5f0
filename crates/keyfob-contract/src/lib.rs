#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! The plan (`plan`) says what is sent, `observe` runs it, and each check is a pure function of what was observed. The
//! tables of the checks are in `provider` and `client`.
//! [`checks()`] and [`client_checks`] list them.

mod client;
mod common;
mod observe;
mod provider;
mod report;
mod secrets;
mod table;

use std::{ffi::OsString, sync::Arc, time::Duration};

use keyfob_api::{ImageRef, Secret};
use keyfob_exec::{Program, Runner};

pub use client::{ClientConformance, client_checks};
pub use provider::checks::checks;
use provider::{
    case, case::Case, keys, plan, plan::Subject, requests, response, runs, start, stderr,
};
pub use report::{Finding, Grade, Report};

/// A plugin, and what it is to be asked.
#[derive(Debug, Clone)]
pub struct Conformance(Subject);

/// What it means that a plugin fails, or has nothing, for an image it is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// It is a fault: everything is there that an answer needs.
    #[default]
    Fails,
    /// It may be so, for instance because there is no cloud here. What needs an answer is not checked; if there is one, it
    /// is.
    MayBe,
}

impl Conformance {
    /// This plugin, asked about an image that it has a login for.
    pub fn of(program: Program, image: ImageRef) -> Self {
        Self(Subject::new(program, image))
    }

    /// One more image.
    #[must_use]
    pub fn image(mut self, image: ImageRef) -> Self {
        self.0.images.push(image);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.0.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable over the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.0.env.push((name.into(), value.into()));
        self
    }

    /// The token of a service account, sent with every request. Without one, a single request brings a made-up token.
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret<String>>) -> Self {
        self.0.token = Some(token.into());
        self
    }

    /// An annotation of the service account, sent with every request.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.annotations.insert(key.into(), value.into());
        self
    }

    /// When a run is killed; the kubelet's minute unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// Whether it must have an answer.
    #[must_use]
    pub fn no_answer(mut self, no_answer: NoAnswer) -> Self {
        self.0.no_answer = no_answer;
        self
    }

    /// Runs the plugin some twenty times, and judges.
    pub async fn report(&self, runner: Arc<dyn Runner>) -> Report {
        let runs = self.0.observe(runner).await;
        Report { findings: provider::checks::judge(&Case::new(&self.0, runs)) }
    }
}
