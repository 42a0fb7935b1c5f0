//! Who is let in, without files, locks or processes.

use std::collections::{BTreeMap, BTreeSet};

/// What must be true.
#[derive(Default)]
pub(super) struct Model {
    /// The images that are here; whether somebody else brought them.
    pub(super) images: BTreeMap<String, bool>,
    pub(super) tags: BTreeMap<&'static str, String>,
    /// Whom each record names, by the image's id and name.
    pub(super) records: BTreeMap<String, BTreeSet<(String, &'static str)>>,
    pub(super) intents: BTreeMap<&'static str, Intent>,
    /// The images that pulls in flight have brought, if they have.
    pub(super) in_flight: Vec<(usize, &'static str, Option<String>)>,
}

#[derive(Default)]
pub(super) struct Intent {
    /// How many pulls it stands for, dead ones too.
    pub(super) pulls: usize,
    /// Whether there ever were several.
    pub(super) were_several: bool,
    /// Who looked for the image of a dead one in vain.
    pub(super) looked: BTreeSet<usize>,
}

impl Model {
    pub(super) fn is_alive(&self, name: &str) -> bool {
        self.in_flight.iter().any(|(_, pulled, _)| *pulled == name)
    }

    pub(super) fn begin(&mut self, process: usize, name: &'static str) -> Result<(), ()> {
        let is_alive = self.is_alive(name);
        match self.intents.get_mut(name) {
            Some(intent) if is_alive => {
                intent.pulls += 1;
                intent.were_several = true;
            }
            Some(intent) if !intent.looked.contains(&process) => return Err(()),
            _ => drop(self.intents.insert(name, Intent { pulls: 1, ..Intent::default() })),
        }
        self.in_flight.push((process, name, None));
        Ok(())
    }

    /// Any of the pulls that have brought their images, or have not.
    pub(super) fn pull(&self, any: usize, has_come: bool) -> Option<usize> {
        let pulls = self.in_flight.iter().enumerate();
        let pulls: Vec<usize> = pulls
            .filter(|(_, (_, _, id))| id.is_some() == has_come)
            .map(|(pull, _)| pull)
            .collect();
        pulls.get(any.checked_rem(pulls.len())?).copied()
    }

    pub(super) fn end(&mut self, pull: usize) -> (usize, &'static str, Option<String>) {
        let ended = self.in_flight.remove(pull);
        let (process, name) = (ended.0, ended.1);
        let intent = self.intents.get_mut(name).unwrap();
        let has_more =
            self.in_flight.iter().any(|(other, pulled, _)| (*other, *pulled) == (process, name));
        let others_live = self.in_flight.iter().any(|(_, pulled, _)| *pulled == name);
        if has_more || others_live {
            intent.pulls -= 1;
        } else if intent.pulls <= 1 {
            self.intents.remove(name);
        }
        ended
    }

    pub(super) fn put(&mut self, name: &'static str, id: &str, is_preloaded: bool) {
        *self.images.entry(id.to_owned()).or_default() |= is_preloaded;
        self.tags.insert(name, id.to_owned());
    }

    pub(super) fn recover(&mut self, process: usize) {
        let names: Vec<&'static str> = self.intents.keys().copied().collect();
        for name in names.into_iter().filter(|name| !self.is_alive(name)).collect::<Vec<_>>() {
            let intent = &self.intents[name];
            if intent.looked.contains(&process) {
                continue;
            }
            let mut came: Vec<String> = self.tags.get(name).cloned().into_iter().collect();
            if intent.were_several {
                let has_tag = |id: &String| self.tags.values().any(|tagged| tagged == id);
                let beside = |id: &String| repository(name) == repository_of_id(id);
                came.extend(self.images.keys().filter(|id| beside(id) && !has_tag(id)).cloned());
            }
            if came.is_empty() {
                self.intents.get_mut(name).unwrap().looked.insert(process);
            } else {
                self.intents.remove(name);
                for id in came {
                    self.records.entry(id).or_default();
                }
            }
        }
    }

    /// Whether a pod must pull what a name means.
    pub(super) fn must_pull(&self, name: &str, id: &str, pod: &str) -> bool {
        if let Some(record) = self.records.get(id) {
            return !record.iter().any(|(known, of)| known == repository(name) && *of == pod);
        }
        let by_digest = name.contains('@');
        self.intents.keys().any(|intent| {
            if by_digest { repository(intent) == repository(name) } else { *intent == name }
        })
    }
}

pub(super) fn repository(name: &str) -> &str {
    name.split(['@']).next().unwrap().split(":v").next().unwrap().split(":7").next().unwrap()
}

pub(super) fn id(name: &str, version: u8) -> String {
    format!("{}#{version}", repository(name))
}

fn repository_of_id(id: &str) -> &str {
    id.split('#').next().unwrap()
}

pub(super) fn digest(id: &str) -> String {
    let (repository, version) = id.split_once('#').unwrap();
    format!("{repository}@sha256:{}", version.repeat(64))
}
