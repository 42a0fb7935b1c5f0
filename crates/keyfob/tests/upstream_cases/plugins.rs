//! Our plugins, as processes, against hosts on loopback: what a kubelet would see.

mod acr;
mod ecr;
mod gcp;
mod generic;

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use keyfob_testkit::Internet;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Check;

pub(crate) const CHECKS: &[&[(&str, &str, Check)]] =
    &[acr::CHECKS, ecr::CHECKS, gcp::CHECKS, generic::CHECKS];

/// One of our plugins, about to be run.
struct Plugin {
    directory: TempDir,
    command: Command,
}

impl Plugin {
    fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test starts the program it is about")]
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        command.args(["provider", name]).env_clear().env("HOME", directory.path());
        Self { directory, command }
    }

    fn arg(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Writes a file and passes its path.
    fn file(mut self, name: &str, text: &str) -> Self {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        self.command.arg(path);
        self
    }

    /// Every host is there, and nowhere else.
    fn through(mut self, internet: &Internet) -> Self {
        let ca_file = internet.ca_file(self.directory.path());
        self.command.env("HTTPS_PROXY", internet.url()).args(["--ca-file", &ca_file]);
        self
    }

    fn say(mut self, stdin: &[u8]) -> Spoken {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        // One that does not want to hear it may have gone already.
        child.stdin.take().unwrap().write_all(stdin).unwrap_or_default();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Spoken { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Asks for an image, with the service account of the row if it has one.
    fn ask(self, image: &str, row: &Value) -> Spoken {
        let mut request = json!({
            "kind": "CredentialProviderRequest",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "image": image,
        });
        if let Some(token) = row["serviceAccountToken"].as_str() {
            request["serviceAccountToken"] = token.into();
        }
        if let Some(annotations) = row["annotations"].as_object() {
            request["serviceAccountAnnotations"] = annotations.clone().into();
        }
        self.say(request.to_string().as_bytes())
    }
}

/// What a plugin said.
#[derive(Debug)]
struct Spoken {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Spoken {
    fn answer(&self) -> Result<Value, String> {
        if self.code != 0 {
            return Err(format!("no answer: {self:?}"));
        }
        serde_json::from_str(&self.stdout).map_err(|error| format!("{error}: {self:?}"))
    }

    /// The keys of the answer, in order.
    fn keys(&self) -> Result<Vec<String>, String> {
        let answer = self.answer()?;
        Ok(answer["auth"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect())
    }

    fn login(&self, key: &str) -> Result<[String; 2], String> {
        let login = &self.answer()?["auth"][key];
        let part = |name: &str| login[name].as_str().map(str::to_owned);
        part("username")
            .zip(part("password"))
            .map(<[String; 2]>::from)
            .ok_or_else(|| format!("no {key} in {self:?}"))
    }

    /// A failure whose line holds this text.
    fn fails_with(&self, text: &str) -> Result<(), String> {
        let said = self.code != 0 && self.stdout.is_empty() && self.stderr.contains(text);
        if said { Ok(()) } else { Err(format!("not a failure with {text:?}: {self:?}")) }
    }
}
