//! Logs in to one registry with the password that lies in a file.

use std::{env, fs, process::ExitCode, time::Duration};

use keyfob_plugin::{Answer, Doing as _, Failure, ImageCredentials, ImageRequest};

struct PasswordFile {
    registry: &'static str,
    path: String,
}

impl ImageCredentials for PasswordFile {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        if request.registry() != self.registry {
            return Ok(Answer::nothing());
        }
        let password = fs::read_to_string(&self.path).doing(format!("reading {}", self.path))?;
        Ok(Answer::login(self.registry, "robot", password.trim())
            .cached_for(Duration::from_mins(10)))
    }
}

fn main() -> ExitCode {
    let path = env::args().nth(1).unwrap_or("/etc/registry-password".into());
    keyfob_plugin::main(PasswordFile { registry: "registry.example.com", path })
}
