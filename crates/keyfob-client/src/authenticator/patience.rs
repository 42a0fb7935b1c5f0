//! How long to wait after runs that came to nothing, or brought nothing that was accepted. Pure: it is told the time.
//!
//! Differs: upstream runs the plugin again for each request, however it ended before.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::plugin::Interactivity;
use crate::{AuthError, Behaviour};

/// After this many credentials that nobody accepted the next one is not fetched at once.
const FREE_REFUSALS: u32 = 5;
/// The first pause after that: a server that changes its mind all the time may just have been quicker.
const FIRST_REFUSAL: Duration = Duration::from_millis(100);
/// The first pause after a run that failed.
const FIRST_FAILURE: Duration = Duration::from_secs(1);
/// For how long nobody is asked after too many attempts.
const SILENCE: Duration = Duration::from_hours(1);

/// What is remembered of one authenticator's bad luck.
#[derive(Debug, Default)]
pub(super) struct Patience {
    failures: u32,
    last: Option<Arc<AuthError>>,
    next: Option<Pause>,
    unanswered: u32,
    silence: Option<Pause>,
    refused_generation: u64,
    refusals: u32,
    refused: Option<Pause>,
}

impl Patience {
    /// Whether the plugin may be run now.
    pub(super) fn allows(
        &self,
        interactivity: Interactivity,
        now: SystemTime,
        behaviour: &Behaviour,
    ) -> Result<(), AuthError> {
        let Some(last) = &self.last else { return Ok(()) };
        let silence = self.silence.and_then(|pause| pause.at(now));
        if let (Interactivity::Interactive, Some(until)) = (interactivity, silence) {
            let last = Arc::clone(last);
            return Err(AuthError::Unanswered { attempts: self.unanswered, last, until });
        }
        match self.next.and_then(|pause| pause.at(now)) {
            Some(until) if behaviour.back_off => {
                Err(AuthError::Waiting { last: Arc::clone(last), until })
            }
            _ => Ok(()),
        }
    }

    /// A run failed. The pause that follows is also what a run in the background waits for, whatever the behaviour.
    pub(super) fn failed(
        &mut self,
        error: &AuthError,
        interactivity: Interactivity,
        now: SystemTime,
        behaviour: &Behaviour,
    ) -> SystemTime {
        self.last = Some(Arc::new(error.clone()));
        self.failures = self.failures.saturating_add(1);
        let pause = Pause::new(now, delay(FIRST_FAILURE, self.failures));
        // What was never started costs nothing: whoever installs the plugin need not wait.
        self.next = error.has_run().then_some(pause);
        if interactivity == Interactivity::Interactive && error.has_run() {
            self.unanswered = self.unanswered.saturating_add(1);
            let most = behaviour.interactive_attempts;
            let enough = most.is_some_and(|most| self.unanswered >= most);
            self.silence = enough.then(|| Pause::new(now, SILENCE));
        }
        pause.until
    }

    /// A run brought a credential.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.last = None;
        self.next = None;
        self.unanswered = 0;
        self.silence = None;
    }

    /// The server refused the credential that is current; `accepted` is the newest it has accepted. May another be fetched?
    pub(super) fn refused(
        &mut self,
        generation: u64,
        accepted: u64,
        now: SystemTime,
        behaviour: &Behaviour,
    ) -> Result<(), AuthError> {
        if generation != self.refused_generation {
            self.refusals = match accepted {
                // It was good, and is no more.
                accepted if accepted >= generation => 0,
                accepted if accepted > self.refused_generation => 1,
                _ => self.refusals.saturating_add(1),
            };
            self.refused_generation = generation;
            let too_many = self.refusals.checked_sub(FREE_REFUSALS).filter(|many| *many > 0);
            self.refused = too_many.map(|many| Pause::new(now, delay(FIRST_REFUSAL, many)));
        }
        match self.refused.and_then(|pause| pause.at(now)) {
            Some(until) if behaviour.back_off => {
                Err(AuthError::Refused { refusals: self.refusals, until })
            }
            _ => Ok(()),
        }
    }

    /// The last failure, if nothing went well since.
    pub(super) fn last(&self) -> Option<&AuthError> {
        self.last.as_deref()
    }
}

/// From a moment to another.
#[derive(Clone, Copy, Debug)]
struct Pause {
    since: SystemTime,
    until: SystemTime,
}

impl Pause {
    fn new(since: SystemTime, length: Duration) -> Self {
        Self { since, until: since.checked_add(length).unwrap_or(since) }
    }

    /// Its end, if now is in it. A clock that was set back to before it ends it: nobody knows how long it was.
    fn at(self, now: SystemTime) -> Option<SystemTime> {
        (self.since <= now && now < self.until).then_some(self.until)
    }
}

/// The first pause, doubled each time up to a minute, and up to a quarter less, so that not all clients come back at once.
fn delay(first: Duration, times: u32) -> Duration {
    let doubled = 1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    let longest = first.saturating_mul(doubled).min(Duration::from_mins(1));
    longest.mul_f64(1.0 - fastrand::f64() / 4.0)
}

#[cfg(test)]
mod tests {
    use keyfob_exec::NotRunnable;

    use super::*;
    use crate::StartError;

    const QUIET: Interactivity = Interactivity::Quiet;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(24) + Duration::from_millis(millis)
    }

    fn failed() -> AuthError {
        AuthError::TooMuchOutput { command: "p".into(), limit: 1, stderr: <_>::default() }
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        for (times, longest) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (64, 60), (65, 60)] {
            let longest = Duration::from_secs(longest);
            assert!(
                (longest.mul_f64(0.75)..=longest).contains(&delay(FIRST_FAILURE, times)),
                "{times}"
            );
        }
    }

    #[test]
    fn after_a_failure_the_same_is_said_until_the_pause_is_over() {
        let (mut patience, behaviour) = (Patience::default(), Behaviour::default());
        assert!(patience.allows(QUIET, at(0), &behaviour).is_ok());

        let until = patience.failed(&failed(), QUIET, at(0), &behaviour);

        let error = patience.allows(QUIET, at(1), &behaviour).unwrap_err();
        assert_eq!(error.retry_at(), Some(until));
        assert!(error.to_string().starts_with("exec: executable p printed more than 1 bytes"));
        assert!(patience.allows(QUIET, until, &behaviour).is_ok());
        assert!(patience.allows(QUIET, at(1), &Behaviour::of_client_go()).is_ok());
        // Set back to before the failure.
        assert!(patience.allows(QUIET, at(0) - Duration::from_hours(1), &behaviour).is_ok());
    }

    #[test]
    fn what_was_never_started_may_be_tried_at_once() {
        let (mut patience, behaviour) = (Patience::default(), Behaviour::default());
        let reason = StartError::NotRunnable(NotRunnable::Missing);
        let missing = AuthError::NotStarted { program: "/p".into(), reason };

        patience.failed(&missing, QUIET, at(0), &behaviour);

        assert!(patience.allows(QUIET, at(0), &behaviour).is_ok());
        assert_eq!(
            patience.last().unwrap().to_string(),
            "exec: fork/exec /p: no such file or directory"
        );
    }

    #[test]
    fn nobody_is_asked_again_for_an_hour() {
        let (mut patience, behaviour) = (Patience::default(), Behaviour::default());
        let interactive = Interactivity::Interactive;
        for attempt in 0..3 {
            let now = at(attempt * 120_000);
            assert!(patience.allows(interactive, now, &behaviour).is_ok(), "{attempt}");
            patience.failed(&failed(), interactive, now, &behaviour);
        }

        let error = patience.allows(interactive, at(400_000), &behaviour).unwrap_err();
        assert!(matches!(error, AuthError::Unanswered { attempts: 3, .. }));
        assert!(patience.allows(QUIET, at(400_000), &behaviour).is_ok());
        assert!(patience.allows(interactive, at(3_840_000), &behaviour).is_ok());
    }

    #[test]
    fn some_refused_credentials_are_replaced_at_once_and_then_there_is_a_pause() {
        let (mut patience, behaviour) = (Patience::default(), Behaviour::default());
        for generation in 1..=5 {
            // However many requests it was.
            for _ in 0..100 {
                assert!(patience.refused(generation, 0, at(0), &behaviour).is_ok());
            }
        }
        let error = patience.refused(6, 0, at(0), &behaviour).unwrap_err();
        assert!(matches!(error, AuthError::Refused { refusals: 6, .. }));
        assert!(patience.refused(6, 0, at(1_000), &behaviour).is_ok());

        // One that was good is refused because it is no more.
        assert!(patience.refused(7, 7, at(1_000), &behaviour).is_ok());
        assert!(patience.refused(8, 7, at(1_000), &behaviour).is_ok());
        assert!(patience.refused(10, 9, at(1_000), &behaviour).is_ok());
    }
}
