//! The table of fields of an agent's file.

/// A field.
#[derive(Debug)]
pub(super) struct FieldSpec {
    pub(super) name: &'static str,
    pub(super) sort: Sort,
    pub(super) required: bool,
    /// What it means, for the JSON schema.
    pub(super) about: &'static str,
}

/// What sort of value a field has.
#[derive(Debug)]
pub(super) enum Sort {
    /// A text that is not empty.
    Text,
    /// An absolute path.
    Path,
    /// Permissions in octal, as a text: `"0660"`.
    Mode,
    /// One of these texts.
    Choice(&'static [&'static str]),
    Bool,
    /// A whole number in this range.
    Integer(u64, u64),
    /// A positive duration such as `1m30s`.
    Duration,
    /// A list of texts that are not empty.
    Texts,
    /// A list of user or group ids.
    Ids,
    Object(&'static [FieldSpec]),
    Objects(&'static [FieldSpec]),
}

const fn field(name: &'static str, sort: Sort, about: &'static str) -> FieldSpec {
    FieldSpec { name, sort, required: false, about }
}

const fn required(name: &'static str, sort: Sort, about: &'static str) -> FieldSpec {
    FieldSpec { name, sort, required: true, about }
}

/// The fields of the file.
pub(super) const AGENT: &[FieldSpec] = &[
    required("apiVersion", Sort::Choice(&[super::AGENT_API_VERSION]), "The version of this file."),
    required("kind", Sort::Choice(&[super::AGENT_KIND]), "The kind of this file."),
    required(
        "providerConfig",
        Sort::Path,
        "The kubelet's credential provider configuration: a file, or a directory of files. It is reloaded when it changes.",
    ),
    required("pluginDirectory", Sort::Path, "The directory of the credential provider plugins."),
    field(
        "nodeKubeconfig",
        Sort::Path,
        "The node's kubeconfig. With it, callers in pods are recognised, and providers can use their service accounts.",
    ),
    field(
        "nodeName",
        Sort::Text,
        "The name of this node in the cluster. Required with nodeKubeconfig, unless the agent is started with --node-name.",
    ),
    field(
        "stateDirectory",
        Sort::Path,
        "Where the agent remembers image names, so that it is warm soon after a restart. No secret is written.",
    ),
    field(
        "pullRecords",
        Sort::Path,
        "The pull records that the status shows: a kubelet's root directory, such as /var/lib/kubelet. They are only read.",
    ),
    required("listeners", Sort::Object(LISTENERS), "The sockets that the agent listens on."),
    field("audit", Sort::Object(AUDIT), "Where decisions are logged. Default: nowhere."),
    field(
        "rules",
        Sort::Objects(RULE),
        "Who may request what. The first rule that matches decides; without a match the request is denied. Default: root on \
         the host may request whatever the providers match.",
    ),
    field("limits", Sort::Object(LIMITS), "What callers may cost."),
    field("warm", Sort::Object(WARM), "How answers are kept fresh."),
];

const LISTENERS: &[FieldSpec] = &[
    required("agent", Sort::Object(SOCKET), "The socket for credentials."),
    field(
        "admin",
        Sort::Object(ADMIN_SOCKET),
        "The socket for administrators. Only root may use it.",
    ),
    field(
        "http",
        Sort::Object(HTTP),
        "Where metrics and the state of the agent are served. Give an address, a path, or both.",
    ),
];

const SOCKET: &[FieldSpec] = &[
    required("path", Sort::Path, "The path of the socket."),
    field(
        "mode",
        Sort::Mode,
        "Its permissions in octal, quoted. Default: \"0666\", because rules decide who may ask.",
    ),
];

const ADMIN_SOCKET: &[FieldSpec] = &[required("path", Sort::Path, "The path of the socket.")];

const HTTP: &[FieldSpec] = &[
    field(
        "address",
        Sort::Text,
        "A loopback address with a port, such as 127.0.0.1:9977. Every user of the node can read what is served there.",
    ),
    field("path", Sort::Path, "The path of a socket, which serves the same."),
    field(
        "mode",
        Sort::Mode,
        "The permissions of that socket in octal, quoted. Default: \"0600\".",
    ),
    field(
        "statusPage",
        Sort::Choice(&["full", "summary"]),
        "What the status page shows: summary, without names of images and callers; or full. Default: summary.",
    ),
];

const AUDIT: &[FieldSpec] = &[
    required("to", Sort::Choice(&["file", "journald", "none", "stdout"]), "Where the log goes."),
    field("path", Sort::Path, "The file, with `to: file`."),
    field(
        "maxBytes",
        Sort::Integer(4096, 1 << 40),
        "The size after which a new file is begun. Default: 67108864.",
    ),
    field("keep", Sort::Integer(0, 100), "How many older files are kept. Default: 5."),
];

const RULE: &[FieldSpec] = &[
    required("name", Sort::Text, "The name that the audit log and `keyfob agent explain` show."),
    required(
        "callers",
        Sort::Object(CALLERS),
        "Whom the rule is for. All fields that are given must match.",
    ),
    field("images", Sort::Texts, "Patterns as in matchImages. Default: every image."),
    field("providers", Sort::Texts, "Names of providers. Default: every provider."),
    required(
        "action",
        Sort::Choice(&["Allow", "AllowAsPod", "Deny"]),
        "Allow: with the node's identity. AllowAsPod: with the service account of the caller's pod. Deny.",
    ),
];

const CALLERS: &[FieldSpec] = &[
    field("anyone", Sort::Bool, "Every caller, including processes in containers."),
    field("uids", Sort::Ids, "User ids of processes on the host."),
    field("users", Sort::Texts, "Names of users of processes on the host."),
    field("groups", Sort::Texts, "Names or ids of groups of processes on the host."),
    field("units", Sort::Texts, "System units of systemd, such as docker.service."),
    field(
        "executables",
        Sort::Texts,
        "Absolute paths of programs on the host, as the agent sees them. Not with `action: Deny`.",
    ),
    field("namespaces", Sort::Texts, "Namespaces of pods on this node."),
    field(
        "serviceAccounts",
        Sort::Texts,
        "Service accounts of pods on this node, as NAMESPACE/NAME.",
    ),
];

const LIMITS: &[FieldSpec] = &[
    field("connections", Sort::Integer(8, 65_536), "Connections at the same time. Default: 1024."),
    field(
        "requestsPerSecond",
        Sort::Integer(1, 1_000_000),
        "Requests a second of one caller, on average. Default: 1000.",
    ),
    field("bodyBytes", Sort::Integer(1024, 8 << 20), "Bytes of a request's body. Default: 65536."),
    field(
        "pluginRunsPerProvider",
        Sort::Integer(1, 1024),
        "Processes of one plugin at the same time. Default: 4.",
    ),
    field("requestTimeout", Sort::Duration, "How long one request may take. Default: 1m30s."),
];

const WARM: &[FieldSpec] = &[
    field(
        "refreshAhead",
        Sort::Duration,
        "How long before its expiry an answer is renewed. Default: 5m.",
    ),
    field(
        "rememberedImages",
        Sort::Integer(0, 10_000),
        "How many image names are remembered and requested again after a restart. Default: 500.",
    ),
    field(
        "cachedClientLifetime",
        Sort::Duration,
        "How long a credential must still be valid when it is given to a client that caches it, such as docker. Default: 15m.",
    ),
];
