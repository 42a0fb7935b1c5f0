//! A kubeconfig's plugin, by what the command line says of it.

use std::{
    io::{self, Write as _},
    path::Path,
};

use keyfob_api::document::{Position, StrictIssue, StrictProblem};
use keyfob_contract::ClientConformance;
use keyfob_exec::{printable, read_bounded};
use keyfob_plugin::ExecInfo;

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
            Some(path) => {
                let info = read_info(path)?;
                warn(path, info.ignored());
                conformance.cluster(info.cluster().cloned().unwrap_or_default())
            }
            None => conformance,
        })
    }
}

/// A request that tells of a cluster.
fn read_info(path: &Path) -> Result<ExecInfo, WrongInput> {
    /// A variable holds less.
    const MOST: u64 = 1 << 20;
    let text = read_bounded(path, MOST)
        .map_err(|source| WrongInput::ExecInfo { path: path.into(), source })?;
    let wrong = |source| WrongInput::Request { path: path.into(), source };
    let info = ExecInfo::read(text.expose()).map_err(wrong)?;
    info.anonymous_config().map_err(wrong)?;
    Ok(info)
}

/// Says at once which fields of a request the plugin is not told of: its author may wait for them in vain.
fn warn(path: &Path, ignored: &[StrictIssue]) {
    let path = path.display();
    let line = |issue: &StrictIssue| {
        let today = match (issue.problem, issue.path.to_string().as_str()) {
            (StrictProblem::DuplicateField, _) => "; only the last one counts",
            (_, "spec.cluster.serverName") => {
                "; clients call it tls-server-name, KEP-541 serverName"
            }
            (_, "spec.cluster.caData") => {
                "; clients call it certificate-authority-data, KEP-541 caData"
            }
            _ => "",
        };
        let Position { line, column, .. } = issue.at;
        format!(
            "keyfob: warning: {path}:{line}:{column}: {issue} is not sent to the plugin{today}\n"
        )
    };
    let warnings: String = ignored.iter().map(line).collect();
    // There is nowhere left to complain to.
    io::stderr().write_all(printable(&warnings).as_bytes()).unwrap_or_default();
}
