//! Whether a cluster can be used.

use keyfob_api::{GoUrl, Quoted};

use super::{ConfigProblem, unreadable};
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

fn check_proxy(proxy: &str) -> Result<(), String> {
    if proxy.is_empty() {
        return Ok(());
    }
    let shown = shown_url(proxy);
    let url = GoUrl::parse(proxy).map_err(|_| format!("could not parse: {shown}"))?;
    // What stands before the first colon need not be a scheme: it may be a user.
    let scheme = Quoted(if shown == proxy { url.scheme() } else { shown });
    match url.scheme() {
        "http" | "https" | "socks5" => Ok(()),
        _ => Err(format!("unsupported scheme {scheme}, must be http, https, or socks5")),
    }
}
