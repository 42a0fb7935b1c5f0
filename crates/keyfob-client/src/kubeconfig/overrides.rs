//! What a program says against a kubeconfig, field by field.
//!
//! What is not empty wins. What cannot stand beside it goes: the certificates of a server that is not to be checked, the
//! file beside the data. A plugin is replaced as a whole.
//!
//! Upstream: `merge` in `clientcmd/merge.go`, `getCluster` and `getAuthInfo` in `client_config.go`.

use keyfob_api::Secret;

use super::{Cluster, Context, User};
use crate::Impersonation;

impl Context {
    pub(super) fn overridden(mut self, with: &Self) -> Self {
        replace(&mut self.cluster, &with.cluster);
        replace(&mut self.user, &with.user);
        replace(&mut self.namespace, &with.namespace);
        self.extensions.extend(with.extensions.clone());
        self
    }
}

impl Cluster {
    pub(super) fn overridden(mut self, with: &Self) -> Self {
        // The name belongs to the server.
        if !with.server.is_empty() || !with.tls_server_name.is_empty() {
            self.tls_server_name.clone_from(&with.tls_server_name);
        }
        replace(&mut self.server, &with.server);
        let has_authorities =
            !with.certificate_authority.is_empty() || !with.certificate_authority_data.is_empty();
        if with.insecure_skip_tls_verify || has_authorities {
            self.insecure_skip_tls_verify = with.insecure_skip_tls_verify;
            self.certificate_authority.clone_from(&with.certificate_authority);
            self.certificate_authority_data.clone_from(&with.certificate_authority_data);
        }
        replace_secret(&mut self.proxy_url, &with.proxy_url);
        self.disable_compression |= with.disable_compression;
        self.extensions.extend(with.extensions.clone());
        self
    }
}

impl User {
    pub(super) fn overridden(mut self, with: &Self) -> Self {
        if !with.client_certificate.is_empty() || !with.client_certificate_data.is_empty() {
            self.client_certificate.clone_from(&with.client_certificate);
            self.client_certificate_data.clone_from(&with.client_certificate_data);
        }
        if !with.client_key.is_empty() || !with.client_key_data.expose().is_empty() {
            self.client_key.clone_from(&with.client_key);
            self.client_key_data = with.client_key_data.clone();
        }
        replace_secret(&mut self.token, &with.token);
        replace(&mut self.token_file, &with.token_file);
        self.impersonate.override_with(&with.impersonate);
        replace(&mut self.username, &with.username);
        replace_secret(&mut self.password, &with.password);
        self.auth_provider = with.auth_provider.clone().or(self.auth_provider);
        self.exec = with.exec.clone().or(self.exec);
        self.extensions.extend(with.extensions.clone());
        self
    }
}

impl Impersonation {
    fn override_with(&mut self, with: &Self) {
        replace(&mut self.user, &with.user);
        replace(&mut self.uid, &with.uid);
        if !with.groups.is_empty() {
            self.groups.clone_from(&with.groups);
        }
        self.extra.retain(|(name, _)| with.extra.iter().all(|(new, _)| new != name));
        self.extra.extend(with.extra.iter().cloned());
    }
}

fn replace(target: &mut String, with: &str) {
    if !with.is_empty() {
        with.clone_into(target);
    }
}

fn replace_secret(target: &mut Secret<String>, with: &Secret<String>) {
    if !with.expose().is_empty() {
        *target = with.clone();
    }
}
