//! What `spec` can tell a plugin: the cluster, or (long ago) the server's refusal.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    JsonWriter, RawJson, Secret,
    document::{FieldError, FieldTable, Item},
};

/// The cluster that a plugin gets credentials for.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct ExecCluster {
    /// The server's URL.
    pub server: String,
    /// The name to check the server's certificate against, if not the URL's.
    pub tls_server_name: String,
    /// Whether the server's certificate is not checked at all.
    pub insecure_skip_tls_verify: bool,
    /// PEM certificates to check the server's with.
    pub certificate_authority_data: Vec<u8>,
    /// The proxy's URL; it may hold a password.
    pub proxy_url: Secret<String>,
    /// Whether answers must not be compressed.
    pub disable_compression: bool,
    /// What the cluster's extension holds for the plugin.
    pub config: Option<RawJson>,
}

/// The switches only: URLs may hold passwords, and the rest is long or private.
impl fmt::Debug for ExecCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecCluster")
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("disable_compression", &self.disable_compression)
            .finish_non_exhaustive()
    }
}

/// An answer of the server with status 401.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct ExecResponse {
    /// The headers.
    pub header: BTreeMap<String, Vec<String>>,
    /// The status code.
    pub code: i32,
}

/// The code only: headers may hold challenges and cookies.
impl fmt::Debug for ExecResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecResponse").field("code", &self.code).finish_non_exhaustive()
    }
}

impl ExecCluster {
    const FIELDS: &FieldTable<Self> = &[
        ("server", |cluster, item| item.read_text(&mut cluster.server)),
        ("tls-server-name", |cluster, item| item.read_text(&mut cluster.tls_server_name)),
        ("insecure-skip-tls-verify", |cluster, item| {
            let before = cluster.insecure_skip_tls_verify;
            cluster.insecure_skip_tls_verify = item.bool()?.unwrap_or(before);
            Ok(())
        }),
        ("certificate-authority-data", |cluster, item| {
            let bytes = item.bytes()?.unwrap_or_default();
            cluster.certificate_authority_data.clone_from(bytes.expose());
            Ok(())
        }),
        ("proxy-url", |cluster, item| item.read_secret(&mut cluster.proxy_url)),
        ("disable-compression", |cluster, item| {
            cluster.disable_compression = item.bool()?.unwrap_or(cluster.disable_compression);
            Ok(())
        }),
        ("config", |cluster, item| {
            if !item.is_null() {
                cluster.config = Some(item.node().into());
            }
            Ok(())
        }),
    ];

    pub(super) fn write(&self, json: &mut JsonWriter) {
        json.open('{').field("server").string(&self.server);
        json.field_unless_empty("tls-server-name", &self.tls_server_name);
        json.field_if_true("insecure-skip-tls-verify", self.insecure_skip_tls_verify);
        let certificates = BASE64_STANDARD.encode(&self.certificate_authority_data);
        json.field_unless_empty("certificate-authority-data", &certificates);
        json.field_unless_empty("proxy-url", self.proxy_url.expose());
        json.field_if_true("disable-compression", self.disable_compression);
        // Unlike the others, null and not absent.
        json.field("config").raw(self.config.as_ref().map_or("null", RawJson::as_str));
        json.close('}');
    }

    pub(super) fn read(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        item.read_fields(Self::FIELDS, self).map(drop)
    }
}

impl ExecResponse {
    const FIELDS: &FieldTable<Self> = &[
        ("header", Self::read_header),
        ("code", |response, item| {
            response.code = item.integer()?.unwrap_or(response.code);
            Ok(())
        }),
    ];

    pub(super) fn write(&self, json: &mut JsonWriter) {
        json.open('{');
        if !self.header.is_empty() {
            json.field("header").open('{');
            for (name, values) in &self.header {
                json.field(name).open('[');
                for value in values {
                    json.string(value);
                }
                json.close(']');
            }
            json.close('}');
        }
        if self.code != 0 {
            json.field("code").raw(&self.code.to_string());
        }
        json.close('}');
    }

    pub(super) fn read(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        item.read_fields(Self::FIELDS, self).map(drop)
    }

    fn read_header(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        if item.is_null() {
            self.header.clear();
        }
        item.entries(|name, values| {
            let mut texts = Vec::new();
            values.elements(|_, value| {
                texts.push(value.string()?.map(|text| text.expose().clone()).unwrap_or_default());
                Ok(())
            })?;
            self.header.insert(name.expose().clone(), texts);
            Ok(())
        })?;
        Ok(())
    }
}
