//! What can be counted: upstream's metrics under their own names, and ours. Compiled with the feature `metrics` only; without it
//! `metrics/disabled.rs` stands here.
//!
//! Upstream: `plugin/pkg/client/auth/exec/metrics.go`, and `component-base/metrics/prometheus/restclient`.
//! Differs: in the `OpenMetrics` format the metadata of a counter is under its name without `_total`; the decisions of the
//! policy are counted under one label (upstream declares two, and never exports them); an authenticator that is gone no longer
//! counts for the earliest end.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::Timestamp;
use keyfob_exec::{Finished, Status};
use keyfob_metrics::EncodeAs;
use prometheus_client::{
    encoding::DescriptorEncoder,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

use crate::{AuthError, Identity, authenticator::Outcome};

type Call = [(&'static str, Cow<'static, str>); 2];
type One = [(&'static str, &'static str); 1];

/// Everything the authenticators of a program count. A clone counts the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    calls: Family<Call, Counter>,
    policy: Family<One, Counter>,
    rotation_age: Histogram,
    runs: Family<One, Counter>,
    run_seconds: Histogram,
    withheld: Family<One, Counter>,
    refusals: Counter,
    replays: Family<One, Counter>,
    refreshed_ahead: Family<One, Counter>,
}

impl Default for Families {
    fn default() -> Self {
        const AGES: [f64; 11] = [
            600.0,
            1_800.0,
            3_600.0,
            14_400.0,
            86_400.0,
            604_800.0,
            2_592_000.0,
            7_776_000.0,
            15_552_000.0,
            31_104_000.0,
            124_416_000.0,
        ];
        const SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
        Self {
            calls: Family::default(),
            policy: Family::default(),
            rotation_age: Histogram::new(AGES),
            runs: Family::default(),
            run_seconds: Histogram::new(SECONDS),
            withheld: Family::default(),
            refusals: Counter::default(),
            replays: Family::default(),
            refreshed_ahead: Family::default(),
        }
    }
}

impl Metrics {
    /// A process ended, or could not be started.
    pub(crate) fn called(&self, ran: &Result<Finished, AuthError>) {
        let (code, status) = match ran {
            Ok(finished) => {
                self.0.run_seconds.observe(finished.elapsed.as_secs_f64());
                ("0".into(), "no_error")
            }
            Err(AuthError::Failed { status: Status::Exited(code), .. }) => {
                (code.to_string().into(), "plugin_execution_error")
            }
            // Killed, by whomever.
            Err(
                AuthError::Failed { .. }
                | AuthError::TimedOut { .. }
                | AuthError::TooMuchOutput { .. },
            ) => ("-1".into(), "plugin_execution_error"),
            Err(
                AuthError::NotFound { .. }
                | AuthError::NotStarted { .. }
                | AuthError::ArgumentListTooLong { .. },
            ) => ("1".into(), "plugin_not_found_error"),
            Err(_) => ("1".into(), "client_internal_error"),
        };
        self.0.calls.get_or_create(&[("code", code), ("call_status", status.into())]).inc();
    }

    /// What the policy said of a run.
    pub(crate) fn policy(&self, allowed: bool) {
        let status = if allowed { "allowed" } else { "denied" };
        self.0.policy.get_or_create(&[("status", status)]).inc();
    }

    /// A certificate was replaced by another, or by none.
    pub(crate) fn rotated(
        &self,
        old: Option<&Arc<Identity>>,
        new: Option<&Arc<Identity>>,
        now: SystemTime,
    ) {
        let Some(old) = old.filter(|old| !new.is_some_and(|new| Arc::ptr_eq(old, new))) else {
            return;
        };
        self.0.rotation_age.observe(seconds_from(old.not_before(), now));
    }

    /// A run came to its end.
    pub(crate) fn ran(&self, outcome: &Outcome) {
        let outcome = match outcome {
            Ok(_) => "success",
            Err(AuthError::Denied(_)) => "denied",
            Err(AuthError::Failed { .. }) => "failed",
            Err(AuthError::TimedOut { .. }) => "timed_out",
            Err(AuthError::TooMuchOutput { .. }) => "too_much_output",
            Err(AuthError::Answer { .. } | AuthError::Pair(_)) => "unusable_answer",
            Err(_) => "not_started",
        };
        self.0.runs.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A credential was wanted and the plugin not run.
    pub(crate) fn withheld(&self, error: &AuthError) {
        let reason = match error {
            AuthError::Waiting { .. } => "back_off",
            AuthError::Unanswered { .. } => "unanswered",
            AuthError::Refused { .. } => "refused",
            _ => return,
        };
        self.0.withheld.get_or_create(&[("reason", reason)]).inc();
    }

    /// A run was started because the server refused the current credential.
    pub(crate) fn refused(&self) {
        self.0.refusals.inc();
    }

    /// A request was sent once more.
    pub(crate) fn replayed(&self, result: &'static str) {
        self.0.replays.get_or_create(&[("result", result)]).inc();
    }

    /// A run in the background ended.
    pub(crate) fn refreshed_ahead(&self, success: bool) {
        let result = if success { "success" } else { "failure" };
        self.0.refreshed_ahead.get_or_create(&[("result", result)]).inc();
    }

    /// By hand, because the registry ends each help text with a full stop and upstream's have none.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = &*self.0;
        let mut each =
            |name: &str, help: &str, metric: &dyn EncodeAs| metric.encode_as(encoder, name, help);
        each(
            "rest_client_exec_plugin_call",
            "[ALPHA] Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The exit code will be set to 0 if and only if the plugin call was successful.",
            &all.calls,
        )?;
        each(
            "rest_client_exec_plugin_policy_call",
            "[ALPHA] Number of calls to an exec plugin that its policy allowed or denied",
            &all.policy,
        )?;
        each(
            "rest_client_exec_plugin_certificate_rotation_age",
            "[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If auth exec plugin client certificates are unused, histogram will contain no data.",
            &all.rotation_age,
        )?;
        each("keyfob_client_plugin_runs", "Runs of exec plugins by what came of them", &all.runs)?;
        each(
            "keyfob_client_plugin_run_seconds",
            "How long exec plugins ran that ended well",
            &all.run_seconds,
        )?;
        each(
            "keyfob_client_withheld_runs",
            "Credentials that were wanted while the plugin was not run, by reason",
            &all.withheld,
        )?;
        each(
            "keyfob_client_refused_credentials",
            "Credentials that were replaced because a server answered 401",
            &all.refusals,
        )?;
        each(
            "keyfob_client_replays",
            "Requests that were sent once more after a 401, by result",
            &all.replays,
        )?;
        each(
            "keyfob_client_background_refreshes",
            "Runs of exec plugins ahead of a credential's end, by result",
            &all.refreshed_ahead,
        )
    }
}

/// How long after a time another is; negative before it.
pub(crate) fn seconds_from(time: Timestamp, now: SystemTime) -> f64 {
    let Some(time) = time.to_system_time() else { return 0.0 };
    match now.duration_since(time) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -Duration::as_secs_f64(&before.duration()),
    }
}
