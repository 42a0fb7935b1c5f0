//! `keyfob kube proxy`: the cluster at an address of this machine, for programs that cannot run plugins.
//!
//! Whoever can reach the port acts as the user, so it is on loopback only, and a browser is kept out: a page of somebody
//! else's that makes it ask us names another host or another origin. `doorkeeper` decides that, `forward` passes on the rest.
//! On a machine with other people a socket of the file system, which only its owner can open, is the better address.
//!
//! Upstream: `kubectl proxy`.
//! Differs: the port is part of the host that must be named; any foreign origin is refused; nothing lets others in; headers that
//! say who asks are taken out.

mod doorkeeper;
mod forward;

use std::{
    future, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use hyper::service::service_fn;
use keyfob_net::server::{self, Limits, Listener, Pace, SocketFile, SocketFileError};
use kube::Client;
use tokio::net::{TcpListener, UnixListener};

use self::{doorkeeper::Doorkeeper, forward::forward};
use super::{cluster_args::ClusterArgs, on_cluster_until};
use crate::{Outcome, Verdict, lookup::LookupFailure};

#[derive(Debug, Args)]
#[command(after_help = "When it is ready it prints one line on stdout: its address.\n\
                  Whoever can reach that address acts as the kubeconfig's user. Requests that name another host or come from a \
                  web page of another origin are refused; headers that say who asks (Authorization, Impersonate-*, X-Remote-*) are \
                  taken out. If the plugin \
                  fails, the answer is a Status with code 502 that says why.\n\
                  Exit codes: 0 it was stopped by a signal, 1 it could not start, 2 a flag, the kubeconfig or the kuberc is wrong.")]
pub(super) struct ProxyArgs {
    /// The port on 127.0.0.1; 0 is any that is free.
    #[arg(short, long, default_value_t = 8001, conflicts_with = "unix_socket")]
    port: u16,
    /// A socket in the file system instead, for this user only.
    #[arg(short, long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Refuse everything that changes something: only GET, HEAD and OPTIONS, and no upgrades.
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &ProxyArgs) -> Outcome {
    let done = on_cluster_until(Verdict::Yes, &args.cluster, async |cluster| {
        let (client, _) = cluster.connect()?;
        Ok(match args.serve(client).await {
            Ok(never) => never,
            Err(error) => Outcome { verdict: Verdict::No, ..Outcome::wrong_input(&error) },
        })
    });
    match done {
        Ok(outcome) => outcome,
        Err(LookupFailure::Stopped) => Outcome::default(),
        Err(failure) => failure.into(),
    }
}

impl ProxyArgs {
    /// Until somebody stops us.
    async fn serve(&self, client: Client) -> io::Result<Outcome> {
        if let Some(path) = &self.unix_socket {
            let (_file, listener) = listen_at(path)?;
            announce(&path.display().to_string()).await?;
            serve(listener, Doorkeeper::of_a_socket(self.read_only), client).await;
            return Ok(Outcome::default());
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let listener = TcpListener::bind(address).await.map_err(|error| taken(&error, address))?;
        let address = listener.local_addr()?;
        announce(&format!("http://{address}")).await?;
        serve(listener, Doorkeeper::of_a_port(address.port(), self.read_only), client).await;
        Ok(Outcome::default())
    }
}

/// A socket that only this user can open.
fn listen_at(path: &Path) -> io::Result<(SocketFile, UnixListener)> {
    let (file, listener) = SocketFile::bind(path, 0o600).map_err(|error| {
        let why = match error {
            SocketFileError::InUse(_) => "another process listens there".to_owned(),
            SocketFileError::NotASocket(_) => "something that is not a socket is there".to_owned(),
            SocketFileError::Unusable { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let path = path.display();
        io::Error::other(format!(
            "cannot listen at {path}: {why}; choose another path with --unix-socket"
        ))
    })?;
    listener.set_nonblocking(true)?;
    Ok((file, UnixListener::from_std(listener)?))
}

fn taken(error: &io::Error, address: SocketAddr) -> io::Error {
    let why = format!("cannot listen on {address}: {error}; choose another port with --port");
    io::Error::new(error.kind(), why)
}

async fn serve(listener: impl Into<Listener>, door: Doorkeeper, client: Client) {
    let door = Arc::new(door);
    let service = service_fn(move |request| forward(request, Arc::clone(&door), client.clone()));
    server::serve(listener, None, service, limits(), future::pending()).await;
}

/// Most programs come from one address, 127.0.0.1, and keep connections open for watches. So it has a larger share here, and a
/// quarter is left for others.
fn limits() -> Limits {
    Limits {
        connections: 512,
        connections_per_peer: 384,
        body: Pace { patience: Duration::from_secs(10), bytes_per_second: 64 << 10 },
        // As much as any API server reads.
        body_size: 8 << 20,
        buffered: 64 << 20,
        ..Limits::default()
    }
}

async fn announce(address: &str) -> io::Result<()> {
    // Whoever reads that it is ready may stop it at once: by then signals are waited for.
    tokio::task::yield_now().await;
    keyfob_exec::write_stdout(format!("serving on {address}\n").as_bytes())
}
