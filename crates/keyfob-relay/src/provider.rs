//! The kubelet's credential provider plugin: a `CredentialProviderRequest` on stdin, a `CredentialProviderResponse` on stdout.
//!
//! Both pass through unchanged, because the agent understands every version of them.

use crate::{
    agent::AskError,
    args::{AgentOptions, IfDown},
    outcome::Outcome,
    stdin,
};

const PATH: &str = "/v1/provider";
const JSON: &str = "application/json";

pub(crate) fn run(agent: &AgentOptions, if_down: &IfDown) -> Outcome {
    let request = match stdin::read() {
        Ok(request) => request,
        Err(error) => return error,
    };
    let answer = match if_down {
        IfDown::Refuse => agent.post(PATH, JSON, &request),
        IfDown::Run(fallback) => {
            match agent.post_unless_down(PATH, JSON, &request, fallback.down_after) {
                Err(AskError::Down(reason)) => return fallback.run(&request, &reason),
                answer => answer,
            }
        }
    };
    answer.map_or_else(|error| Outcome::failure(error.report()), Outcome::success)
}
