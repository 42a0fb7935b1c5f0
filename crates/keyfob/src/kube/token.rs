//! `keyfob kube token`: what a kubeconfig's user shows to its cluster, for other programs.

use clap::{Args, ValueEnum};
use keyfob_api::{ExecCredentialSpec, ExecCredentialStatus, ExecVersion, Secret};
use keyfob_client::Identity;
use keyfob_exec::{Environment as _, SystemEnvironment, printable_json};
use serde::Serialize;

use super::{
    cluster_args::ClusterArgs,
    failure::KubeFailure,
    held::{Held, Source},
    on_cluster,
};
use crate::Outcome;

#[derive(Debug, Args)]
#[command(after_help = "It prints a secret: the token, and with -o json the private key too.\n\
                  JSON: {\"token\",\"expirationTimestamp\",\"certificate\":{\"clientCertificateData\",\"clientKeyData\",\"notBefore\",\"notAfter\"}}, \
                  with the certificate and its key in PEM; what there is not is null.\n\
                  A user that has a token or a certificate of its own shows that, and its plugin is not run.\n\
                  Exit codes: 0 here it is, 1 there is none, or the plugin failed, 2 a flag, the kubeconfig or the kuberc is \
                  wrong, 4 it could not be written, 130 it was stopped by a signal.")]
pub(super) struct TokenArgs {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: TokenOutput,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum TokenOutput {
    /// The token alone.
    #[default]
    Token,
    /// The token, its end and the certificate.
    Json,
    /// A header, as for `curl -H`: `Authorization: Bearer …`.
    Header,
    /// An `ExecCredential`, so that this is the plugin of another kubeconfig's user.
    Exec,
}

/// What is printed with `-o json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'a> {
    token: Option<&'a str>,
    expiration_timestamp: Option<String>,
    certificate: Option<Pair<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pair<'a> {
    client_certificate_data: &'a str,
    client_key_data: &'a str,
    not_before: String,
    not_after: String,
}

pub(super) fn run(args: &TokenArgs) -> Outcome {
    let done = on_cluster(&args.cluster, async |cluster| args.print(&cluster.held().await?));
    done.unwrap_or_else(Outcome::from)
}

impl TokenArgs {
    fn print(&self, held: &Held) -> Result<Outcome, KubeFailure> {
        let stdout = match self.output {
            TokenOutput::Token => bare(held)?.expose().clone(),
            TokenOutput::Header => format!("Authorization: Bearer {}", bare(held)?.expose()),
            TokenOutput::Json => json(held)?,
            TokenOutput::Exec => exec_credential(held)?,
        };
        let stderr = match held.source {
            // Whoever runs a plugin shows what it says.
            Source::Plugin { .. } => "",
            Source::Kubeconfig if self.output == TokenOutput::Exec => "",
            Source::Kubeconfig => "keyfob: it is the kubeconfig's own; no plugin was run\n",
        };
        Ok(Outcome { stdout: stdout + "\n", stderr: stderr.to_owned(), ..Outcome::default() })
    }
}

fn bare(held: &Held) -> Result<&Secret<String>, KubeFailure> {
    held.token.as_ref().ok_or(KubeFailure::NoToken(match held.identity {
        Some(_) => "there is no token, but a certificate: -o json prints it",
        None => ONLY_A_PASSWORD,
    }))
}

const ONLY_A_PASSWORD: &str =
    "the user logs in with a name and a password: there is neither a token nor a certificate";

fn json(held: &Held) -> Result<String, KubeFailure> {
    if held.token.is_none() && held.identity.is_none() {
        return Err(KubeFailure::NoToken(ONLY_A_PASSWORD));
    }
    let printed = Printed {
        token: held.token.as_ref().map(|token| token.expose().as_str()),
        expiration_timestamp: held.expiration.map(|end| end.to_string()),
        certificate: held.identity.as_deref().map(pair),
    };
    Ok(printable_json(&serde_json::to_string(&printed).unwrap_or_default()))
}

/// In the version that the client asks for.
fn exec_credential(held: &Held) -> Result<String, KubeFailure> {
    if held.token.is_none() && held.identity.is_none() {
        return Err(KubeFailure::Nobody(ONLY_A_PASSWORD.to_owned()));
    }
    let info = SystemEnvironment.var("KUBERNETES_EXEC_INFO").unwrap_or_default();
    let asked = ExecCredentialSpec::decode(info.as_encoded_bytes());
    let version = asked.map_or(ExecVersion::V1, |(version, _)| version);
    let status = ExecCredentialStatus {
        expiration: held.expiration,
        token: held.token.clone(),
        identity: held.identity.as_ref().map(|identity| identity.pem().clone()),
    };
    let encoded = status.encode(version);
    Ok(String::from_utf8_lossy(encoded.expose().trim_ascii_end()).into_owned())
}

fn pair(identity: &Identity) -> Pair<'_> {
    Pair {
        client_certificate_data: identity.pem().certificate_pem.expose(),
        client_key_data: identity.pem().key_pem.expose(),
        not_before: identity.not_before().to_string(),
        not_after: identity.not_after().to_string(),
    }
}
