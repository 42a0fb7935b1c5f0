//! Who may request which image's credentials from which provider.
//!
//! The decision is a pure function: the first rule whose callers, images and providers all match decides, and no rule means no.
//! A rule is for processes on the host or for pods, never for both: the kernel reports user id 0 for root in a container too, so a rule
//! about user ids, groups, units or executables must not allow anything to a process in a container.
//!
//! Rules that deny are the exception ([`Precaution`]). Anybody on the host can start a process in a container of their own, with
//! `unshare --user` for example, where it has other user ids (subordinate ones, such as 100999), other groups and another program.
//! So a rule that denies processes on the host also denies every process in a container that is not a pod of this node. And a rule that
//! denies pods also denies every process that may be in a pod which the agent does not know: a static pod, a pod that was just created,
//! or any pod if the agent has no access to the cluster. Otherwise a later rule for anyone would allow what the file denies to that pod.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use keyfob_api::{MatchPattern, MatchTarget};
use keyfob_caller::Executable;

/// A rule of the agent's file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AccessRule {
    /// Its name, unique in the file.
    pub name: String,
    /// Whom it is for.
    pub callers: CallerSelector,
    /// Patterns as written, and parsed; if empty, every image.
    pub images: Vec<(String, MatchPattern)>,
    /// Names of providers; if empty, every provider.
    pub providers: Vec<String>,
    /// What it says.
    pub action: Action,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever decides must know every case")]
pub enum Action {
    /// The provider may be asked, with the node's identity.
    Allow,
    /// The provider may be asked, with the service account of the caller's pod.
    AllowAsPod,
    /// The provider may not be asked.
    Deny,
}

/// Whom a rule is for. All lists that are not empty must have an entry that matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallerSelector {
    /// Every caller, wherever it runs.
    pub anyone: bool,
    /// Users of processes on the host.
    pub users: Vec<User>,
    /// Groups of processes on the host.
    pub groups: Vec<Group>,
    /// System units of processes on the host.
    pub units: Vec<String>,
    /// Programs on the host.
    pub executables: Vec<PathBuf>,
    /// Namespaces of pods.
    pub namespaces: Vec<String>,
    /// Service accounts of pods.
    pub service_accounts: Vec<ServiceAccountName>,
}

/// A user, with its name if the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The id.
    pub id: u32,
    /// The name.
    pub name: Option<String>,
}

/// A group, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// The id.
    pub id: u32,
    /// The name, or the id as a text.
    pub name: String,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceAccountName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Action {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Allow, Self::AllowAsPod, Self::Deny]
            .into_iter()
            .find(|action| action.as_str() == text)
    }

    /// As the file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "Allow",
            Self::AllowAsPod => "AllowAsPod",
            Self::Deny => "Deny",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CallerSelector {
    /// Whether it names properties of processes on the host.
    pub fn selects_hosts(&self) -> bool {
        let Self { users, groups, units, executables, .. } = self;
        !(users.is_empty() && groups.is_empty() && units.is_empty() && executables.is_empty())
    }

    /// Whether it names properties of pods.
    pub fn selects_pods(&self) -> bool {
        !(self.namespaces.is_empty() && self.service_accounts.is_empty())
    }
}

/// What rules know about a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever decides must know every case")]
pub enum Subject {
    /// A process on the host.
    Host(HostSubject),
    /// A process in a pod of this node.
    Pod {
        /// The pod's namespace.
        namespace: String,
        /// The pod's service account.
        service_account: String,
        /// The user, as the host sees it.
        uid: Option<u32>,
    },
    /// A process in a container that is not a pod of this node, as far as the agent knows. Anybody on the host may have started it.
    Container {
        /// The user, as the host sees it.
        uid: Option<u32>,
        /// Whether it may be in a pod that the agent does not know: its cgroup names a pod, or is not visible to the agent.
        may_be_pod: bool,
    },
}

/// What rules know about a process on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks fills it in")]
pub struct HostSubject {
    /// The user.
    pub uid: u32,
    /// The groups, the primary one first.
    pub gids: Vec<u32>,
    /// The system unit.
    pub unit: Option<String>,
    /// The program.
    pub program: Option<Program>,
}

/// The program of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever decides must know every case")]
pub enum Program {
    /// The file that the process runs.
    Attested(Executable),
    /// A path that somebody asks about (`keyfob agent explain --as`).
    Supposed(PathBuf),
}

impl Program {
    fn is(&self, path: &Path) -> bool {
        match self {
            Self::Attested(executable) => executable.is(path),
            Self::Supposed(supposed) => supposed == path,
        }
    }
}

impl AccessRule {
    /// The rule of a file without rules: root on the host may request whatever the providers match.
    pub fn root() -> Self {
        let users = vec![User { id: 0, name: None }];
        Self {
            name: "root".to_owned(),
            callers: CallerSelector { users, ..CallerSelector::default() },
            images: Vec::new(),
            providers: Vec::new(),
            action: Action::Allow,
        }
    }

    /// Why the rule does not apply; nothing if it does.
    pub fn mismatch(
        &self,
        subject: &Subject,
        image: &MatchTarget,
        provider: &str,
    ) -> Option<RuleMismatch> {
        self.caller_mismatch(subject).or_else(|| self.request_mismatch(image, provider))
    }

    /// Why the rule does not apply to this image and provider, whoever asks.
    fn request_mismatch(&self, image: &MatchTarget, provider: &str) -> Option<RuleMismatch> {
        if !self.images.is_empty() && !self.images.iter().any(|(_, each)| each.matches(image)) {
            return Some(RuleMismatch::Image);
        }
        if !self.providers.is_empty() && !self.providers.iter().any(|each| each == provider) {
            return Some(RuleMismatch::Provider(provider.to_owned()));
        }
        None
    }

    /// Why the rule does not apply to this caller, whatever it asks for.
    fn caller_mismatch(&self, subject: &Subject) -> Option<RuleMismatch> {
        let is_pod = matches!(subject, Subject::Pod { .. });
        match self.callers.mismatch(subject) {
            Some(_) if self.precaution(subject).is_some() => None,
            None if self.action == Action::AllowAsPod && !is_pod => Some(RuleMismatch::NotAPod),
            mismatch => mismatch,
        }
    }

    /// Why the rule denies a caller in a container that is not certainly one of its callers; nothing if it does not.
    pub fn precaution(&self, subject: &Subject) -> Option<Precaution> {
        let callers = &self.callers;
        if self.action != Action::Deny {
            return None;
        }
        match subject {
            Subject::Host(_) => None,
            Subject::Container { .. } if callers.selects_hosts() => Some(Precaution::Container),
            Subject::Container { may_be_pod, .. } => {
                (*may_be_pod && callers.selects_pods()).then_some(Precaution::UnknownPod)
            }
            Subject::Pod { uid, .. } => callers.is_only_user(*uid).then_some(Precaution::UserOfPod),
        }
    }
}

/// The first rule that applies; without one, the answer is no.
pub fn decide<'a>(
    rules: &'a [AccessRule],
    subject: &Subject,
    image: &MatchTarget,
    provider: &str,
) -> Option<&'a AccessRule> {
    rules.iter().find(|rule| rule.mismatch(subject, image, provider).is_none())
}

/// Whether the rules could allow this caller anything with one of these actions, whatever the image and the provider. It is quick, for
/// callers that get nothing in any case.
pub fn may_be_allowed(rules: &[AccessRule], subject: &Subject, actions: &[Action]) -> bool {
    let denies_everything = |rule: &AccessRule| {
        rule.action == Action::Deny && rule.images.is_empty() && rule.providers.is_empty()
    };
    rules
        .iter()
        .filter(|rule| rule.caller_mismatch(subject).is_none())
        .take_while(|rule| !denies_everything(rule))
        .any(|rule| actions.contains(&rule.action))
}

/// Whether some caller could be allowed to have a provider asked about an image with the identity of the node.
pub fn may_be_asked_as_node(rules: &[AccessRule], image: &MatchTarget, provider: &str) -> bool {
    // Rules after one that denies everybody are not reached.
    let denies_everybody = |rule: &AccessRule| rule.action == Action::Deny && rule.callers.anyone;
    rules
        .iter()
        .filter(|rule| rule.request_mismatch(image, provider).is_none())
        .take_while(|rule| !denies_everybody(rule))
        .any(|rule| rule.action == Action::Allow)
}

impl CallerSelector {
    fn mismatch(&self, subject: &Subject) -> Option<RuleMismatch> {
        if self.anyone {
            return None;
        }
        match subject {
            Subject::Host(_) if !self.selects_hosts() => Some(RuleMismatch::OnlyPods),
            Subject::Host(process) => self.host_mismatch(process),
            Subject::Pod { .. } | Subject::Container { .. } if !self.selects_pods() => {
                Some(RuleMismatch::OnlyHosts)
            }
            Subject::Pod { namespace, service_account, .. } => {
                self.pod_mismatch(namespace, service_account)
            }
            Subject::Container { .. } => Some(RuleMismatch::NotAPod),
        }
    }

    /// Whether it is for this user, and asks for no other property of a process on the host.
    fn is_only_user(&self, uid: Option<u32>) -> bool {
        let only_users =
            self.groups.is_empty() && self.units.is_empty() && self.executables.is_empty();
        only_users && self.users.iter().any(|user| Some(user.id) == uid)
    }

    fn host_mismatch(&self, process: &HostSubject) -> Option<RuleMismatch> {
        let HostSubject { uid, gids, unit, program } = process;
        if !self.users.is_empty() && !self.users.iter().any(|user| user.id == *uid) {
            return Some(RuleMismatch::User(*uid));
        }
        if !self.groups.is_empty() && !self.groups.iter().any(|group| gids.contains(&group.id)) {
            return Some(RuleMismatch::Group(gids.clone()));
        }
        if !self.units.is_empty() && !self.units.iter().any(|each| unit.as_ref() == Some(each)) {
            return Some(RuleMismatch::Unit(unit.clone()));
        }
        let runs = |path: &PathBuf| program.as_ref().is_some_and(|program| program.is(path));
        if !self.executables.is_empty() && !self.executables.iter().any(runs) {
            return Some(RuleMismatch::Executable);
        }
        None
    }

    fn pod_mismatch(&self, namespace: &str, account: &str) -> Option<RuleMismatch> {
        if !self.namespaces.is_empty() && !self.namespaces.iter().any(|each| each == namespace) {
            return Some(RuleMismatch::Namespace(namespace.to_owned()));
        }
        let is_named =
            |each: &ServiceAccountName| each.namespace == namespace && each.name == account;
        if !self.service_accounts.is_empty() && !self.service_accounts.iter().any(is_named) {
            return Some(RuleMismatch::ServiceAccount(format!("{namespace}/{account}")));
        }
        None
    }
}

/// Why a rule that denies applies to a process in a container that is not certainly one of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Precaution {
    /// It is in no pod of this node. Whether it is one of the processes that the rule names cannot be told: its user, groups and program
    /// are those that it has in its container.
    #[error(
        "it denies processes on the host, any of which may have started the container that the caller is in"
    )]
    Container,
    /// It is in a pod and has the user id that the rule names.
    #[error("it denies a user, and the caller is in a pod and runs as that user")]
    UserOfPod,
    /// It may be in a pod that the agent does not know. Whether it is one of the pods that the rule names cannot be told.
    #[error("it denies pods, and the caller may be in a pod that the agent does not know")]
    UnknownPod,
}

/// Why a rule does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleMismatch {
    /// The caller is a process on the host, and the rule is for pods.
    #[error("it is for pods, and the caller is a process on the host")]
    OnlyPods,
    /// The caller is in a container, and the rule is for processes on the host.
    #[error("it is for processes on the host, and the caller runs in a container")]
    OnlyHosts,
    /// The caller is not in a pod of this node.
    #[error("the caller is not in a pod that the agent knows")]
    NotAPod,
    /// The caller's user is not listed.
    #[error("user id {0} is not listed")]
    User(u32),
    /// None of the caller's groups is listed.
    #[error("none of the caller's group ids {0:?} is listed")]
    Group(Vec<u32>),
    /// The caller's unit is not listed.
    #[error("{}", unit(.0.as_deref()))]
    Unit(Option<String>),
    /// The caller runs another program.
    #[error("the caller runs another program")]
    Executable,
    /// The pod's namespace is not listed.
    #[error("namespace {0} is not listed")]
    Namespace(String),
    /// The pod's service account is not listed.
    #[error("service account {0} is not listed")]
    ServiceAccount(String),
    /// No pattern matches the image.
    #[error("none of its patterns matches the image")]
    Image,
    /// The provider is not listed.
    #[error("provider {0} is not listed")]
    Provider(String),
}

fn unit(unit: Option<&str>) -> String {
    match unit {
        Some(unit) => format!("unit {unit} is not listed"),
        None => "the caller is in no system unit".to_owned(),
    }
}

#[cfg(test)]
mod tests;
