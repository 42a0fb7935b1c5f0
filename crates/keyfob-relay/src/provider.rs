//! The kubelet's credential provider plugin: a `CredentialProviderRequest` on stdin, a `CredentialProviderResponse` on stdout.
//!
//! Both pass through unchanged, because the agent understands every version of them.

use crate::{
    agent::AskError,
    args::{AgentOptions, IfDown},
    fallback,
    outcome::Outcome,
    stdin,
};

pub(crate) fn run(agent: &AgentOptions, if_down: &IfDown) -> Outcome {
    let request = match stdin::read() {
        Ok(request) => request,
        Err(error) => return error,
    };
    match (agent.post("/v1/provider", "application/json", &request), if_down) {
        (Ok(response), _) => Outcome::success(response),
        (Err(AskError::Down(reason)), IfDown::Run { program, args }) => {
            fallback::run(program, args, &request, &reason)
        }
        (Err(error), _) => Outcome::failure(error.report()),
    }
}
