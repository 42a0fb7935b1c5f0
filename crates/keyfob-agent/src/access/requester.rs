//! Who asks, as the rules, the limits and the log see it.

use std::sync::Arc;

use crate::{
    audit::{AuditCaller, AuditPod},
    rate_limit::CallerKey,
};
use keyfob_agent_config::{HostSubject, Program, Subject};
use keyfob_caller::{Caller, CallerPlace, ContainerEvidence, NodePod};
use keyfob_host::{PodIdentity, PodReference, Pull};

/// An attested caller, and the pod it is in.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) caller: Caller,
    pub(crate) pod: Option<Arc<NodePod>>,
    /// The user whose processes on the host are those of root. It is 0 but in tests.
    pub(crate) administrator: u32,
}

impl Requester {
    /// What the rules know.
    pub(crate) fn subject(&self) -> Subject {
        match (&self.pod, &self.caller.place) {
            (Some(pod), _) => Subject::Pod {
                namespace: pod.namespace.clone(),
                service_account: pod.service_account.clone(),
                uid: Some(self.caller.uid),
            },
            (None, CallerPlace::Host { unit, .. }) => {
                let Caller { uid, gid, groups, executable, .. } = &self.caller;
                let mut gids = vec![*gid];
                gids.extend(groups);
                let program = Some(Program::Attested(executable.clone()));
                Subject::Host(HostSubject { uid: *uid, gids, unit: unit.clone(), program })
            }
            (None, CallerPlace::Container { pod_uid, evidence, .. }) => Subject::Container {
                uid: Some(self.caller.uid),
                may_be_pod: pod_uid.is_some() || *evidence == ContainerEvidence::CgroupNamespace,
            },
        }
    }

    pub(crate) fn is_root_on_host(&self) -> bool {
        matches!(self.caller.place, CallerPlace::Host { .. })
            && self.caller.uid == self.administrator
    }

    pub(crate) fn key(&self) -> CallerKey {
        match (&self.pod, &self.caller.place) {
            (Some(pod), _) => CallerKey::Pod(pod.uid.clone()),
            (None, CallerPlace::Container { .. }) => CallerKey::Container,
            (None, CallerPlace::Host { .. }) => CallerKey::User(self.caller.uid),
        }
    }

    /// The same pull, whose plugin runs wait for those of root on the host and take turns with those of other callers.
    pub(super) fn queue(&self, pull: Pull) -> Pull {
        if self.is_root_on_host() { pull } else { pull.for_caller(self.key().queue_name()) }
    }

    /// What to do about a refusal by this rule, or because no rule allows it.
    pub(super) fn help(&self, rule: Option<&str>, image: &str) -> String {
        let what = match rule {
            Some(rule) => format!("change rule {rule:?}, or write one that allows it before it"),
            None => "add a rule to the agent's file".to_owned(),
        };
        format!("{what}; root sees why: {}", self.explain_command(image))
    }

    /// The command with which root asks what the rules say about this caller.
    pub(crate) fn explain_command(&self, image: &str) -> String {
        let caller = match self.subject() {
            Subject::Pod { namespace, service_account, .. } => {
                format!("pod:{namespace}/{service_account}")
            }
            Subject::Host(HostSubject { uid, .. }) => format!("uid:{uid}"),
            Subject::Container { may_be_pod: true, .. } => "unknown-pod".to_owned(),
            Subject::Container { may_be_pod: false, .. } => "container".to_owned(),
        };
        format!("sudo keyfob agent explain --as {caller} {image}")
    }

    /// In a few words.
    pub(crate) fn described(&self) -> String {
        match self.subject() {
            Subject::Pod { namespace, service_account, .. } => {
                format!("a pod of service account {namespace}/{service_account}")
            }
            Subject::Host(process) => format!("user id {}", process.uid),
            Subject::Container { .. } => {
                "a process in a container that is no pod of this node".to_owned()
            }
        }
    }

    /// The identity under which images of its pod are pulled.
    pub(super) fn pod_identity(&self) -> Option<PodIdentity> {
        let NodePod { namespace, name, uid, service_account } = self.pod.as_deref()?;
        Some(PodIdentity {
            namespace: namespace.clone(),
            service_account: service_account.clone(),
            pod: Some(PodReference { name: name.clone(), uid: uid.clone() }),
        })
    }

    pub(super) fn audited(&self) -> AuditCaller {
        let Caller { uid, gid, pid, executable, place, attested_by, .. } = &self.caller;
        let (unit, container) = match place {
            CallerPlace::Host { unit, .. } => (unit.clone(), None),
            CallerPlace::Container { id, .. } => (None, Some(id.clone().unwrap_or_default())),
        };
        let pod = self.pod.as_ref().map(|pod| AuditPod {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            service_account: pod.service_account.clone(),
        });
        AuditCaller {
            uid: *uid,
            gid: *gid,
            pid: *pid,
            executable: executable.path.display().to_string(),
            unit,
            container,
            pod,
            attested_by: attested_by.as_str(),
        }
    }
}
