//! What is known of the last run of a plugin.

use std::time::SystemTime;

use keyfob_api::{
    JsonWriter, Timestamp,
    document::{Document, FieldTable, Reading},
};
use keyfob_exec::shortened;

/// Who ran a plugin, when, and how it went. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Counts the runs.
    pub(super) run: i32,
    pub(super) pid: i32,
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    /// What to tell about a failure.
    pub(super) text: String,
}

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    /// It has not ended, or whoever ran it did not live to see it.
    Running,
    /// Its answer was kept.
    Kept,
    /// Its answer was handed on and not kept.
    NotKept,
    /// It had none.
    Failed,
}

const STATES: [(&str, RunState); 4] = [
    ("running", RunState::Running),
    ("kept", RunState::Kept),
    ("notKept", RunState::NotKept),
    ("failed", RunState::Failed),
];

impl Record {
    /// The run after another, by this process.
    pub(super) fn begin(last: Option<&Self>, now: SystemTime) -> Self {
        Self {
            run: last.map_or(1, |last| last.run.wrapping_add(1)),
            pid: i32::try_from(std::process::id()).unwrap_or_default(),
            at: now.into(),
            state: RunState::Running,
            text: String::new(),
        }
    }

    /// The same run, when it has ended.
    pub(super) fn ended(&self, state: RunState, text: &str, now: SystemTime) -> Self {
        const LONGEST: usize = 4 << 10;
        Self { state, text: shortened(text, LONGEST), at: now.into(), ..self.clone() }
    }

    pub(super) fn encode(&self) -> String {
        let state = STATES.iter().find(|row| row.1 == self.state).map_or("", |row| row.0);
        let mut json = JsonWriter::default();
        json.open('{').field("run").raw(&self.run.to_string());
        json.field("pid").raw(&self.pid.to_string());
        json.field("at").string(&self.at.to_string());
        json.field("state").string(state).field_unless_empty("text", &self.text).close('}');
        json.into_text().expose().clone()
    }

    pub(super) fn decode(text: &[u8]) -> Option<Self> {
        let document = Document::read_json(text).ok()?;
        let mut fields = Fields::default();
        let reading = Reading::default();
        let root = reading.root(&document.root);
        root.read_fields(Fields::TABLE, &mut fields).ok()?;
        let state = STATES.iter().find(|row| row.0 == fields.state)?.1;
        Some(Self { run: fields.run?, pid: fields.pid?, at: fields.at?, state, text: fields.text })
    }
}

#[derive(Default)]
struct Fields {
    run: Option<i32>,
    pid: Option<i32>,
    at: Option<Timestamp>,
    state: String,
    text: String,
}

impl Fields {
    const TABLE: &FieldTable<Self> = &[
        ("run", |fields, item| item.read_integer(&mut fields.run)),
        ("pid", |fields, item| item.read_integer(&mut fields.pid)),
        ("at", |fields, item| item.read_timestamp(&mut fields.at)),
        ("state", |fields, item| item.read_text(&mut fields.state)),
        ("text", |fields, item| item.read_text(&mut fields.text)),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_half_of_one_is_none() {
        let begun = Record::begin(None, SystemTime::UNIX_EPOCH);
        for (_, state) in STATES {
            let record = begun.ended(state, "a \"text\"\n", SystemTime::UNIX_EPOCH);
            let text = record.encode();
            assert_eq!(Record::decode(text.as_bytes()), Some(record));
            assert_eq!(Record::decode(&text.as_bytes()[..text.len() / 2]), None);
        }
        assert_eq!(Record::decode(b""), None);
        assert_eq!(Record::begin(Some(&begun), SystemTime::UNIX_EPOCH).run, begun.run + 1);
    }
}
