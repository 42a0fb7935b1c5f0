//! Whether a cluster can be used.

use keyfob_api::GoUrl;

use super::{ConfigProblem, InvalidProxy, unreadable};
use crate::{Cluster, client_config::shown_url};

/// A cluster that comes from a file is not empty, whatever it says.
pub(super) fn check(name: &str, cluster: &Cluster) -> Vec<ConfigProblem> {
    if *cluster == Cluster::default() {
        return vec![ConfigProblem::EmptyCluster];
    }
    let mut problems = Vec::new();
    if cluster.server.is_empty() {
        problems.push(ConfigProblem::NoServer(name.to_owned()));
    }
    let proxy = cluster.proxy_url.expose();
    if let Err(reason) = check_proxy(proxy) {
        let (url, cluster) = (shown_url(proxy).to_owned(), name.to_owned());
        problems.push(ConfigProblem::Proxy { url, cluster, reason });
    }
    let file = &cluster.certificate_authority;
    if !file.is_empty() && !cluster.certificate_authority_data.is_empty() {
        problems.push(ConfigProblem::TwoAuthorities(name.to_owned()));
    }
    problems.extend(unreadable("certificate-authority", file, name));
    problems
}

fn check_proxy(proxy: &str) -> Result<(), InvalidProxy> {
    if proxy.is_empty() {
        return Ok(());
    }
    let shown = shown_url(proxy);
    let url = GoUrl::parse(proxy).map_err(|_| InvalidProxy::NotAUrl(shown.to_owned()))?;
    match url.scheme() {
        "http" | "https" | "socks5" => Ok(()),
        scheme if shown == proxy => Err(InvalidProxy::Scheme(scheme.to_owned())),
        // What stands before the first colon need not be a scheme: it may be a user.
        _ => Err(InvalidProxy::Scheme(shown.to_owned())),
    }
}
