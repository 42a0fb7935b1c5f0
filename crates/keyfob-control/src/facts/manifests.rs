//! Facts from objects in memory; their RBAC is the authorizer.

use keyfob_exec::BoxFuture;
use serde::de::DeserializeOwned;

use super::FactSource;
use crate::{
    objects::{Kind, Objects, read},
    rbac,
    rule::{Asked, Facts, Found, Policy, Question, Step, Verdict, decide},
};

/// Answers from objects in memory.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of one value that callers build")]
pub struct Manifests<'a>(pub &'a Objects);

impl Manifests<'_> {
    /// Puts the answer to a question into the facts.
    pub fn answer(self, question: Question, facts: &mut Facts) {
        match question {
            Question::Pod(namespace, name) => {
                let pod = self.find(Kind::Pod, &namespace, &name);
                facts.pods.insert((namespace, name), pod);
            }
            Question::Claim(namespace, name) => {
                let claim = self.find(Kind::PersistentVolumeClaim, &namespace, &name);
                facts.claims.insert((namespace, name), claim);
            }
            Question::Volume(name) => {
                let volume = self.find(Kind::PersistentVolume, "", &name);
                facts.volumes.insert(name, volume);
            }
            Question::Driver(name) => {
                let driver = self.find(Kind::CSIDriver, "", &name);
                facts.drivers.insert(name, driver);
            }
            Question::Authorizer(access) => {
                let audience = access.audience.clone();
                facts.authorizer.insert(audience, rbac::authorize(self.0, &access.into()));
            }
        }
    }

    fn find<T: DeserializeOwned>(self, kind: Kind, namespace: &str, name: &str) -> Found<T> {
        let Some(value) = self.0.get(kind, namespace, name) else { return Found::No };
        match read(value) {
            Ok(object) => Found::Yes(Box::new(object)),
            // What is wrong could quote the object.
            Err(_) => Found::Unknown(format!("{} {name} is not as the API has it", kind.name())),
        }
    }
}

impl FactSource for Manifests<'_> {
    fn learn<'a>(&'a self, question: Question, facts: &'a mut Facts) -> BoxFuture<'a, ()> {
        self.answer(question, facts);
        Box::pin(std::future::ready(()))
    }
}

/// Applies the rule to objects in memory, without waiting for anything.
pub fn judge_objects(asked: &Asked, policy: &Policy, objects: &Objects) -> Verdict {
    let mut facts = Facts::default();
    loop {
        match decide(asked, policy, &facts) {
            Step::Decided(verdict) => return verdict,
            Step::Needs(question) => Manifests(objects).answer(question, &mut facts),
        }
    }
}
