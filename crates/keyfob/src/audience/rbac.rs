//! `keyfob audience rbac`.

use clap::Args;
use keyfob_control::grant::Grant;

use crate::{Outcome, namespaced::Namespaced};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the role is printed, 2 there is no such role, 4 it could not be written."
)]
pub(super) struct RbacArgs {
    /// The audience; empty for the API server's own.
    #[arg(long)]
    audience: String,
    /// Only for tokens of this service account. Without it: of every one.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    service_account: Option<Namespaced>,
    /// Only for this node. Without it: for all nodes.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

pub(super) fn run(args: &RbacArgs) -> Outcome {
    let account = args.service_account.as_ref();
    let grant = Grant {
        node: args.node.clone(),
        namespace: account.map(|account| account.namespace.clone()),
        service_account: account.map(|account| account.name.clone()),
        audience: args.audience.clone(),
    };
    match grant.yaml() {
        Ok(stdout) => Outcome { stdout, ..Outcome::default() },
        Err(error) => Outcome::wrong_input(&error),
    }
}
