//! What the rule must know, and what it knows.

use std::collections::HashMap;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::CSIDriver,
};

/// What the rule must know next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Question {
    /// A pod, by namespace and name.
    Pod(String, String),
    /// A claim, by namespace and name.
    Claim(String, String),
    /// A volume.
    Volume(String),
    /// A driver.
    Driver(String),
    /// Whether the authorizer allows the verb `request-serviceaccounts-token-audience`.
    Authorizer(Access),
}

/// The verb that allows a node an audience.
pub const VERB: &str = "request-serviceaccounts-token-audience";

/// What the authorizer is asked: may `user` use the verb [`VERB`] on the resource `audience`?
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct Access {
    /// The node's user.
    pub user: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// The namespace of the service account.
    pub namespace: String,
    /// The service account, as the resource's name.
    pub service_account: String,
    /// The audience, as the resource.
    pub audience: String,
}

/// What is known of an object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Found<T> {
    /// It is there.
    Yes(Box<T>),
    /// It is not there.
    No,
    /// Nobody knows, for this reason. A text, because all that becomes of it is a part of the verdict's message; whoever asks a cluster
    /// by hand gets a `ClusterError`, which has the cause.
    Unknown(String),
}

/// What an authorizer said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct Opinion {
    /// Whether it allows.
    pub allowed: bool,
    /// Why, if it said so.
    pub reason: String,
    /// What went wrong while it decided.
    pub error: Option<String>,
}

impl Opinion {
    /// It allows.
    pub fn allow(reason: impl Into<String>) -> Self {
        Self { allowed: true, reason: reason.into(), error: None }
    }

    /// It does not allow; others may.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: reason.into(), error: None }
    }
}

/// What is known so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Facts {
    /// Pods by namespace and name.
    pub pods: HashMap<(String, String), Found<Pod>>,
    /// Claims by namespace and name.
    pub claims: HashMap<(String, String), Found<PersistentVolumeClaim>>,
    /// Volumes.
    pub volumes: HashMap<String, Found<PersistentVolume>>,
    /// Drivers.
    pub drivers: HashMap<String, Found<CSIDriver>>,
    /// What the authorizer said, by the audience that it was asked about.
    pub authorizer: HashMap<String, Opinion>,
    /// Why questions had no answer: the source could not be asked.
    pub unanswered: Vec<String>,
}

impl Facts {
    /// Whether a question has its answer.
    pub fn answer(&self, question: &Question) -> bool {
        match question.clone() {
            Question::Pod(namespace, name) => self.pods.contains_key(&(namespace, name)),
            Question::Claim(namespace, name) => self.claims.contains_key(&(namespace, name)),
            Question::Volume(name) => self.volumes.contains_key(&name),
            Question::Driver(name) => self.drivers.contains_key(&name),
            Question::Authorizer(access) => self.authorizer.contains_key(&access.audience),
        }
    }

    /// Answers a question with why nobody knows.
    pub fn give_up(&mut self, question: Question, why: &str) {
        let why = why.to_owned();
        self.unanswered.push(why.clone());
        match question {
            Question::Pod(namespace, name) => {
                self.pods.insert((namespace, name), Found::Unknown(why));
            }
            Question::Claim(namespace, name) => {
                self.claims.insert((namespace, name), Found::Unknown(why));
            }
            Question::Volume(name) => {
                self.volumes.insert(name, Found::Unknown(why));
            }
            Question::Driver(name) => {
                self.drivers.insert(name, Found::Unknown(why));
            }
            Question::Authorizer(access) => {
                let opinion = Opinion { error: Some(why), ..Opinion::default() };
                self.authorizer.insert(access.audience, opinion);
            }
        }
    }

    pub(super) fn pod(&self, namespace: String, name: String) -> Result<&Found<Pod>, Question> {
        let key = (namespace, name);
        self.pods.get(&key).ok_or(Question::Pod(key.0, key.1))
    }

    pub(super) fn claim(
        &self,
        namespace: String,
        name: String,
    ) -> Result<&Found<PersistentVolumeClaim>, Question> {
        let key = (namespace, name);
        self.claims.get(&key).ok_or(Question::Claim(key.0, key.1))
    }

    pub(super) fn volume(&self, name: String) -> Result<&Found<PersistentVolume>, Question> {
        self.volumes.get(&name).ok_or(Question::Volume(name))
    }

    pub(super) fn driver(&self, name: String) -> Result<&Found<CSIDriver>, Question> {
        self.drivers.get(&name).ok_or(Question::Driver(name))
    }
}
