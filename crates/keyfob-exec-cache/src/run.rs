//! Running the plugin that is wrapped, as its client would have.
//!
//! Upstream: `refreshCredsLocked` in `plugin/pkg/client/auth/exec/exec.go`. The plugin finds our environment, and with it
//! what the client tells, as it is.

use std::{ffi::OsString, sync::Arc};

use keyfob_api::{ExecAnswerError, ExecCredentialStatus, ExecVersion, Secret, speaks_of_a_secret};
use keyfob_exec::{Invocation, Stderr, Stdin};

use super::{ExecCache, ExecCacheError, ExecCacheNotice, ExecQuestion, entry::Entry};

impl ExecCache {
    /// Its answer, which came now.
    pub(super) async fn run(&self, question: &ExecQuestion) -> Result<Entry, ExecCacheError> {
        let invocation = self.invocation(question);
        let finished = self.runner.run(&invocation).await.map_err(ExecCacheError::Plugin)?;
        let stdout = finished.success().map_err(ExecCacheError::Plugin)?;
        let version = question.info.as_ref().map(|(version, _)| *version);
        let (version, status) = decode(stdout.expose(), version)?;
        Ok(Entry::new(self.clock.now(), version, status))
    }

    /// A plugin that may ask a person has the terminal, and all the time it needs.
    fn invocation(&self, question: &ExecQuestion) -> Invocation {
        let mut invocation =
            Invocation::new(question.program.clone()).args(question.args.iter().cloned());
        for secret in secrets(question) {
            invocation = invocation.redact(secret);
        }
        if question.interactive {
            return invocation.stdin(Stdin::Terminal).stderr(Stderr::Inherit);
        }
        let tell = Arc::clone(&self.tell);
        let line = move |line: &str| tell(&ExecCacheNotice::Line(line));
        invocation.stderr(Stderr::Forward(Arc::new(line))).deadline(self.options.deadline)
    }
}

/// Of the version that was asked for, or of any.
fn decode(
    stdout: &[u8],
    wanted: Option<ExecVersion>,
) -> Result<(ExecVersion, ExecCredentialStatus), ExecAnswerError> {
    let decode = |version| Ok((version, ExecCredentialStatus::decode(stdout, version)?));
    if let Some(version) = wanted {
        return decode(version);
    }
    let first = decode(ExecVersion::V1);
    match first {
        Err(ExecAnswerError::Version { returned: Some(version), .. }) => decode(version),
        decoded => decoded,
    }
}

/// What is handed over and must not be repeated: arguments whose names say so, and a proxy's URL, which may have a password.
fn secrets(question: &ExecQuestion) -> Vec<Secret<String>> {
    let cluster = question.info.as_ref().and_then(|(_, spec)| spec.cluster.as_ref());
    let proxy = cluster.map(|cluster| cluster.proxy_url.clone());
    secret_arguments(&question.args)
        .chain(proxy)
        .filter(|secret| secret.expose().len() >= 6)
        .collect()
}

/// What follows a name that speaks of a secret: `--token=…`, `--password …`.
fn secret_arguments(args: &[OsString]) -> impl Iterator<Item = Secret<String>> {
    let mut next_is_secret = false;
    args.iter().filter_map(move |arg| {
        let arg = arg.to_string_lossy();
        let was_named = std::mem::take(&mut next_is_secret) && !arg.starts_with("--");
        match arg.split_once('=') {
            _ if was_named => Some(Secret::from(&*arg)),
            Some((name, value)) => speaks_of_a_secret(name).then(|| Secret::from(value)),
            None => {
                next_is_secret = arg.starts_with('-') && speaks_of_a_secret(&arg);
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_named_like_secrets_are_secrets() {
        let args = ["get", "--token=one", "--password", "two", "--use-token", "--v", "x", "-x=y"];
        let found: Vec<_> = secret_arguments(&args.map(OsString::from)).collect();
        assert_eq!(found, [Secret::from("one"), Secret::from("two")]);
    }

    #[test]
    fn an_answer_is_of_the_version_asked_for_or_of_any_if_none_was() {
        let answer = |version: ExecVersion| {
            ExecCredentialStatus { token: Some("t".into()), ..Default::default() }.encode(version)
        };
        for version in [ExecVersion::V1, ExecVersion::V1Beta1] {
            let stdout = answer(version);
            assert_eq!(decode(stdout.expose(), None).unwrap().0, version);
            assert_eq!(decode(stdout.expose(), Some(version)).unwrap().0, version);
        }
        let other = decode(answer(ExecVersion::V1Beta1).expose(), Some(ExecVersion::V1));
        assert_eq!(
            other.unwrap_err().to_string(),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version \
             client.authentication.k8s.io/v1beta1"
        );
    }
}
