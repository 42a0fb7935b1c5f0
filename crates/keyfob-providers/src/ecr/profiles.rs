//! The shared config files of AWS, with every `credential_process` in them as a source of ours.
//!
//! The SDK knows sources by name: a profile that says `credential_source = NAME` gets what was handed over under NAME. So
//! each profile with a process is given such a line, in a file that exists in memory only, and the SDK goes on to decide
//! which profile is used and which roles are assumed from it.

use aws_config::profile::{self, Profile};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_types::os_shim_internal::{Env, Fs};
use keyfob_api::Secret;

/// What the SDK looks at in a profile before its `credential_process`.
const BEFORE_A_PROCESS: &[&str] = &[
    "credential_source",
    "login_session",
    "sso_account_id",
    "sso_region",
    "sso_role_name",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
];

/// The files to read, and the processes that they name.
pub(super) struct Profiles {
    pub(super) files: EnvConfigFiles,
    pub(super) processes: Vec<Process>,
}

/// A command, the profile it stands in, and the name of the source that it is.
pub(super) struct Process {
    pub(super) source: String,
    pub(super) profile: String,
    pub(super) command: Secret<String>,
}

impl Profiles {
    pub(super) async fn load() -> Self {
        Self::load_from(&Fs::real(), &Env::real()).await
    }

    async fn load_from(fs: &Fs, env: &Env) -> Self {
        let files = EnvConfigFiles::builder()
            .include_default_config_file(true)
            .include_default_credentials_file(true);
        let (mut processes, mut overlay) = (Vec::new(), String::new());
        // Whoever uses a file that cannot be read says so.
        if let Ok(profiles) = profile::load(fs, env, &files.clone().build(), None).await {
            let named = profiles.profiles().filter_map(|name| profiles.get_profile(name));
            for (process, lines) in named.filter_map(process_of) {
                processes.push(process);
                overlay.push_str(&lines);
            }
        }
        let files = files.with_contents(EnvConfigFileKind::Config, overlay).build();
        Self { files, processes }
    }
}

/// The process of a profile, and the lines that make the SDK ask for it.
fn process_of(profile: &Profile) -> Option<(Process, String)> {
    let command = profile.get("credential_process")?.to_owned();
    if BEFORE_A_PROCESS.iter().any(|key| profile.get(key).is_some()) {
        return None;
    }
    let name = profile.name();
    let source = format!("keyfob:{name}");
    let lines = match (profile.get("role_arn"), profile.get("source_profile")) {
        (None, _) => format!("[profile {name}]\ncredential_source = {source}\n"),
        // A role that is assumed from the profile's own process.
        (Some(_), Some(own)) if own == name => format!(
            "[profile {name}]\nsource_profile = {source}\n[profile {source}]\ncredential_source = {source}\n"
        ),
        (Some(_), _) => return None,
    };
    Some((Process { source, profile: name.to_owned(), command: Secret::new(command) }, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn loaded(config: &str) -> (Vec<String>, profile::ProfileSet) {
        let fs = Fs::from_slice(&[("/config", config)]);
        let env = Env::from_slice(&[
            ("AWS_CONFIG_FILE", "/config"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/none"),
        ]);
        let profiles = Profiles::load_from(&fs, &env).await;
        let mut sources: Vec<_> =
            profiles.processes.into_iter().map(|process| process.source).collect();
        sources.sort();
        (sources, profile::load(&fs, &env, &profiles.files, None).await.unwrap())
    }

    #[tokio::test]
    async fn a_profile_with_a_process_gets_a_source() {
        let (sources, set) = loaded(
            "[default]\ncredential_process = /a\n[profile self]\nrole_arn = r\nsource_profile = self\n\
             credential_process = /b\n",
        )
        .await;

        assert_eq!(sources, ["keyfob:default", "keyfob:self"]);
        let get = |profile, key| set.get_profile(profile).and_then(|profile| profile.get(key));
        assert_eq!(get("default", "credential_source"), Some("keyfob:default"));
        assert_eq!(get("self", "source_profile"), Some("keyfob:self"));
        assert_eq!(get("keyfob:self", "credential_source"), Some("keyfob:self"));
    }

    #[tokio::test]
    async fn a_process_that_the_sdk_would_not_run_is_left_alone() {
        let (sources, _) = loaded(
            "[profile a]\ncredential_process = /a\nsso_session = s\n[profile b]\ncredential_process = /b\n\
             role_arn = r\nsource_profile = a\n[profile c]\nweb_identity_token_file = /t\ncredential_process = /c\n",
        )
        .await;

        assert!(sources.is_empty(), "{sources:?}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_parsed_is_somebody_elses_error() {
        let fs = Fs::from_slice(&[("/config", "[profile\n")]);
        let env = Env::from_slice(&[("AWS_CONFIG_FILE", "/config")]);

        assert!(Profiles::load_from(&fs, &env).await.processes.is_empty());
    }
}
