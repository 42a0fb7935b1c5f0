//! A kubeconfig's plugin, by what the command line says of it.

use std::path::Path;

use keyfob_api::ExecCluster;
use keyfob_exec::read_bounded;
use keyfob_plugin::{ExecInfo, conformance::ClientConformance};

use super::{ConformanceArgs, WrongInput};

impl ConformanceArgs {
    pub(super) fn client_conformance(&self) -> Result<ClientConformance, WrongInput> {
        let mut conformance = ClientConformance::of(self.program()?)
            .args(self.arguments())
            .timeout(self.timeout)
            .no_answer(self.no_answer());
        for (name, value) in &self.env {
            conformance = conformance.env(name, value.clone());
        }
        Ok(match &self.exec_info {
            Some(path) => conformance.cluster(read_cluster(path)?),
            None => conformance,
        })
    }
}

/// The cluster of a request.
fn read_cluster(path: &Path) -> Result<ExecCluster, WrongInput> {
    /// A variable holds less.
    const MOST: u64 = 1 << 20;
    let text = read_bounded(path, MOST)
        .map_err(|source| WrongInput::ExecInfo { path: path.into(), source })?;
    let wrong = |source| WrongInput::Request { path: path.into(), source };
    let info = ExecInfo::read(text.expose()).map_err(wrong)?;
    info.anonymous_config().map_err(wrong)?;
    Ok(info.cluster().cloned().unwrap_or_default())
}
