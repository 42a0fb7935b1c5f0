//! `credential_process` of a profile: a program that prints AWS credentials. It is run without a shell, which some nodes
//! do not have.

use std::time::SystemTime;

use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, error::CredentialsError, future},
};
use aws_smithy_types::{DateTime, date_time::Format};
use keyfob_api::{Secret, Timestamp};
use keyfob_exec::{Invocation, Program};
use keyfob_plugin::{Call, Doing as _, Failure};
use serde::{Deserialize, Deserializer};

use super::words;
use crate::World;

/// A profile's program, run when the credentials are wanted and not before.
#[derive(Debug)]
pub(super) struct CredentialProcess {
    pub(super) profile: String,
    /// Its arguments may hold a password.
    pub(super) command: Secret<String>,
    pub(super) world: World,
    pub(super) call: Call,
}

/// What such a program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    #[serde(deserialize_with = "secret")]
    secret_access_key: Secret<String>,
    #[serde(default, deserialize_with = "secret")]
    session_token: Secret<String>,
    expiration: Option<String>,
}

impl ProvideCredentials for CredentialProcess {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let what = format!("credential_process of the profile {}", self.profile);
            let credentials = self.credentials().await.doing(what);
            credentials.map_err(|failure| CredentialsError::provider_error(failure.to_string()))
        })
    }
}

impl CredentialProcess {
    async fn credentials(&self) -> Result<Credentials, Failure> {
        self.call.step(format!("running the credential_process of the profile {}", self.profile));
        let invocation = self.invocation()?;
        let stdout = self.world.runner.run(&invocation).await?.success()?;
        let printed: Printed = serde_json::from_slice(stdout.expose()).map_err(unreadable)?;
        printed.into_credentials(self.call.now())
    }

    fn invocation(&self) -> Result<Invocation, Failure> {
        let words = words::split(self.command.expose())
            .ok_or_else(|| Failure::new("a quote in it is not closed"))?;
        let (program, args) = words.split_first().ok_or_else(|| Failure::new("it is empty"))?;
        let program = Program::on_path(program, self.world.environment.as_ref())?;
        Ok(Invocation::new(program).args(args).deadline(self.call.remaining()))
    }
}

impl Printed {
    fn into_credentials(self, now: SystemTime) -> Result<Credentials, Failure> {
        if self.version != 1 {
            let version = self.version;
            return Err(Failure::new(format!("it printed Version {version}, and 1 is known")));
        }
        let end = self.expiration.as_deref().map(end_of).transpose()?;
        if let Some(end) = end.filter(|end| *end <= now) {
            let end = Timestamp::from(end);
            return Err(Failure::new(format!("it printed credentials that ended at {end}")));
        }
        let token = self.session_token.expose();
        let token = (!token.is_empty()).then(|| token.clone());
        let secret = self.secret_access_key.expose().clone();
        Ok(Credentials::new(self.access_key_id, secret, token, end, "credential_process"))
    }
}

fn end_of(text: &str) -> Result<SystemTime, Failure> {
    let end = DateTime::from_str(text, Format::DateTimeWithOffset);
    let end = end.ok().and_then(|end| SystemTime::try_from(end).ok());
    end.ok_or_else(|| Failure::new("the Expiration that it printed is no time"))
}

/// By place, never by quoting what may be a key.
#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn unreadable(error: serde_json::Error) -> Failure {
    let (line, column) = (error.line(), error.column());
    Failure::new(format!(
        "what it printed is not the JSON with Version, AccessKeyId and SecretAccessKey that is expected \
         (line {line}, column {column})"
    ))
}

fn secret<'de, D: Deserializer<'de>>(value: D) -> Result<Secret<String>, D::Error> {
    Option::deserialize(value).map(|text: Option<String>| Secret::new(text.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn credentials(json: &str) -> Result<Credentials, String> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
        let printed: Printed =
            serde_json::from_str(json).map_err(|error| unreadable(error).to_string())?;
        printed.into_credentials(now).map_err(|failure| failure.to_string())
    }

    #[test]
    fn what_is_printed_is_read_as_documented() {
        let printed = credentials(
            r#"{"Version": 1, "AccessKeyId": "AKIA", "SecretAccessKey": "wJal", "SessionToken": "IQoJ",
                "Expiration": "2031-01-01T00:00:00+00:00", "AccountId": "1"}"#,
        )
        .unwrap();

        assert_eq!((printed.access_key_id(), printed.secret_access_key()), ("AKIA", "wJal"));
        assert_eq!(printed.session_token(), Some("IQoJ"));
        assert!(printed.expiry().is_some());
        let short =
            r#"{"Version":1,"AccessKeyId":"AKIA","SecretAccessKey":"wJal","SessionToken":null}"#;
        assert_eq!(credentials(short).unwrap().session_token(), None);
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_being_quoted() {
        let rows = [
            (r#"{"Version":2,"AccessKeyId":"a","SecretAccessKey":"hunter2"}"#, "Version 2"),
            (r#"{"Version":1,"AccessKeyId":"a"}"#, "SecretAccessKey"),
            (r#"{"Version":1,"AccessKeyId":hunter2}"#, "line 1"),
            (
                r#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"2020-01-01T00:00:00Z"}"#,
                "ended at 2020-01-01T00:00:00Z",
            ),
            (
                r#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"hunter2"}"#,
                "is no time",
            ),
        ];
        for (json, told) in rows {
            let error = credentials(json).unwrap_err();
            assert!(error.contains(told) && !error.contains("hunter2"), "{error}");
        }
    }
}
