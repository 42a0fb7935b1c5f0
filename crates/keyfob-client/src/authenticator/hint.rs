//! What a person is told whose plugin is not installed.
//!
//! Upstream: `sometimes` and `installHintVerboseHelp` in `plugin/pkg/client/auth/exec/exec.go`.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

const HELP: &str = "

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins";

/// Where to read on, and the kubeconfig's own hint; or nothing, because it was said often enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help(Option<String>);

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_deref() {
            None => Ok(()),
            Some("") => f.write_str(HELP),
            Some(hint) => write!(f, "{HELP}\n\n{hint}"),
        }
    }
}

/// Gives help so often an hour, from the first time on.
#[derive(Debug)]
pub(super) struct Helper {
    hint: String,
    threshold: u32,
    interval: Duration,
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    times: u32,
    since: Option<SystemTime>,
}

impl Helper {
    pub(super) fn new(hint: String) -> Self {
        Self::with_limit(hint, 10, Duration::from_hours(1))
    }

    fn with_limit(hint: String, threshold: u32, interval: Duration) -> Self {
        Self { hint, threshold, interval, given: Mutex::default() }
    }

    pub(super) fn help(&self, now: SystemTime) -> Help {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *given.since.get_or_insert(now);
        // A clock that was set back is still in the same hour.
        if now.duration_since(since).unwrap_or_default() >= self.interval {
            *given = Given { times: 0, since: Some(now) };
        }
        if given.times >= self.threshold {
            return Help::default();
        }
        given.times += 1;
        Help(Some(self.hint.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(threshold: u32, interval: u64, calls: u64, apart: u64) -> usize {
        let helper = Helper::with_limit("ask ada".into(), threshold, Duration::from_secs(interval));
        let at = |call| SystemTime::UNIX_EPOCH + Duration::from_secs(call * apart);
        (0..calls).filter(|call| helper.help(at(*call)) != Help::default()).count()
    }

    #[test]
    fn help_is_given_so_often_an_interval() {
        assert_eq!(given(3, 1, 20, 0), 3);
        assert_eq!(given(3, 4, 12, 1), 9);
        assert_eq!(given(3, 4, 3, 100), 3);
    }

    #[test]
    fn the_hint_follows_the_help() {
        let shown = Help(Some("ask ada".into())).to_string();
        assert!(shown.starts_with("\n\nIt looks like") && shown.ends_with("plugins\n\nask ada"));
        assert!(Help(Some(String::new())).to_string().ends_with("#client-go-credential-plugins"));
        assert_eq!(Help::default().to_string(), "");
    }
}
