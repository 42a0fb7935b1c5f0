//! Asks a `docker-credential-*` program for a login, as docker does.
//!
//! The program is run as `NAME get` with the server's address on stdin, and prints the login as JSON on stdout. That is
//! also where it says what went wrong, and "not found" is known by its exact text.

use std::{str::FromStr, time::Duration};

use keyfob_api::{
    InvalidField, Redactor, Secret,
    document::{Document, FieldTable, Reading},
};
use keyfob_exec::{Finished, Invocation, Program, Status, Stdin, shortened};
use keyfob_plugin::{Doing as _, Failure, ImageRequest};

use crate::World;

const NOT_FOUND: &str = "credentials not found in native keychain";

/// Instead of a user name: the secret is a token to get tokens with, and no password.
const IDENTITY_TOKEN: &str = "<token>";

/// With this user name, Azure's registries take that token as a password too.
const ACR_USERNAME: &str = "00000000-0000-0000-0000-000000000000";

/// What is left of the run when a helper is given up, so that it is us who say so.
const GRACE: Duration = Duration::from_secs(1);

/// The name of a helper, `NAME` in `docker-credential-NAME`, or the absolute path of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CredentialHelper(String);

/// What a helper knows of a registry.
#[derive(Debug, Default)]
pub(crate) struct HelperLogin {
    pub(crate) username: String,
    pub(crate) password: Secret<String>,
}

impl FromStr for CredentialHelper {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("a helper needs a name"),
            _ if text.contains('/') && !text.starts_with('/') => {
                Err("a helper is a name, as in docker-credential-NAME, or an absolute path")
            }
            _ => Ok(Self(text.strip_prefix("docker-credential-").unwrap_or(text).to_owned())),
        }
    }
}

impl CredentialHelper {
    /// The login for the registry of the request; nothing if the helper has none.
    pub(crate) async fn login(
        &self,
        world: &World,
        request: &ImageRequest,
    ) -> Result<Option<HelperLogin>, Failure> {
        for server in servers(request.registry()) {
            if let Some(login) = self.ask(&server, world, request).await? {
                return Ok(Some(login.for_registry(request.registry())));
            }
        }
        Ok(None)
    }

    async fn ask(
        &self,
        server: &str,
        world: &World,
        request: &ImageRequest,
    ) -> Result<Option<HelperLogin>, Failure> {
        let command = self.command();
        let program = Program::on_path(&command, world.environment.as_ref())?;
        let invocation = Invocation::new(program)
            .args(["get"])
            .stdin(Stdin::bytes(server))
            .deadline(request.call().remaining().saturating_sub(GRACE));
        request.call().step(format!("asking {command} about {server}"));
        let finished = world.runner.run(&invocation).await?;
        if finished.status != Status::Exited(0) {
            return if said(&finished) == NOT_FOUND { Ok(None) } else { Err(refused(finished)) };
        }
        let login = HelperLogin::read(finished.stdout.expose())
            .doing(format!("{command} printed no login for {server}"))?;
        request.call().hide(&login.password);
        // Docker, too, takes an empty login for none.
        Ok(Some(login).filter(|login| !login.password.expose().is_empty()))
    }

    fn command(&self) -> String {
        if self.0.starts_with('/') {
            self.0.clone()
        } else {
            format!("docker-credential-{}", self.0)
        }
    }
}

/// The addresses under which docker, or something older than today's docker, may have stored the login.
fn servers(registry: &str) -> Vec<String> {
    match registry {
        "docker.io" => vec!["https://index.docker.io/v1/".into()],
        _ => vec![registry.into(), format!("https://{registry}")],
    }
}

impl HelperLogin {
    const FIELDS: &FieldTable<Self> = &[
        ("Username", |login, item| item.read_text(&mut login.username)),
        ("Secret", |login, item| item.read_secret(&mut login.password)),
    ];

    /// As Go reads it: names in any case, unknown ones ignored. No error quotes what was printed.
    fn read(stdout: &[u8]) -> Result<Self, Failure> {
        let document = Document::read_json(stdout)?;
        let mut login = Self::default();
        Reading::default()
            .root(&document.root)
            .read_fields_in_any_case(Self::FIELDS, &mut login)
            .map_err(InvalidField::from)?;
        if login.username.is_empty() && !login.password.expose().is_empty() {
            return Err(Failure::new("it has a password and no user name"));
        }
        Ok(login)
    }

    fn for_registry(self, registry: &str) -> Self {
        let is_token = self.username == IDENTITY_TOKEN;
        let host = registry.split(':').next().unwrap_or_default();
        let is_azure = [".azurecr.io", ".azurecr.cn", ".azurecr.us", ".azurecr.de"]
            .iter()
            .any(|suffix| host.ends_with(suffix));
        let username = if is_token && is_azure { ACR_USERNAME.into() } else { self.username };
        Self { username, ..self }
    }
}

fn said(finished: &Finished) -> String {
    String::from_utf8_lossy(finished.stdout.expose()).trim().to_owned()
}

/// Where docker's helpers say what went wrong a login may stand as well, so only what looks like a sentence is shown.
fn refused(finished: Finished) -> Failure {
    const LONGEST: usize = 200;
    let said = said(&finished);
    let said = said.lines().next().unwrap_or_default();
    let is_a_sentence = said.contains(' ') && !said.contains(['{', '"']);
    let program = finished.program.display().to_string();
    let status = finished.status;
    if is_a_sentence {
        let said = Redactor::default().redact(said);
        return Failure::new(format!("{program} failed: {status}: {}", shortened(&said, LONGEST)));
    }
    match finished.success() {
        Err(error) => error.into(),
        Ok(_) => Failure::new(format!("{program} failed: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_a_name_or_an_absolute_path() {
        let command = |text: &str| text.parse::<CredentialHelper>().map(|helper| helper.command());
        assert_eq!(command("pass").as_deref(), Ok("docker-credential-pass"));
        assert_eq!(command("docker-credential-pass").as_deref(), Ok("docker-credential-pass"));
        assert_eq!(command("/opt/my-helper").as_deref(), Ok("/opt/my-helper"));
        assert!(command("../pass").is_err());
        assert!(command("").is_err());
    }

    #[test]
    fn docker_hub_has_a_name_of_its_own() {
        assert_eq!(servers("docker.io"), ["https://index.docker.io/v1/"]);
        assert_eq!(servers("r.io:5000"), ["r.io:5000", "https://r.io:5000"]);
    }
}
