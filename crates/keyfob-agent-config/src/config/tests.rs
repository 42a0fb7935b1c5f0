use std::collections::BTreeSet;

use super::*;
use crate::rules::Action;

const MINIMAL: &str = "\
apiVersion: keyfob.dev/v1alpha1
kind: AgentConfiguration
providerConfig: /etc/kubernetes/providers.yaml
pluginDirectory: /usr/libexec/plugins
listeners:
  agent: {path: /run/keyfob/agent.sock}
";

/// Every field, with a value that is not its default.
const COMPLETE: &str = "\
apiVersion: keyfob.dev/v1alpha1
kind: AgentConfiguration
providerConfig: /etc/kubernetes/providers.yaml
pluginDirectory: /usr/libexec/plugins
nodeKubeconfig: /etc/kubernetes/kubelet.conf
nodeName: node-1
stateDirectory: /var/lib/keyfob
pullRecords: /var/lib/kubelet
listeners:
  agent: {path: /run/keyfob/agent.sock, mode: \"0660\"}
  admin: {path: /run/keyfob/admin.sock}
  http: {address: \"127.0.0.1:9977\", statusPage: full}
audit: {to: file, path: /var/log/audit.log, maxBytes: 10000, keep: 2}
rules:
- name: builds
  callers: {uids: [1000], users: [root], groups: [root, \"77\"], units: [docker.service], executables: [/usr/bin/docker]}
  images: ['*.registry.example']
  providers: [echo]
  action: Allow
- name: pods
  callers: {namespaces: [team-a], serviceAccounts: [team-a/builder]}
  action: AllowAsPod
- name: others
  callers: {anyone: true}
  action: Deny
limits: {connections: 10, requestsPerSecond: 5, bodyBytes: 2048, pluginRunsPerProvider: 2, requestTimeout: 10s}
warm: {refreshAhead: 1m, rememberedImages: 3, cachedClientLifetime: 20m}
";

fn problems(text: &str) -> Vec<String> {
    let error = AgentConfig::parse("agent.yaml", text.as_bytes()).expect_err("it is invalid");
    error.problems().iter().map(ToString::to_string).collect()
}

#[test]
fn a_minimal_file_lets_only_root_on_the_host_ask() {
    let config = AgentConfig::parse("agent.yaml", MINIMAL.as_bytes()).unwrap();
    assert_eq!(config.rules, [AccessRule::root()]);
    assert_eq!(config.agent_socket.mode, 0o666);
    assert_eq!((config.cluster, config.admin_socket), (None, None));
    assert_eq!(config.audit, AuditConfig::None);
}

#[test]
fn every_field_reaches_the_configuration() {
    let config = AgentConfig::parse("agent.yaml", COMPLETE.as_bytes()).unwrap();

    let cluster = config.cluster.clone().unwrap();
    assert_eq!(
        (cluster.node_name.as_deref(), cluster.kubeconfig.to_str()),
        (Some("node-1"), Some("/etc/kubernetes/kubelet.conf"))
    );
    assert_eq!(
        (config.agent_socket.mode, config.admin_socket.clone().unwrap().mode),
        (0o660, 0o600)
    );
    let address = "127.0.0.1:9977".parse().unwrap();
    assert_eq!((config.http_address, config.http_socket), (Some(address), None));
    assert_eq!(config.status_detail, StatusDetail::Full);
    assert_eq!(config.pull_records.as_deref(), Some(Path::new("/var/lib/kubelet")));
    let path = "/var/log/audit.log".into();
    assert_eq!(config.audit, AuditConfig::File { path, max_bytes: 10_000, keep: 2 });
    let [builds, pods, others] = &*config.rules else { panic!("three rules") };
    let callers = &builds.callers;
    assert_eq!(callers.users.iter().map(|user| user.id).collect::<Vec<_>>(), [1000, 0]);
    assert_eq!(callers.groups.iter().map(|group| group.id).collect::<Vec<_>>(), [0, 77]);
    assert_eq!(
        (&*callers.units, &*builds.providers),
        (&["docker.service".to_owned()][..], &["echo".to_owned()][..])
    );
    assert_eq!((builds.images.len(), builds.action), (1, Action::Allow));
    assert_eq!((pods.action, pods.callers.selects_pods()), (Action::AllowAsPod, true));
    assert_eq!((others.action, others.callers.anyone), (Action::Deny, true));
    assert_eq!(config.limits.request_timeout, Duration::from_secs(10));
    assert_eq!(config.warm.remembered_images, 3);
}

/// Optional scalars and lists of the complete file, and what to leave out.
const OPTIONAL: &[(&str, &str)] = &[
    ("nodeKubeconfig", "nodeKubeconfig: /etc/kubernetes/kubelet.conf\nnodeName: node-1\n"),
    ("nodeName", "nodeName: node-1\n"),
    ("stateDirectory", "stateDirectory: /var/lib/keyfob\n"),
    ("mode", ", mode: \"0660\""),
    ("admin", "  admin: {path: /run/keyfob/admin.sock}\n"),
    ("pullRecords", "pullRecords: /var/lib/kubelet\n"),
    ("http", "  http: {address: \"127.0.0.1:9977\", statusPage: full}\n"),
    ("statusPage", ", statusPage: full"),
    ("address", "address: \"127.0.0.1:9977\""),
    ("maxBytes", ", maxBytes: 10000"),
    ("keep", ", keep: 2"),
    ("uids", "uids: [1000], "),
    ("users", "users: [root], "),
    ("groups", "groups: [root, \"77\"], "),
    ("units", "units: [docker.service], "),
    ("executables", ", executables: [/usr/bin/docker]"),
    ("images", "  images: ['*.registry.example']\n"),
    ("providers", "  providers: [echo]\n"),
    ("namespaces", "namespaces: [team-a], "),
    ("serviceAccounts", ", serviceAccounts: [team-a/builder]"),
    ("connections", "connections: 10, "),
    ("requestsPerSecond", "requestsPerSecond: 5, "),
    ("bodyBytes", "bodyBytes: 2048, "),
    ("pluginRunsPerProvider", "pluginRunsPerProvider: 2, "),
    ("requestTimeout", ", requestTimeout: 10s"),
    ("refreshAhead", "refreshAhead: 1m, "),
    ("rememberedImages", "rememberedImages: 3, "),
    ("cachedClientLifetime", ", cachedClientLifetime: 20m"),
];

/// A field of the table without a reader would be accepted and ignored.
#[test]
fn no_field_of_the_table_is_ignored() {
    let complete = AgentConfig::parse("agent.yaml", COMPLETE.as_bytes()).unwrap();
    let mut paths = BTreeSet::new();
    collect(fields::AGENT, &mut paths);
    for name in &paths {
        assert!(COMPLETE.contains(&format!("{name}:")), "{name} is missing in the complete file");
    }
    // Each optional scalar or list, left out, changes the configuration or makes it invalid.
    for (name, value) in OPTIONAL {
        let without = COMPLETE.replacen(value, "", 1);
        assert_ne!(without, COMPLETE, "{name}");
        let without = AgentConfig::parse("agent.yaml", without.as_bytes());
        assert_ne!(without.as_ref(), Ok(&complete), "{name} is ignored");
        paths.remove(name);
    }
    let rest = [
        "action",
        "agent",
        "anyone",
        "apiVersion",
        "audit",
        "callers",
        "kind",
        "limits",
        "listeners",
        "name",
        "path",
        "pluginDirectory",
        "providerConfig",
        "rules",
        "to",
        "warm",
    ];
    assert_eq!(paths, rest.into(), "a new field needs a row above");
}

fn collect(table: &'static [fields::FieldSpec], names: &mut BTreeSet<&'static str>) {
    for field in table {
        names.insert(field.name);
        if let fields::Sort::Object(table) | fields::Sort::Objects(table) = field.sort {
            collect(table, names);
        }
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_places() {
    let text = "\
apiVersion: keyfob.dev/v2
kind: AgentConfiguration
providerConfig: providers.yaml
listeners:
  agent: {path: /run/agent.sock, mode: 0660}
rules:
- name: a
  callers: {uids: [-1], colour: red}
  images: ['[']
  action: Maybe
warm: {refreshAhead: soon}
";
    assert_eq!(
        problems(text),
        [
            "agent.yaml:1:1: pluginDirectory: this field is required",
            "agent.yaml:1:13: apiVersion: \"keyfob.dev/v2\" is not supported",
            "agent.yaml:3:17: providerConfig: the path is not absolute",
            "agent.yaml:5:40: listeners.agent.mode: the permissions must be a text",
            "agent.yaml:8:20: rules[0].callers.uids[0]: must be a whole number from 0 to 4294967294",
            "agent.yaml:8:25: rules[0].callers.colour: there is no field of this name",
            "agent.yaml:9:12: rules[0].images[0]: parse \"https://[\": missing ']' in host",
            "agent.yaml:10:11: rules[0].action: \"Maybe\" is not supported",
            "agent.yaml:11:22: warm.refreshAhead: this is no positive duration",
        ]
    );
}

#[test]
fn rules_that_can_never_mean_what_they_say_are_refused() {
    let rules = |rules: &str| problems(&format!("{MINIMAL}rules:\n{rules}"));
    for (rule, problem) in [
        (
            "- {name: a, callers: {}, action: Allow}",
            "rules[0].callers: a rule must say whom it is for",
        ),
        (
            "- {name: a, callers: {uids: []}, action: Allow}",
            "rules[0].callers.uids: the list is empty",
        ),
        (
            "- {name: a, callers: {uids: [0], namespaces: [x]}, action: Allow}",
            "rules[0].callers: no caller is both a process on the host and in a pod",
        ),
        (
            "- {name: a, callers: {uids: [0]}, action: AllowAsPod}",
            "rules[0].action: AllowAsPod needs callers in pods, and this rule is for none",
        ),
        (
            "- {name: a, callers: {anyone: true, uids: [0]}, action: Deny}",
            "rules[0].callers.anyone: `anyone: true` cannot be combined with other fields",
        ),
        (
            "- {name: a, callers: {executables: [/usr/bin/docker]}, action: Deny}",
            "agent.yaml:8:36: rules[0].callers.executables: \
             a Deny cannot name programs: a copy of a program at another path would not be denied",
        ),
        (
            "- {name: a, callers: {uids: [0], executables: [/usr/bin/docker]}, action: Deny}",
            "rules[0].callers.executables: \
             a Deny cannot name programs: a copy of a program at another path would not be denied",
        ),
        (
            "- {name: a, callers: {users: [no-such-user-here]}, action: Allow}",
            "rules[0].callers.users[0]: there is no user \"no-such-user-here\" on this node",
        ),
        (
            "- {name: a, callers: {serviceAccounts: [builder]}, action: Allow}",
            "rules[0].callers.serviceAccounts[0]: a service account is written as NAMESPACE/NAME",
        ),
    ] {
        let problems = rules(rule);
        assert!(problems.iter().any(|each| each.ends_with(problem)), "{problem}: {problems:#?}");
    }
    let twice = "- {name: a, callers: {uids: [0]}, action: Allow}\n- {name: a, callers: {uids: [1]}, action: Deny}";
    assert!(
        rules(twice)[0].ends_with("rules[1].name: a rule before this one has the name \"a\" too")
    );
}

/// A minimal file with this listener for metrics.
fn with_http(http: &str) -> Result<AgentConfig, AgentConfigError> {
    AgentConfig::parse("agent.yaml", format!("{MINIMAL}  http: {http}\n").as_bytes())
}

#[test]
fn metrics_are_served_on_a_port_a_socket_or_both() {
    let socket = |mode| Some(SocketConfig { path: "/run/http.sock".into(), mode });
    let private = with_http("{path: /run/http.sock}").unwrap();
    assert_eq!((private.http_address, private.http_socket), (None, socket(0o600)));
    let public = with_http("{path: /run/http.sock, mode: \"0666\"}").unwrap();
    assert_eq!(public.http_socket, socket(0o666));
    let both = with_http("{path: /run/http.sock, address: \"127.0.0.1:9977\"}").unwrap();
    assert_eq!(both.http_address, Some("127.0.0.1:9977".parse().unwrap()));
    assert_eq!(both.http_socket, socket(0o600));
    for address in ["127.0.0.1:9977", "127.1.2.3:1", "[::1]:9977"] {
        let config = with_http(&format!("{{address: \"{address}\"}}")).unwrap();
        let address = address.parse().unwrap();
        assert_eq!((config.http_address, config.http_socket), (Some(address), None));
    }
}

#[test]
fn metrics_are_served_on_loopback_only() {
    for (address, problem) in [
        ("0.0.0.0:9977", "0.0.0.0 is not a loopback address"),
        ("10.0.0.1:9977", "10.0.0.1 is not a loopback address"),
        ("[::]:9977", ":: is not a loopback address"),
        ("[::ffff:10.0.0.1]:9977", "::ffff:10.0.0.1 is not a loopback address"),
        ("localhost", "\"localhost\" is not an IP address with a port"),
    ] {
        let error = with_http(&format!("{{address: \"{address}\"}}")).unwrap_err();
        let [each] = error.problems() else { panic!("one problem: {error}") };
        let expected = format!("agent.yaml:7:19: listeners.http.address: {problem}");
        assert_eq!(each.to_string(), expected);
        assert_eq!(each.help.as_deref(), Some("write `address: 127.0.0.1:9977`, or a path"));
    }
}

#[test]
fn a_listener_for_metrics_is_somewhere() {
    for (value, problem, help) in [
        (
            "{}",
            "7:9: listeners.http: the listener has neither an address nor a path",
            "add `address: 127.0.0.1:9977`",
        ),
        (
            "{address: \"127.0.0.1:1\", mode: \"0600\"}",
            "7:40: listeners.http.mode: only a socket has permissions: this field has no effect",
            "remove it, or add the path of a socket",
        ),
    ] {
        let error = with_http(value).unwrap_err();
        let [each] = error.problems() else { panic!("one problem: {error}") };
        assert_eq!(each.to_string(), format!("agent.yaml:{problem}"));
        assert_eq!(each.help.as_deref(), Some(help));
    }
}

#[test]
fn a_text_that_is_no_yaml_is_reported_with_its_place() {
    assert_eq!(problems("a: ["), ["agent.yaml:2:1: expected a value"]);
}

#[test]
fn the_schema_has_every_field() {
    let schema = agent_config_schema();
    assert_eq!(
        schema["properties"]["rules"]["items"]["properties"]["action"]["enum"][1],
        "AllowAsPod"
    );
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"].as_array().map(Vec::len), Some(5));
}
