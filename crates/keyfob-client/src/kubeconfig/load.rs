//! Which files are read, and where their relative paths lead.
//!
//! Upstream: `ClientConfigLoadingRules` in `clientcmd/loader.go`.
//! Differs: a file is a regular one of at most 16 MiB (upstream: a pipe is waited for). `~/.kube/.kubeconfig` of long ago is
//! not copied to its new place: nothing is written.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use keyfob_exec::{Environment, go::clean};

use super::{Dialect, Kubeconfig, LoadError, LoadProblem};
use crate::{FileError, FileProblem, client_config::read_file};

/// Which kubeconfigs are read, and how.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadingRules {
    /// The one file to read. It must be there.
    pub explicit: Option<PathBuf>,
    /// Otherwise these, the first to say something first. Those that are not there are passed over, and so are empty names.
    pub precedence: Vec<PathBuf>,
    /// What becomes of relative paths.
    pub relative_paths: RelativePaths,
    /// What is understood beyond upstream.
    pub dialect: Dialect,
}

/// What becomes of relative paths: of certificates, keys, token files, and commands with a `/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelativePaths {
    /// They start at the file that names them.
    #[default]
    Resolve,
    /// They stay as they are, and start wherever the process is.
    Keep,
}

impl LoadingRules {
    /// The files of `$KUBECONFIG`, or `~/.kube/config`.
    pub fn from_environment(environment: &dyn Environment) -> Self {
        if let Some(list) = environment.var("KUBECONFIG").filter(|list| !list.is_empty()) {
            return Self::from_list(&list);
        }
        let home = PathBuf::from(environment.var("HOME").unwrap_or_default());
        Self { precedence: vec![home.join(".kube/config")], ..Self::default() }
    }

    /// The files of a list as `$KUBECONFIG` has it: with colons between them.
    pub fn from_list(list: &OsStr) -> Self {
        Self { precedence: std::env::split_paths(list).collect(), ..Self::default() }
    }

    /// Exactly this file.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self { explicit: Some(path.into()), ..Self::default() }
    }

    /// Reads the files and puts them together. Every file that is there must be a kubeconfig.
    pub fn load(&self) -> Result<Kubeconfig, LoadError> {
        let mut loaded = Kubeconfig { dialect: self.dialect, ..Kubeconfig::default() };
        let mut problems = Vec::new();
        for path in self.paths() {
            match self.load_file(path) {
                Ok(kubeconfig) => loaded = loaded.or(kubeconfig),
                Err(LoadProblem::File(error)) if error.is_missing() => match &self.explicit {
                    Some(_) => return Err(LoadError::Missing(stat(error))),
                    None => loaded.missing.push(path.to_owned()),
                },
                Err(problem) => problems.push((path.to_owned(), problem)),
            }
        }
        if problems.is_empty() { Ok(loaded) } else { Err(LoadError::Files(problems)) }
    }

    /// Each path once.
    fn paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = Vec::new();
        let wanted = match &self.explicit {
            Some(path) => std::slice::from_ref(path),
            None => &self.precedence,
        };
        for path in wanted.iter().filter(|path| !path.as_os_str().is_empty()) {
            if !paths.contains(&path.as_path()) {
                paths.push(path);
            }
        }
        paths
    }

    fn load_file(&self, path: &Path) -> Result<Kubeconfig, LoadProblem> {
        let text = read_file(path)?;
        let mut kubeconfig = Kubeconfig::parse(text.expose())?.read_from(path);
        if self.relative_paths == RelativePaths::Resolve {
            for reference in references(&mut kubeconfig) {
                *reference = resolved(path, reference)?;
            }
        }
        Ok(kubeconfig)
    }
}

/// Upstream looks for an explicit file before it opens it.
fn stat(mut error: FileError) -> FileError {
    if let FileProblem::System { operation, .. } = &mut error.problem {
        *operation = "stat";
    }
    error
}

/// Every relative path of a kubeconfig. A command without a `/` is none: it is looked for on `PATH`.
fn references(kubeconfig: &mut Kubeconfig) -> impl Iterator<Item = &mut String> {
    let clusters =
        kubeconfig.clusters.values_mut().map(|cluster| &mut cluster.certificate_authority);
    let users = kubeconfig.users.values_mut().flat_map(|user| {
        let command = user.exec.as_mut().map(|exec| &mut exec.command);
        let files = [&mut user.client_certificate, &mut user.client_key, &mut user.token_file];
        files.into_iter().chain(command.filter(|command| command.contains('/')))
    });
    clusters.chain(users).filter(|path| !path.is_empty() && !path.starts_with('/'))
}

/// Joined and cleaned as Go does it, without a look at what is there.
fn resolved(file: &Path, reference: &str) -> Result<String, LoadProblem> {
    let file = std::path::absolute(file).map_err(|_| LoadProblem::Directory)?;
    let directory = file.parent().and_then(Path::to_str).ok_or(LoadProblem::Directory)?;
    Ok(clean(&format!("{directory}/{reference}")))
}
