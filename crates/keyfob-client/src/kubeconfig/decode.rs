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

use self::user::USER;
use super::{Cluster, Context, Extensions, Kubeconfig, KubeconfigError, Source};
use crate::User;

pub(super) fn decode(text: &[u8]) -> Result<Kubeconfig, KubeconfigError> {
    let document = Document::read_yaml(text)?;
    let reading = Reading::default();
    let root = reading.root(&document.root);
    check_kind(root)?;
    let mut decoder = Decoder::default();
    let mut kubeconfig = Kubeconfig::default();
    decoder.object(CONFIG, &mut kubeconfig, root)?;
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
    const NAMES: [&str; 2] = ["kind", "apiVersion"];
    let mut fields = NAMES.map(|name| (name, String::new(), Position::START));
    root.object_in_any_case(&NAMES, |name, item| {
        let mut matching = fields.iter_mut().filter(|field| field.0 == name);
        matching.try_for_each(|(_, text, at)| {
            *at = item.node().at;
            item.read_text(text)
        })
    })?;
    let [(_, kind, kind_at), (_, version, version_at)] = fields;
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

/// Like [`FieldTable`](keyfob_api::document::FieldTable), for readers that note names which a list has twice.
type Fields<T> = [(&'static str, ReadField<T>)];

/// Reads one field into its place.
type ReadField<T> = fn(&mut Decoder, &mut T, Item<'_>) -> Result<(), FieldError>;

const CONFIG: &Fields<Kubeconfig> = &[
    // Read already; here they must be texts.
    ("kind", |_, _, item| item.string().map(drop)),
    ("apiVersion", |_, _, item| item.string().map(drop)),
    ("preferences", |decoder, _, item| decoder.object(PREFERENCES, &mut (), item).map(drop)),
    ("clusters", |decoder, config, item| {
        config.clusters = decoder.named(item, "clusters", NAMED_CLUSTER)?;
        Ok(())
    }),
    ("users", |decoder, config, item| {
        config.users = decoder.named(item, "users", NAMED_USER)?;
        Ok(())
    }),
    ("contexts", |decoder, config, item| {
        config.contexts = decoder.named(item, "contexts", NAMED_CONTEXT)?;
        Ok(())
    }),
    ("current-context", |_, config, item| item.read_text(&mut config.current_context)),
    ("extensions", |decoder, config, item| {
        config.extensions = decoder.extensions(item)?;
        Ok(())
    }),
];

/// Nothing of them is kept, but they must have their types.
const PREFERENCES: &Fields<()> = &[
    ("colors", |_, (), item| item.bool().map(drop)),
    ("extensions", |decoder, (), item| decoder.extensions(item).map(drop)),
];

/// An element of a list: its name, and what has it.
type Named<T> = (String, T);

const NAMED_CLUSTER: &Fields<Named<Cluster>> = &[
    ("name", read_name),
    ("cluster", |decoder, (_, cluster), item| decoder.replace(CLUSTER, cluster, item)),
];

const NAMED_USER: &Fields<Named<User>> =
    &[("name", read_name), ("user", |decoder, (_, user), item| decoder.replace(USER, user, item))];

const NAMED_CONTEXT: &Fields<Named<Context>> = &[
    ("name", read_name),
    ("context", |decoder, (_, context), item| decoder.replace(CONTEXT, context, item)),
];

const NAMED_EXTENSION: &Fields<Named<Option<RawJson>>> = &[
    ("name", read_name),
    ("extension", |_, (_, extension), item| {
        *extension = (!item.is_null()).then(|| RawJson::from(item.node()));
        Ok(())
    }),
];

fn read_name<T>(
    _: &mut Decoder,
    (name, _): &mut Named<T>,
    item: Item<'_>,
) -> Result<(), FieldError> {
    item.read_text(name)
}

const CLUSTER: &Fields<Cluster> = &[
    ("server", |_, cluster, item| item.read_text(&mut cluster.server)),
    ("tls-server-name", |_, cluster, item| item.read_text(&mut cluster.tls_server_name)),
    ("insecure-skip-tls-verify", |_, cluster, item| {
        cluster.insecure_skip_tls_verify = item.bool()?.unwrap_or_default();
        Ok(())
    }),
    ("certificate-authority", |_, cluster, item| {
        item.read_text(&mut cluster.certificate_authority)
    }),
    ("certificate-authority-data", |_, cluster, item| {
        cluster.certificate_authority_data.clone_from(bytes(item)?.expose());
        Ok(())
    }),
    ("proxy-url", |_, cluster, item| item.read_secret(&mut cluster.proxy_url)),
    ("disable-compression", |_, cluster, item| {
        cluster.disable_compression = item.bool()?.unwrap_or_default();
        Ok(())
    }),
    ("extensions", |decoder, cluster, item| {
        cluster.extensions = decoder.extensions(item)?;
        Ok(())
    }),
];

const CONTEXT: &Fields<Context> = &[
    ("cluster", |_, context, item| item.read_text(&mut context.cluster)),
    ("user", |_, context, item| item.read_text(&mut context.user)),
    ("namespace", |_, context, item| item.read_text(&mut context.namespace)),
    ("extensions", |decoder, context, item| {
        context.extensions = decoder.extensions(item)?;
        Ok(())
    }),
];

#[derive(Default)]
struct Decoder {
    /// The first name that a list has twice.
    duplicate: Option<KubeconfigError>,
}

impl Decoder {
    /// Fills `target` by a table, in the order of the text; returns whether there is an object, and not `null`.
    fn object<T>(
        &mut self,
        fields: &Fields<T>,
        target: &mut T,
        item: Item<'_>,
    ) -> Result<bool, FieldError> {
        item.rows(fields, |read, item| read(self, target, item))
    }

    /// Like [`Decoder::object`], but forgets what an earlier field of the same name said.
    fn replace<T: Default>(
        &mut self,
        fields: &Fields<T>,
        target: &mut T,
        item: Item<'_>,
    ) -> Result<(), FieldError> {
        *target = T::default();
        self.object(fields, target, item).map(drop)
    }

    /// A list whose elements have names.
    fn named<T: Default>(
        &mut self,
        item: Item<'_>,
        list: &'static str,
        fields: &Fields<Named<T>>,
    ) -> Result<BTreeMap<String, T>, FieldError> {
        let mut entries = BTreeMap::new();
        item.elements(|_, item| {
            let mut entry = Named::default();
            self.object(fields, &mut entry, item)?;
            let (name, value) = entry;
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
            let mut extension = Named::default();
            self.object(NAMED_EXTENSION, &mut extension, item)?;
            let (name, value) = extension;
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
}

fn bytes(item: Item<'_>) -> Result<Secret<Vec<u8>>, FieldError> {
    Ok(item.bytes()?.unwrap_or_default())
}
