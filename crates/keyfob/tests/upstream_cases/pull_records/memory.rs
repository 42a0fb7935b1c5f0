//! What is in memory, in front of a store that does what a row says.

mod fake;

use std::{collections::BTreeSet, sync::Arc};

use keyfob_images::{MemorySizes, RecordList, RecordMemory, RecordStore as _};
use serde_json::{Value, json};

use self::fake::{Fake, Thing, key, things};
use super::{record, without_time};
use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    (FILE, "TestNewCachedPullRecordsAccessor", new),
    (FILE, "Test_cachedPullRecordsAccessor_ListImagePullIntents", list_intents),
    (FILE, "Test_cachedPullRecordsAccessor_ListImagePulledRecords", list_records),
    (FILE, "Test_cachedPullRecordsAccessor_ImagePullIntentExists", intent_exists),
    (FILE, "Test_cachedPullRecordsAccessor_WriteImagePullIntent", write_intent),
    (FILE, "Test_cachedPullRecordsAccessor_WriteImagePulledRecord", write_record),
    (FILE, "Test_cachedPullRecordsAccessor_DeleteImagePullIntent", delete_intent),
    (FILE, "Test_cachedPullRecordsAccessor_DeleteImagePulledRecord", delete_record),
    (FILE, "Test_cachedPullRecordsAccessor_GetImagePulledRecord", get_record),
];

const FILE: &str = "kubelet/pull_records_cache.json";

fn new(file: &Value, row: &Value) -> Result<(), String> {
    let fake = Arc::new(Fake::default());
    fake.become_delegate(file, &row["delegate"]);
    let memory = RecordMemory::new(fake.clone(), sizes(50, 100));
    let (intents, records) = (memory.intents(), memory.records());
    listed(
        &keys_of_intents(&intents),
        intents.errors.len(),
        file,
        &row["wantIntents"],
        &row["wantIntentsError"],
    )?;
    listed(
        &keys_of_records(&records),
        records.errors.len(),
        file,
        &row["wantPulledRecords"],
        &row["wantPulledRecordsError"],
    )?;
    let memory = Half { memory, fake, kind: Thing::Intent };
    memory.has(file, &row["wantCacheIntents"], 2)?;
    memory.is_authoritative(&row["wantIntentsAuthoritative"])?;
    let memory = Half { kind: Thing::Record, ..memory };
    memory.has(file, &row["wantCachePulledRecords"], 1)?;
    memory.is_authoritative(&row["wantPulledRecordsAuthoritative"])
}

fn list_intents(file: &Value, row: &Value) -> Result<(), String> {
    let memory = Half::of(file, row, "inMemCache", Thing::Intent, row["initAuthoritative"] == true);
    let list = memory.memory.intents();
    listed(
        &keys_of_intents(&list),
        list.errors.len(),
        file,
        &row["wantListIntents"],
        &row["wantListIntentsError"],
    )?;
    memory.is_authoritative(&row["wantAuthoritative"])
}

fn list_records(file: &Value, row: &Value) -> Result<(), String> {
    let memory = Half::of(file, row, "inMemCache", Thing::Record, row["initAuthoritative"] == true);
    let list = memory.memory.records();
    listed(
        &keys_of_records(&list),
        list.errors.len(),
        file,
        &row["wantListPulledRecords"],
        &row["wantListPulledRecordsError"],
    )?;
    memory.is_authoritative(&row["wantAuthoritative"])
}

fn intent_exists(file: &Value, row: &Value) -> Result<(), String> {
    let memory =
        Half::of(file, row, "initialCache", Thing::Intent, row["initAuthoritative"] == true);
    let found = memory.memory.intent(text(row, "inputImage"));
    fact("error", &found.is_err(), &row.get("wantErr").is_some())?;
    let exists = found.is_ok_and(|intent| intent.is_some());
    fact("exists", &Value::from(exists), &row["want"])?;
    memory.has(file, &row["wantCacheIntents"], 1)?;
    memory.is_authoritative(&row["wantAuthoritative"])
}

fn write_intent(file: &Value, row: &Value) -> Result<(), String> {
    let memory =
        Half::of(file, row, "initialCache", Thing::Intent, row["initAuthoritative"] == true);
    let written = memory.memory.write_intent(text(row, "inputImage"));
    memory.after_write(file, row, written.is_err(), &row["wantCacheIntents"])
}

fn write_record(file: &Value, row: &Value) -> Result<(), String> {
    let memory =
        Half::of(file, row, "initialCache", Thing::Record, row["initAuthoritative"] == true);
    let written = memory.memory.write_record(record(&row["inputRecord"]));
    memory.after_write(file, row, written.is_err(), &row["wantCachePulledRecords"])?;
    let Some(Value::Array(wanted)) = row.get("wantCachePulledRecords") else { return Ok(()) };
    for wanted in wanted.iter().map(record) {
        let kept = memory.memory.record(&wanted.image_ref).unwrap().unwrap();
        fact("record", &without_time(&kept.value), &wanted)?;
    }
    Ok(())
}

fn delete_intent(file: &Value, row: &Value) -> Result<(), String> {
    for is_authoritative in [true, false] {
        let memory = Half::of(file, row, "initialCache", Thing::Intent, is_authoritative);
        let deleted = memory.memory.delete_intent(text(row, "inputImage"));
        fact("error", &deleted.is_err(), &row.get("wantErr").is_some())?;
        memory.has(file, &row["wantIntents"], 1)?;
        memory.is_authoritative(&Value::from(is_authoritative))?;
    }
    Ok(())
}

fn delete_record(file: &Value, row: &Value) -> Result<(), String> {
    for is_authoritative in [true, false] {
        let memory = Half::of(file, row, "initialCache", Thing::Record, is_authoritative);
        let deleted = memory.memory.delete_record(text(row, "imageRef"));
        fact("error", &deleted.is_err(), &row.get("wantErr").is_some())?;
        memory.has(file, &row["wantPulledRecords"], 1)?;
        memory.is_authoritative(&Value::from(is_authoritative))?;
    }
    Ok(())
}

/// A record that is there and cannot be read is an error: upstream also says that it exists.
fn get_record(file: &Value, row: &Value) -> Result<(), String> {
    let memory =
        Half::of(file, row, "cachedPulledRecords", Thing::Record, row["initAuthoritative"] == true);
    let found = memory.memory.record(text(row, "imageRef"));
    fact("error", &found.is_err(), &row.get("wantErr").is_some())?;
    fact("exists", &json!(!matches!(&found, Ok(None))), &row["wantExists"])?;
    if let Ok(found) = found {
        let wanted = things(file, &row["wantPulledRecord"], Thing::Record);
        let found = found.map(|found| without_time(&found.value));
        fact("record", &found, &wanted.first().map(record))?;
    }
    memory.has(file, &row["wantCachePulledRecords"], 1)?;
    memory.is_authoritative(&row["wantAuthoritative"])
}

fn listed(
    found: &BTreeSet<String>,
    errors: usize,
    file: &Value,
    wanted: &Value,
    wanted_error: &Value,
) -> Result<(), String> {
    let kind = if wanted.as_str().is_some_and(|text| text.starts_with('P')) {
        Thing::Record
    } else {
        Thing::Intent
    };
    let wanted: BTreeSet<String> = things(file, wanted, kind).iter().map(key).collect();
    fact("list", found, &wanted)?;
    fact("errors", &(errors > 0), &!wanted_error.is_null())
}

fn keys_of_intents(list: &RecordList<String>) -> BTreeSet<String> {
    list.entries.iter().map(|intent| intent.value.clone()).collect()
}

fn keys_of_records(list: &RecordList<Arc<keyfob_images::PulledRecord>>) -> BTreeSet<String> {
    list.entries.iter().map(|record| record.value.image_ref.clone()).collect()
}

fn sizes(intents: usize, records: usize) -> MemorySizes {
    let mut sizes = MemorySizes::default();
    (sizes.intents, sizes.records) = (intents, records);
    sizes
}

/// What a row is about: intents or records, in a memory and behind it.
struct Half {
    memory: RecordMemory,
    fake: Arc<Fake>,
    kind: Thing,
}

impl Half {
    /// Of a hundred of each, with what a row has in it, and then what it has behind it. One that is full and knows everything
    /// learnt the last by a write.
    fn of(file: &Value, row: &Value, field: &str, kind: Thing, is_authoritative: bool) -> Self {
        let mut known = things(file, &row[field], kind);
        let last = if is_authoritative && known.len() == 100 { known.pop() } else { None };
        let fake = Arc::new(Fake::default());
        fake.set(kind, known, !is_authoritative);
        let memory = RecordMemory::new(fake.clone(), sizes(100, 100));
        match (&last, kind) {
            (None, _) => {}
            (Some(last), Thing::Intent) => drop(memory.write_intent(&key(last)).unwrap()),
            (Some(last), Thing::Record) => drop(memory.write_record(record(last)).unwrap()),
        }
        let delegate = row["delegate"].get("delegate").unwrap_or(&row["delegate"]);
        fake.become_delegate(file, delegate);
        Self { memory, fake, kind }
    }

    fn after_write(
        &self,
        file: &Value,
        row: &Value,
        is_error: bool,
        wanted: &Value,
    ) -> Result<(), String> {
        fact("error", &is_error, &row.get("wantErr").is_some())?;
        fact("calls", &json!(self.fake.take_calls()), &row["wantRecordedMethods"])?;
        self.has(file, wanted, 1)?;
        match row.get("wantAuthoritative") {
            Some(wanted) => self.is_authoritative(wanted),
            None => Ok(()),
        }
    }

    /// Whether just these are in memory: they are found without a question to the store, and there is no other. One of them
    /// is so many percent.
    fn has(&self, file: &Value, wanted: &Value, percent: usize) -> Result<(), String> {
        let wanted: BTreeSet<String> = things(file, wanted, self.kind).iter().map(key).collect();
        self.fake.refuse_all();
        self.fake.take_calls();
        let (intents, records) = self.memory.usage();
        let usage = match self.kind {
            Thing::Intent => intents,
            Thing::Record => records,
        };
        fact("usage", &usage, &(wanted.len() * percent))?;
        for name in &wanted {
            fact(name, &self.finds(name), &true)?;
        }
        fact("questions", &self.fake.take_calls().len(), &0)
    }

    /// Whether what is not in memory is nowhere: nobody is asked.
    fn is_authoritative(&self, wanted: &Value) -> Result<(), String> {
        self.fake.take_calls();
        self.finds("nobody/has:this");
        fact("authoritative", &Value::from(self.fake.take_calls().is_empty()), wanted)
    }

    fn finds(&self, name: &str) -> bool {
        match self.kind {
            Thing::Intent => self.memory.intent(name).is_ok_and(|found| found.is_some()),
            Thing::Record => self.memory.record(name).is_ok_and(|found| found.is_some()),
        }
    }
}
