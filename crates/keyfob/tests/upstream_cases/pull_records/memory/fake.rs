//! A store that has what a row says, and fails when it says so.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use keyfob_images::{Marked, PulledRecord, RecordList, RecordMark, RecordStore, RecordsError};
use serde_json::{Value, json};

use super::super::{list, record};

/// Which half of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Intent,
    Record,
}

#[derive(Debug, Default)]
pub(super) struct Fake(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    intents: Vec<Value>,
    records: Vec<Value>,
    intents_fail: bool,
    records_fail: bool,
    all_fails: bool,
    calls: Vec<&'static str>,
}

impl Fake {
    /// Has these of one half, and nothing of the other.
    pub(super) fn set(&self, kind: Thing, things: Vec<Value>, fails: bool) {
        let mut state = self.state();
        match kind {
            Thing::Intent => (state.intents, state.intents_fail) = (things, fails),
            Thing::Record => (state.records, state.records_fail) = (things, fails),
        }
    }

    /// Has what a row has behind the memory.
    pub(super) fn become_delegate(&self, file: &Value, delegate: &Value) {
        *self.state() = State {
            intents: things(file, &delegate["backing_intents"], Thing::Intent),
            records: things(file, &delegate["backing_pulled"], Thing::Record),
            intents_fail: delegate.get("list_intents_error").is_some(),
            records_fail: delegate.get("list_pulled_error").is_some(),
            all_fails: delegate.get("next_get_or_write_error").is_some(),
            calls: Vec::new(),
        };
    }

    /// From now on nothing can be got.
    pub(super) fn refuse_all(&self) {
        self.state().all_fails = true;
    }

    pub(super) fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state().calls)
    }

    fn call(&self, name: &'static str) -> Result<MutexGuard<'_, State>, RecordsError> {
        let mut state = self.state();
        state.calls.push(name);
        if state.all_fails { Err(failure()) } else { Ok(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

fn failure() -> RecordsError {
    RecordsError::Io { action: "use", path: "store".into(), source: io::Error::other("fails") }
}

impl RecordStore for Fake {
    fn intents(&self) -> RecordList<String> {
        let state = self.state();
        listed(&state.intents, state.intents_fail, key)
    }

    fn intent(&self, image: &str) -> Result<Option<Marked<()>>, RecordsError> {
        let state = self.call("ImagePullIntentExists")?;
        let exists = state.intents.iter().any(|intent| key(intent) == image);
        Ok(exists.then(|| marked(())))
    }

    fn write_intent(&self, image: &str) -> Result<Marked<()>, RecordsError> {
        self.call("WriteImagePullIntent")?.intents.push(json!({"Image": image}));
        Ok(marked(()))
    }

    fn delete_intent(&self, image: &str) -> Result<(), RecordsError> {
        self.call("DeleteImagePullIntent")?.intents.retain(|intent| key(intent) != image);
        Ok(())
    }

    fn records(&self) -> RecordList<Arc<PulledRecord>> {
        let state = self.state();
        listed(&state.records, state.records_fail, |value| Arc::new(record(value)))
    }

    fn record(&self, image_ref: &str) -> Result<Option<Marked<Arc<PulledRecord>>>, RecordsError> {
        let state = self.call("GetImagePulledRecord")?;
        let found = state.records.iter().find(|record| key(record) == image_ref);
        Ok(found.map(|value| marked(Arc::new(record(value)))))
    }

    fn write_record(
        &self,
        record: PulledRecord,
    ) -> Result<Marked<Arc<PulledRecord>>, RecordsError> {
        let mut state = self.call("WriteImagePulledRecord")?;
        state.records.push(json!({"ImageRef": record.image_ref}));
        Ok(marked(Arc::new(record)))
    }

    fn delete_record(&self, image_ref: &str) -> Result<(), RecordsError> {
        self.call("DeleteImagePulledRecord")?.records.retain(|record| key(record) != image_ref);
        Ok(())
    }
}

fn marked<T>(value: T) -> Marked<T> {
    Marked { value, mark: RecordMark::default() }
}

fn listed<T>(things: &[Value], fails: bool, value: impl Fn(&Value) -> T) -> RecordList<T> {
    RecordList {
        entries: things.iter().map(|thing| marked(value(thing))).collect(),
        errors: fails.then(failure).into_iter().collect(),
    }
}

/// What a thing is known by.
pub(super) fn key(thing: &Value) -> String {
    let name = thing.get("Image").or_else(|| thing.get("ImageRef"));
    name.and_then(Value::as_str).unwrap_or_else(|| panic!("no name in {thing}")).to_owned()
}

/// What a row calls a list: the things themselves, or the name of a list with what is done to it.
pub(super) fn things(file: &Value, value: &Value, kind: Thing) -> Vec<Value> {
    match value {
        Value::Array(things) => things.clone(),
        Value::String(name) => named(file, name, kind),
        Value::Object(object) => {
            let part = |name: &str| object.get(name).map(|value| things(file, value, kind));
            if let Some(all) = part("cache_of") {
                return all;
            }
            if object.contains_key("empty_cache_size") {
                return Vec::new();
            }
            if let (Some(mut all), Some(more)) = (part("list"), object.get("plus")) {
                all.extend(list(more).iter().cloned());
                return all;
            }
            if let (Some(mut all), Some(minus)) = (part("all_of"), object.get("minus")) {
                all.retain(|thing| key(thing) != minus.as_str().unwrap());
                return all;
            }
            object.values().cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// `I4`, `P5 sorted`, `I100[1:]`, `I51 (51 generated, sorted)[:50]`, `P5["ref-22"]`.
fn named(file: &Value, text: &str, kind: Thing) -> Vec<Value> {
    let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
    let mut things = match file["notes"].get(&name) {
        Some(known) => list(known).to_vec(),
        None => generated(name[1..].parse().unwrap(), kind),
    };
    if text.contains("sorted") {
        things.sort_by_key(key);
    }
    let Some((_, slice)) = text.split_once('[') else { return things };
    let slice = slice.trim_end_matches(']');
    if let Some((from, to)) = slice.split_once(':') {
        let (from, to) = (from.parse().unwrap_or(0), to.parse().unwrap_or(things.len()));
        return things[from..to].to_vec();
    }
    things.retain(|thing| key(thing) == slice.trim_matches('"'));
    things
}

fn generated(count: usize, kind: Thing) -> Vec<Value> {
    let one = |number: usize| match kind {
        Thing::Intent => json!({"Image": format!("test.repo/org{number:03}/project:tag")}),
        Thing::Record => json!({
            "ImageRef": format!("ref-{number:03}"),
            "CredentialMapping": {"any": {"NodePodsAccessible": true}},
        }),
    };
    (0..count).map(one).collect()
}
