//! An answer that is kept, and until when it is good.

use std::time::{Duration, SystemTime};

use keyfob_api::{
    Claims, ExecCredentialStatus, ExecVersion, JsonWriter, RawJson, Secret, Timestamp,
    document::{Document, FieldTable, Reading},
};

use super::{ExecCacheOptions, KeyPart, key::CacheKey};

/// Files of another format are not ours to read.
const FORMAT: i32 = 1;

/// What a plugin answered, when, and who wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// No two answers have the same.
    pub(super) id: String,
    pub(super) stored: SystemTime,
    pub(super) pid: i32,
    pub(super) version: ExecVersion,
    pub(super) status: ExecCredentialStatus,
}

/// What an entry is worth now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// It is good for a while.
    Fresh,
    /// It is good, and somebody should get the next one.
    NearEnd,
    /// It is not used any more.
    Over,
}

impl Entry {
    /// An answer that came now.
    pub(super) fn new(now: SystemTime, version: ExecVersion, status: ExecCredentialStatus) -> Self {
        let at = Timestamp::from(now);
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        let mark = KeyPart::new("answer", status.encode(version).expose().as_slice()).mark();
        let id = format!("{}.{:09}-{pid}-{mark}", at.unix_seconds(), at.subsec_nanos());
        Self { id, stored: now, pid, version, status }
    }

    pub(super) fn worth(&self, now: SystemTime, options: &ExecCacheOptions) -> Worth {
        let Some(end) = self.end(options) else { return Worth::Over };
        if now >= end || was_set_back(now, self.stored) {
            return Worth::Over;
        }
        let life = end.duration_since(self.stored).unwrap_or_default();
        let left = end.duration_since(now).unwrap_or_default();
        if left <= ahead(life, options.refresh_ahead) { Worth::NearEnd } else { Worth::Fresh }
    }

    /// When it is not used any more; nothing if it is not kept at all, because nobody says until when it is good.
    pub(super) fn end(&self, options: &ExecCacheOptions) -> Option<SystemTime> {
        let oldest = options.max_age.and_then(|age| self.stored.checked_add(age));
        match self.status.expiration {
            Some(expiration) => {
                let expiration = expiration.to_system_time()?;
                Some(oldest.map_or(expiration, |oldest| oldest.min(expiration)))
            }
            // What the token says of itself can only make it shorter: nobody has verified it.
            None => {
                oldest.map(|oldest| claimed_end(&self.status).map_or(oldest, |end| end.min(oldest)))
            }
        }
    }

    pub(super) fn encode(&self, key: &CacheKey) -> Secret<String> {
        let credential = self.status.encode(self.version);
        let credential = String::from_utf8_lossy(credential.expose());
        let mut json = JsonWriter::default();
        json.open('{').field("keyfobExecCache").raw(&FORMAT.to_string());
        json.field("key").string(key.as_str()).field("id").string(&self.id);
        json.field("stored").string(&Timestamp::from(self.stored).to_string());
        json.field("pid").raw(&self.pid.to_string());
        json.field("apiVersion").string(self.version.api_version());
        json.field("credential").raw(credential.trim_end()).close('}');
        json.into_text()
    }

    /// Nothing, if the text is no entry, or that of another key.
    pub(super) fn decode(text: &[u8], key: &CacheKey) -> Option<Self> {
        let document = Document::read_json(text).ok()?;
        let mut fields = Fields::default();
        let reading = Reading::default();
        let root = reading.root(&document.root);
        root.read_fields(Fields::TABLE, &mut fields).ok()?;
        if fields.format != Some(FORMAT) || fields.key != key.as_str() || fields.id.is_empty() {
            return None;
        }
        let version: ExecVersion = fields.version.parse().ok()?;
        let status =
            ExecCredentialStatus::decode(fields.credential?.as_str().as_bytes(), version).ok()?;
        let stored = fields.stored?.to_system_time()?;
        let pid = fields.pid.unwrap_or_default();
        Some(Self { id: fields.id, stored, pid, version, status })
    }
}

#[derive(Default)]
struct Fields {
    format: Option<i32>,
    key: String,
    id: String,
    stored: Option<Timestamp>,
    pid: Option<i32>,
    version: String,
    credential: Option<RawJson>,
}

impl Fields {
    const TABLE: &FieldTable<Self> = &[
        ("keyfobExecCache", |fields, item| item.read_integer(&mut fields.format)),
        ("key", |fields, item| item.read_text(&mut fields.key)),
        ("id", |fields, item| item.read_text(&mut fields.id)),
        ("stored", |fields, item| item.read_timestamp(&mut fields.stored)),
        ("pid", |fields, item| item.read_integer(&mut fields.pid)),
        ("apiVersion", |fields, item| item.read_text(&mut fields.version)),
        ("credential", |fields, item| {
            fields.credential = Some(item.node().into());
            Ok(())
        }),
    ];
}

/// A fifth of its life and five minutes at most, or what is wanted; never more than half of its life, or each command would
/// run the plugin.
fn ahead(life: Duration, wanted: Option<Duration>) -> Duration {
    const MOST: Duration = Duration::from_mins(5);
    wanted.map_or_else(|| (life / 5).min(MOST), |wanted| wanted.min(life / 2))
}

/// Whether the clock was set back since: then nobody knows how old it is. Whole seconds are written.
fn was_set_back(now: SystemTime, stored: SystemTime) -> bool {
    const SLACK: Duration = Duration::from_mins(1);
    stored.duration_since(now).is_ok_and(|before| before > SLACK)
}

fn claimed_end(status: &ExecCredentialStatus) -> Option<SystemTime> {
    Claims::expiry(status.token.as_ref()?)
}

#[cfg(test)]
mod tests {
    use keyfob_api::ClientIdentity;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const MINUTE: Duration = Duration::from_mins(1);

    fn key(uid: &str) -> CacheKey {
        CacheKey::new("plugin", &[], &[KeyPart::new("uid", uid)])
    }

    fn status(life: Option<Duration>) -> ExecCredentialStatus {
        let expiration = life.map(|life| Timestamp::from(NOW + life));
        ExecCredentialStatus { expiration, token: Some("hunter2".into()), identity: None }
    }

    fn entry(life: Option<Duration>) -> Entry {
        Entry::new(NOW, ExecVersion::V1, status(life))
    }

    fn options(max_age: Option<Duration>, refresh_ahead: Option<Duration>) -> ExecCacheOptions {
        ExecCacheOptions { max_age, refresh_ahead, ..ExecCacheOptions::default() }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_by_its_own_key_only() {
        let both = ExecCredentialStatus {
            identity: Some(ClientIdentity {
                certificate_pem: "c\n<".into(),
                key_pem: "k\n".into(),
            }),
            ..status(Some(MINUTE))
        };
        for version in ExecVersion::ALL {
            let entry = Entry::new(NOW, version, both.clone());
            let written = entry.encode(&key("0"));
            assert_eq!(Entry::decode(written.expose().as_bytes(), &key("0")).unwrap(), entry);
            assert_eq!(Entry::decode(written.expose().as_bytes(), &key("1")), None);
        }
    }

    #[test]
    fn what_is_no_entry_is_none() {
        let written = entry(Some(MINUTE)).encode(&key("0"));
        let written = written.expose();
        let half = written.get(..written.len() / 2).unwrap();
        let other_format = written.replace("\"keyfobExecCache\":1", "\"keyfobExecCache\":2");
        let no_token = written.replace("token", "nekot");
        let no_time = written.replace("1970-01-01T00:00:00Z", "yesterday");
        for text in ["", "{}", "null", "[]", half, &other_format, &no_token, &no_time] {
            assert_eq!(Entry::decode(text.as_bytes(), &key("0")), None, "{text}");
        }
        assert!(Entry::decode(&[0xff; 9], &key("0")).is_none());
    }

    #[test]
    fn an_entry_is_never_used_after_its_end() {
        let worth = |life: Option<Duration>, at: SystemTime, max_age| {
            entry(life).worth(at, &options(max_age, None))
        };
        let rows = [
            (Some(10 * MINUTE), None, 7 * MINUTE, Worth::Fresh),
            (Some(10 * MINUTE), None, 8 * MINUTE, Worth::NearEnd),
            (Some(10 * MINUTE), None, 10 * MINUTE, Worth::Over),
            (Some(60 * MINUTE), None, 54 * MINUTE, Worth::Fresh),
            (Some(60 * MINUTE), None, 55 * MINUTE, Worth::NearEnd),
            (None, None, Duration::ZERO, Worth::Over),
            (None, Some(10 * MINUTE), 7 * MINUTE, Worth::Fresh),
            (None, Some(10 * MINUTE), 10 * MINUTE, Worth::Over),
            (Some(60 * MINUTE), Some(10 * MINUTE), 10 * MINUTE, Worth::Over),
            (Some(MINUTE), Some(10 * MINUTE), MINUTE, Worth::Over),
            (Some(Duration::ZERO), None, Duration::ZERO, Worth::Over),
        ];
        for (life, max_age, at, expected) in rows {
            assert_eq!(worth(life, NOW + at, max_age), expected, "{life:?} {max_age:?} {at:?}");
        }
        assert_eq!(worth(Some(MINUTE), NOW - MINUTE, None), Worth::Fresh);
        assert_eq!(worth(Some(MINUTE), NOW - 2 * MINUTE, None), Worth::Over, "clock set back");
    }

    #[test]
    fn a_token_that_names_its_own_end_is_not_kept_longer() {
        // {"exp":300}
        let token = "e30.eyJleHAiOjMwMH0.c2ln";
        let status = ExecCredentialStatus { token: Some(token.into()), ..Default::default() };
        let entry = Entry::new(NOW, ExecVersion::V1, status);

        assert_eq!(entry.end(&options(None, None)), None);
        assert_eq!(entry.end(&options(Some(10 * MINUTE), None)), Some(NOW + 5 * MINUTE));
        assert_eq!(entry.end(&options(Some(MINUTE), None)), Some(NOW + MINUTE));
    }

    #[test]
    fn whoever_wants_it_sooner_gets_it_in_the_second_half() {
        let worth =
            |at, wanted| entry(Some(10 * MINUTE)).worth(NOW + at, &options(None, Some(wanted)));

        assert_eq!(worth(6 * MINUTE, 3 * MINUTE), Worth::Fresh);
        assert_eq!(worth(7 * MINUTE, 3 * MINUTE), Worth::NearEnd);
        assert_eq!(worth(4 * MINUTE, 20 * MINUTE), Worth::Fresh);
        assert_eq!(worth(5 * MINUTE, 20 * MINUTE), Worth::NearEnd);
        assert_eq!(worth(9 * MINUTE, Duration::ZERO), Worth::Fresh);
    }
}
