//! A text to a kubeconfig, as Go fills its structs.
//!
//! It is always read as YAML, so what JSON allows beyond that (`\/`) is refused. Fields that we do not know are passed over,
//! names are case-sensitive (but for `kind` and `apiVersion`, when the text is asked what it is), and `null` says nothing.
//!
//! Upstream: `clientcmd.Load`, `api/v1` with its conversions and defaults.
//! Differs: errors name the place and quote no value (upstream: dumps the list that has a name twice).
//! Differs: `apiVersion: __internal` is refused (upstream: reads another form that is nobody's).

mod user;

use std::collections::BTreeMap;

use keyfob_api::{
    RawJson, Secret, SeenName,
    document::{Document, FieldError, Item, Position, Reading},
};

use super::{Cluster, Context, Extensions, Kubeconfig, KubeconfigError, Source};

const CONFIG: [&str; 8] = [
    "kind",
    "apiVersion",
    "preferences",
    "clusters",
    "users",
    "contexts",
    "current-context",
    "extensions",
];
const CLUSTER: [&str; 8] = [
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
    "extensions",
];
const CONTEXT: [&str; 4] = ["cluster", "user", "namespace", "extensions"];
pub(super) fn decode(text: &[u8]) -> Result<Kubeconfig, KubeconfigError> {
    let document = Document::read_yaml(text)?;
    let reading = Reading::default();
    let root = reading.root(&document.root);
    check_kind(root)?;
    let mut decoder = Decoder::default();
    let mut kubeconfig = decoder.config(root)?;
    // A wrong type comes first, wherever it stands.
    if let Some(duplicate) = decoder.duplicate {
        return Err(duplicate);
    }
    let document = RawJson::from(&document.root);
    let source = Source { path: None, document, ignored: reading.into_issues() };
    kubeconfig.sources.push(source);
    Ok(kubeconfig)
}

/// A text that does not say what it is, is a kubeconfig.
fn check_kind(root: Item<'_>) -> Result<(), KubeconfigError> {
    let (mut kind, mut version) = (String::new(), String::new());
    let (mut kind_at, mut version_at) = (Position::START, Position::START);
    root.object_in_any_case(&["kind", "apiVersion"], |name, item| {
        let (text, at) = match name {
            "kind" => (&mut kind, &mut kind_at),
            _ => (&mut version, &mut version_at),
        };
        *at = item.node().at;
        item.read_text(text)
    })?;
    let kind = if kind.is_empty() { "Config" } else { &kind };
    let version = match version.as_str() {
        "" | "/" | "/v1" => "v1",
        other => other,
    };
    if (kind, version) == ("Config", "v1") {
        return Ok(());
    }
    let at = if kind == "Config" { version_at } else { kind_at };
    let (kind, version) = (SeenName::kind(kind), SeenName::version(version));
    Err(KubeconfigError::Kind { kind, version, at })
}

#[derive(Default)]
struct Decoder {
    /// The first name that a list has twice.
    duplicate: Option<KubeconfigError>,
}

impl Decoder {
    fn config(&mut self, root: Item<'_>) -> Result<Kubeconfig, FieldError> {
        let mut config = Kubeconfig::default();
        root.object(&CONFIG, |name, item| {
            match name {
                "current-context" => item.read_text(&mut config.current_context)?,
                "clusters" => {
                    config.clusters = self.named(item, ("clusters", "cluster"), Self::cluster)?;
                }
                "users" => config.users = self.named(item, ("users", "user"), Self::user)?,
                "contexts" => {
                    config.contexts = self.named(item, ("contexts", "context"), Self::context)?;
                }
                "extensions" => config.extensions = self.extensions(item)?,
                "preferences" => self.preferences(item)?,
                // Read already; here they must be texts.
                _ => drop(item.string()?),
            }
            Ok(())
        })?;
        Ok(config)
    }

    /// A list of `name` and one other field.
    fn named<T: Default>(
        &mut self,
        item: Item<'_>,
        (list, field): (&'static str, &'static str),
        read: impl Fn(&mut Self, Item<'_>) -> Result<T, FieldError>,
    ) -> Result<BTreeMap<String, T>, FieldError> {
        let mut entries = BTreeMap::new();
        item.elements(|_, item| {
            let (mut name, mut value) = (String::new(), T::default());
            item.object(&["name", field], |key, item| {
                match key {
                    "name" => item.read_text(&mut name)?,
                    _ => value = read(self, item)?,
                }
                Ok(())
            })?;
            if entries.insert(name.clone(), value).is_some() {
                self.repeated(list, name, item.node().at);
            }
            Ok(())
        })?;
        Ok(entries)
    }

    /// A `null` under a name does not count as one of that name.
    fn extensions(&mut self, item: Item<'_>) -> Result<Extensions, FieldError> {
        let mut extensions = Extensions::new();
        item.elements(|_, item| {
            let (mut name, mut value) = (String::new(), None);
            item.object(&["name", "extension"], |key, item| {
                match key {
                    "name" => item.read_text(&mut name)?,
                    _ if item.is_null() => value = None,
                    _ => value = Some(RawJson::from(item.node())),
                }
                Ok(())
            })?;
            if extensions.insert(name.clone(), value).flatten().is_some() {
                self.repeated("extensions", name, item.node().at);
            }
            Ok(())
        })?;
        Ok(extensions)
    }

    fn repeated(&mut self, list: &'static str, name: String, at: Position) {
        self.duplicate.get_or_insert(KubeconfigError::DuplicateName { list, name, at });
    }

    fn preferences(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        item.object(&["colors", "extensions"], |name, item| {
            match name {
                "colors" => drop(item.bool()?),
                _ => drop(self.extensions(item)?),
            }
            Ok(())
        })?;
        Ok(())
    }

    fn cluster(&mut self, item: Item<'_>) -> Result<Cluster, FieldError> {
        let mut cluster = Cluster::default();
        item.object(&CLUSTER, |name, item| {
            match name {
                "server" => item.read_text(&mut cluster.server)?,
                "tls-server-name" => item.read_text(&mut cluster.tls_server_name)?,
                "insecure-skip-tls-verify" => {
                    cluster.insecure_skip_tls_verify = item.bool()?.unwrap_or_default();
                }
                "certificate-authority" => item.read_text(&mut cluster.certificate_authority)?,
                "certificate-authority-data" => {
                    cluster.certificate_authority_data.clone_from(bytes(item)?.expose());
                }
                "proxy-url" => item.read_secret(&mut cluster.proxy_url)?,
                "disable-compression" => {
                    cluster.disable_compression = item.bool()?.unwrap_or_default();
                }
                _ => cluster.extensions = self.extensions(item)?,
            }
            Ok(())
        })?;
        Ok(cluster)
    }

    fn context(&mut self, item: Item<'_>) -> Result<Context, FieldError> {
        let mut context = Context::default();
        item.object(&CONTEXT, |name, item| {
            match name {
                "cluster" => item.read_text(&mut context.cluster)?,
                "user" => item.read_text(&mut context.user)?,
                "namespace" => item.read_text(&mut context.namespace)?,
                _ => context.extensions = self.extensions(item)?,
            }
            Ok(())
        })?;
        Ok(context)
    }
}

fn bytes(item: Item<'_>) -> Result<Secret<Vec<u8>>, FieldError> {
    Ok(item.bytes()?.unwrap_or_default())
}
