//! Questions: an image, and sources whose keys may well be for it.

use std::collections::BTreeMap;

use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    sample::select,
    strategy::{BoxedStrategy, Union},
};

use super::{
    KubernetesSecret, NodeConfig, Question,
    config_text::{json, legacy},
};
use crate::topics::{
    texts::{Text, spoiled},
    words::{HOSTS, PATHS, one_of, soup, url},
};

const IMAGES: &str = "nginx user/app docker.io/library/nginx index.docker.io/user/app registry.io/app \
    registry.io/team/app:v1 \
    a.registry.io/team/app a.b.registry.io/foo/bar registry.io:5000/team/app registry.io:443/v1/app \
    localhost/app localhost:5000/team/app \
    [::1]:5000/team/app [::1]/app Registry.io/team/app r_1.io/app \
    123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app \
    registry.io/v1/team/app registry.io/v2/app registry.io/a_b/a--b 10.0.0.1/app x--y.io/app";

pub(crate) fn questions() -> BoxedStrategy<Question> {
    Union::new(IMAGES.split(' ').map(questions_about)).boxed()
}

fn questions_about(image: &'static str) -> BoxedStrategy<Question> {
    let key = key(image).boxed();
    let secret = secret(key.clone()).boxed();
    let secrets = prop_oneof![3 => vec(secret.clone(), 0..3), 1 => vec(secret, 3..6)];
    let node = prop_oneof![1 => Just(None), 1 => node(key.clone()).prop_map(Some)];
    let providers = vec(answer(key), 0..4);
    (secrets, node, providers)
        .prop_map(|(secrets, node, providers)| Question {
            image: image.to_owned(),
            secrets,
            node,
            providers,
        })
        .boxed()
}

/// A key that may be for the image; or any other.
fn key(image: &str) -> impl Strategy<Value = String> + use<> {
    let (host, path) = match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':', '[']) || host == "localhost" => (host, path),
        _ => ("docker.io", image),
    };
    let path = path.split(':').next().unwrap_or_default();
    let schemes = "      https:// https:// http:// HTTPS:// https:/ // ftp:// user:pw@ https://user:pw@ https://https://";
    let near = (
        one_of(schemes),
        select(hosts(host)),
        one_of("      /v1 /v2 /v1/v2 /%76%31 /v3 /V1"),
        select(paths(path)),
        one_of("                      / / ?x #x #%zz"),
    )
        .prop_map(|(scheme, host, version, path, tail)| {
            format!("{scheme}{host}{version}{path}{tail}")
        });
    prop_oneof![
        12 => near,
        2 => (one_of(HOSTS), one_of(PATHS)).prop_map(|(host, path)| format!("{host}{path}")),
        1 => one_of("https://index.docker.io/v1/ index.docker.io index.docker.io/v2/ http://index.docker.io docker.io registry-1.docker.io library https://docker.io/v1/ index.docker.io/ index.docker.io:443 %69ndex.docker.io")
            .prop_map(str::to_owned),
        1 => url(),
        1 => soup(),
    ]
}

/// The host in every way in which a key can have it.
fn hosts(host: &str) -> Vec<String> {
    let (first, rest) = host.split_once('.').unwrap_or((host, ""));
    let bare = host.rsplit_once(':').map_or(host, |(bare, _)| bare);
    let stars = host.split('.').map(|_| "*").collect::<Vec<_>>().join(".");
    let mut hosts = vec![host.to_owned(); 12];
    hosts.extend([
        format!("*.{rest}"),
        format!("{}*.{rest}", first.get(..1).unwrap_or_default()),
        format!("*{}.{rest}", first.get(1..).unwrap_or_default()),
        stars,
        bare.to_owned(),
        format!("{bare}:443"),
        format!("{bare}:"),
        format!("{bare}:5000"),
        host.to_uppercase(),
        format!("{host}."),
        format!("a.{host}"),
        rest.to_owned(),
        format!("{host}%C3%A9"),
        format!("{first}%25{rest}"),
    ]);
    hosts
}

/// The path likewise.
fn paths(path: &str) -> Vec<String> {
    let mut paths = vec![String::new(); 8];
    let mut so_far = String::new();
    for component in path.split('/') {
        so_far = format!("{so_far}/{component}");
        paths.extend([so_far.clone(), so_far.clone(), format!("{so_far}/"), format!("{so_far}x")]);
    }
    let escaped = |percent: &str| {
        let letter = path.bytes().next().unwrap_or(b'a');
        format!("/{percent}{letter:02X}{}", path.get(1..).unwrap_or_default())
    };
    paths.extend([
        format!("/{}", path.get(..1).unwrap_or_default()),
        escaped("%"),
        escaped("%25"),
        escaped("%2525"),
        "/*".into(),
        "//".into(),
        format!("//{path}"),
        format!("/%2F{path}"),
        "/%3Fx".into(),
        "/%23x".into(),
        "/%0A".into(),
        "/%FF".into(),
        "/é".into(),
    ]);
    paths
}

fn secret(key: BoxedStrategy<String>) -> impl Strategy<Value = KubernetesSecret> {
    let right = prop_oneof![
        3 => spoiled(json(key.clone()).boxed(), 40).prop_map(|text| ("kubernetes.io/dockerconfigjson", vec![(".dockerconfigjson", text)])),
        2 => spoiled(legacy(key.clone()).boxed(), 40).prop_map(|text| ("kubernetes.io/dockercfg", vec![(".dockercfg", text)])),
    ];
    let types = one_of(
        "kubernetes.io/dockerconfigjson kubernetes.io/dockercfg Opaque  kubernetes.io/DockerConfigJson",
    );
    let names = one_of(".dockerconfigjson .dockercfg config.json ");
    let text = prop_oneof![1 => Just(String::new()).boxed(), 3 => json(key.clone()).boxed(), 3 => legacy(key).boxed()];
    let odd = (types, vec((names, text.prop_map(Text::Plain)), 0..3));
    let coordinates = (one_of("pull a b "), one_of("team default "), one_of("1 2f6b "));
    (coordinates, prop_oneof![6 => right, 1 => odd]).prop_map(
        |((name, namespace, uid), (secret_type, data))| KubernetesSecret {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            secret_type: secret_type.to_owned(),
            data: data
                .into_iter()
                .map(|(key, text)| (key.to_owned(), text))
                .collect::<BTreeMap<_, _>>(),
        },
    )
}

fn node(key: BoxedStrategy<String>) -> impl Strategy<Value = NodeConfig> {
    prop_oneof![
        3 => spoiled(json(key.clone()).boxed(), 6).prop_map(|text| NodeConfig { legacy: false, text }),
        2 => spoiled(legacy(key.clone()).boxed(), 6).prop_map(|text| NodeConfig { legacy: true, text }),
        1 => legacy(key.clone()).prop_map(|text| NodeConfig { legacy: false, text: Text::Plain(text) }),
        1 => json(key).prop_map(|text| NodeConfig { legacy: true, text: Text::Plain(text) }),
    ]
}

/// A provider's answer. An answer with a key twice is refused, so there is none here.
fn answer(key: BoxedStrategy<String>) -> impl Strategy<Value = Vec<(String, String, String)>> {
    let user = one_of("AWS u <token> é  u:v \u{2028} \u{fffd}");
    let password = one_of("p hunter2 p<q>&  \u{2029}\" \u{10ffff} \\");
    let entry = (key, user, password)
        .prop_map(|(key, user, password)| (key, user.to_owned(), password.to_owned()))
        .boxed();
    prop_oneof![20 => vec(entry.clone(), 0..5), 1 => vec(entry, 5..40)].prop_map(|entries| {
        let mut seen = std::collections::HashSet::new();
        entries.into_iter().filter(|(key, ..)| seen.insert(key.clone())).collect()
    })
}
