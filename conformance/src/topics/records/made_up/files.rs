//! What may lie in the folder: intents and records of every version, right or almost; and what others left there.

use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    sample::select,
};
use serde_json::json;

use super::{
    super::super::{
        texts::{Text, inside_quotes, name, object, spoiled, value},
        words::one_of,
    },
    Access, File, NAMES, any_access, id, image,
};

const OTHER_NAMES: &str =
    "sha256- sha256-x sha256-y SHA256-x sha256_x x .x sha256-x.tmp .tmp sha256-x.TMP";
const VERSIONS: &str = "v1beta1 v1beta1 v1beta1 v1beta1 v1beta1 v1beta1 v1beta1 v1beta1 v1alpha1 v1alpha1 v1alpha1 \
    v1alpha1 v1 __internal ";
const TIMES: &str = r#""2001-01-01T00:00:00Z" "2020-05-05T05:05:05Z" "2020-05-05T05:05:05Z" "2020-05-05T05:05:06Z" "2020-05-05T05:05:05.5Z" "2020-05-05T07:05:05+02:00" "2040-01-01T00:00:00Z" "0001-01-01T00:00:00Z" "2020-05-05" "" null 5"#;

pub(super) fn file() -> impl Strategy<Value = File> {
    prop_oneof![30 => record_file(), 15 => intent_file(), 2 => other_file(), 1 => folder()]
}

fn record_file() -> impl Strategy<Value = File> {
    let named_otherwise = (id(), record(None));
    let named = id().prop_flat_map(|id| (Just(id.clone()), record(Some(id))));
    (prop_oneof![40 => named, 1 => named_otherwise], place("pulled")).prop_map(
        |((key, content), (folder, name))| File {
            folder,
            key: Some(key),
            name,
            content: Some(content),
        },
    )
}

fn intent_file() -> impl Strategy<Value = File> {
    let named_otherwise = (image(), intent(None));
    let named = image().prop_flat_map(|image| (Just(image.clone()), intent(Some(image))));
    (prop_oneof![40 => named, 1 => named_otherwise], place("pulling")).prop_map(
        |((key, content), (folder, name))| File {
            folder,
            key: Some(key),
            name,
            content: Some(content),
        },
    )
}

/// The folder, and what follows the hash in the name.
fn place(right: &'static str) -> impl Strategy<Value = (String, String)> {
    let folder = prop_oneof![50 => Just(right), 1 => one_of("pulled pulling")];
    let name = prop_oneof![30 => Just(""), 1 => one_of(".tmp .tmp x .TMP .bak")];
    (folder, name).prop_map(|(folder, name)| (folder.to_owned(), name.to_owned()))
}

/// A file that is not called by a hash.
fn other_file() -> impl Strategy<Value = File> {
    let content =
        prop_oneof![4 => record(None), 2 => intent(None), 1 => Just(Text::Plain("x".to_owned()))];
    (one_of("pulled pulled pulling"), one_of(OTHER_NAMES), content).prop_map(
        |(folder, name, content)| File {
            folder: folder.to_owned(),
            key: None,
            name: name.to_owned(),
            content: Some(content),
        },
    )
}

/// A folder where a file should be.
fn folder() -> impl Strategy<Value = File> {
    let pulled = id().prop_map(|id| ("pulled", id));
    let pulling = image().prop_map(|image| ("pulling", image));
    let key = prop_oneof![2 => pulled, 1 => pulling];
    (key, one_of(" .d")).prop_map(|((folder, key), name)| File {
        folder: folder.to_owned(),
        key: Some(key),
        name: name.to_owned(),
        content: None,
    })
}

fn intent(of: Option<String>) -> impl Strategy<Value = Text> {
    let of = of.map_or_else(|| image().boxed(), |image| Just(image).boxed());
    let image = prop_oneof![30 => of.prop_map(|image| json!(image).to_string()), 1 => value()];
    let fields = (head("ImagePullIntent"), (name("image"), image), more())
        .prop_map(|(head, image, more)| object([head, vec![image], more].concat()));
    spoiled(fields.boxed(), 20)
}

fn record(of: Option<String>) -> impl Strategy<Value = Text> {
    let of = of.map_or_else(|| id().boxed(), |id| Just(id).boxed());
    let id = prop_oneof![30 => of.prop_map(|id| json!(id).to_string()), 1 => value()];
    let time = prop_oneof![
        12 => (name("lastUpdatedTime"), one_of(TIMES).prop_map(str::to_owned)).prop_map(|field| vec![field]),
        1 => Just(Vec::new()),
    ];
    let mapping = prop_oneof![30 => mapping().boxed(), 1 => value().boxed(), 1 => Just("{}".to_owned()).boxed()];
    let fields = (
        head("ImagePulledRecord"),
        time,
        (name("imageRef"), id),
        (name("credentialMapping"), mapping),
        more(),
    )
        .prop_map(|(head, time, id, mapping, more)| {
            object([head, time, vec![id, mapping], more].concat())
        });
    spoiled(fields.boxed(), 20)
}

fn head(kind: &'static str) -> impl Strategy<Value = Vec<(String, String)>> {
    let kind = prop_oneof![
        40 => Just(kind),
        1 => one_of("ImagePullIntent ImagePulledRecord KubeletConfiguration imagePullIntent "),
    ];
    let group = prop_oneof![40 => Just("kubelet.config.k8s.io/"), 1 => one_of(" v1/ kubelet.config.k8s.io")];
    (name("kind"), kind, name("apiVersion"), group, one_of(VERSIONS)).prop_map(
        |(kind_name, kind, version_name, group, version)| {
            vec![
                (kind_name, json!(kind).to_string()),
                (version_name, json!(format!("{group}{version}")).to_string()),
            ]
        },
    )
}

/// What a record has not.
fn more() -> impl Strategy<Value = Vec<(String, String)>> {
    let field = (one_of("x image imageRef kind metadata credentialMapping"), value())
        .prop_map(|(name, value)| vec![(name.to_owned(), value)]);
    prop_oneof![25 => Just(Vec::new()), 1 => field]
}

fn mapping() -> impl Strategy<Value = String> {
    let one = (
        one_of(NAMES),
        prop_oneof![8 => any_access().prop_map(|access| shown(&access)), 3 => many(), 1 => value()],
    );
    vec(one, 0..=3).prop_map(|fields| {
        let fields = fields.into_iter().map(|(name, access)| (inside_quotes(name), access));
        object(fields.collect())
    })
}

/// About as many secrets as may be written while matching.
fn many() -> impl Strategy<Value = String> {
    select(vec![97_usize, 98, 99, 99, 100, 100, 101]).prop_map(|count| {
        let secret = |number: usize| {
            json!({ "uid": format!("u{number:03}"), "namespace": "a", "name": "s", "credentialHash": format!("g{number}") })
        };
        json!({ "kubernetesSecrets": (0..count).map(secret).collect::<Vec<_>>() }).to_string()
    })
}

/// As a record has it.
fn shown(access: &Access) -> String {
    let secrets = access.secrets.iter().map(|secret| {
        let at = &secret.secret;
        json!({ "uid": at.uid, "namespace": at.namespace, "name": at.name, "credentialHash": secret.hash })
    });
    let accounts = access
        .accounts
        .iter()
        .map(|at| json!({ "uid": at.uid, "namespace": at.namespace, "name": at.name }));
    let (secrets, accounts): (Vec<_>, Vec<_>) = (secrets.collect(), accounts.collect());
    let mut fields = Vec::new();
    if !secrets.is_empty() {
        fields.push(("kubernetesSecrets".to_owned(), json!(secrets).to_string()));
    }
    if !accounts.is_empty() {
        fields.push(("kubernetesServiceAccounts".to_owned(), json!(accounts).to_string()));
    }
    if access.node {
        fields.push(("nodePodsAccessible".to_owned(), "true".to_owned()));
    }
    object(fields)
}
