//! `keyfob apiserver`: a small API server, for people without a cluster.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write as _},
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Component, Path, PathBuf},
};

use clap::Args;
use keyfob_api::{Chain, KubernetesComponent, Secret};
use keyfob_control::{
    objects::{Objects, ObjectsError},
    rule::Policy,
    server::Limits,
};
use keyfob_playground::embedded::{ApiServer, Options, Running, StartError};
use tempfile::{NamedTempFile, TempDir};
use thiserror::Error;

use crate::{
    Outcome, Verdict,
    gates_args::{GatesArgs, RemovedGates},
    logging::LogArgs,
    signals::{self, DRAIN, GRACE, Stopped, Workers},
};

#[derive(Debug, Args)]
#[command(
    after_help = "When it is ready it prints one line on stdout: its address, and where the kubeconfigs are: \
                  admin.kubeconfig, which may do everything, and one for each node.\n\
                  Exit codes: 0 it was stopped by a signal, 1 it could not start, 2 an object or a flag is wrong."
)]
pub(crate) struct ApiserverArgs {
    /// Files, or directories of .json, .yaml and .yml files, with the objects that are there at first.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    objects: Vec<PathBuf>,
    /// Where to listen. Port 0 is any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Who signs the tokens, as they say; by default the server's own address.
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// A private RSA key in PEM to sign tokens with; by default one is made.
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    /// Audiences that every node may ask for, as KEP-4412 has it.
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',')]
    allowed_kubelet_audiences: Vec<String>,
    /// Where to write kubeconfigs, a directory that is made if it is not there; by default a temporary one.
    #[arg(long, value_name = "DIR")]
    kubeconfig_dir: Option<PathBuf>,
    #[command(flatten)]
    gates: GatesArgs,
    #[command(flatten)]
    logging: LogArgs,
}

/// Why the server does not run.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Gates(#[from] RemovedGates),
    #[error("{}", Chain(.0))]
    Objects(#[from] ObjectsError),
    #[error("cannot read the signing key {}: {source}", path.display())]
    SigningKey { path: PathBuf, source: io::Error },
    #[error("cannot start the API server: {0}")]
    Start(#[from] StartError),
    #[error("cannot write the kubeconfig {}: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: io::Error },
    #[error("cannot make the directory of kubeconfigs {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("a node cannot be called {0:?}: its kubeconfig would have no name of its own")]
    NodeName(String),
    #[error("{0}")]
    System(#[from] io::Error),
}

pub(crate) fn run(args: &ApiserverArgs) -> Outcome {
    args.logging.start();
    match args.serve() {
        Ok(()) => Outcome::default(),
        Err(
            error @ (Failure::Gates(_)
            | Failure::Objects(_)
            | Failure::SigningKey { .. }
            | Failure::NodeName(_)),
        ) => Outcome::wrong_input(&error),
        Err(error) => Outcome { verdict: Verdict::No, ..Outcome::wrong_input(&error) },
    }
}

impl ApiserverArgs {
    fn serve(&self) -> Result<(), Failure> {
        let options = self.options()?;
        let runtime = Workers::new()?;
        runtime.block_on(async {
            // Before there are files with tokens.
            let mut stop = signals::listen(Verdict::Yes, GRACE)?;
            let server = ApiServer::start(options).await?;
            let folder = Folder::open(self.kubeconfig_dir.as_deref())?;
            if let Folder::Temporary(folder) = &folder {
                stop.removes(folder.path());
            }
            let ended = stop.unless(async {
                folder.fill(&server)?;
                self.announce(&server, folder.path())?;
                std::future::pending::<Result<(), Failure>>().await
            });
            let ended = ended.await;
            // The tokens go first: requests may take a while to end.
            drop(folder);
            server.stop().await;
            match ended {
                Ok(failed) => failed,
                Err(Stopped) => Ok(()),
            }
        })?
    }

    fn options(&self) -> Result<Options, Failure> {
        let read = |path: &PathBuf| match fs::read(path) {
            Ok(key) => Ok(Secret::new(key)),
            Err(source) => Err(Failure::SigningKey { path: path.clone(), source }),
        };
        Ok(Options {
            objects: Objects::read_files(&self.objects)?,
            listen: self.listen,
            policy: Policy {
                gates: self.gates.open(&[KubernetesComponent::ApiServer])?,
                allowed_kubelet_audiences: self.allowed_kubelet_audiences.clone(),
                ..Policy::default()
            },
            issuer: self.issuer.clone(),
            signing_key: self.signing_key.as_ref().map(read).transpose()?,
            limits: Limits { drain: DRAIN, ..Limits::default() },
            ..Options::default()
        })
    }

    fn announce(&self, server: &Running, folder: &Path) -> io::Result<()> {
        if !self.listen.ip().is_loopback() {
            let warning = "keyfob: warning: others can reach this server. It is made for trying and testing: \
                           whoever has a kubeconfig of it may do what it says\n";
            io::stderr().write_all(warning.as_bytes())?;
        }
        let (address, folder) = (server.address(), folder.display());
        let line = format!("serving on https://{address}, kubeconfigs in {folder}\n");
        keyfob_exec::write_stdout(line.as_bytes())
    }
}

/// Where the kubeconfigs are.
pub(crate) enum Folder {
    Given(PathBuf),
    /// Goes with the server.
    Temporary(TempDir),
}

impl Folder {
    /// One that is not there is made, for its owner alone.
    pub(crate) fn open(given: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = given else { return Ok(Self::Temporary(tempfile::tempdir()?)) };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| Failure::Directory { path: path.to_owned(), source })?;
        Ok(Self::Given(path.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    /// One for whoever may do everything, one for each node.
    pub(crate) fn fill(&self, server: &Running) -> Result<(), Failure> {
        self.write("admin", server.admin_kubeconfig())?;
        for node in server.nodes() {
            let mut parts = Path::new(&node).components();
            let alone = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
            if !alone || node == "admin" {
                return Err(Failure::NodeName(node));
            }
            self.write(&node, server.node_kubeconfig(&node))?;
        }
        Ok(())
    }

    /// Only its owner may read it, from the first byte on.
    fn write(&self, name: &str, config: Option<Secret<String>>) -> Result<(), Failure> {
        let path = self.path().join(format!("{name}.kubeconfig"));
        let written =
            config.ok_or_else(|| io::Error::other("no random numbers")).and_then(|config| {
                let mut file = NamedTempFile::new_in(self.path())?;
                file.write_all(config.expose().as_bytes())?;
                file.persist(&path)?;
                Ok(())
            });
        written.map_err(|source| Failure::Kubeconfig { path, source })
    }
}
