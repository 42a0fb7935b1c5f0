use std::{fs, path::Path};

use super::*;

fn event(image: &str) -> AuditEvent {
    AuditEvent {
        time: "2026-11-18T12:00:00Z".to_owned(),
        request: "/v1/credentials",
        caller: None,
        peer_uid: None,
        image: image.to_owned(),
        outcome: Outcome::Denied,
        rule: None,
        providers: Vec::new(),
        credentials: Vec::new(),
        reason: Some("no rule allows it".to_owned()),
        suppressed: Suppressed::default(),
    }
}

fn to_file(path: &Path, max_bytes: u64, keep: u32) -> AuditConfig {
    AuditConfig::File { path: path.into(), max_bytes, keep }
}

#[test]
fn an_event_is_a_line_of_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let log = AuditLog::open(&to_file(&path, 1 << 20, 1)).unwrap();
    log.record(&event("registry.example/app"));
    log.close();
    let expected = r#"{"time":"2026-11-18T12:00:00Z","request":"/v1/credentials","image":"registry.example/app","outcome":"denied","reason":"no rule allows it"}"#;
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{expected}\n"));
    assert_eq!(log.counts(), (1, 0));
}

#[tokio::test]
async fn a_path_that_a_caller_has_chosen_cannot_control_a_terminal() {
    // Delete, a C1 control character, an override of the direction of text, an invisible character and a line separator.
    let path = "/tmp/\u{7f}\u{9b}31m\u{202e}gnp\u{200b}\u{2028}\n";
    let mut event = event("registry.example/app");
    event.caller = Some(AuditCaller {
        uid: 1000,
        gid: 1000,
        pid: 4711,
        executable: path.to_owned(),
        unit: None,
        container: None,
        pod: None,
        attested_by: "pidfd",
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let log = AuditLog::open(&to_file(&file, 1 << 20, 1)).unwrap();
    let mut stream = log.subscribe().unwrap();
    log.record(&event);
    log.close();
    let line = fs::read_to_string(&file).unwrap();
    assert_eq!(format!("{}\n", stream.recv().await.unwrap()), line);
    assert!(line.trim_end().bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line:?}");
    let read: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(read["caller"]["executable"], path, "it says the same");
}

#[test]
fn a_full_file_makes_way_for_a_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let line = serde_json::to_string(&event("image-0")).unwrap().len() as u64 + 1;
    let log = AuditLog::open(&to_file(&path, 2 * line, 2)).unwrap();
    for number in 0..7 {
        log.record(&event(&format!("image-{number}")));
    }
    log.close();
    let images = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(directory.path().join(name)).unwrap();
        let image = |line: &str| line.split("image-").nth(1).unwrap()[..1].to_owned();
        text.lines().map(image).collect()
    };
    assert_eq!(images("audit.log"), ["6"]);
    assert_eq!(images("audit.log.1"), ["4", "5"]);
    assert_eq!(images("audit.log.2"), ["2", "3"]);
    assert!(!directory.path().join("audit.log.3").exists());
}

#[test]
fn a_disk_that_refuses_loses_events_and_nothing_else() {
    let log = AuditLog::open(&to_file(Path::new("/dev/full"), 1 << 20, 1)).unwrap();
    for _ in 0..3 {
        log.record(&event("registry.example/app"));
    }
    log.close();
    assert_eq!(log.counts(), (0, 3));
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_at_once() {
    assert!(AuditLog::open(&to_file(Path::new("/nonexistent/audit.log"), 1 << 20, 1)).is_err());
}

#[test]
fn the_hash_of_a_credential_reveals_nothing_and_recognises_it() {
    let log = AuditLog::open(&AuditConfig::None).unwrap();
    let other = AuditLog::open(&AuditConfig::None).unwrap();
    let password = Secret::from("hunter2");
    let hash = log.credential_hash("user", &password);
    assert_eq!(hash, log.credential_hash("user", &password));
    assert_ne!(hash, log.credential_hash("userh", &Secret::from("unter2")));
    assert_ne!(hash, other.credential_hash("user", &password));
    assert_eq!(hash.len(), 16);
}

#[tokio::test]
async fn a_reader_gets_the_events_from_now_on() {
    let log = AuditLog::open(&AuditConfig::None).unwrap();
    log.record(&event("before"));
    let mut stream = log.subscribe().unwrap();
    log.record(&event("after"));
    assert!(stream.recv().await.unwrap().contains("\"after\""));
}
