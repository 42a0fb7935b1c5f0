//! Configurations as they should be, mostly, and what may go wrong with them.

use proptest::{
    collection::vec,
    option::{of, weighted},
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::select,
};

use super::tree::{Node, slip};
use crate::topics::words::one_of;

/// A document, more often without a slip than with one.
pub(super) fn document() -> impl Strategy<Value = Node> {
    let slips = prop_oneof![4 => vec(slip(), 0..=0), 3 => vec(slip(), 1..=3)];
    (configuration(), slips).prop_map(|(mut root, slips)| {
        for (at, slip) in slips {
            slip.happen(&mut root, at);
        }
        root
    })
}

fn configuration() -> impl Strategy<Value = Node> {
    let version = prop_oneof![
        30 => one_of("v1 v1 v1 v1 v1beta1 v1alpha1").prop_map(|version| format!("kubelet.config.k8s.io/{version}")),
        1 => select(ODD_VERSIONS).prop_map(str::to_owned),
    ];
    let kind = prop_oneof![40 => Just("CredentialProviderConfig"), 1 => select(KINDS)];
    let head = (option_mostly(version), option_mostly(kind));
    let providers = prop_oneof![4 => vec(provider(), 1..=1), 2 => vec(provider(), 0..4)];
    let plain = (head, option_mostly(providers)).prop_map(|((version, kind), providers)| {
        Node::map([
            ("apiVersion", version.map(Node::Text)),
            ("kind", kind.map(Node::text)),
            ("providers", providers.map(Node::List)),
        ])
    });
    prop_oneof![40 => plain, 4 => internal(), 1 => first_kep(), 2 => other_kind()]
}

fn option_mostly<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    weighted(0.98, value)
}

/// In the version that has Go's own names, or the others' by mistake.
fn internal() -> impl Strategy<Value = Node> {
    let names = prop_oneof![4 => Just(true), 1 => Just(false)];
    (vec(provider(), 0..3), names, any::<bool>()).prop_map(|(providers, go_names, lower_case)| {
        let providers = Node::List(providers);
        let providers = if go_names { providers.with_go_names() } else { providers };
        let name = if go_names || lower_case { "Providers" } else { "providers" };
        Node::map([
            ("apiVersion", Some(Node::text("kubelet.config.k8s.io/__internal"))),
            ("kind", Some(Node::text("CredentialProviderConfig"))),
            (name, Some(providers)),
        ])
    })
}

/// The first KEP's form, which no kubelet reads.
fn first_kep() -> impl Strategy<Value = Node> {
    let provider = (one_of(NAMES), vec(one_of(PATTERNS), 0..3), any::<bool>()).prop_map(
        |(name, patterns, arguments)| {
            let region = || Node::map([("region", Some(Node::text("eu")))]);
            Node::map([
                ("name", Some(Node::text(name))),
                ("imageMatchers", Some(texts(patterns))),
                ("extraArgs", arguments.then(region)),
            ])
        },
    );
    (one_of("credentialprovider RegistryCredentialConfig"), vec(provider, 0..3)).prop_map(
        |(kind, providers)| {
            Node::map([
                ("apiVersion", Some(Node::text("v1alpha1"))),
                ("kind", Some(Node::text(kind))),
                ("providers", Some(Node::List(providers))),
            ])
        },
    )
}

/// Kinds that a kubelet's scheme knows, or that its wire has.
fn other_kind() -> impl Strategy<Value = Node> {
    const VERSIONS: &str = "v1 v1beta1 v1alpha1 __internal v2";
    const GROUPS: &str = "kubelet.config.k8s.io/ credentialprovider.kubelet.k8s.io/  other/";
    (one_of(GROUPS), one_of(VERSIONS), select(KINDS), of(vec(provider(), 0..2))).prop_map(
        |(group, version, kind, providers)| {
            Node::map([
                ("apiVersion", Some(Node::Text(format!("{group}{version}")))),
                ("kind", Some(Node::text(kind))),
                ("providers", providers.map(Node::List)),
            ])
        },
    )
}

fn provider() -> impl Strategy<Value = Node> {
    let name =
        prop_oneof![12 => one_of(NAMES).prop_map(Node::text), 1 => text().prop_map(Node::Text)];
    let pattern =
        prop_oneof![8 => one_of(PATTERNS).prop_map(Node::text), 1 => text().prop_map(Node::Text)];
    let duration = prop_oneof![
        12 => one_of("10m 1h 0s 1m 12h 1h30m 1.5h 0 100ms").prop_map(Node::text),
        1 => one_of("-1m -1ns 1d 90 1h1 ∞ 1h\u{a0} 9999999h .s +5m  1µs").prop_map(Node::text),
    ];
    let version = prop_oneof![
        15 => one_of("v1 v1 v1 v1beta1 v1alpha1").prop_map(|version| format!("credentialprovider.kubelet.k8s.io/{version}")),
        1 => select(ODD_VERSIONS).prop_map(str::to_owned),
    ];
    let argument = text().prop_map(Node::Text);
    let variable = (of(one_of("A PATH A=B x")), of(text())).prop_map(|(name, value)| {
        Node::map([("name", name.map(Node::text)), ("value", value.map(Node::Text))])
    });
    let required = (
        option_mostly(name),
        option_mostly(vec(pattern, 1..4)),
        option_mostly(duration),
        option_mostly(version),
    );
    let optional = (
        weighted(0.2, vec(argument, 0..3)),
        weighted(0.2, vec(variable, 0..3)),
        weighted(0.3, tokens()),
    );
    (required, optional).prop_map(
        |((name, patterns, duration, version), (arguments, variables, tokens))| {
            Node::map([
                ("name", name),
                ("matchImages", patterns.map(Node::List)),
                ("defaultCacheDuration", duration),
                ("apiVersion", version.map(Node::Text)),
                ("args", arguments.map(Node::List)),
                ("env", variables.map(Node::List)),
                ("tokenAttributes", tokens),
            ])
        },
    )
}

fn tokens() -> impl Strategy<Value = Node> {
    let cache_type =
        prop_oneof![8 => one_of("Token ServiceAccount"), 1 => one_of("token  <x> a\"b")];
    let keys =
        || vec(prop_oneof![4 => one_of("a.io/b c A.io/B x.y.z/w"), 1 => select(TEXTS)], 0..4);
    let requires = one_of("true true false");
    let fields = (
        option_mostly(one_of("aud https://a ")),
        option_mostly(cache_type),
        option_mostly(requires),
    );
    (fields, weighted(0.6, keys()), weighted(0.4, keys()), weighted(0.05, keys())).prop_map(
        |((audience, cache_type, requires), required, optional, annotations)| {
            Node::map([
                ("serviceAccountTokenAudience", audience.map(Node::text)),
                ("cacheType", cache_type.map(Node::text)),
                ("requireServiceAccount", requires.map(Node::bare)),
                ("requiredServiceAccountAnnotationKeys", required.map(texts)),
                ("optionalServiceAccountAnnotationKeys", optional.map(texts)),
                ("serviceAccountAnnotationKeys", annotations.map(texts)),
            ])
        },
    )
}

fn texts(texts: Vec<&str>) -> Node {
    Node::List(texts.into_iter().map(Node::text).collect())
}

/// A string of any meaning.
pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => select(TEXTS).prop_map(str::to_owned),
        1 => (50_usize..300).prop_map(|length| "x".repeat(length)),
        1 => (1000_usize..1040).prop_map(|length| "y".repeat(length)),
        1 => vec(select(TEXTS), 2..4).prop_map(|texts| texts.join(" ")),
    ]
}

/// A number, boolean or null, or what only YAML takes for one.
pub(super) fn bare() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => one_of("1 0 -5 1.5 true false null null 1e21 12345678901234567890 1e3 -0 0.1 1E400 123456789.123"),
        1 => one_of("~  0x10 0o17 017 08 0b11 1_000 .inf -.inf .nan yes no on off y n True NULL Null .5 5. +1 1:30 2030-01-01 << = \
            2030-01-01T00:00:00Z 18446744073709551616 1e400 0x -0x1 .Inf - ? : 1__0 _1 0_ 0b2 1e+3 1.e3 0xFFFFFFFFFFFFFFFFF ! !!str !!null \
            !!int !!map !!binary !!binary\u{20}aGk= *a &a | > @x `x %x \"a 'a {{x}} [a {a: [[a]] ]} #x a:b"),
    ]
    .prop_map(str::to_owned)
}

const NAMES: &str = "p q ecr acr gcp-provider x y.z a_b";
const PATTERNS: &str = "r.io *.r.io registry.io:5000/path *.dkr.ecr.*.amazonaws.com docker.io index.docker.io \
    gcr.io/team [::1]:5000 * r.io/*";
const ODD_VERSIONS: &[&str] = &[
    "v1",
    "v2",
    "kubelet.config.k8s.io/v2",
    "kubelet.config.k8s.io",
    "kubelet.config.k8s.io/",
    "/v1",
    "/",
    "a/b/c",
    "",
    "__internal",
    "x/__internal",
    "kubelet.config.k8s.io/V1",
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/__internal",
    "credentialprovider.kubelet.k8s.io/v1 ",
    "é/v1",
    "kubelet.config.k8s.io/__internal",
    "v1alpha1",
];
const KINDS: &[&str] = &[
    "KubeletConfiguration",
    "SerializedNodeConfigSource",
    "Status",
    "credentialproviderconfig",
    "CredentialProviderRequest",
    "APIGroup",
    "CredentialProviderResponse",
    "ListOptions",
    "ImagePullIntent",
    "ImagePulledRecord",
    "WatchEvent",
    "List",
    "",
    "X\"y",
    "APIVersions",
    "CredentialProviderConfigList",
    "RegistryCredentialConfig",
    "credentialprovider",
    "Config",
    "DeleteOptions",
    "é",
    "APIResourceList",
];
const TEXTS: &[&str] = &[
    "x",
    "a b",
    "a/b",
    ".",
    "..",
    "",
    "*",
    "*.r.io",
    "r.io:x",
    "[",
    "%zz",
    "é",
    "日本",
    "a\tb",
    "a\nb",
    "https://r.io",
    "1",
    "true",
    "null",
    "~",
    "0",
    "10m",
    "90",
    "\"",
    "'",
    "<",
    "&",
    "\u{212a}",
    "nope",
    "Token",
    "a.io/b",
    "A.io/B",
    "-a",
    "a/b/c",
    "a_b/c",
    "/",
    "a/",
    "\u{2028}",
    "\u{7f}",
    "\u{130}",
    "[::1]:5000",
    "r.io?x#%",
    "u:p@r.io",
    "a: b",
    "a #b",
    "- a",
    "? a",
    "{}",
    "[]",
    "{a",
    "!x",
    "|",
    ">",
    "@x",
    "%x",
    "yes",
    "0x10",
    " a",
    "a ",
    "a\n",
    "\na",
    "a\u{85}b",
    "😀",
    "\u{1}",
    "\u{fffd}",
    "# c",
    "---",
    "...",
    "<<",
    "=",
    "a,b",
    "&a",
    "*a",
    "\\",
    "\\n",
    "--token=hunter2",
    "2030-01-01",
    "a\u{301}",
    "\u{a0}",
    "a=b;c",
    "$(X)",
];
