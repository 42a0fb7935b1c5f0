//! From the text of an agent's file to a configuration.
//!
//! Two steps. The first goes by the table of fields and knows no names: it checks types and ranges, and reports unknown, repeated
//! and missing fields. The second gives the checked values their meaning. Both go on after a problem, so that all of them are reported.

mod http;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use keyfob_api::{
    GoDuration, MatchPattern,
    document::{Document, DocumentError, Kind, Node, Position, Value},
};

use super::{
    AgentConfig, AgentConfigProblem, AgentLimits, AuditConfig, ClusterConfig, SocketConfig,
    StatusDetail, WarmConfig,
    fields::{AGENT, FieldSpec, Sort},
};
use crate::{
    rules::{AccessRule, Action, CallerSelector, Group, ServiceAccountName, User},
    users,
};

/// The permissions of the agent's socket unless the file says otherwise: rules decide who may ask.
const AGENT_MODE: u32 = 0o666;
/// The permissions of the administrators' socket.
const ADMIN_MODE: u32 = 0o600;

const DEFAULT_AUDIT_BYTES: u64 = 64 << 20;
const DEFAULT_AUDIT_KEEP: u64 = 5;

/// Reads one file and collects what is wrong with it.
pub(super) struct Reader {
    file: Arc<str>,
    problems: Vec<AgentConfigProblem>,
}

/// The checked fields of an object, by name.
type Fields = BTreeMap<&'static str, Checked>;

/// A value of the right type, and where it stands.
struct Checked {
    at: Position,
    value: CheckedValue,
}

enum CheckedValue {
    Text(String),
    Texts(Vec<(String, Position)>),
    Number(u64),
    Ids(Vec<u32>),
    Bool(bool),
    Duration(Duration),
    Object(Fields),
    Objects(Vec<(Fields, Position)>),
}

/// The value of `kind` in a text, if it has one.
pub(super) fn kind_of(text: &[u8]) -> Option<String> {
    let document = Document::read(text).ok()?;
    let Value::Map(fields) = &document.root.value else { return None };
    let kind = fields.iter().find(|field| field.name.expose() == "kind")?;
    match &kind.node.value {
        Value::String(kind) => Some(kind.expose().clone()),
        _ => None,
    }
}

impl Reader {
    pub(super) fn new(file: Arc<str>) -> Self {
        Self { file, problems: Vec::new() }
    }

    /// The problems in the order of the file.
    pub(super) fn into_problems(mut self) -> Vec<AgentConfigProblem> {
        self.problems.sort_by_key(|problem| problem.at.map(|at| (at.line, at.column)));
        self.problems
    }

    /// Nothing if there is a problem without which the rest cannot be understood.
    pub(super) fn read(&mut self, text: &[u8]) -> Option<AgentConfig> {
        let document = match Document::read(text) {
            Ok(document) => document,
            Err(error) => {
                let (at, message) = match &error {
                    DocumentError::Json(error) => (Some(error.at), error.problem.to_string()),
                    DocumentError::Yaml(error) => (Some(error.at), error.problem.to_string()),
                    _ => (None, error.to_string()),
                };
                self.report(at, "", message, None);
                return None;
            }
        };
        for duplicate in &document.duplicates {
            self.report(Some(duplicate.at), "", "this field stands here a second time", None);
        }
        let fields = self.object(&document.root, AGENT, "")?;
        self.configuration(fields)
    }

    fn report(
        &mut self,
        at: Option<Position>,
        path: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.problems.push(AgentConfigProblem {
            file: self.file.clone(),
            at,
            path: path.to_owned(),
            message: message.into(),
            help,
        });
    }

    /// Checks an object by its table.
    fn object(&mut self, node: &Node, table: &'static [FieldSpec], path: &str) -> Option<Fields> {
        let Value::Map(entries) = &node.value else {
            return self.wrong_type(node, path, "an object");
        };
        let mut fields = Fields::new();
        for entry in entries {
            let name = entry.name.expose();
            let path = joined(path, name);
            match table.iter().find(|field| field.name == name) {
                None => {
                    let known: Vec<&str> = table.iter().map(|field| field.name).collect();
                    let help = format!("the fields here are: {}", known.join(", "));
                    self.report(
                        Some(entry.at),
                        &path,
                        "there is no field of this name",
                        Some(help),
                    );
                }
                Some(_) if matches!(entry.node.value, Value::Null) => {}
                Some(field) => {
                    if let Some(value) = self.value(&entry.node, &field.sort, &path) {
                        fields.insert(field.name, Checked { at: entry.node.at, value });
                    }
                }
            }
        }
        for field in table.iter().filter(|field| field.required) {
            let is_there = entries.iter().any(|entry| {
                entry.name.expose() == field.name && !matches!(entry.node.value, Value::Null)
            });
            if !is_there {
                let path = joined(path, field.name);
                self.report(Some(node.at), &path, "this field is required", example(field));
            }
        }
        Some(fields)
    }

    fn value(&mut self, node: &Node, sort: &Sort, path: &str) -> Option<CheckedValue> {
        match sort {
            Sort::Text => self.text(node, path).map(CheckedValue::Text),
            Sort::Path => {
                let text = self.text(node, path)?;
                if !text.starts_with('/') {
                    let help =
                        Some("write the path from the root, such as /etc/keyfob/…".to_owned());
                    self.report(Some(node.at), path, "the path is not absolute", help);
                    return None;
                }
                Some(CheckedValue::Text(text))
            }
            Sort::Mode => self.mode(node, path).map(CheckedValue::Number),
            Sort::Choice(choices) => {
                let text = self.text(node, path)?;
                if choices.contains(&&*text) {
                    return Some(CheckedValue::Text(text));
                }
                let message = format!("{text:?} is not supported");
                let help = Some(format!("write {}", choices.join(" or ")));
                self.report(Some(node.at), path, message, help);
                None
            }
            Sort::Bool => match node.value {
                Value::Bool(value) => Some(CheckedValue::Bool(value)),
                _ => self.wrong_type(node, path, "true or false"),
            },
            Sort::Integer(least, most) => {
                self.integer(node, path, *least, *most).map(CheckedValue::Number)
            }
            Sort::Duration => self.duration(node, path).map(CheckedValue::Duration),
            Sort::Texts => {
                let mut texts = Vec::new();
                for (index, node) in self.list(node, path)?.iter().enumerate() {
                    if let Some(text) = self.text(node, &format!("{path}[{index}]")) {
                        texts.push((text, node.at));
                    }
                }
                Some(CheckedValue::Texts(texts))
            }
            Sort::Ids => {
                let mut ids = Vec::new();
                for (index, node) in self.list(node, path)?.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    let id = self.integer(node, &path, 0, u64::from(u32::MAX) - 1);
                    ids.extend(id.and_then(|id| u32::try_from(id).ok()));
                }
                Some(CheckedValue::Ids(ids))
            }
            Sort::Object(table) => self.object(node, table, path).map(CheckedValue::Object),
            Sort::Objects(table) => {
                let mut objects = Vec::new();
                for (index, node) in self.list(node, path)?.iter().enumerate() {
                    if let Some(fields) = self.object(node, table, &format!("{path}[{index}]")) {
                        objects.push((fields, node.at));
                    }
                }
                Some(CheckedValue::Objects(objects))
            }
        }
    }

    fn text(&mut self, node: &Node, path: &str) -> Option<String> {
        match &node.value {
            Value::String(text) if !text.expose().is_empty() => Some(text.expose().clone()),
            Value::String(_) => {
                self.report(Some(node.at), path, "the text is empty", None);
                None
            }
            _ => self.wrong_type(node, path, "a text"),
        }
    }

    fn list<'a>(&mut self, node: &'a Node, path: &str) -> Option<&'a [Node]> {
        match &node.value {
            Value::List(nodes) => {
                if nodes.is_empty() {
                    let help = Some("name something, or leave the field out".to_owned());
                    self.report(Some(node.at), path, "the list is empty", help);
                }
                Some(nodes)
            }
            _ => self.wrong_type(node, path, "a list"),
        }
    }

    fn integer(&mut self, node: &Node, path: &str, least: u64, most: u64) -> Option<u64> {
        let Value::Number(text) = &node.value else {
            return self.wrong_type(node, path, "a whole number");
        };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let message = format!("must be a whole number from {least} to {most}");
            self.report(Some(node.at), path, message, None);
        }
        number
    }

    fn mode(&mut self, node: &Node, path: &str) -> Option<u64> {
        let help = || Some("write it in octal and in quotes, such as \"0660\"".to_owned());
        let Value::String(text) = &node.value else {
            self.report(Some(node.at), path, "the permissions must be a text", help());
            return None;
        };
        let text = text.expose();
        let mode = u64::from_str_radix(text, 8).ok();
        if let Some(mode) = mode.filter(|mode| *mode <= 0o777 && (3..=4).contains(&text.len())) {
            return Some(mode);
        }
        self.report(Some(node.at), path, "these are no permissions", help());
        None
    }

    fn duration(&mut self, node: &Node, path: &str) -> Option<Duration> {
        let text = self.text(node, path)?;
        let duration = GoDuration::parse(&text).ok().and_then(GoDuration::to_std);
        if let Some(duration) = duration.filter(|duration| !duration.is_zero()) {
            return Some(duration);
        }
        let help = Some("write a number with a unit, such as 30s, 5m or 1h30m".to_owned());
        self.report(Some(node.at), path, "this is no positive duration", help);
        None
    }

    fn wrong_type<T>(&mut self, node: &Node, path: &str, wanted: &str) -> Option<T> {
        let found = match node.kind() {
            Kind::Bool => "true or false",
            Kind::List => "a list",
            Kind::Map => "an object",
            Kind::Null => "nothing",
            Kind::Number => "a number",
            _ => "a text",
        };
        let message = format!("must be {wanted}, and is {found}");
        self.report(Some(node.at), path, message, None);
        None
    }

    /// Gives the checked values their meaning.
    fn configuration(&mut self, mut fields: Fields) -> Option<AgentConfig> {
        let cluster = self.cluster(&mut fields);
        let mut listeners = object(&mut fields, "listeners").unwrap_or_default();
        let agent_socket = socket(&mut listeners, "agent", AGENT_MODE);
        let admin_socket = socket(&mut listeners, "admin", ADMIN_MODE);
        let mut status_detail = StatusDetail::default();
        let (http_address, http_socket) = match listeners.remove("http") {
            Some(Checked { at, value: CheckedValue::Object(mut fields) }) => {
                if text(&mut fields, "statusPage").as_deref() == Some("full") {
                    status_detail = StatusDetail::Full;
                }
                self.http(fields, at)
            }
            _ => (None, None),
        };
        let audit = match object(&mut fields, "audit") {
            Some(audit) => self.audit(audit),
            None => Some(AuditConfig::None),
        };
        let rules = match fields.remove("rules").map(|checked| checked.value) {
            Some(CheckedValue::Objects(rules)) => self.rules(rules),
            _ => vec![AccessRule::root()],
        };
        Some(AgentConfig {
            provider_config: text(&mut fields, "providerConfig")?.into(),
            plugin_directory: text(&mut fields, "pluginDirectory")?.into(),
            cluster,
            state_directory: text(&mut fields, "stateDirectory").map(PathBuf::from),
            agent_socket: agent_socket?,
            admin_socket,
            http_address,
            http_socket,
            status_detail,
            pull_records: text(&mut fields, "pullRecords").map(PathBuf::from),
            audit: audit?,
            rules,
            limits: limits(object(&mut fields, "limits").unwrap_or_default()),
            warm: warm(object(&mut fields, "warm").unwrap_or_default()),
        })
    }

    fn cluster(&mut self, fields: &mut Fields) -> Option<ClusterConfig> {
        let name_at = fields.get("nodeName").map(|checked| checked.at);
        match (text(fields, "nodeKubeconfig"), text(fields, "nodeName")) {
            (Some(kubeconfig), node_name) => {
                Some(ClusterConfig { kubeconfig: kubeconfig.into(), node_name })
            }
            (None, Some(_)) => {
                self.report(
                    name_at,
                    "nodeName",
                    "this field has no effect without nodeKubeconfig",
                    None,
                );
                None
            }
            (None, None) => None,
        }
    }

    fn audit(&mut self, mut fields: Fields) -> Option<AuditConfig> {
        let to = fields.remove("to")?;
        let CheckedValue::Text(name) = to.value else { return None };
        if name == "file" {
            let Some(path) = text(&mut fields, "path") else {
                let help = Some("add path: /var/log/keyfob/audit.log".to_owned());
                self.report(
                    Some(to.at),
                    "audit.path",
                    "this field is required with `to: file`",
                    help,
                );
                return None;
            };
            let keep = number(&mut fields, "keep").unwrap_or(DEFAULT_AUDIT_KEEP);
            return Some(AuditConfig::File {
                path: path.into(),
                max_bytes: number(&mut fields, "maxBytes").unwrap_or(DEFAULT_AUDIT_BYTES),
                keep: u32::try_from(keep).unwrap_or(u32::MAX),
            });
        }
        for (field, checked) in &fields {
            let path = format!("audit.{field}");
            self.report(
                Some(checked.at),
                &path,
                "this field has no effect without `to: file`",
                None,
            );
        }
        Some(match &*name {
            "journald" => AuditConfig::Journald,
            "stdout" => AuditConfig::Stdout,
            _ => AuditConfig::None,
        })
    }

    fn rules(&mut self, rules: Vec<(Fields, Position)>) -> Vec<AccessRule> {
        let mut read: Vec<AccessRule> = Vec::new();
        for (index, (fields, at)) in rules.into_iter().enumerate() {
            let path = format!("rules[{index}]");
            if let Some(rule) = self.rule(fields, at, &path) {
                if read.iter().any(|other| other.name == rule.name) {
                    let message =
                        format!("a rule before this one has the name {:?} too", rule.name);
                    self.report(Some(at), &format!("{path}.name"), message, None);
                }
                read.push(rule);
            }
        }
        read
    }

    fn rule(&mut self, mut fields: Fields, at: Position, path: &str) -> Option<AccessRule> {
        let callers = object(&mut fields, "callers");
        let executables_at =
            callers.as_ref().and_then(|callers| callers.get("executables")).map(|each| each.at);
        let callers = callers.map(|callers| self.callers(callers, at, &format!("{path}.callers")));
        let mut images = Vec::new();
        for (index, (text, at)) in texts(&mut fields, "images").into_iter().enumerate() {
            match MatchPattern::parse(&text) {
                Ok(pattern) => images.push((text, pattern)),
                Err(error) => {
                    let path = format!("{path}.images[{index}]");
                    self.report(Some(at), &path, error.to_string(), None);
                }
            }
        }
        let providers = texts(&mut fields, "providers").into_iter().map(|(name, _)| name).collect();
        let (name, action) = (text(&mut fields, "name")?, text(&mut fields, "action")?);
        let (callers, action) = (callers?, Action::parse(&action)?);
        if action == Action::AllowAsPod && !callers.selects_pods() {
            let help = "add callers.namespaces or callers.serviceAccounts".to_owned();
            let message = "AllowAsPod needs callers in pods, and this rule is for none";
            self.report(Some(at), &format!("{path}.action"), message, Some(help));
        }
        if let (Action::Deny, Some(at)) = (action, executables_at) {
            // It would fail open: a copy is another file, and so is the host's program if the agent runs in a container.
            let message = "a Deny cannot name programs: a copy of a program at another path would not be denied";
            let help = "deny by uids, users, groups or units; or allow by executables, and leave all other programs without a rule";
            let path = format!("{path}.callers.executables");
            self.report(Some(at), &path, message, Some(help.to_owned()));
        }
        Some(AccessRule { name, callers, images, providers, action })
    }

    fn callers(&mut self, mut fields: Fields, at: Position, path: &str) -> CallerSelector {
        let anyone = fields.remove("anyone").map(|checked| checked.value);
        let anyone = matches!(anyone, Some(CheckedValue::Bool(true)));
        if fields.is_empty() && !anyone {
            let help = "name callers, such as `uids: [0]`, or write `anyone: true`".to_owned();
            self.report(Some(at), path, "a rule must say whom it is for", Some(help));
        }
        if !fields.is_empty() && anyone {
            let message = "`anyone: true` cannot be combined with other fields";
            self.report(Some(at), &format!("{path}.anyone"), message, None);
        }
        let mut users = Vec::new();
        if let Some(CheckedValue::Ids(ids)) = fields.remove("uids").map(|checked| checked.value) {
            users.extend(ids.into_iter().map(|id| User { id, name: None }));
        }
        for (index, (name, at)) in texts(&mut fields, "users").into_iter().enumerate() {
            if let Some(id) = users::user_id(&name) {
                users.push(User { id, name: Some(name) });
            } else {
                let message = format!("there is no user {name:?} on this node");
                let help = Some("create the user, or write its id under uids".to_owned());
                self.report(Some(at), &format!("{path}.users[{index}]"), message, help);
            }
        }
        let selector = CallerSelector {
            anyone,
            users,
            groups: self.groups(texts(&mut fields, "groups"), path),
            units: texts(&mut fields, "units").into_iter().map(|(unit, _)| unit).collect(),
            executables: self.executables(texts(&mut fields, "executables"), path),
            namespaces: texts(&mut fields, "namespaces")
                .into_iter()
                .map(|(name, _)| name)
                .collect(),
            service_accounts: self.accounts(texts(&mut fields, "serviceAccounts"), path),
        };
        if selector.selects_hosts() && selector.selects_pods() {
            let message = "no caller is both a process on the host and in a pod";
            let help = Some("split the rule into two".to_owned());
            self.report(Some(at), path, message, help);
        }
        selector
    }

    fn groups(&mut self, names: Vec<(String, Position)>, path: &str) -> Vec<Group> {
        let mut groups = Vec::new();
        for (index, (name, at)) in names.into_iter().enumerate() {
            if let Some(id) = name.parse().ok().or_else(|| users::group_id(&name)) {
                groups.push(Group { id, name });
            } else {
                let message = format!("there is no group {name:?} on this node");
                let help = Some("create the group, or write its id as a text".to_owned());
                self.report(Some(at), &format!("{path}.groups[{index}]"), message, help);
            }
        }
        groups
    }

    fn executables(&mut self, paths: Vec<(String, Position)>, path: &str) -> Vec<PathBuf> {
        for (index, (executable, at)) in paths.iter().enumerate() {
            if !executable.starts_with('/') {
                let path = format!("{path}.executables[{index}]");
                self.report(Some(*at), &path, "the path is not absolute", None);
            }
        }
        paths.into_iter().map(|(path, _)| path.into()).collect()
    }

    fn accounts(&mut self, names: Vec<(String, Position)>, path: &str) -> Vec<ServiceAccountName> {
        let mut accounts = Vec::new();
        for (index, (name, at)) in names.into_iter().enumerate() {
            match name.split_once('/') {
                Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                    let (namespace, name) = (namespace.to_owned(), name.to_owned());
                    accounts.push(ServiceAccountName { namespace, name });
                }
                _ => {
                    let path = format!("{path}.serviceAccounts[{index}]");
                    let message = "a service account is written as NAMESPACE/NAME";
                    self.report(Some(at), &path, message, None);
                }
            }
        }
        accounts
    }
}

fn limits(mut fields: Fields) -> AgentLimits {
    let mut limits = AgentLimits::default();
    let mut set = |field: &mut u32, name| {
        if let Some(number) = number(&mut fields, name) {
            *field = u32::try_from(number).unwrap_or(u32::MAX);
        }
    };
    set(&mut limits.connections, "connections");
    set(&mut limits.requests_per_second, "requestsPerSecond");
    set(&mut limits.body_bytes, "bodyBytes");
    set(&mut limits.plugin_runs_per_provider, "pluginRunsPerProvider");
    if let Some(timeout) = duration(&mut fields, "requestTimeout") {
        limits.request_timeout = timeout;
    }
    limits
}

fn warm(mut fields: Fields) -> WarmConfig {
    let mut warm = WarmConfig::default();
    if let Some(ahead) = duration(&mut fields, "refreshAhead") {
        warm.refresh_ahead = ahead;
    }
    if let Some(images) = number(&mut fields, "rememberedImages") {
        warm.remembered_images = u32::try_from(images).unwrap_or(u32::MAX);
    }
    if let Some(lifetime) = duration(&mut fields, "cachedClientLifetime") {
        warm.cached_client_lifetime = lifetime;
    }
    warm
}

fn socket(fields: &mut Fields, name: &'static str, default_mode: u32) -> Option<SocketConfig> {
    let mut socket = object(fields, name)?;
    let mode = number(&mut socket, "mode").and_then(|mode| u32::try_from(mode).ok());
    let path = text(&mut socket, "path")?.into();
    Some(SocketConfig { path, mode: mode.unwrap_or(default_mode) })
}

fn text(fields: &mut Fields, name: &'static str) -> Option<String> {
    match fields.remove(name)?.value {
        CheckedValue::Text(text) => Some(text),
        _ => None,
    }
}

fn texts(fields: &mut Fields, name: &'static str) -> Vec<(String, Position)> {
    match fields.remove(name).map(|checked| checked.value) {
        Some(CheckedValue::Texts(texts)) => texts,
        _ => Vec::new(),
    }
}

fn number(fields: &mut Fields, name: &'static str) -> Option<u64> {
    match fields.remove(name)?.value {
        CheckedValue::Number(number) => Some(number),
        _ => None,
    }
}

fn duration(fields: &mut Fields, name: &'static str) -> Option<Duration> {
    match fields.remove(name)?.value {
        CheckedValue::Duration(duration) => Some(duration),
        _ => None,
    }
}

fn object(fields: &mut Fields, name: &'static str) -> Option<Fields> {
    match fields.remove(name)?.value {
        CheckedValue::Object(fields) => Some(fields),
        _ => None,
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What to write for a field that is missing, where there is one answer.
fn example(field: &FieldSpec) -> Option<String> {
    match field.sort {
        Sort::Choice([only]) => Some(format!("add `{}: {only}`", field.name)),
        Sort::Choice(choices) => Some(format!("write {}", choices.join(" or "))),
        _ => None,
    }
}
