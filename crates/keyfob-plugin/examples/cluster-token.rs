//! Logs in to a cluster with the token that lies in a file, which something else keeps fresh.

use std::{env, fs, process::ExitCode, time::Duration};

use keyfob_plugin::{ClusterAnswer, ClusterCredentials, ClusterRequest, Doing as _, Failure};

struct TokenFile(String);

impl ClusterCredentials for TokenFile {
    async fn credentials(&self, request: &ClusterRequest) -> Result<ClusterAnswer, Failure> {
        let token = fs::read_to_string(&self.0).doing(format!("reading {}", self.0))?;
        let end = request.call().now() + Duration::from_mins(5);
        Ok(ClusterAnswer::token(token.trim()).expires_at(end))
    }
}

fn main() -> ExitCode {
    keyfob_plugin::cluster_main(TokenFile(env::args().nth(1).unwrap_or("/run/token".into())))
}
