//! Rows about the authenticator of a kubeconfig's plugin: what it runs, what it makes of an answer, when it runs again.

mod answers;
mod commands;
mod failures;
mod layer;
mod metrics;
mod observations;
mod pairs;
mod refresh;
mod scenarios;
mod theatre;

use crate::Check;

/// Which check judges which group, one list a module.
pub(crate) const CHECKS: &[&[(&str, &str, Check)]] = &[
    answers::CHECKS,
    commands::CHECKS,
    failures::CHECKS,
    metrics::CHECKS,
    observations::CHECKS,
    pairs::CHECKS,
    refresh::CHECKS,
    scenarios::CHECKS,
];
