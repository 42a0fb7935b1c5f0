//! Gives each service account its own robot: an annotation names it, a file named like the robot holds its password.

use std::{env, fs, path::PathBuf, process::ExitCode};

use keyfob_plugin::{Answer, CacheKeyType, Doing as _, Failure, ImageCredentials, ImageRequest};

struct Robots(PathBuf);

impl ImageCredentials for Robots {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let Some(robot) = request.annotation("example.com/robot") else {
            return Ok(Answer::nothing());
        };
        // Whoever may edit the service account wrote this.
        if !robot.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Failure::new("example.com/robot may hold letters and digits only"));
        }
        let password = fs::read_to_string(self.0.join(robot)).doing("reading the password")?;
        Ok(Answer::login(request.registry(), robot, password.trim()).cached_by(CacheKeyType::Image))
    }
}

fn main() -> ExitCode {
    keyfob_plugin::main(Robots(env::args().nth(1).unwrap_or("/etc/robots".into()).into()))
}
